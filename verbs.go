package headroom

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Preflight says whether r would be admitted now. It is a best-effort look before the work: it writes nothing, may see a state that is a little old, and binds nobody.
// Since it writes nothing, it is the one look that leaves debts as they are: see DeductWithin.
func (e *Engine) Preflight(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, r.Operation != ""); err != nil {
		return Decision{}, err
	}
	q := query(r)
	q.Weak = true
	v, err := e.store.Load(ctx, q)
	if err == nil {
		var answer verdict
		if answer, _, err = e.decide(ctx, v, q, e.rules.preflight(r)); err == nil {
			return answer.decision, nil
		}
	}
	if e.opts.LetThrough && CodeOf(err).storeFailed() {
		return Decision{Allowed: true, Reason: ReasonUnchecked, Cost: r.Cost, Plan: r.Plan, Limit: Unlimited, Remaining: Unlimited}, nil
	}
	return Decision{}, err
}

// Deduct charges r once, if the units are there. Call it after the work has succeeded, and call it again with the same Operation whenever the outcome is not known: a repeat is answered with the first decision.
//
// An error means that nothing was decided. After OutcomeUnknown the charge may have been made; after every other error it was not.
func (e *Engine) Deduct(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, r.Operation != "" || e.rules.catalog.NeedsID(r.Meter)); err != nil {
		return Decision{}, err
	}
	if r.Operation == "" {
		r.Began = time.Time{} // no id could have been forgotten since
	}
	d, err := e.run(ctx, e.guess(r), query(r), e.rules.deduct(r))
	if r.Operation != "" || err == nil {
		return d, err
	}
	if CodeOf(err) == OutcomeUnknown {
		return d, Errorf(OutcomeUnknown, errors.Unwrap(err), "the charge may or may not have been made, and it has no operation id: to ask again may charge twice")
	}
	return d, err
}

// Hold reserves r.Cost, an estimate, for as long as lasts, in whole seconds. Its units come back when it is released or when that time is over, whatever became of the caller.
// A repeat of the same Operation is answered with the first decision, and moves no expiry: see Extend, and Renew of Request. Decision.Expires tells whether a hold is live. r.Over is not looked at: nothing is held past a limit.
func (e *Engine) Hold(ctx context.Context, r Request, lasts time.Duration) (Decision, error) {
	if err := cmp.Or(e.validate(r, true), checkLasts("hold", lasts)); err != nil {
		return Decision{}, err
	}
	// No guess: a hold ends by the store's time, not by what the host's clock shows.
	decide := e.rules.hold
	if r.Renew {
		decide = e.rules.holdAgain
	}
	return e.run(ctx, nil, query(r), decide(r, lasts))
}

// Settle charges r.Cost, the true cost of a held operation, and ends the hold. What was held is there for it; what exceeds it is charged if it fits, and otherwise by the policy r.Over.
// Of a hold that has expired or was released, it is a plain deduction under that policy. An operation that is not known is NotFound.
func (e *Engine) Settle(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, true); err != nil {
		return Decision{}, err
	}
	return e.run(ctx, nil, query(r), e.rules.settle(r))
}

// Release gives back the units of a hold whose work was not done. r.Cost is not looked at.
func (e *Engine) Release(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, true); err != nil {
		return Decision{}, err
	}
	return e.run(ctx, nil, query(r), e.rules.release(r))
}

// Extend makes a live hold last from now on as long as lasts. r.Cost is not looked at.
func (e *Engine) Extend(ctx context.Context, r Request, lasts time.Duration) (Decision, error) {
	if err := cmp.Or(e.validate(r, true), checkLasts("hold", lasts)); err != nil {
		return Decision{}, err
	}
	return e.run(ctx, nil, query(r), e.rules.extend(r, lasts))
}

// Refund gives back units of a charge, once for each r.ID and never more than was charged. In a window that has closed it corrects the history and gives the present one nothing.
func (e *Engine) Refund(ctx context.Context, r RefundRequest) (Decision, error) {
	of := Request{Subject: r.Subject, Meter: r.Meter, Operation: r.Operation, Cost: r.Units, Began: r.Began, Now: r.Now}
	if err := cmp.Or(e.validate(of, true), checkText("id of the refund", r.ID, MaxOperation)); err != nil {
		return Decision{}, err
	}
	if r.ID == r.Operation {
		return Decision{}, invalid("the refund of operation %q needs an id of its own", r.ID)
	}
	return e.run(ctx, nil, Query{Key: of.key(), IDs: []string{r.ID, r.Operation}, Now: r.Now}, e.rules.refund(r))
}

// Grant adds units, once for each r.ID. They are drawn on when those of the plan are used up, the grant that expires first before any other; the end of a window never moves for them.
func (e *Engine) Grant(ctx context.Context, r GrantRequest) (Decision, error) {
	of := Request{Subject: r.Subject, Meter: r.Meter, Operation: r.ID, Cost: r.Units, Now: r.Now}
	if err := cmp.Or(e.validate(of, true), checkTime(r.Expires)); err != nil {
		return Decision{}, err
	}
	if r.Expires.IsZero() == (r.Lasts == 0) {
		return Decision{}, invalid("grant %q: want either when it expires or how long it lasts", r.ID)
	}
	if r.Expires.IsZero() {
		if err := checkLasts("grant", r.Lasts); err != nil {
			return Decision{}, err
		}
	}
	if r.Units < 1 {
		return Decision{}, invalid("grant %q of %d units: want at least 1", r.ID, r.Units)
	}
	return e.run(ctx, nil, Query{Key: of.key(), IDs: []string{r.ID}, Now: r.Now}, e.rules.grant(r))
}

// SetPlan stores the plan of a subject, for all its meters; it holds from the next decision on. An empty plan removes it.
func (e *Engine) SetPlan(ctx context.Context, subject, plan string) error {
	if err := checkText("subject", subject, MaxSubject); err != nil {
		return err
	}
	if _, err := e.rules.catalog.resolve(plan, ""); err != nil {
		return err
	}
	return e.store.SetPlan(ctx, subject, plan)
}

// run decides and commits, until the decision is final, and finishes the debts that it sees. It begins with guess, which nobody has seen in the store, or, if that is nil, with a look.
func (e *Engine) run(ctx context.Context, guess *View, q Query, decide intent) (Decision, error) {
	d, v, err := e.attempt(ctx, start{guess: guess}, q, decide)
	e.settleSeen(ctx, q, v)
	return d, err
}
