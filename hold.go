package headroom

import (
	"errors"
	"time"
)

// hold decides a hold.
func (k rules) hold(r Request, lasts time.Duration) intent {
	return func(v View) (verdict, error) {
		if have, ok := v.Records[r.Operation]; ok {
			if estimate, held := have.estimate(); !held || estimate != r.Cost {
				return verdict{}, conflict("operation %q stands for %s and now asks to hold %d: an id stands for one piece of work", r.Operation, have.what(), r.Cost)
			}
			live := have.Kind == KindHold && !have.expired(v.Now)
			expires := have.Expires
			have.Kind, have.Cost = KindHold, r.Cost
			again, err := k.replay(v, r, have, ReasonAdmitted)
			if live {
				return again.until(expires, err)
			}
			return again, err
		}
		return k.reserve(v, r, lasts, nil)
	}
}

// reserve decides whether there is room for a hold; was is what is remembered of the id so far.
func (k rules) reserve(v View, r Request, lasts time.Duration, was *Record) (verdict, error) {
	if len(v.State.Holds) >= MaxHolds {
		if clear, ok, err := k.sweep(v, r, ""); ok || err != nil {
			return clear, err
		}
		return verdict{}, Errorf(CodeTooMany, nil, "subject %q has %d live holds of meter %q, the most there can be: settle or release some", r.Subject, MaxHolds, r.Meter)
	}
	r.Over = OverRefuse // nothing is reserved past a limit: the work is yet to be done
	is := Record{Kind: KindHold, Cost: r.Cost, Expires: until(v.Now, lasts)}
	if was != nil {
		is.Held = was.Cost // taken again: a store may still have what was remembered before
	}
	answer, err := k.charge(v, r, is, was, r.Cost)
	if answer.change == nil {
		return answer, err
	}
	return answer.until(is.Expires, err)
}

// until is the verdict with when its hold ends.
func (v verdict) until(expires time.Time, err error) (verdict, error) {
	if err == nil {
		v.decision.Expires = expires
	}
	return v, err
}

// holdAgain is a hold that may follow on one of the same id that has ended.
func (k rules) holdAgain(r Request, lasts time.Duration) intent {
	first := k.hold(r, lasts)
	return func(v View) (verdict, error) {
		have, ok := v.Records[r.Operation]
		switch {
		case ok && have.Kind == KindHold && have.expired(v.Now):
			clear, _, err := k.sweep(v, r, r.Operation)
			return clear, err
		case ok && have.Kind == KindReleased && have.Cost == r.Cost:
			return k.reserve(v, r, lasts, &have)
		}
		return first(v)
	}
}

// settle decides the charge of the true cost of a held operation.
func (k rules) settle(r Request) intent {
	return func(v View) (verdict, error) {
		var err error
		have, ok := v.Records[r.Operation]
		switch {
		case !ok:
			return verdict{}, Errorf(CodeNotFound, nil, "operation %q is not known: it was never held, or longer ago than ids are remembered (%s)", r.Operation, k.catalog.Horizon(r.Meter))
		case have.Kind == KindSettled && have.Cost == r.Cost:
			return k.replay(v, r, have, have.reason())
		case have.Kind == KindHold && have.expired(v.Now):
			clear, _, err := k.sweep(v, r, r.Operation)
			return clear, err
		case have.Kind == KindReleased:
			// The work succeeded after all: a plain deduction.
			return k.charge(v, r, Record{Kind: KindSettled, Cost: r.Cost, Held: have.Cost, Windows: have.Windows, Crossed: have.Crossed}, &have, r.Cost)
		case have.Kind != KindHold:
			return verdict{}, conflict("operation %q stands for %s and now asks to settle at %d", r.Operation, have.what(), r.Cost)
		}
		settled := have
		settled.Kind, settled.Cost, settled.Held, settled.Expires = KindSettled, r.Cost, have.Cost, time.Time{}
		if r.Cost > have.Cost {
			return k.charge(v, r, settled, &have, r.Cost-have.Cost)
		}
		c := k.change(v, r.key(), r.Now)
		c.Records = []RecordStep{{ID: r.Operation, Was: &have, Is: &settled}}
		if c.Steps, c.Grants, err = back(v, &settled, have.Cost-r.Cost); err != nil {
			return verdict{}, err
		}
		return k.final(v, r, c, ReasonAdmitted)
	}
}

