package headroom

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

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

// shown is the window that a decision on an operation shows: that in which its units count, of the limit that d names. Of a hold it is that in which it was made.
func (r Record) shown(standings []standing, d Decision) Window {
	for _, s := range standings {
		if start, ok := r.start(s.limit.Name, r.Kind == KindHold); ok && s.limit.Name == d.LimitName {
			return s.at(start)
		}
	}
	return d.Window
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

// notice names the crossing of a threshold in a window.
func notice(key Key, c Crossing, w Window) Notice {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d", key.Subject, key.Meter, c.Limit, w.Start.Unix(), c.Percent))
	return Notice{ID: hex.EncodeToString(sum[:12]), Limit: c.Limit, Percent: c.Percent, Window: w}
}

// reason is how the decision of a record fell.
func (r Record) reason() Reason {
	if r.Recorded {
		return ReasonRecorded
	}
	return ReasonAdmitted
}
