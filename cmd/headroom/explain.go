package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/internal/saturate"
)

func (a *app) explainCommand() *cobra.Command {
	var (
		request headroom.Request
		cost    string
		at      = timeFlag{name: "at"}
	)
	cmd := &cobra.Command{
		Use:   "explain SUBJECT [--cost N]",
		Short: "Say in plain sentences why a cost is refused, and when it fits",
		Long: `Answer "why was I refused?" in sentences that can be pasted into a reply: the plan and how each limit stands, what is held by which operations and until when, what grants are left, what fits now, which limit stands in the way of --cost, and when it fits again if nothing else is spent until then.

A refusal is not stored, so this explains the present: what would be decided now, by the same rules, and nothing is written. The exit status is 0 whatever the answer; to ask for a yes or no, see "preflight".`,
		Example: `  headroom explain alice
  headroom explain alice --cost 40
  headroom explain alice --cost 40 --json`,
		Args: arguments("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			request.Subject, request.Now = args[0], at.Time
			asked := cmd.Flags().Changed("cost")
			if asked {
				if request.Cost, err = parseUnits("--cost", cost); err != nil {
					return err
				}
			}
			return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
				x, err := a.explain(cmd.Context(), engine, cfg, request, asked)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(x.json())
				} else {
					x.print(a.stdout)
				}
				return nil
			})
		},
	}
	meterFlag(cmd, &request.Meter)
	cmd.Flags().StringVar(&cost, "cost", "", "explain what would become of this cost")
	planFlag(cmd, &request.Plan)
	cmd.Flags().Var(&at, "at", "as of this time: it takes the place of every clock")
	return cmd
}

// explanation is what there is to say of a subject and a cost.
type explanation struct {
	subject  string
	meter    string
	now      time.Time
	asked    bool // a cost was given
	decision headroom.Decision
	usage    headroom.Usage
	periods  map[string]headroom.Period // by limit
	plans    []headroom.Plan

	again time.Time // when the cost fits, or at least 1 unit, if nothing else is spent until then; zero if now, or if it cannot be told
	holds []string  // operations whose holds end then
	turns []string  // limits whose windows end then
}

func (a *app) explain(ctx context.Context, e *headroom.Engine, cfg *config.Config, r headroom.Request, asked bool) (explanation, error) {
	x := explanation{subject: r.Subject, meter: r.Meter, now: r.Now, asked: asked, periods: periods(cfg.Catalog, r.Meter), plans: cfg.Catalog.Plans()}
	if x.now.IsZero() {
		x.now = a.now()
	}
	var err error
	if x.decision, err = e.Preflight(ctx, r); err != nil {
		return x, err
	}
	if x.usage, err = e.Usage(ctx, headroom.UsageRequest{Subject: r.Subject, Meter: r.Meter, Plan: r.Plan, Now: r.Now}); err != nil {
		return x, err
	}
	if !asked {
		r.Cost = 1 // when does anything fit?
	}
	if r.Cost <= x.fits() {
		return x, nil
	}
	// Units come back only when a hold or a window ends. What is decided then, the same rules say, asked as of that time.
	for _, t := range x.events() {
		r.Now = t
		d, err := e.Preflight(ctx, r)
		if err != nil {
			return x, err
		}
		if d.Allowed {
			x.comesBack(t)
			break
		}
	}
	return x, nil
}

// events are the times after now at which units come back, the next first.
func (x *explanation) events() []time.Time {
	var at []time.Time
	for _, h := range x.usage.Holds {
		at = append(at, h.Expires)
	}
	for _, l := range x.decision.Limits {
		at = append(at, l.Window.End)
	}
	at = slices.DeleteFunc(at, func(t time.Time) bool { return !t.After(x.now) })
	slices.SortFunc(at, time.Time.Compare)
	return slices.CompactFunc(at, time.Time.Equal)
}

// comesBack notes that the cost fits at t, and what ends then.
func (x *explanation) comesBack(t time.Time) {
	x.again = t
	for _, h := range holdsJSON(x.usage) {
		if h.Expires.Equal(t) {
			x.holds = append(x.holds, h.Operation)
		}
	}
	for _, l := range x.decision.Limits {
		if refuses(l) && l.Window.End.Equal(t) {
			x.turns = append(x.turns, l.Name)
		}
	}
}

// fits is the greatest cost that would be admitted; Unlimited if there is none.
func (x *explanation) fits() int64 {
	most := int64(headroom.Unlimited)
	for _, l := range x.decision.Limits {
		if refuses(l) {
			most = min(most, saturate.Add(l.Remaining, x.decision.Granted))
		}
	}
	return most
}