// settleAlways settles, and charges an operation that holds nothing.
func (k rules) settleAlways(r Request) intent {
	settle := k.settle(r)
	return func(v View) (verdict, error) {
		if _, ok := v.Records[r.Operation]; !ok {
			return k.charge(v, r, Record{Kind: KindSettled, Cost: r.Cost, Held: r.Cost}, nil, r.Cost)
		}
		return settle(v)
	}
}

// release decides the end of a hold whose work was not done.
func (k rules) release(r Request) intent {
	return func(v View) (verdict, error) {
		have, ok := v.Records[r.Operation]
		switch {
		case !ok:
			return verdict{}, unknown(r.Operation, "released")
		case have.lapsed(v.Now):
			return verdict{}, Errorf(CodeExpired, nil, "the hold of operation %q ended at %s, and its units have come back", r.Operation, have.Expires.Format(time.RFC3339))
		case have.Kind == KindReleased:
			return k.replay(v, r, have, ReasonReleased)
		case have.Kind != KindHold:
			return verdict{}, conflict("operation %q stands for %s: only a hold can be released", r.Operation, have.what())
		}
		ended := have.ended(false)
		return k.free(v, r, have, &ended)
	}
}

// free ends a hold: its units come back, and it leaves behind what is.
func (k rules) free(v View, r Request, hold Record, is *Record) (verdict, error) {
	c := k.change(v, r.key(), r.Now)
	c.Records = []RecordStep{{ID: r.Operation, Was: &hold, Is: is}}
	rest := hold
	var err error
	if c.Steps, c.Grants, err = back(v, &rest, hold.Cost); err != nil {
		return verdict{}, err
	}
	r.Cost = hold.Cost
	return k.final(v, r, c, ReasonReleased)
}

// errSettled says that another delivery of the request was charged while this one was refused.
var errSettled = errors.New("another delivery was charged")

// abandon ends the hold for a request that will not be charged, and forgets its id, so that it can be asked again. Where nothing is held, another delivery or the time has ended it.
func (k rules) abandon(r Request) intent {
	return func(v View) (verdict, error) {
		have, ok := v.Records[r.Operation]
		switch {
		case ok && have.Kind == KindSettled:
			return verdict{}, errSettled
		case ok && have.Kind == KindHold:
			return k.free(v, r, have, nil)
		}
		r := r
		r.SkipClosed = false
		plan, standings, err := k.look(v, r)
		if err != nil {
			return verdict{}, err
		}
		return verdict{decision: decided(v, plan, standings, r.Cost, ReasonReleased, true)}, nil
	}
}

// extend decides that a hold lasts from now on.
func (k rules) extend(r Request, lasts time.Duration) intent {
	return func(v View) (verdict, error) {
		expires := until(v.Now, lasts)
		have, ok := v.Records[r.Operation]
		switch {
		case !ok:
			return verdict{}, unknown(r.Operation, "extended")
		case have.lapsed(v.Now):
			return verdict{}, Errorf(CodeExpired, nil, "the hold of operation %q ended at %s: hold anew under another id", r.Operation, have.Expires.Format(time.RFC3339))
		case have.Kind != KindHold:
			return verdict{}, conflict("operation %q stands for %s: only a hold can be extended", r.Operation, have.what())
		case have.Expires.Equal(expires):
			again, err := k.replay(v, r, have, ReasonExtended)
			return again.until(have.Expires, err)
		}
		longer := have
		longer.Expires = expires
		c := k.change(v, r.key(), r.Now)
		c.Records = []RecordStep{{ID: r.Operation, Was: &have, Is: &longer}}
		r.Cost = have.Cost
		answer, err := k.final(v, r, c, ReasonExtended)
		return answer.until(expires, err)
	}
}
