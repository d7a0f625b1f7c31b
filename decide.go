package headroom

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
	ReasonReleased  Reason = "released"   // a hold's units came back
	ReasonExtended  Reason = "extended"   // a hold lives longer
	ReasonRefunded  Reason = "refunded"   // units of a charge came back
	ReasonGranted   Reason = "granted"    // a grant was added
	ReasonOverLimit Reason = "over_limit" // too few units remain in this window
	ReasonNeverFits Reason = "never_fits" // the cost is greater than all that the limit and the grants allow: no window can satisfy it
	ReasonClosed    Reason = "closed"     // the request's window is over for this subject, and it asked to be charged in no other
	ReasonUnchecked Reason = "unchecked"  // the store failed, and the preflight was told to let through
)

// Decision is the answer to a request. A refusal is a Decision with Allowed false, never an error.
type Decision struct {
	Allowed bool
	Reason  Reason
	Replay  bool   // the operation was decided before; Cost, Reason, Window and Crossed are those of that time, the rest is of today
	Plan    string // the plan in force, with the subject's own limits
	Cost    int64

	// The strictest limit: of a refusal the one that refuses, else the one that leaves least.
	LimitName string // empty if the plan limits nothing of the meter
	Used      int64  // units charged in Window, with this operation's if it was charged
	Held      int64  // units reserved by live holds
	Limit     int64  // with what was carried over; Unlimited if the plan sets no limit
	Remaining int64  // Limit - Used - Held, at least 0
	Window    Window // its End is when the units come back
	Granted   int64  // units that live grants have left

	Limits  []LimitState // every limit of the meter, sorted by name
	Crossed []Notice     // thresholds that this decision crossed
}

// LimitState is how one limit stands.
type LimitState struct {
	Name      string
	Mode      Mode
	Window    Window
	Used      int64 // units charged in Window
	Held      int64 // units reserved by live holds
	Limit     int64 // with what was carried over; Unlimited if the plan sets none
	Remaining int64 // Limit - Used - Held, at least 0
	// Over says that a soft or shadow limit did not hold what was asked: a hard one would have refused.
	Over bool
}

// Notice tells that a threshold was crossed. Of one window and limit, every notice of a threshold has the same ID: a receiver can drop repeats.
type Notice struct {
	ID      string
	Limit   string
	Percent int
	Window  Window
}

// rules is what a decision depends on beside the state and the request.
type rules struct {
	catalog *Catalog
	horizon time.Duration
}

// verdict is the answer of a pure decision: the change to commit, or none if the decision is final.
type verdict struct {
	change   *Change
	decision Decision // with a change, what holds once it is committed, but for the figures, which the commit's view gives
	again    bool     // the change only clears the way: decide again after it
}

// intent is a request that can be decided. It has no side effect.
type intent func(v View) (verdict, error)

// errNeedHistory asks for a view with the whole history.
var errNeedHistory = errors.New("the decision needs the whole history")

// change begins a change of what v shows.
func (k rules) change(v View, key Key, now time.Time) Change {
	c := Change{Key: key, Now: now, Plan: v.State.Plan, Epoch: v.State.Epoch, Horizon: k.horizon}
	if e := k.epoch(v.Now); e.After(v.State.Epoch) {
		c.Rotate = e
	}
	return c
}

// decided makes the decision that the standings of v give. charged says that the cost is in the counts already.
func decided(v View, plan plan, standings []standing, cost int64, why Reason, charged bool) Decision {
	s := pick(standings, cost)
	d := Decision{
		Allowed: why != ReasonOverLimit && why != ReasonNeverFits && why != ReasonClosed,
		Reason:  why, Plan: plan.name, Cost: cost, LimitName: s.limit.Name, Granted: grantsLeft(v),
	}
	for _, s := range standings {
		d.Limits = append(d.Limits, s.state(cost, charged))
	}
	shown := s.state(cost, charged)
	d.Used, d.Held, d.Limit, d.Remaining, d.Window = shown.Used, shown.Held, shown.Limit, shown.Remaining, shown.Window
	return d
}

// state shows the standing. charged says that cost is in the count already.
func (s standing) state(cost int64, charged bool) LimitState {
	l := LimitState{
		Name: s.limit.Name, Mode: s.limit.Mode, Window: s.window,
		Used: s.count - s.held - s.dead, Held: s.held, Limit: s.allowance(), Remaining: max(0, s.remaining()),
	}
	if s.limit.Mode != Hard && cost > 0 {
		l.Over = charged && s.remaining() < 0 || !charged && cost > s.remaining()
	}
	return l
}

// committed fills in the figures of a decision from what is stored after its change.
func (k rules) committed(d Decision, c Change, after View) Decision {
	plan, _ := k.catalog.resolve(d.Plan, "") // it was in force when the change was made
	var standings []standing
	for _, l := range k.catalog.counters[c.Key.Meter] {
		l = plan.limit(l)
		s, err := place(l, after)
		if touched := slices.ContainsFunc(c.Steps, func(step Step) bool { return step.Limit == l.Name }); touched || err != nil {
			// The window that was charged is shown, whatever the time is by now.
			stored := after.State.Counters[l.Name]
			s = standing{limit: l, stored: stored, window: stored.Window, carried: stored.Carried, count: stored.Count}
			s.holds(after)
		}
		standings = append(standings, s)
	}
	shown := decided(after, plan, standings, d.Cost, d.Reason, true)
	shown.Crossed = d.Crossed
	return shown
}

// replay answers a repeat of an operation: with what was decided then, and what remains today.
func (k rules) replay(v View, key Key, callersPlan string, r Record, why Reason) (verdict, error) {
	plan, standings, err := k.look(v, key, callersPlan)
	if err != nil {
		return verdict{}, err
	}
	d := decided(v, plan, standings, r.Cost, why, true)
	d.Replay = true
	starts := map[string]time.Time{}
	for _, w := range r.Windows {
		starts[w.Limit] = w.Start
	}
	for _, s := range standings {
		if start, ok := starts[s.limit.Name]; ok && s.limit.Name == d.LimitName {
			d.Window = s.limit.Period.At(start)
		}
	}
	for _, c := range r.Crossed {
		for _, s := range standings {
			if s.limit.Name == c.Limit {
				d.Crossed = append(d.Crossed, notice(key, c, s.limit.Period.At(starts[c.Limit])))
			}
		}
	}
	return verdict{decision: d}, nil
}

// look resolves the plan and places the counters.
func (k rules) look(v View, key Key, callersPlan string) (plan, []standing, error) {
	p, err := k.catalog.resolve(v.State.Plan, callersPlan)
	if err != nil {
		return p, nil, err
	}
	standings, err := k.standings(v, p, key.Meter)
	return p, standings, err
}

// notice names the crossing of a threshold in a window.
func notice(key Key, c Crossing, w Window) Notice {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d", key.Subject, key.Meter, c.Limit, w.Start.Unix(), c.Percent))
	return Notice{ID: hex.EncodeToString(sum[:12]), Limit: c.Limit, Percent: c.Percent, Window: w}
}
