package headroom

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
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

	// Unremembered says that the charge has no operation id, as its meter permits: a repeat is another charge,
	// and nothing can be refunded.
	Unremembered bool

	// The strictest limit: of a refusal the one that refuses, else the one that leaves least.
	LimitName string // empty if no limit of the meter is hard
	Used      int64  // units charged in Window, with this operation's if it was charged
	Held      int64  // units reserved by live holds
	Limit     int64  // with what was carried over; Unlimited if the plan sets no limit
	Remaining int64  // Limit - Used - Held, at least 0
	Window    Window // in which the operation's units count, the last if there are several; of a refusal, and of what has no units of its own, the present one. Its End is when they come back
	Granted   int64  // units that live grants have left
	// Expires is when the operation's hold ends, which was taken, replayed or extended. Zero: no
	// hold of it is live, so a replay with a zero Expires covers no work.
	Expires time.Time

	Limits []LimitState // every limit of the meter, sorted by name
	// Crossed are the thresholds that the operation crossed, with this decision or one before it.
	// A release, an extension, a refund and a grant name none.
	Crossed []Notice
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

// Notice tells that the units charged and held reached a threshold. Of one window and limit, every notice of a threshold has the same ID: a receiver can drop repeats. One decision has it, and the repeats of that operation;
// another only if units came back in between, so that the threshold was reached twice.
type Notice struct {
	ID      string
	Limit   string
	Percent int
	Window  Window
}

// rules is what a decision depends on beside the state and the request.
type rules struct {
	catalog *Catalog
}

// verdict is the answer of a pure decision: the change to commit, or none if the decision is final.
type verdict struct {
	change   *Change
	decision Decision // with a change, what holds once it is committed, but for the figures, which the commit's view gives
	charges  bool     // the change charges or holds, in the windows of its steps
	nameless *Record  // what the change charges, if it has no id by which that could be remembered
	again    bool     // the change only clears the way: decide again after it
}

// intent is a request that can be decided. It has no side effect.
type intent func(v View) (verdict, error)

// errNeedHistory asks for a view with the whole history.
var errNeedHistory = errors.New("the decision needs the whole history")

// change begins a change of what v shows.
func (k rules) change(v View, key Key, now time.Time) Change {
	horizon := k.catalog.Horizon(key.Meter)
	c := Change{Key: key, Now: now, Plan: v.State.Plan, Epoch: v.State.Epoch, Horizon: v.State.Horizon(horizon)}
	if label, due := v.State.turn(v.Now, horizon); due {
		c.Rotate = label
	}
	return c
}

// clearing begins a change that only clears the way for a request. If the ids age with it, what the request is about stays remembered.
func (k rules) clearing(v View, key Key, now time.Time) Change {
	c := k.change(v, key, now)
	if !c.Rotate.IsZero() {
		c.Records = v.refiled()
	}
	return c
}

// refiled are the steps that bring what v remembers of ids into the younger generation, as it is. A hold ages in none.
func (v View) refiled() (steps []RecordStep) {
	for _, id := range slices.Sorted(maps.Keys(v.Records)) {
		if r := v.Records[id]; r.Kind != KindHold {
			steps = append(steps, RecordStep{ID: id, Was: &r, Is: &r})
		}
	}
	return steps
}

