package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

const (
	barWidth    = 30
	historyRows = 12 // closed windows that a person is shown; --json has all
)

func (a *app) usageCommand() *cobra.Command {
	return a.reading(&cobra.Command{
		Use:   "usage SUBJECT",
		Short: "Show what a subject has used, what remains and when it turns",
		Long:  `Show for each limit what SUBJECT has used in the present window, what remains, when the window turns, and what was used in the windows before. A subject that nobody has seen has used nothing.`,
		Example: `  headroom usage alice
  headroom usage alice --json
  headroom usage user-04 --at 1993-12-31   # after a replay of a log of that year`,
	}, usageJSON, func(u headroom.Usage, _ *config.Config, now time.Time) { a.printUsage(u, now) })
}

// reading makes cmd a verb that reads what a subject has used, and shows it to a program or to a person.
func (a *app) reading(cmd *cobra.Command, toJSON func(headroom.Usage) any, show func(headroom.Usage, *config.Config, time.Time)) *cobra.Command {
	var (
		request headroom.UsageRequest
		at      = timeFlag{name: "at"}
	)
	cmd.Args = arguments("SUBJECT")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := a.loadConfig()
		if err != nil {
			return err
		}
		request.Subject, request.Now = args[0], at.Time
		return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
			u, err := engine.Usage(cmd.Context(), request)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(toJSON(u))
				return nil
			}
			now := at.Time
			if now.IsZero() {
				now = a.now()
			}
			show(u, cfg, now)
			return nil
		})
	}
	meterFlag(cmd, &request.Meter)
	planFlag(cmd, &request.Plan)
	cmd.Flags().Var(&at, "at", "as of this time: it takes the place of every clock")
	return cmd
}

type jsonLimitUsage struct {
	jsonLimit
	History []jsonTotal `json:"history"`
}

type jsonTotal struct {
	Window jsonWindow `json:"window"`
	Units  *int64     `json:"units"` // null: not known
}

func totalsJSON(l headroom.LimitUsage) []jsonTotal {
	history := []jsonTotal{}
	for _, t := range l.History {
		total := jsonTotal{Window: windowJSON(t.Window)}
		if !t.Unknown {
			total.Units = &t.Units
		}
		history = append(history, total)
	}
	return history
}

func usageJSON(u headroom.Usage) any {
	limits := []jsonLimitUsage{}
	for _, l := range u.Limits {
		limits = append(limits, jsonLimitUsage{limitJSON(l.LimitState), totalsJSON(l)})
	}
	return map[string]any{
		"subject": u.Subject, "meter": u.Meter, "plan": u.Plan, "limits": limits,
		"holds": holdsJSON(u), "granted": u.Granted, "grants": grantsJSON(u), "debts": debtsJSON(u),
	}
}

type jsonHold struct {
	Operation string    `json:"operation"`
	Units     int64     `json:"units"`
	Expires   time.Time `json:"expires"`
}

type jsonGrant struct {
	ID      string    `json:"id"`
	Units   int64     `json:"units"`
	Used    int64     `json:"used"`
	Expires time.Time `json:"expires"`
}

type jsonDebt struct {
	Operation    string    `json:"operation"`
	Organisation string    `json:"organisation"`
	Units        int64     `json:"units"`
	Since        time.Time `json:"since"`
}

// debtsJSON lists debts that could not be settled, the oldest first.
func debtsJSON(u headroom.Usage) []jsonDebt {
	debts := []jsonDebt{}
	for id, d := range u.Debts {
		debts = append(debts, jsonDebt{Operation: id, Organisation: d.To, Units: d.Cost, Since: d.Since})
	}
	slices.SortFunc(debts, func(a, b jsonDebt) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Operation, b.Operation))
	})
	return debts
}

