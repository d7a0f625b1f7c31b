package headroom

import (
	"context"
	"errors"
	"maps"
	"time"
)

// withinHold is how long the organisation's units stay reserved while the user is charged. If the
// caller dies in between, they come back after it.
const withinHold = 5 * time.Minute

// apartTime bounds what is done after a failure in a context of its own, which the caller's
// deadline does not end.
const apartTime = 5 * time.Second

// DecisionWithin is the decision on a request that two subjects pay for.
type DecisionWithin struct {
	Allowed bool // by both
	// Operation is the id of the charge at the organisation, as OperationWithin gives it. It is the
	// request's own id if an older release charged the organisation, which knew no other. It is
	// empty unless Allowed.
	Operation string
	// User is empty if the organisation refuses. If the user refuses, Organisation says that what
	// the organisation held came back.
	Organisation, User Decision
}

// DeductWithin charges r to its subject, the user, and to an organisation: to both or to neither.
// It needs no transaction. It holds r.Cost at the organisation, deducts it at the user, and settles
// the hold. r.Plan and r.Over are the user's.
//
// The organisation knows the charge by another id, OperationWithin, so that two users may use one
// id. A request that either refuses may be made again under the same id. The same id under another
// organisation, or as a plain deduction, is a conflict.
//
// If the user's step fails, the organisation's hold is given back at once, even if ctx is done. If
// its outcome is unknown, it is repeated once, and the answer tells what to do.
//
// After an error, repeat the same operation: each step happens once. But nobody has to. The user's
// charge leaves a debt to the organisation, written in the same step. FinishDebts settles it, and
// so does the next look at the user by any verb but Preflight. Organisation.Replay can then be true
// while User.Replay is not. Between the second and the third step a reader sees the user charged
// and the organisation's units held.
//
// Neither goes over its limit, with one exception. If the hold ends between those two steps, and
// the organisation's units go to others before the debt is settled, the organisation is charged
// past its limit. That is marked as recorded.
//
// It is Unavailable, and nothing is charged, if the user has MaxDebts earlier debts that
// cannot be settled now.
func (e *Engine) DeductWithin(ctx context.Context, organisation string, r Request) (DecisionWithin, error) {
	at := r
	at.Subject, at.Plan = organisation, ""
	if err := e.validate(at, true); err != nil {
		return DecisionWithin{}, err
	}
	if err := e.validate(r, true); err != nil {
		return DecisionWithin{}, err
	}
	if err := wholeCost("charge within an organisation", r); err != nil {
		return DecisionWithin{}, err
	}
	if len(r.More) > 0 {
		return DecisionWithin{}, invalid("within an organisation one meter at a time can be charged")
	}
	if organisation == r.Subject {
		return DecisionWithin{}, invalid("subject %q cannot be its own organisation", organisation)
	}
	if err := e.checkPlan(ctx, r); err != nil {
		return DecisionWithin{}, err
	}
	answer, err := e.deductWithin(ctx, at, r)
	if errors.Is(err, errSettled) {
		answer, err = e.deductWithin(ctx, at, r) // the user is charged by now: this is a repeat
	}
	if errors.Is(err, errSettled) {
		return DecisionWithin{}, conflict(
			"operation %q was charged to organisation %q without its user, who refuses it: an id stands "+
				"for one piece of work", r.Operation, organisation)
	}
	return answer, err
}

// checkPlan returns an error if the request's plan is not in the catalog and no stored plan takes
// its place. It comes before anything is held.
func (e *Engine) checkPlan(ctx context.Context, r Request) error {
	_, unknown := e.rules.catalog.resolve("", r.Plan)
	if unknown == nil || r.AnyPlan {
		return nil
	}
	v, err := e.store.Load(ctx, query(r))
	if err != nil || v.State.Plan != "" {
		return err // the charge finds out whether the stored plan is known
	}
	e.settleSeen(ctx, query(r), v)
	return unknown
}

// payment is one try to charge a request to a user and to an organisation.
type payment struct {
	engine *Engine
	at, r  Request // what the organisation is asked, and what the user is

	held   View // what is stored of the organisation, after the hold
	user   View // what is stored of the user, after the charge
	answer DecisionWithin
}

