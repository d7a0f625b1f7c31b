package headroom

import (
	"errors"
	"time"
)

// hold decides a hold of r.Cost.
func (k rules) hold(r Request, lasts time.Duration) intent {
	return func(v View) (verdict, error) {
		have, ok := v.Records[r.Operation]
		if !ok {
			return k.reserve(v, r, lasts, nil)
		}
		estimate, held := have.estimate()
		if !held || !r.asks(have, estimate) {
			return verdict{}, conflict(
				"operation %q stands for %s and now asks to hold %s: an id stands for one piece of work",
				r.Operation, have.what(), r.wanted())
		}
		live, ends := v.live(have), have.Expires
		have.Kind, have.Cost = KindHold, estimate
		again, err := k.replay(v, r, have, ReasonAdmitted)
		if err == nil && live {
			again = again.until(ends)
		}
		return again, err
	}
}

// holdAgain decides a hold that may follow one of the same id that has ended.
func (k rules) holdAgain(r Request, lasts time.Duration) intent {
	first := k.hold(r, lasts)
	return func(v View) (verdict, error) {
		have, ok := v.Records[r.Operation]
		switch {
		case ok && have.Kind == KindHold && !v.live(have) && r.asks(have, have.Cost):
			if clear, over, err := k.sweepHold(v, r, have); over || err != nil {
				return clear, err
			}
			return k.reserve(v, r, lasts, &have)
		case ok && have.Kind == KindReleased && r.asks(have, have.Cost):
			return k.reserve(v, r, lasts, &have)
		}
		return first(v)
	}
}

// reserve decides whether there is room for a hold. was is what is remembered of the id so far, or
// nil.
func (k rules) reserve(v View, r Request, lasts time.Duration, was *Record) (verdict, error) {
	is := Record{Kind: KindHold, Cost: r.Cost, Expires: holdEnd(v.Now, lasts)}
	is.Series = v.State.series(is.Expires)
	if was != nil {
		is.Held = was.Cost // makes the record differ from an older one that a store may still have
	}
	r.Over = RefuseOverLimit // nothing is reserved past a limit: the work is yet to be done
	answer, err := k.charge(v, r, is, was, r.Cost)
	if err != nil || answer.change == nil {
		return answer, err
	}
	return answer.until(is.Expires), nil
}

// sweepHold returns the verdict that a hold which is over must be cleared away, if its units have
// not come back yet.
func (k rules) sweepHold(v View, r Request, hold Record) (verdict, bool, error) {
	if _, there := v.reserved(hold); !there {
		return verdict{}, false, nil
	}
	return k.sweep(v, r, hold.bucket())
}

// settle decides the charge of the true cost of a held operation.
func (k rules) settle(r Request) intent {
	return func(v View) (verdict, error) {
		have, ok := v.Records[r.Operation]
		switch {
		case !ok:
			return verdict{}, Errorf(NotFound, nil,
				"operation %q is not known: it was never held, or longer ago than ids are remembered (%s)",
				r.Operation, k.catalog.Horizon(r.Meter))
		case have.Kind == KindSettled && have.Cost == r.Cost:
			return k.replay(v, r, have, have.reason())
		case have.Kind == KindReleased || have.Kind == KindHold && !v.live(have):
			if clear, over, err := k.sweepHold(v, r, have); over || err != nil {
				return clear, err
			}
			// The work succeeded after all: a plain deduction.
			settled := Record{Kind: KindSettled, Cost: r.Cost, Asked: have.Asked, AtLeast: have.AtLeast, Held: have.Cost, Windows: have.ended().Windows, Crossed: have.Crossed}
			return k.charge(v, r, settled, &have, r.Cost)
		case have.Kind != KindHold:
			return verdict{}, conflict(
				"operation %q stands for %s and now asks to settle at %d", r.Operation, have.what(), r.Cost)
		}
		settled, _ := v.reserved(have)
		settled.Kind, settled.Cost, settled.Held = KindSettled, r.Cost, have.Cost
		settled.Expires, settled.Series = time.Time{}, 0
		if r.Cost > have.Cost {
			return k.charge(v, r, settled, &have, r.Cost-have.Cost)
		}
		c := k.begin(v, r.key(), r.Now)
		c.Records = []RecordStep{{ID: r.Operation, Was: &have, Is: &settled}}
		c.unreserve(have)
		var err error
		if c.Steps, c.Grants, err = giveBack(v, &settled, have.Cost-r.Cost); err != nil {
			return verdict{}, err
		}
		return k.allow(v, r, c, &settled, ReasonAdmitted)
	}
}

