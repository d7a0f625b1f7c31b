package headroom

import (
	"context"
	"time"
)

// withinHold is how long the organisation's units stay reserved while the user is asked. If the caller dies in between, they come back after it.
const withinHold = 5 * time.Minute

// Joint is the decision on a request that two subjects pay for.
type Joint struct {
	Allowed            bool     // by both
	Organisation, User Decision // User is empty if the organisation refuses
}

// DeductWithin charges r to its subject and to an organisation, both or neither, without a transaction: it holds r.Cost at the organisation, deducts it at the subject, and settles it at the organisation, all under r.Operation.
// After an error, repeat the same operation: each step happens once. If nobody does, the organisation's hold expires; between the second and the third step a reader sees the user charged and the organisation's units held.
// Neither goes over its limit; only if the hold expires between those two steps, and the organisation's units went to others before the repeat, is the organisation charged past its limit, and that is marked as recorded.
func (e *Engine) DeductWithin(ctx context.Context, organisation string, r Request) (Joint, error) {
	at := r
	at.Subject, at.Plan, at.Over = organisation, "", OverRefuse
	if err := e.validate(at, true); err != nil {
		return Joint{}, err
	}
	if err := e.validate(r, true); err != nil {
		return Joint{}, err
	}
	if organisation == r.Subject {
		return Joint{}, invalid("subject %q cannot be its own organisation", organisation)
	}
	var j Joint
	var err error
	if j.Organisation, err = e.run(ctx, e.guess(at), query(at), e.rules.holdAgain(at, withinHold)); err != nil {
		return j, err
	}
	if !j.Organisation.Allowed {
		// A repeat may come after the user was charged and the hold expired.
		v, err := e.store.Load(ctx, query(r))
		if have, charged := v.Records[r.Operation]; err != nil || !charged || have.Kind != KindDeduct {
			return j, err
		}
	}
	if j.User, err = e.Deduct(ctx, r); err != nil {
		return j, err
	}
	if !j.User.Allowed {
		_, err = e.run(ctx, nil, query(at), e.rules.release(at.key(), at.Operation, at.Now, true))
		return j, err
	}
	at.Over = OverRecord
	if j.Organisation, err = e.run(ctx, nil, query(at), e.rules.settleAlways(at)); err != nil {
		return j, err
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
			clear, _ := k.sweep(v, r.key(), r.Now, r.Operation)
			return clear, nil
		case ok && have.Kind == KindReleased && have.Cost == r.Cost:
			return k.charge(v, r, Record{Kind: KindHold, Cost: r.Cost, Expires: until(v.Now, lasts)}, &have, r.Cost)
		}
		return first(v)
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
