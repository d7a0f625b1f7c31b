package headroom

import (
	"time"
)

// rules decide requests. A decision depends on the catalog, on what is stored, on the request and
// on the time, and on nothing else. It has no side effects.
type rules struct {
	catalog *Catalog
}

// intent is a request that is ready to be decided. It can be decided many times, each time from
// what is stored by then.
type intent func(v View) (verdict, error)

// joint is an intent about several keys, which the store joins. It comes to a verdict for each
// view. If one is refused, all are final.
type joint func(views []View) ([]verdict, error)

// alone is the intent as one about one key.
func (i intent) alone() joint {
	return func(views []View) ([]verdict, error) {
		answer, err := i(views[0])
		return []verdict{answer}, err
	}
}

// verdict is what an intent comes to. There are three kinds:
//
//   - It is final: nothing is to be written, and decision is the answer.
//   - It has a change and a promise: once the change is done, the promise is the answer.
//   - It has a change and no promise: the change clears the way, and the intent is decided again
//     after it.
type verdict struct {
	decision Decision
	change   *Change
	promise  promise
}

// promise is what a request is told once its change is done. The figures are not in it: they are
// read from what is stored by then.
type promise struct {
	reason  Reason // empty: there is no promise
	plan    string // the plan in force when the change was made
	cost    int64
	expires time.Time // when the operation's hold ends, if the change makes one or moves its end

	// record tells which window the answer shows, and which thresholds were crossed. Nil: the
	// answer shows the present window.
	record       *Record
	charges      bool // the change charges or holds units, in the windows of its steps
	unremembered bool // the charge has no id: if the change is written twice, it charges twice
}

// final is the verdict that d is the answer.
func final(d Decision) verdict { return verdict{decision: d} }

// clearing is the verdict that c must be written before the intent can be decided.
func clearing(c Change) verdict { return verdict{change: &c} }

// clears reports whether the change of v only clears the way.
func (v verdict) clears() bool { return v.change != nil && v.promise.reason == "" }

// until returns v with the time at which the operation's hold ends.
func (v verdict) until(expires time.Time) verdict {
	if v.change == nil {
		v.decision.Expires, v.decision.Live = expires, true
	} else {
		v.promise.expires = expires
	}
	return v
}

// place returns the plan in force, and how each counter of the meter stands under it.
func (k rules) place(v View, r Request) (plan, []standing, error) {
	p, err := k.catalog.resolve(v.State.Plan, r.Plan)
	if err != nil && r.AnyPlan {
		p, err = k.catalog.resolve("", "")
	}
	if err != nil {
		return p, nil, err
	}
	var all []standing
	for _, l := range k.catalog.counters[r.Meter] {
		s, err := standingOf(p.limit(l), v, r.SkipClosed)
		if err != nil {
			return p, nil, err
		}
		all = append(all, s)
	}
	return p, all, nil
}

// begin returns a change of what v shows that does nothing yet. Its guard says which plan and which
// generation of ids were seen. If it is time for a new generation of ids, the change begins one.
func (k rules) begin(v View, key Key, now time.Time) Change {
	horizon := k.catalog.Horizon(key.Meter)
	c := Change{Key: key, Now: now, Memo: v.Memo, Plan: v.State.Plan, Epoch: v.State.Epoch, Horizon: v.State.Horizon(horizon)}
	if label, due := v.State.rotation(v.Now, horizon); due {
		c.Rotate = label
	}
	return c
}

// tooOld returns an error if the id of an operation may have been forgotten since the operation
// began. Then nobody can know whether it was charged.
func (k rules) tooOld(v View, r Request) error {
	horizon := k.catalog.Horizon(r.Meter)
	if r.Began.IsZero() || v.Now.Sub(r.Began) <= horizon {
		return nil
	}
	return Errorf(TooOld, nil,
		"operation %q began at %s, longer ago than ids are remembered (%s): whether it was charged cannot be known",
		r.Operation, r.Began.UTC().Format(time.RFC3339), horizon)
}

// endAfter returns the end of something that lasts from now on. It is a whole second, since that is
// what stores keep, and never too early.
func endAfter(now time.Time, lasts time.Duration) time.Time {
	end := now.UTC().Add(lasts)
	if second := end.Truncate(time.Second); !second.Equal(end) {
		end = second.Add(time.Second)
	}
	return end
}

func unknown(id, done string) *Error {
	return Errorf(NotFound, nil,
		"operation %q is not known and cannot be %s: it was refused, or never asked for, or is longer ago "+
			"than ids are remembered", id, done)
}

func conflict(format string, args ...any) *Error { return Errorf(Conflict, nil, format, args...) }
