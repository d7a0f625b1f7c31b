package main

import (
	"context"
	"fmt"
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
		costs   []string
		at      = timeFlag{name: "at"}
	)
	cmd := &cobra.Command{
		Use:   "explain SUBJECT [--cost N]",
		Short: "Say in plain sentences why a cost is refused, and when it fits",
		Long: `Answer "why was I refused?" in sentences that you can paste into a reply. They tell the plan,
how much of each limit is used, how many units are held and until when, which grants are
left, and what fits now. With --cost they also tell which limit is in the way, and when the
cost fits, if nothing else is spent until then. Of work that costs several meters, give
--cost METER=UNITS once for each: it fits if all of them do.

Refusals are not stored, so this explains what would be decided now, by the same rules. It
writes nothing. The exit status is 0 whatever the answer is. For a yes or no, see "preflight".`,
		Example: `  headroom explain alice
  headroom explain alice --cost 40
  headroom explain alice --cost 40 --json
  headroom explain alice --cost requests=1 --cost tokens=1850`,
		Args: arguments("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			request.Subject, request.Now = args[0], at.Time
			parts, err := explained(request.Meter, costs)
			if err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
				var all []explanation
				for _, part := range parts {
					r := request
					r.Meter, r.Cost = part.Meter, part.Cost
					x, err := a.explain(cmd.Context(), engine, cfg, r, len(costs) > 0)
					if err != nil {
						return err
					}
					all = append(all, x)
				}
				a.printExplanations(all)
				return nil
			})
		},
	}
	meterFlag(cmd, &request.Meter)
	cmd.Flags().StringArrayVar(&costs, "cost", nil, "explain whether this cost fits; or METER=UNITS, once for each meter")
	planFlag(cmd, &request.Plan)
	cmd.Flags().Var(&at, "at", atUsage)
	return cmd
}

// explained are the meters and costs that are asked about: a number of units of the meter, or
// METER=UNITS for each.
func explained(meter string, costs []string) ([]headroom.Amount, error) {
	switch {
	case len(costs) == 0:
		return []headroom.Amount{{Meter: meter}}, nil
	case len(costs) == 1 && !strings.Contains(costs[0], "="):
		n, err := parseUnits("--cost", costs[0])
		return []headroom.Amount{{Meter: meter, Cost: n}}, err
	}
	return parseAmounts("--cost", costs)
}

