package headroom

import "time"

// rules is what a decision depends on beside the state and the request.
type rules struct {
	catalog *Catalog
}

// intent is a request that can be decided. It has no side effect.
type intent func(v View) (verdict, error)

// verdict is the answer of a pure decision: the change to commit, or none if the decision is final.
type verdict struct {
	change   *Change
	decision Decision // with a change, what holds once it is committed, but for the figures, which the commit's view gives
	charges  bool     // the change charges or holds, in the windows of its steps
	nameless *Record  // what the change charges, if it has no id by which that could be remembered
	again    bool     // the change only clears the way: decide again after it
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

// standings places each counter of a meter in time, under a plan.
func (k rules) standings(v View, plan plan, r Request) ([]standing, error) {
	var all []standing
	for _, l := range k.catalog.counters[r.Meter] {
		s, err := place(plan.limit(l), v, r.SkipClosed)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// change begins a change of what v shows.
func (k rules) change(v View, key Key, now time.Time) Change {
	horizon := k.catalog.Horizon(key.Meter)
	c := Change{Key: key, Now: now, Plan: v.State.Plan, Epoch: v.State.Epoch, Horizon: v.State.Horizon(horizon)}
	if label, due := v.State.turn(v.Now, horizon); due {
		c.Rotate = label
	}
	return c
}

// tooOld reports that the id of an operation may have been forgotten since it began.
func (k rules) tooOld(v View, r Request) error {
	horizon := k.catalog.Horizon(r.Meter)
	if r.Began.IsZero() || v.Now.Sub(r.Began) <= horizon {
		return nil
	}
	return Errorf(CodeTooOld, nil, "operation %q began at %s, longer ago than ids are remembered (%s): whether it was charged cannot be known", r.Operation, r.Began.UTC().Format(time.RFC3339), horizon)
}

// until is when something ends that lasts from now on: a whole second, and not before its time.
func until(now time.Time, lasts time.Duration) time.Time {
	end := now.UTC().Add(lasts)
	if whole := end.Truncate(time.Second); !whole.Equal(end) {
		end = whole.Add(time.Second)
	}
	return end
}

func unknown(id, done string) *Error {
	return Errorf(CodeNotFound, nil, "operation %q is not known and cannot be %s: it was refused, or never asked for, or is longer ago than ids are remembered", id, done)
}

func conflict(format string, args ...any) *Error { return Errorf(CodeConflict, nil, format, args...) }
