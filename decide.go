package headroom

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// ClockTolerance is how far a stored window may start after the present, or a clock lag behind an earlier reading, before it counts as a fault rather than as the usual disagreement of clocks.
const ClockTolerance = 5 * time.Minute

// Reason says why a decision fell as it did.
type Reason string

const (
	ReasonAdmitted  Reason = "admitted"   // the units were there
	ReasonRecorded  Reason = "recorded"   // charged past the limit, as the policy OverRecord asks
	ReasonOverLimit Reason = "over_limit" // too few units remain in this window
	ReasonNeverFits Reason = "never_fits" // the cost is greater than the limit: no window can satisfy it
	ReasonClosed    Reason = "closed"     // the request's window is over for this subject, and it asked to be charged in no other
	ReasonUnchecked Reason = "unchecked"  // the store failed, and the preflight was told to let through
)

// Decision is the answer to a request. A refusal is a Decision with Allowed false, never an error.
type Decision struct {
	Allowed bool
	Reason  Reason
	Replay  bool // the operation was decided before: Cost, Reason and Window are those of that time, the rest is of today
	Plan    string
	Cost    int64

	// The strictest limit: of a refusal the one that refuses, else the one that leaves least.
	LimitName string // empty if the meter has no limit in any plan
	Used      int64  // units charged in Window, with this operation's if it was charged
	Held      int64  // units reserved by live holds
	Limit     int64  // Unlimited if the plan sets no limit
	Remaining int64  // Limit - Used - Held, at least 0
	Window    Window // its End is when the units come back
}

// rules is what a decision depends on beside the state and the request.
type rules struct {
	catalog *Catalog
	horizon time.Duration
}

// errNeedHistory asks for a view with the whole history.
var errNeedHistory = errors.New("the decision needs the whole history")

// decide is the one place where it is decided who may spend. It has no side effect. From what is stored, the request and the view's time it makes the change to commit or, with no change, the final decision;
// a decision that comes with a change tells what was found before it.
func (k rules) decide(v View, r Request) (*Change, Decision, error) {
	if v.Charge != nil {
		d, err := k.replay(v, r)
		return nil, d, err
	}
	if !r.Began.IsZero() && v.Now.Sub(r.Began) > k.horizon {
		return nil, Decision{}, Errorf(CodeTooOld, nil, "operation %q began at %s, longer ago than ids are remembered (%s): whether it was charged cannot be known", r.Operation, r.Began.UTC().Format(time.RFC3339), k.horizon)
	}
	plan, standings, err := k.standings(v, r)
	if err != nil {
		return nil, Decision{}, err
	}
	if r.SkipClosed && slices.ContainsFunc(standings, func(s standing) bool { return s.stored.Window.Start.After(s.limit.Period.At(v.Now).Start) }) {
		return nil, describe(plan, standings, r.Cost, ReasonClosed), nil
	}
	c := Change{
		Key: r.key(), Now: r.Now, Operation: r.Operation, Charge: Charge{Kind: KindDeduct, Cost: r.Cost},
		Plan: plan, PlanOrNone: plan == cmp.Or(r.Plan, k.catalog.fallback), Epoch: v.State.Epoch, Horizon: k.horizon,
	}
	if e := k.epoch(v.Now); e.After(v.State.Epoch) {
		c.Rotate = e
	}
	reason := ReasonAdmitted
	if strictest := pick(standings, r.Cost); strictest.refuses(r.Cost) {
		if r.Over != OverRecord {
			return nil, describe(plan, standings, r.Cost, strictest.why(r.Cost)), nil
		}
		reason, c.Charge.Recorded = ReasonRecorded, true
	}
	for _, s := range standings {
		step, err := s.step(r.Cost, c.Charge.Recorded)
		if err != nil {
			return nil, Decision{}, err
		}
		c.Steps = append(c.Steps, step)
		c.Charge.Windows = append(c.Charge.Windows, ChargedWindow{Limit: step.Limit, Start: step.To.Start})
	}
	return &c, describe(plan, standings, r.Cost, reason), nil
}

// replay answers a repeat of an operation: with what was decided then, and what remains today.
func (k rules) replay(v View, r Request) (Decision, error) {
	if v.Charge.Kind != KindDeduct || v.Charge.Cost != r.Cost {
		return Decision{}, Errorf(CodeConflict, nil, "operation %q was charged %d before and now asks for %d: an id stands for one piece of work", r.Operation, v.Charge.Cost, r.Cost)
	}
	plan, standings, err := k.standings(v, r)
	if err != nil {
		return Decision{}, err
	}
	reason := ReasonAdmitted
	if v.Charge.Recorded {
		reason = ReasonRecorded
	}
	d := describe(plan, standings, r.Cost, reason)
	d.Replay = true
	for _, s := range standings {
		if start, ok := v.Charge.start(s.limit.Name); ok && s.limit.Name == d.LimitName {
			d.Window = s.limit.Period.At(start)
		}
	}
	return d, nil
}