// deductWithin charges r to the user and at to the organisation.
func (e *Engine) deductWithin(ctx context.Context, at, r Request) (DecisionWithin, error) {
	p := payment{engine: e, at: at, r: r}
	if err := p.hold(ctx); err != nil {
		return DecisionWithin{}, err
	}
	if !p.answer.Organisation.Allowed {
		if charged, err := p.alreadyCharged(ctx); !charged || err != nil {
			return p.answer.unless(err)
		}
	}
	if err := p.charge(ctx); err != nil {
		// If nothing was charged, there is nothing to hold units for. But if another delivery made
		// the hold, it is for that one to end, unless no repeat will charge the user under this id.
		if answers(err) || !errors.Is(err, OutcomeUnknown) && !p.answer.Organisation.Replay {
			_, _ = p.abandon(ctx)
		}
		e.settleSeen(ctx, query(r), p.user)
		return DecisionWithin{}, err
	}
	if !p.answer.User.Allowed {
		var err error
		p.answer.Organisation, err = p.abandon(ctx)
		e.settleSeen(ctx, query(r), p.user)
		return p.answer.unless(err)
	}
	if err := p.moveHold(ctx); err != nil {
		return DecisionWithin{}, err
	}
	return p.answer.unless(p.settle(ctx))
}

// unless returns j, or err if there is one.
func (j DecisionWithin) unless(err error) (DecisionWithin, error) {
	if err != nil {
		return DecisionWithin{}, err
	}
	return j, nil
}

// hold holds the units at the organisation.
func (p *payment) hold(ctx context.Context) error {
	e := p.engine
	p.at.Operation = OperationWithin(p.r.Subject, p.r.Operation)
	seen, err := e.store.Load(ctx, query(p.at))
	if err == nil && seen.Older {
		// Most likely the user is stored for such programs too.
		p.at.Operation = p.r.Operation
		seen, err = e.store.Load(ctx, query(p.at))
	}
	if err != nil {
		return err
	}
	p.answer.Organisation, p.held, err = e.attempt(ctx, start{seen: &seen}, query(p.at), e.rules.holdAgain(p.at, withinHold))
	e.settleSeen(ctx, query(p.at), p.held)
	if errors.Is(err, OutcomeUnknown) {
		// Units may be held, and nobody will charge for them now, unless an earlier delivery has.
		apart, cancel := apartFrom(ctx)
		defer cancel()
		v, failed := e.store.Load(apart, query(p.r))
		if _, charged := v.Records[p.r.Operation]; failed == nil && !charged {
			_, _, _ = e.attempt(apart, start{}, query(p.at), e.rules.abandon(p.at))
		}
	}
	return err
}

// alreadyCharged reports whether the user was charged before, though the organisation refuses. That
// is so if a repeat comes after the hold has expired.
func (p *payment) alreadyCharged(ctx context.Context) (bool, error) {
	v, err := p.engine.store.Load(ctx, query(p.r))
	if err != nil {
		return false, err
	}
	have, ok := v.Records[p.r.Operation]
	if ok && have.Kind == KindDeduct {
		return true, nil
	}
	p.engine.settleSeen(ctx, query(p.r), v)
	return false, nil
}

// charge charges the user. The debt is dated by the store's own time, which the hold has shown. An
// error other than OutcomeUnknown says that this call charged nothing.
func (p *payment) charge(ctx context.Context) (err error) {
	owed := Debt{To: p.at.Subject, Cost: p.r.Cost, Since: p.held.Now.UTC().Truncate(time.Second), Given: !p.r.Now.IsZero()}
	if p.answer.User, p.user, err = p.engine.chargeUser(ctx, p.r, owed); !errors.Is(err, OutcomeUnknown) {
		return err
	}
	apart, cancel := apartFrom(ctx)
	defer cancel()
	d, v, again := p.engine.chargeUser(apart, p.r, owed)
	if again != nil && !answers(again) {
		return err // still unknown
	}
	p.answer.User, p.user = d, v
	return again
}

