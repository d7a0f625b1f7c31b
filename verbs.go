package headroom

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Preflight says whether r would be admitted now. It is a look before the work, and only a best
// effort: it writes nothing, may see a state that is a little old, and binds nobody. Since it
// writes nothing, it leaves debts as they are, unlike every other look: see DeductWithin.
func (e *Engine) Preflight(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, r.Operation != ""); err != nil {
		return Decision{}, err
	}
	queries := queriesOf(r)
	for i := range queries {
		queries[i].Weak = true
	}
	views, err := e.load(ctx, queries)
	if err == nil {
		for i, q := range queries {
			views[i] = e.rules.adopted(views[i], q.Key, q.Now)
		}
		var answers []verdict
		if answers, _, err = e.decide(ctx, views, queries, e.rules.several(r.parts(), e.rules.preflight, e.rules.repeats)); err == nil {
			var all []Decision
			for _, answer := range answers {
				all = append(all, answer.decision)
			}
			return together(queries, all), nil
		}
	}
	if e.opts.LetThrough && CodeOf(err).storeFailed() {
		var all []Decision
		for _, p := range r.parts() {
			all = append(all, Decision{Allowed: true, Reason: ReasonUnchecked, Cost: p.Cost, Plan: r.Plan, Limit: Unlimited, Remaining: Unlimited})
		}
		return together(queries, all), nil
	}
	return Decision{}, err
}

// Deduct charges r once, if the units are there. Call it after the work has succeeded. If you do
// not know the outcome, call it again with the same Operation: a repeat is answered with the first
// decision.
//
// An error means that nothing was decided. After OutcomeUnknown the charge may have been made;
// after any other error it was not.
func (e *Engine) Deduct(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, r.Operation != "" || e.needsID(r)); err != nil {
		return Decision{}, err
	}
	if r.Operation == "" {
		r.Began = time.Time{} // no id could have been forgotten since
	}
	d, err := e.runAll(ctx, e.guesses(r), r, e.rules.deduct, e.rules.repeats)
	if r.Operation != "" || err == nil {
		return d, err
	}
	if CodeOf(err) == OutcomeUnknown {
		return d, Errorf(OutcomeUnknown, errors.Unwrap(err),
			"the charge may or may not have been made, and it has no operation id: to ask again may charge twice")
	}
	return d, err
}

// Hold reserves r.Cost, an estimate, for as long as lasts: from a second to the horizon of the
// meter. The units come back when the hold is released or when its time is over, whatever became of
// the caller. Nothing is held past a limit: r.Over does not matter.
//
// Holds share their ends, so that there may be any number of them. So a hold ends a little later
// than asked: by less than a sixteenth of lasts, or than a second if that is more.
//
// A repeat of the same Operation is answered with the first decision, and moves no expiry: see
// Extend, and Request.Renew. Decision.Live tells whether a hold is live.
func (e *Engine) Hold(ctx context.Context, r Request, lasts time.Duration) (Decision, error) {
	if err := cmp.Or(e.validate(r, true), e.checkHold(r.Meter, lasts)); err != nil {
		return Decision{}, err
	}
	// There is no guess: a hold ends by the store's time, not by what the host's clock shows.
	decide := e.rules.hold
	if r.Renew {
		decide = e.rules.holdAgain
	}
	return e.runAll(ctx, nil, r, func(p Request) intent { return e.rules.asked(p, decide(p, lasts)) }, e.rules.repeats)
}

// checkHold returns an error if a hold cannot last for so long.
func (e *Engine) checkHold(meter string, lasts time.Duration) error {
	if err := checkLasts("hold", lasts); err != nil {
		return err
	}
	if most := e.rules.catalog.Horizon(meter); lasts > most {
		return invalid("a hold of %s: want at most %s, which is how long operation ids of meter %q are remembered",
			lasts, most, meter)
	}
	return nil
}

// Settle charges r.Cost, the true cost of a held operation, and ends the hold. The held units are
// there for it. What exceeds them is charged if it fits, and if not, r.Over says what happens.
//
// If the hold has expired or was released, Settle is a plain deduction under r.Over. If the
// operation is not known, the error is NotFound.
func (e *Engine) Settle(ctx context.Context, r Request) (Decision, error) {
	if err := cmp.Or(e.validate(r, true), wholeCost("settlement", r)); err != nil {
		return Decision{}, err
	}
	return e.runAll(ctx, nil, r, func(p Request) intent { return e.rules.asked(p, e.rules.settle(p)) }, e.rules.settles)
}