// settleAlways settles an operation, and charges one that holds nothing.
func (k rules) settleAlways(r Request) intent {
	settle := k.settle(r)
	return func(v View) (verdict, error) {
		if _, ok := v.Records[r.Operation]; !ok {
			return k.charge(v, r, Record{Kind: KindSettled, Cost: r.Cost, Held: r.Cost}, nil, r.Cost)
		}
		return settle(v)
	}
}

// release decides that a hold ends, since its work was not done.
func (k rules) release(r Request) intent {
	return func(v View) (verdict, error) {
		have, ok := v.Records[r.Operation]
		switch {
		case !ok:
			return verdict{}, unknown(r.Operation, "released")
		case v.lapsed(have):
			return verdict{}, Errorf(Expired, nil,
				"the hold of operation %q ended at %s, and its units have come back",
				r.Operation, have.Expires.Format(time.RFC3339))
		case have.Kind == KindReleased:
			return k.replay(v, r, have, ReasonReleased)
		case have.Kind != KindHold:
			return verdict{}, conflict(
				"operation %q stands for %s: only a hold can be released", r.Operation, have.what())
		}
		ended := have.ended()
		return k.endHold(v, r, have, &ended)
	}
}

// errSettled says that another delivery of a request was charged while this one was refused.
var errSettled = errors.New("another delivery was charged")

// abandon decides that a hold ends, since its request will not be charged. The id is forgotten, so
// that the request can be made again. If nothing is held, another delivery has ended the hold, or
// its time was over.
func (k rules) abandon(r Request) intent {
	return func(v View) (verdict, error) {
		have, ok := v.Records[r.Operation]
		switch {
		case ok && have.Kind == KindSettled:
			return verdict{}, errSettled
		case ok && have.Kind == KindHold:
			if _, there := v.reserved(have); there {
				return k.endHold(v, r, have, nil)
			}
		}
		r := r
		r.SkipClosed = false
		plan, standings, err := k.place(v, r)
		if err != nil {
			return verdict{}, err
		}
		return final(decided(v, plan, standings, r.Cost, ReasonReleased, true)), nil
	}
}

// endHold ends a hold. Its units come back, and is is remembered of it from then on, or nothing.
func (k rules) endHold(v View, r Request, hold Record, is *Record) (verdict, error) {
	c := k.begin(v, r.key(), r.Now)
	c.Records = []RecordStep{{ID: r.Operation, Was: &hold, Is: is}}
	c.unreserve(hold)
	rest, _ := v.reserved(hold)
	var err error
	if c.Steps, c.Grants, err = giveBack(v, &rest, hold.Cost); err != nil {
		return verdict{}, err
	}
	r.Cost = hold.Cost
	return k.allow(v, r, c, is, ReasonReleased)
}

// extend decides that a hold lasts from now on.
func (k rules) extend(r Request, lasts time.Duration) intent {
	return func(v View) (verdict, error) {
		expires := holdEnd(v.Now, lasts)
		have, ok := v.Records[r.Operation]
		switch {
		case !ok:
			return verdict{}, unknown(r.Operation, "extended")
		case v.lapsed(have):
			return verdict{}, Errorf(Expired, nil,
				"the hold of operation %q ended at %s: hold anew under another id",
				r.Operation, have.Expires.Format(time.RFC3339))
		case have.Kind != KindHold:
			return verdict{}, conflict(
				"operation %q stands for %s: only a hold can be extended", r.Operation, have.what())
		}
		var answer verdict
		var err error
		if have.Expires.Equal(expires) {
			answer, err = k.replay(v, r, have, ReasonExtended)
		} else {
			longer, _ := v.reserved(have)
			longer.Expires, longer.Series = expires, v.State.series(expires)
			if clear, needed, err := k.makeRoom(v, r, longer); needed || err != nil {
				return clear, err
			}
			c := k.begin(v, r.key(), r.Now)
			c.Records = []RecordStep{{ID: r.Operation, Was: &have, Is: &longer}}
			c.unreserve(have)
			c.reserve(v.State, longer)
			r.Cost = have.Cost
			answer, err = k.allow(v, r, c, &longer, ReasonExtended)
		}
		if err != nil {
			return verdict{}, err
		}
		return answer.until(expires), nil
	}
}