// holdsJSON lists live holds, the one that ends first before the others.
func holdsJSON(u headroom.Usage) []jsonHold {
	holds := []jsonHold{}
	for id, h := range u.Holds {
		holds = append(holds, jsonHold{Operation: id, Units: h.Cost, Expires: h.Expires})
	}
	slices.SortFunc(holds, func(a, b jsonHold) int {
		return cmp.Or(a.Expires.Compare(b.Expires), strings.Compare(a.Operation, b.Operation))
	})
	return holds
}

// grantsJSON lists live grants in the order in which they are drawn on.
func grantsJSON(u headroom.Usage) []jsonGrant {
	grants := []jsonGrant{}
	for id, g := range u.Grants {
		grants = append(grants, jsonGrant{ID: id, Units: g.Units, Used: g.Used, Expires: g.Expires})
	}
	slices.SortFunc(grants, func(a, b jsonGrant) int {
		return cmp.Or(a.Expires.Compare(b.Expires), strings.Compare(a.ID, b.ID))
	})
	return grants
}

func (a *app) printUsage(u headroom.Usage, now time.Time) {
	fmt.Fprintf(a.stdout, "%s, %s, plan %s\n", printable(u.Subject), printable(u.Meter), printable(u.Plan))
	for _, l := range u.Limits {
		fmt.Fprintln(a.stdout)
		a.printLimit(l, now)
	}
	for _, g := range grantsJSON(u) {
		if g.Used < g.Units {
			fmt.Fprintf(a.stdout, "\ngrants have %s more; the next ends %s\n", thousands(u.Granted), instant(g.Expires))
			break
		}
	}
	if n := len(u.Debts); n > 0 {
		fmt.Fprintf(a.stdout, "\n%s whose organisation could not be charged yet; `headroom reconcile --debts` tries again\n", count(int64(n), "charge"))
	}
}

func (a *app) printLimit(l headroom.LimitUsage, now time.Time) {
	most := l.Used
	if l.Limit != headroom.Unlimited {
		most = max(most, l.Limit)
	}
	past := l.History[:min(len(l.History), historyRows)]
	for _, t := range past {
		most = max(most, t.Units)
	}
	rows := [][]string{{l.Window.Key, bar(l.Used, most, barWidth), stand(l)}}
	for _, t := range past {
		if t.Unknown {
			rows = append(rows, []string{t.Window.Key, strings.Repeat("?", barWidth), "not known"})
			continue
		}
		rows = append(rows, []string{t.Window.Key, bar(t.Units, most, barWidth), thousands(t.Units)})
	}
	table(a.stdout, "lll", rows[:1])
	fmt.Fprintf(a.stdout, "%s%s turns %s, in %s\n", l.Name, inMode(l.Mode), instant(l.Window.End), span(l.Window.End.Sub(now)))
	if len(past) > 0 {
		fmt.Fprintln(a.stdout)
		table(a.stdout, "llr", rows[1:])
	}
}

// inMode notes a mode that does not refuse.
func inMode(m headroom.Mode) string {
	if m == headroom.Hard {
		return ""
	}
	return " (" + m.String() + ")"
}

// stand says how a limit stands.
func stand(l headroom.LimitUsage) string {
	if l.Limit == headroom.Unlimited {
		return thousands(l.Used) + " used, no limit"
	}
	used := fmt.Sprintf("%s of %s used", thousands(l.Used), thousands(l.Limit))
	if share := percent(l.Used, l.Limit); share != "" {
		used += " (" + share + ")"
	}
	if l.Held > 0 {
		used += fmt.Sprintf(", %s held", thousands(l.Held))
	}
	return fmt.Sprintf("%s, %s remain", used, thousands(l.Remaining))
}

// span shows a duration to a person, in its two greatest units.
func span(d time.Duration) string {
	minutes := int64(d.Round(time.Minute) / time.Minute)
	days, hours, minutes := minutes/(24*60), minutes/60%24, minutes%60
	switch {
	case days > 0 && hours == 0:
		return fmt.Sprintf("%dd", days)
	case days > 0:
		return fmt.Sprintf("%dd %dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh %dm", hours, minutes)
	}
	return fmt.Sprintf("%dm", minutes)
}