// Release gives back the units of a hold whose work was not done. If no hold of the operation is
// remembered, the error is NotFound; if the hold is over, it is Expired, and its units have come
// back.
func (e *Engine) Release(ctx context.Context, r HeldRequest) (Decision, error) {
	of := r.request()
	if err := e.validate(of, true); err != nil {
		return Decision{}, err
	}
	return e.runHeld(ctx, of, "released", e.rules.release)
}

// Extend makes a live hold last from now on as long as lasts, and ends it as Hold does. It fails as
// Release does.
func (e *Engine) Extend(ctx context.Context, r HeldRequest, lasts time.Duration) (Decision, error) {
	of := r.request()
	if err := cmp.Or(e.validate(of, true), e.checkHold(r.Meter, lasts)); err != nil {
		return Decision{}, err
	}
	return e.runHeld(ctx, of, "extended", func(p Request) intent { return e.rules.extend(p, lasts) })
}

// Refund gives back units of a charge: once for each r.ID, and never more than was charged. If the
// window of the charge has closed, the refund corrects its history, and the present window gains
// nothing.
func (e *Engine) Refund(ctx context.Context, r RefundRequest) (Decision, error) {
	of := Request{Subject: r.Subject, Meter: r.Meter, Operation: r.Operation, Cost: r.Units, More: r.More, Began: r.Began, Now: r.Now}
	if err := cmp.Or(e.validate(of, true), checkText("id of the refund", r.ID, MaxOperation)); err != nil {
		return Decision{}, err
	}
	if r.ID == r.Operation {
		return Decision{}, invalid("the refund of operation %q needs an id of its own", r.ID)
	}
	if r.Units == 0 && len(r.More) == 0 {
		d, err := e.run(ctx, nil, r.query(r.Meter), e.rules.refundWhole(r))
		if of.More = othersOf(err); len(of.More) == 0 {
			return d, err
		}
		if err := e.validateMore(of); err != nil {
			return Decision{}, err
		}
	}
	of.Operation = r.ID
	var queries []Query
	for _, p := range of.parts() {
		queries = append(queries, r.query(p.Meter))
	}
	return e.runJoint(ctx, nil, queries, e.rules.several(of.parts(), func(p Request) intent {
		part := r
		part.Meter, part.Units, part.More = p.Meter, p.Cost, p.More
		return e.rules.refund(part)
	}, e.rules.refundsAgain))
}

// Grant adds units, once for each r.ID. They are drawn on when the units of the plan are used up,
// those of the grant that expires first before any others. The end of a window never moves for a
// grant.
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

// SetPlan stores the plan of a subject, for all its meters. It holds from the next decision on. An
// empty plan removes the stored one.
func (e *Engine) SetPlan(ctx context.Context, subject, plan string) error {
	if err := checkText("subject", subject, MaxSubject); err != nil {
		return err
	}
	if _, err := e.rules.catalog.resolve(plan, ""); err != nil {
		return err
	}
	return e.store.SetPlan(ctx, subject, plan)
}

// run carries a request through, and settles the debts that it sees. It begins with guess or, if
// that is nil, with a look.
func (e *Engine) run(ctx context.Context, guess *View, q Query, decide intent) (Decision, error) {
	d, v, err := e.attempt(ctx, start{guess: guess}, q, decide)
	e.settleSeen(ctx, q, v)
	return d, err
}

// runAll is run of a request of one meter or several. of decides the part of one meter, and
// forgotten that of a meter that has forgotten the operation, though another one has not. It begins
// with guesses or, if that is nil, with a look.
func (e *Engine) runAll(ctx context.Context, guesses []View, r Request, of func(Request) intent, forgotten func(View, Request, Record) (verdict, error)) (Decision, error) {
	return e.runJoint(ctx, guesses, queriesOf(r), e.rules.several(r.parts(), of, forgotten))
}

// runJoint is run of an intent about several keys.
func (e *Engine) runJoint(ctx context.Context, guesses []View, queries []Query, decide joint) (Decision, error) {
	d, views, err := e.attemptAll(ctx, guesses, guesses == nil, queries, decide)
	for i, v := range views {
		e.settleSeen(ctx, queries[i], v)
	}
	return d, err
}

// runHeld is run about a hold, in all the meters that it is of.
func (e *Engine) runHeld(ctx context.Context, r Request, done string, of func(Request) intent) (Decision, error) {
	d, err := e.run(ctx, nil, query(r), e.rules.whole(r.Operation, of(r)))
	if r.More = othersOf(err); len(r.More) == 0 {
		return d, err
	}
	if err := e.validateMore(r); err != nil {
		return Decision{}, err
	}
	return e.runAll(ctx, nil, r, of, unknownHere(done))
}
