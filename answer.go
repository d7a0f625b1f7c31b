package headroom

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// decided returns the decision that v and its standings give. charged says that the cost is already
// in the counts.
func decided(v View, plan plan, standings []standing, cost int64, why Reason, charged bool) Decision {
	d := Decision{Allowed: true, Reason: why, Plan: plan.name, Cost: cost, Granted: grantsLeft(v), Unseen: v.State.unseen()}
	var refused int64
	switch why {
	case ReasonOverLimit, ReasonNeverFits:
		d.Allowed, refused = false, cost-d.Granted
	case ReasonClosed, ReasonTooManyHolds:
		d.Allowed = false
	}
	s := strictest(standings, refused)
	for _, s := range standings {
		d.Limits = append(d.Limits, s.show(cost, charged))
	}
	shown := s.show(cost, charged)
	d.LimitName, d.Limit, d.Window = s.limit.Name, shown.Limit, shown.Window
	d.Used, d.Held, d.Remaining = shown.Used, shown.Held, shown.Remaining
	return d
}

// replay answers a repeat of an operation: with what was decided the first time, and with what
// remains today.
func (k rules) replay(v View, r Request, have Record, why Reason) (verdict, error) {
	plan, standings, err := k.place(v, r)
	if err != nil {
		return verdict{}, err
	}
	d := decided(v, plan, standings, have.Cost, why, true)
	d.Replay = true
	d.Window = have.shownWindow(standings, d)
	d.Crossed = have.notices(r.key(), standings, why)
	return final(d), nil
}

// keep turns a promise into a decision. after is what is stored once the change is done. If it
// would take the whole history to tell how the limits stand, keep shows the stored windows and
// reports false.
func (k rules) keep(p promise, key Key, after View) (d Decision, complete bool) {
	complete = true
	plan, _ := k.catalog.resolve(p.plan, "") // it was in force when the change was made
	var standings []standing
	for _, l := range k.catalog.counters[key.Meter] {
		l = plan.limit(l)
		s, err := standingOf(l, after, false)
		complete = complete && (p.charges || !errors.Is(err, errNeedHistory))
		if p.charges || err != nil {
			// The answer shows the window that was charged, even if that window is over by now.
			stored := after.State.Counters[l.Name]
			s = standing{limit: l, stored: stored, window: stored.Window, carried: stored.Carried, count: stored.Count}
			s.countHolds(after)
		}
		standings = append(standings, s)
	}
	d = decided(after, plan, standings, p.cost, p.reason, true)
	d.Expires, d.Live, d.Unremembered = p.expires, !p.expires.IsZero(), p.unremembered
	if p.record != nil {
		d.Window = p.record.shownWindow(standings, d)
		d.Crossed = p.record.notices(key, standings, p.reason)
	}
	return d, complete
}

// shownWindow returns the window that a decision on an operation shows: the one in which its units
// count, by the limit that d names. For a hold it is the window in which the hold was made.
func (r Record) shownWindow(standings []standing, d Decision) Window {
	for _, s := range standings {
		if start, ok := r.start(s.limit.Name, r.Kind == KindHold); ok && s.limit.Name == d.LimitName {
			return s.at(start)
		}
	}
	return d.Window
}

// notices returns the thresholds that a decision says were crossed. A repeat says the same as the
// first answer. What gives units back crosses none.
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

// notice names the crossing of a threshold in a window w. The ID depends on these alone, so that a
// receiver can drop repeats.
func notice(key Key, c Crossing, w Window) Notice {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d", key.Subject, key.Meter, c.Limit, w.Start.Unix(), c.Percent))
	return Notice{ID: hex.EncodeToString(sum[:12]), Limit: c.Limit, Percent: c.Percent, Window: w}
}

// reason tells why the charge of r was admitted.
func (r Record) reason() Reason {
	if r.Recorded {
		return ReasonRecorded
	}
	return ReasonAdmitted
}

// elsewhere is an error: the operation has parts in other meters too.
type elsewhere struct{ also []string }

func (e *elsewhere) Error() string { return "the operation has parts in other meters" }

// othersOf returns the other meters of an operation, if err says that it has some.
func othersOf(err error) (all []Amount) {
	var e *elsewhere
	if errors.As(err, &e) {
		for _, meter := range e.also {
			all = append(all, Amount{Meter: meter})
		}
	}
	return all
}

// of is the record as another meter would have it, which has forgotten its own.
func (r Record) of(cost int64) Record {
	r.Cost, r.Windows, r.Crossed = cost, nil, nil
	return r
}
