package headroom

import (
	"context"
	"errors"
	"time"
)

// withinHold is how long the organisation's units stay reserved while the user is asked. If the caller dies in between, they come back after it.
const withinHold = 5 * time.Minute

// Joint is the decision on a request that two subjects pay for.
type Joint struct {
	Allowed            bool     // by both
	Organisation, User Decision // User is empty if the organisation refuses. If the user refuses, Organisation says that what it held came back
}

// errSettled says that another delivery of the request was charged while this one was refused.
var errSettled = errors.New("another delivery was charged")

// DeductWithin charges r to its subject and to an organisation, both or neither, without a transaction: it holds r.Cost at the organisation, deducts it at the subject, and settles it at the organisation, all under r.Operation.
// r.Plan and r.Over are the subject's. A request that either refuses may be asked again under the same id.
//
// After an error, repeat the same operation: each step happens once. If nobody does, the organisation's hold expires; between the second and the third step a reader sees the user charged and the organisation's units held.
// Neither goes over its limit; only if the hold ends between those two steps, and the organisation's units went to others before the repeat, is the organisation charged past its limit, and that is marked as recorded.
func (e *Engine) DeductWithin(ctx context.Context, organisation string, r Request) (Joint, error) {
	at := r
	at.Subject, at.Plan = organisation, ""
	if err := e.validate(at, true); err != nil {
		return Joint{}, err
	}
	if err := e.validate(r, true); err != nil {
		return Joint{}, err
	}
	if organisation == r.Subject {
		return Joint{}, invalid("subject %q cannot be its own organisation", organisation)
	}
	j, err := e.deductWithin(ctx, at, r)
	if errors.Is(err, errSettled) {
		j, err = e.deductWithin(ctx, at, r) // the user is charged by now: this is a repeat
	}
	if errors.Is(err, errSettled) {
		return Joint{}, conflict("operation %q was charged to organisation %q without its user, who refuses it: an id stands for one piece of work", r.Operation, organisation)
	}
	return j, err
}

// deductWithin charges r, and at to the organisation.
func (e *Engine) deductWithin(ctx context.Context, at, r Request) (Joint, error) {
	var j Joint
	var err error
	if j.Organisation, err = e.run(ctx, nil, query(at), e.rules.holdAgain(at, withinHold)); err != nil {
		return Joint{}, err
	}
	if !j.Organisation.Allowed {
		// A repeat may come after the user was charged and the hold expired.
		v, err := e.store.Load(ctx, query(r))
		if err != nil {
			return Joint{}, err
		}
		if have, ok := v.Records[r.Operation]; !ok || have.Kind != KindDeduct {
			return j, nil
		}
	}
	var failure *Error
	j.User, err = e.Deduct(ctx, r)
	if refused := errors.As(err, &failure) && !failure.transient(); refused {
		// No repeat will charge the user under this id: nothing is left to be held for. If that fails, the hold expires.
		_, _ = e.run(ctx, nil, query(at), e.rules.abandon(at))
	}
	if err != nil {
		return Joint{}, err
	}
	if !j.User.Allowed {
		if j.Organisation, err = e.run(ctx, nil, query(at), e.rules.abandon(at)); err != nil {
			return Joint{}, err
		}
		return j, nil
	}
	// The user is charged, so the organisation is, whatever the time and its limit say by now.
	at.Over, at.SkipClosed = OverRecord, false
	if j.Organisation, err = e.run(ctx, nil, query(at), e.rules.settleAlways(at)); err != nil {
		return Joint{}, err
	}
	j.Allowed = true
	return j, nil
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