// decided makes the decision that the standings of v give. charged says that the cost is in the counts already.
func decided(v View, plan plan, standings []standing, cost int64, why Reason, charged bool) Decision {
	d := Decision{Allowed: true, Reason: why, Plan: plan.name, Cost: cost, Granted: grantsLeft(v)}
	var refused int64
	switch why {
	case ReasonOverLimit, ReasonNeverFits:
		d.Allowed, refused = false, cost-d.Granted
	case ReasonClosed:
		d.Allowed = false
	}
	s := pick(standings, refused)
	for _, s := range standings {
		d.Limits = append(d.Limits, s.state(cost, charged))
	}
	shown := s.state(cost, charged)
	d.LimitName, d.Used, d.Held, d.Limit, d.Remaining, d.Window = s.limit.Name, shown.Used, shown.Held, shown.Limit, shown.Remaining, shown.Window
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

// committed fills in the figures of a decision from what is stored after its change. It reports false if it would take the whole history to tell how the limits stand, and shows the stored windows.
func (k rules) committed(answer verdict, after View) (d Decision, whole bool) {
	d, whole = answer.decision, true
	c := *answer.change
	plan, _ := k.catalog.resolve(d.Plan, "") // it was in force when the change was made
	var standings []standing
	for _, l := range k.catalog.counters[c.Key.Meter] {
		l = plan.limit(l)
		s, err := place(l, after, false)
		whole = whole && (answer.charges || !errors.Is(err, errNeedHistory))
		if answer.charges || err != nil {
			// The window that was charged is shown, whatever the time is by now.
			stored := after.State.Counters[l.Name]
			s = standing{limit: l, stored: stored, window: stored.Window, carried: stored.Carried, count: stored.Count}
			s.holds(after)
		}
		standings = append(standings, s)
	}
	shown := decided(after, plan, standings, d.Cost, d.Reason, true)
	shown.Expires, shown.Unremembered = d.Expires, answer.nameless != nil
	is := answer.nameless
	if len(c.Records) > 0 {
		is = c.Records[0].Is
	}
	if is != nil {
		shown.Window = is.shown(standings, shown)
		shown.Crossed = is.notices(c.Key, standings, d.Reason)
	}
	return shown, whole
}

// replay answers a repeat of an operation: with what was decided then, and what remains today.
func (k rules) replay(v View, r Request, have Record, why Reason) (verdict, error) {
	plan, standings, err := k.look(v, r)
	if err != nil {
		return verdict{}, err
	}
	d := decided(v, plan, standings, have.Cost, why, true)
	d.Replay = true
	d.Window = have.shown(standings, d)
	d.Crossed = have.notices(r.key(), standings, why)
	return verdict{decision: d}, nil
}

// notices are what a decision tells of thresholds, the first as its repeats. What gives units back
// crosses none.
func (r Record) notices(key Key, standings []standing, why Reason) (all []Notice) {
	if why != ReasonAdmitted && why != ReasonRecorded {
		return nil
	}
	for _, c := range r.Crossed {
		for _, s := range standings {
			if s.limit.Name == c.Limit {
				all = append(all, notice(key, c, s.at(c.Start)))
			}
		}
	}
	return all
}

// shown is the window that a decision on an operation shows: that in which its units count, of the limit that d names. Of a hold it is that in which it was made.
func (r Record) shown(standings []standing, d Decision) Window {
	for _, s := range standings {
		if start, ok := r.start(s.limit.Name, r.Kind == KindHold); ok && s.limit.Name == d.LimitName {
			return s.at(start)
		}
	}
	return d.Window
}

// at is the window of the limit that starts at start.
func (s standing) at(start time.Time) Window {
	if start.Equal(s.stored.Window.Start) && !s.stored.Window.IsZero() {
		return s.stored.Window
	}
	w := s.limit.Period.At(start)
	w.Start = start // where the period was cut differently before, the first window begins late
	return w
}

// look resolves the plan and places the counters.
func (k rules) look(v View, r Request) (plan, []standing, error) {
	p, err := k.catalog.resolve(v.State.Plan, r.Plan)
	if err != nil && r.AnyPlan {
		p, err = k.catalog.resolve("", "")
	}
	if err != nil {
		return p, nil, err
	}
	standings, err := k.standings(v, p, r)
	return p, standings, err
}

// notice names the crossing of a threshold in a window.
func notice(key Key, c Crossing, w Window) Notice {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d", key.Subject, key.Meter, c.Limit, w.Start.Unix(), c.Percent))
	return Notice{ID: hex.EncodeToString(sum[:12]), Limit: c.Limit, Percent: c.Percent, Window: w}
}