// chargeUser charges the user. A stored charge that names no organisation is a repeat too, if the
// organisation that is owed knows of it: an older release named none.
func (e *Engine) chargeUser(ctx context.Context, r Request, owed Debt) (Decision, View, error) {
	d, v, err := e.makingRoom(ctx, r, e.rules.deductWithin(r, owed, false))
	have := v.Records[r.Operation]
	if !errors.Is(err, Conflict) || have.Kind != KindDeduct || have.Within != "" || have.Cost != r.Cost {
		return d, v, err
	}
	plain := r
	plain.Subject = owed.To
	at, failed := e.store.Load(ctx, query(plain))
	if failed != nil {
		return Decision{}, v, failed
	}
	if !at.Records[r.Operation].witness(r.Cost) {
		return d, v, err
	}
	return e.attempt(ctx, start{seen: &v}, query(r), e.rules.deductWithin(r, owed, true))
}

// witness reports whether the record, which an organisation has under the plain id of an operation,
// is what an older release held there: settled, or left behind when the caller died.
func (r Record) witness(cost int64) bool {
	estimate, held := r.estimate()
	givenBack := r.Kind == KindReleased && r.Expires.IsZero()
	return held && !givenBack && estimate == cost
}

// makingRoom charges the user. If there is no room for one more debt, it settles those that are
// there, whoever left them.
func (e *Engine) makingRoom(ctx context.Context, r Request, charge intent) (Decision, View, error) {
	d, v, err := e.attempt(ctx, start{guess: e.guess(r)}, query(r), charge)
	for range maxTries {
		if !errors.Is(err, errOwing) || errors.Is(err, OutcomeUnknown) {
			break
		}
		if _, n, _ := e.settleDebts(ctx, query(r), v, v.State.Debts, &silent{}); n.Settled+n.TooOld == 0 {
			break
		}
		d, v, err = e.attempt(ctx, start{}, query(r), charge)
	}
	return d, v, err
}

// moveHold gives the hold back if it was made under the wrong id. The id was a guess of how the
// user's charge is stored, and now that is known.
func (p *payment) moveHold(ctx context.Context) error {
	id := paidUnder(p.r, p.user)
	if id == p.at.Operation {
		return nil
	}
	if _, err := p.abandon(ctx); err != nil && !errors.Is(err, errSettled) {
		return err
	}
	p.at.Operation = id
	var err error
	p.held, err = p.engine.store.Load(ctx, query(p.at))
	return err
}

// paidUnder returns the id under which the organisation pays for r, whose charge user shows. A
// charge that names no organisation was made by, or for, programs that settle it under the plain
// id.
func paidUnder(r Request, user View) string {
	if user.Records[r.Operation].Within == "" {
		return r.Operation
	}
	return OperationWithin(r.Subject, r.Operation)
}

// settle charges the organisation, whatever the time and its limit say by now: the user is charged.
// Then it takes the debt off.
func (p *payment) settle(ctx context.Context) (err error) {
	e := p.engine
	p.at.Over, p.at.SkipClosed = RecordOverLimit, false
	if p.answer.Organisation, _, err = e.attempt(ctx, start{seen: &p.held}, query(p.at), e.rules.settleAlways(p.at)); err != nil {
		return err
	}
	p.answer.Allowed, p.answer.Operation = true, p.at.Operation
	// If the debt stays it is paid all the same, and the next look finds that.
	after := p.user
	if own, owed := p.user.State.Debts[p.r.Operation]; owed {
		after, _ = e.takeOff(ctx, query(p.r), p.user, map[string]Debt{p.r.Operation: own})
	}
	// Debts that were there at the charge, and are there still, were left behind. Newer ones are
	// under way.
	left := maps.Clone(after.State.Debts)
	maps.DeleteFunc(left, func(id string, d Debt) bool {
		before, there := p.user.State.Debts[id]
		return id == p.r.Operation || !there || before.String() != d.String()
	})
	if len(left) > 0 {
		_, _, _ = e.settleDebts(ctx, query(p.r), after, left, &silent{})
	}
	return nil
}

// abandon gives back what the organisation holds, in a context of its own. If that fails, the hold
// expires.
func (p *payment) abandon(ctx context.Context) (Decision, error) {
	apart, cancel := apartFrom(ctx)
	defer cancel()
	e := p.engine
	d, _, err := e.attempt(apart, start{seen: &p.held}, query(p.at), e.rules.abandon(p.at))
	return d, err
}

// apartFrom returns a context that the end of ctx does not end.
func apartFrom(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), apartTime)
}

// answers reports whether an error says what became of the operation: a repeat would say it again.
func answers(err error) bool { return errors.Is(err, Conflict) || errors.Is(err, TooOld) }