// committed is the decision on a change that was committed, after is the view that the commit returned.
func (k rules) committed(c Change, after View) Decision {
	standings := make([]standing, len(c.Steps))
	for i, step := range c.Steps {
		limit := Limit{Name: step.Limit, Units: k.catalog.units(c.Plan, c.Key.Meter, step.Limit)}
		standings[i] = standing{limit: limit, window: step.To, count: after.State.Counters[step.Limit].Count}
	}
	if c.Charge.Recorded {
		return describe(c.Plan, standings, c.Charge.Cost, ReasonRecorded)
	}
	return describe(c.Plan, standings, c.Charge.Cost, ReasonAdmitted)
}

// epoch returns the label of the generation of ids that is young at t. Labels are whole multiples of the horizon, so that a generation that is two behind is at least one horizon old.
func (k rules) epoch(t time.Time) time.Time {
	seconds := int64(k.horizon / time.Second)
	into := t.Unix() % seconds
	if into < 0 {
		into += seconds
	}
	return time.Unix(t.Unix()-into, 0).UTC()
}

// standing is how one counter stands at the time of a view.
type standing struct {
	limit  Limit   // Units are those of the plan in force
	stored Counter // as the store has it
	window Window  // the window that a charge would go to
	count  int64   // units in that window
	fold   []Total // what of the history belongs into that window, because a wrong clock put it elsewhere
}

// standings resolves the plan and places each counter of the meter in time.
func (k rules) standings(v View, r Request) (plan string, all []standing, err error) {
	if plan, err = k.catalog.resolve(v.State.Plan, r.Plan); err != nil {
		return "", nil, err
	}
	for _, l := range k.catalog.counters[r.Meter] {
		l.Units = k.catalog.units(plan, r.Meter, l.Name)
		s, err := place(l, v.State.Counters[l.Name], v.Now, r.SkipClosed)
		if err != nil {
			return "", nil, err
		}
		all = append(all, s)
	}
	return plan, all, nil
}

// place finds the window in which a charge at now would count. With skipClosed it looks no further back than the stored window: nothing is charged, or brought back, to an older one.
func place(l Limit, stored Counter, now time.Time, skipClosed bool) (standing, error) {
	s := standing{limit: l, stored: stored, window: l.Period.At(now)}
	switch {
	case stored.Window.IsZero(), !stored.Window.End.After(now):
		// Nothing yet, or the stored window is over: a new one opens.
	case stored.Window.Start.After(now.Add(ClockTolerance)) && !skipClosed:
		// A wrong clock opened a window of the future. What was charged there, and in windows closed since the present one, was charged now.
		if oldest := len(stored.Past) - 1; stored.Partial && (oldest < 0 || stored.Past[oldest].Start.After(s.window.Start)) {
			return s, errNeedHistory
		}
		s.count = stored.Count
		for _, t := range stored.Past {
			if !t.Start.Before(s.window.Start) && !t.Unknown {
				if s.count > anyCount(t.Units) {
					return s, invalid("the counts of windows that a wrong clock opened add up beyond int64")
				}
				s.count += t.Units
				s.fold = append(s.fold, t)
			}
		}
	default:
		// The stored window holds now, or began a moment ago by another's clock, or the request's own is over: windows never go back.
		s.window, s.count = stored.Window, stored.Count
	}
	return s, nil
}

// remaining is what the limit leaves; it is negative where more was charged than the limit in force.
func (s standing) remaining() int64 { return s.limit.Units - s.count }

func (s standing) refuses(cost int64) bool { return cost > 0 && cost > s.remaining() }

func (s standing) why(cost int64) Reason {
	if cost > s.limit.Units {
		return ReasonNeverFits
	}
	return ReasonOverLimit
}

// pick returns the strictest of the standings: one that can never hold the cost before any other, then the one that leaves least, then the one whose units come back last. With none there is no limit.
func pick(standings []standing, cost int64) standing {
	if len(standings) == 0 {
		return standing{limit: Limit{Units: Unlimited}}
	}
	return slices.MinFunc(standings, func(a, b standing) int {
		never := func(s standing) int {
			if s.why(cost) == ReasonNeverFits {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(never(a), never(b)), cmp.Compare(a.remaining(), b.remaining()), b.window.End.Compare(a.window.End))
	})
}

// step is the change that charges cost to the counter. recorded says that the policy charges whether or not it fits.
func (s standing) step(cost int64, recorded bool) (Step, error) {
	if s.count > anyCount(cost) {
		return Step{}, invalid("a charge of %d on a count of %d is beyond int64", cost, s.count)
	}
	folded := s.count - s.stored.Count
	if len(s.fold) == 0 {
		folded = 0
	}
	step := Step{Limit: s.limit.Name, From: s.stored.Window, To: s.window, Max: anyCount(cost) - folded, Add: cost, Fold: s.fold}
	switch {
	case cost == 0:
	case !recorded:
		step.Max = s.limit.Units - cost - folded
	case s.refuses(cost):
		// Recorded only if it really did not fit.
		step.Min = max(0, s.limit.Units-cost-folded+1)
	}
	return step, nil
}

// describe makes the decision that the standings give.
func describe(plan string, standings []standing, cost int64, why Reason) Decision {
	s := pick(standings, cost)
	return Decision{
		Allowed: why == ReasonAdmitted || why == ReasonRecorded, Reason: why, Plan: plan, Cost: cost,
		LimitName: s.limit.Name, Used: s.count, Limit: s.limit.Units, Remaining: max(0, s.remaining()), Window: s.window,
	}
}
