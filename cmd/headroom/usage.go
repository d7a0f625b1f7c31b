package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

const (
	barWidth    = 30
	historyRows = 12 // how many closed windows a person is shown; --json has all of them
)

func (a *app) usageCommand() *cobra.Command {
	return a.reading(&cobra.Command{
		Use:   "usage SUBJECT",
		Short: "Show what a subject has used, what remains, and when the window ends",
		Long: `Show for each limit what SUBJECT has used in the current window, how much remains, when
the window ends, and what was used in earlier windows. A subject of which nothing is stored
has used nothing, and the answer says that it is unseen.`,
		Example: `  headroom usage alice
  headroom usage alice --json
  headroom usage user-04 --at 1993-12-31   # after a replay of a log from that year`,
	}, usageJSON, func(u headroom.Usage, _ *config.Config, now time.Time) { a.printUsage(u, now) })
}

// reading makes cmd a verb that reads a subject's usage. It prints what toJSON makes of it, or lets
// show print it for a person.
func (a *app) reading(
	cmd *cobra.Command, toJSON func(headroom.Usage) any, show func(headroom.Usage, *config.Config, time.Time),
) *cobra.Command {
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
	cmd.Flags().Var(&at, "at", atUsage)
	return cmd
}

type jsonLimitUsage struct {
	jsonLimit
	History []jsonTotal `json:"history"`
}

type jsonTotal struct {
	Window jsonWindow `json:"window"`
	Units  *int64     `json:"units"` // null if it is not known
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
		"subject": u.Subject, "meter": u.Meter, "plan": u.Plan, "unseen": u.Unseen, "limits": limits,
		"holds": holdsJSON(u), "granted": u.Granted, "grants": grantsJSON(u), "debts": debtsJSON(u),
	}
}

type jsonHeld struct {
	Holds   int64     `json:"holds"` // how many end then
	Units   int64     `json:"units"`
	Expires time.Time `json:"expires"`
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

// debtsJSON lists the debts that are not settled yet, the oldest first.
func debtsJSON(u headroom.Usage) []jsonDebt {
	return listed(u.Debts, func(d headroom.DebtUsage) time.Time { return d.Since }, func(id string, d headroom.DebtUsage) jsonDebt {
		return jsonDebt{Operation: id, Organisation: d.Organisation, Units: d.Units, Since: d.Since}
	})
}

// holdsJSON lists what live holds reserve, by when they end. Those that end first come first.
func holdsJSON(u headroom.Usage) []jsonHeld {
	list := []jsonHeld{}
	for _, h := range u.Holds {
		list = append(list, jsonHeld{Holds: h.Holds, Units: h.Units(), Expires: h.Expires})
	}
	return list
}

// grantsJSON lists the live grants in the order in which their units are spent.
func grantsJSON(u headroom.Usage) []jsonGrant {
	return listed(u.Grants, func(g headroom.GrantUsage) time.Time { return g.Expires }, func(id string, g headroom.GrantUsage) jsonGrant {
		return jsonGrant{ID: id, Units: g.Units, Used: g.Used, Expires: g.Expires}
	})
}

// listed turns a map of things by id into a list. They are sorted by a time, and where that is
// equal by id.
func listed[T, J any](things map[string]T, at func(T) time.Time, entry func(id string, thing T) J) []J {
	ids := slices.SortedFunc(maps.Keys(things), func(a, b string) int {
		return cmp.Or(at(things[a]).Compare(at(things[b])), strings.Compare(a, b))
	})
	list := []J{}
	for _, id := range ids {
		list = append(list, entry(id, things[id]))
	}
	return list
}

func (a *app) printUsage(u headroom.Usage, now time.Time) {
	fmt.Fprintf(a.stdout, "%s, %s, plan %s\n", printable(u.Subject), printable(u.Meter), printable(u.Plan))
	if u.Unseen {
		fmt.Fprintln(a.stdout, "nothing is stored of this subject: nobody has written about it yet")
	}
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
		fmt.Fprintf(a.stdout, "\n%s whose organisation could not be charged yet; \"headroom reconcile --debts\" tries again\n", count(int64(n), "charge"))
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

// inMode names the mode of a limit that does not refuse.
func inMode(m headroom.Mode) string {
	if m == headroom.Hard {
		return ""
	}
	return " (" + m.String() + ")"
}

// stand says how much of a limit is used, and how much remains.
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

// span formats a duration for a person, in its two largest units.
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