// strictest are the limits that with the grants leave no more than what fits.
func (x *explanation) strictest(fits int64) (limits []headroom.LimitState) {
	for _, l := range x.decision.Limits {
		if refuses(l) && saturate.Add(l.Remaining, x.decision.Granted) == fits {
			limits = append(limits, l)
		}
	}
	return limits
}

// inTheWay are the limits that alone would refuse the cost.
func (x *explanation) inTheWay() (limits []headroom.LimitState) {
	for _, l := range x.decision.Limits {
		if refuses(l) && x.decision.Cost > saturate.Add(l.Remaining, x.decision.Granted) {
			limits = append(limits, l)
		}
	}
	return limits
}

// refuses reports whether a limit can refuse anything.
func refuses(l headroom.LimitState) bool {
	return l.Mode == headroom.Hard && l.Limit != headroom.Unlimited
}

// counts returns what of a hold counts in the present window of some limit of the plan: what was held in a window that has closed does not.
func (x *explanation) counts(h headroom.Record) (units int64) {
	for _, l := range x.decision.Limits {
		if l.Limit == headroom.Unlimited {
			continue
		}
		var here int64
		for _, w := range h.Windows {
			if w.Limit == l.Name && !w.Start.Before(l.Window.Start) {
				here += w.Units
			}
		}
		units = max(units, here)
	}
	return units
}

// carried is what of a limit is not the plan's own, but was left over by the window before.
func (x *explanation) carried(l headroom.LimitState) int64 {
	name, own, _ := strings.Cut(x.decision.Plan, "+")
	if strings.Contains("+"+own, "+"+x.meter+"/"+l.Name+"=") {
		return 0 // the subject's own limit: how much of it was carried over is not told
	}
	for _, p := range x.plans {
		for _, of := range p.Limits {
			if p.Name == name && of.Meter == x.meter && of.Name == l.Name && of.CarryOver > 0 {
				return max(0, l.Limit-of.Units)
			}
		}
	}
	return 0
}

// periods says how each limit of a meter cuts time.
func periods(c *headroom.Catalog, meter string) map[string]headroom.Period {
	by := map[string]headroom.Period{}
	for _, p := range c.Plans() {
		for _, l := range p.Limits {
			if l.Meter == meter {
				by[l.Name] = l.Period
			}
		}
	}
	return by
}

type jsonExplanation struct {
	Subject  string          `json:"subject"`
	Meter    string          `json:"meter"`
	Plan     string          `json:"plan"`
	Cost     *int64          `json:"cost"`    // null if none was asked about
	Allowed  *bool           `json:"allowed"` // the same
	Reason   headroom.Reason `json:"reason,omitempty"`
	Fits     *int64          `json:"fits"`       // the greatest cost that would be admitted now; null if there is no limit
	InTheWay []string        `json:"in_the_way"` // limits
	Again    *jsonAgain      `json:"again"`      // null if the cost fits now, or at no time that can be told
	Limits   []jsonExplained `json:"limits"`
	Holds    []jsonHold      `json:"holds"`
	Granted  int64           `json:"granted"`
	Grants   []jsonGrant     `json:"grants"`
}

type jsonAgain struct {
	At    time.Time `json:"at"`
	Holds []string  `json:"holds"` // operations whose holds end then
	Turns []string  `json:"turns"` // limits whose windows end then
}

type jsonExplained struct {
	jsonAsked
	Period string `json:"period"`
	Turns  string `json:"turns"` // the window's end by the clock of the limit's zone
}

func (x *explanation) json() jsonExplanation {
	d := x.decision
	j := jsonExplanation{
		Subject: x.subject, Meter: x.meter, Plan: d.Plan, Fits: unlessUnlimited(x.fits(), x.fits()), InTheWay: []string{},
		Limits: []jsonExplained{}, Holds: holdsJSON(x.usage), Granted: d.Granted, Grants: grantsJSON(x.usage),
	}
	if x.asked {
		j.Cost, j.Allowed, j.Reason = &d.Cost, &d.Allowed, d.Reason
	}
	for _, l := range x.inTheWay() {
		j.InTheWay = append(j.InTheWay, l.Name)
	}
	if !x.again.IsZero() {
		j.Again = &jsonAgain{At: x.again.UTC(), Holds: append([]string{}, x.holds...), Turns: append([]string{}, x.turns...)}
	}
	for _, l := range d.Limits {
		p := x.periods[l.Name]
		j.Limits = append(j.Limits, jsonExplained{jsonAsked: jsonAsked{limitJSON(l), l.Over}, Period: p.String(), Turns: l.Window.End.In(p.Location()).Format(time.RFC3339)})
	}
	return j
}