// printExplanations prints one explanation, or those of several meters one after the other.
func (a *app) printExplanations(all []explanation) {
	if a.json && len(all) == 1 {
		a.printJSON(all[0].json())
		return
	}
	var parts []any
	for i, x := range all {
		if parts = append(parts, x.json()); a.json {
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		x.print(a.stdout)
	}
	if a.json {
		a.printJSON(map[string]any{"parts": parts})
	}
}

// explanation is what there is to say about a subject and a cost.
type explanation struct {
	subject  string
	meter    string
	now      time.Time
	asked    bool // a cost was given
	decision headroom.Decision
	usage    headroom.Usage
	periods  map[string]headroom.Period // by limit
	plans    []headroom.Plan

	// again is when the cost fits, if nothing else is spent until then. If no cost was given, it is
	// when 1 unit fits. It is zero if that is now, or if nobody can tell.
	again time.Time
	holds int64    // how many holds end then
	turns []string // the limits whose windows end then
}

func (a *app) explain(ctx context.Context, e *headroom.Engine, cfg *config.Config, r headroom.Request, asked bool) (explanation, error) {
	x := explanation{
		subject: r.Subject, meter: r.Meter, now: r.Now, asked: asked,
		periods: periods(cfg.Catalog, r.Meter), plans: cfg.Catalog.Plans(),
	}
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
	// Units come back only when a hold or a window ends. To learn what would be decided at such a
	// time, ask the same rules as of that time.
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

// events returns the times after now at which units come back, the earliest first.
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

// comesBack notes that the cost fits at t, and what ends at that time.
func (x *explanation) comesBack(t time.Time) {
	x.again = t
	for _, h := range x.usage.Holds {
		if h.Expires.Equal(t) {
			x.holds = h.Holds
		}
	}
	for _, l := range x.decision.Limits {
		if refuses(l) && l.Window.End.Equal(t) {
			x.turns = append(x.turns, l.Name)
		}
	}
}

// fits returns the largest cost that would be admitted now. It is Unlimited if no limit refuses.
func (x *explanation) fits() int64 {
	most := int64(headroom.Unlimited)
	for _, l := range x.decision.Limits {
		if refuses(l) {
			most = min(most, saturate.Add(l.Remaining, x.decision.Granted))
		}
	}
	return most
}

// strictest returns the limits that leave, together with the grants, no more than fits.
func (x *explanation) strictest(fits int64) (limits []headroom.LimitState) {
	for _, l := range x.decision.Limits {
		if refuses(l) && saturate.Add(l.Remaining, x.decision.Granted) == fits {
			limits = append(limits, l)
		}
	}
	return limits
}

// inTheWay returns the limits that each would refuse the cost even if there were no other.
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

// counts returns how many units of some holds count in the current window of some limit of the
// plan. Units that were held in a window that has closed no longer count.
func (x *explanation) counts(h headroom.HeldUntil) (units int64) {
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

// carried returns how much of a limit was left over from the window before.
func (x *explanation) carried(l headroom.LimitState) int64 {
	name, own, _ := strings.Cut(x.decision.Plan, "+")
	if strings.Contains("+"+own, "+"+x.meter+"/"+l.Name+"=") {
		return 0 // this is the subject's own limit, and how much of it was carried over is not known
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

// periods returns the period of each limit of a meter, by the limit's name.
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
	Subject string          `json:"subject"`
	Meter   string          `json:"meter"`
	Plan    string          `json:"plan"`
	Unseen  bool            `json:"unseen"`  // nothing is stored of the subject in this meter
	Cost    *int64          `json:"cost"`    // null if no cost was given
	Allowed *bool           `json:"allowed"` // null if no cost was given
	Reason  headroom.Reason `json:"reason,omitempty"`
	// the largest cost that fits now; null if there is no limit
	Fits     *int64   `json:"fits"`
	InTheWay []string `json:"in_the_way"` // names of limits
	// null if the cost fits now, or if nobody can tell when
	Again   *jsonAgain      `json:"again"`
	Limits  []jsonExplained `json:"limits"`
	Holds   []jsonHeld      `json:"holds"`
	Granted int64           `json:"granted"`
	Grants  []jsonGrant     `json:"grants"`
}

type jsonAgain struct {
	At    time.Time `json:"at"`
	Holds int64     `json:"holds"` // how many holds end then
	Turns []string  `json:"turns"` // the limits whose windows end then
}

type jsonExplained struct {
	jsonAsked
	Period string `json:"period"`
	Turns  string `json:"turns"` // the end of the window, in the limit's time zone
}

func (x *explanation) json() jsonExplanation {
	d := x.decision
	j := jsonExplanation{
		Subject: x.subject, Meter: x.meter, Plan: d.Plan, Unseen: d.Unseen, Fits: unlessUnlimited(x.fits(), x.fits()), InTheWay: []string{},
		Limits: []jsonExplained{}, Holds: holdsJSON(x.usage), Granted: d.Granted, Grants: grantsJSON(x.usage),
	}
	if x.asked {
		j.Cost, j.Allowed, j.Reason = &d.Cost, &d.Allowed, d.Reason
	}
	for _, l := range x.inTheWay() {
		j.InTheWay = append(j.InTheWay, l.Name)
	}
	if !x.again.IsZero() {
		j.Again = &jsonAgain{
			At: x.again.UTC(), Holds: x.holds, Turns: append([]string{}, x.turns...),
		}
	}
	for _, l := range d.Limits {
		p := x.periods[l.Name]
		j.Limits = append(j.Limits, jsonExplained{
			jsonAsked: jsonAsked{limitJSON(l), l.Over}, Period: p.String(), Turns: l.Window.End.In(p.Location()).Format(time.RFC3339),
		})
	}
	return j
}
