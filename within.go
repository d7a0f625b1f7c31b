package headroom

import (
	"context"
	"errors"
	"maps"
	"time"
)

// withinHold is how long the organisation's units stay reserved while the user is asked. If the caller dies in between, they come back after it.
const withinHold = 5 * time.Minute

// apartTime bounds what is done after a failure in a context of its own, which the caller's
// deadline does not end.
const apartTime = 5 * time.Second

// Joint is the decision on a request that two subjects pay for.
type Joint struct {
	Allowed            bool     // by both
	Operation          string   // the id of the charge at the organisation, as OperationWithin gives it. Of what a release that knew none charged, the request's own. Empty unless Allowed
	Organisation, User Decision // User is empty if the organisation refuses. If the user refuses, Organisation says that what it held came back
}

// DeductWithin charges r to its subject and to an organisation, both or neither, without a transaction: it holds r.Cost at the organisation, deducts it at the subject, and settles it at the organisation.
// The organisation's id of it is OperationWithin, so that two users of one organisation may use one id.
// r.Plan and r.Over are the subject's. A request that either refuses may be asked again under the same id. The same id under another organisation, or as a plain deduction, is a conflict.
//
// Where the subject's step fails, the organisation's hold is given back at once, even if ctx is done. Where its outcome is unknown it is repeated once, and the answer tells.
// After an error, repeat the same operation: each step happens once. Nobody has to: the subject's charge leaves a debt to the organisation, written in one step with it, and the next look at the subject by any verb but Preflight,
// or FinishDebts, settles it. Organisation.Replay can then be true where User.Replay is not. Between the second and the third step a reader sees the subject charged and the organisation's units held.
// Neither goes over its limit; only if the hold ends between those two steps, and the organisation's units went to others before the debt is settled, is the organisation charged past its limit, and that is marked as recorded.
//
// It fails with ErrUnavailable, and charges nothing, where MaxDebts earlier debts of the subject cannot be settled now.
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
	if err := e.checkPlan(ctx, r); err != nil {
		return Joint{}, err
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

// checkPlan reports a plan that is not in the catalog before anything is held for it, where it is the
// one that counts: where the subject has none stored.
func (e *Engine) checkPlan(ctx context.Context, r Request) error {
	if _, err := e.rules.catalog.resolve("", r.Plan); err == nil || r.AnyPlan {
		return nil
	}
	v, err := e.store.Load(ctx, query(r))
	if err != nil || v.State.Plan != "" {
		return err // the charge finds out whether the stored one is known
	}
	_, err = e.rules.catalog.resolve("", r.Plan)
	e.finishSeen(ctx, query(r), v)
	return err
}

// deductWithin charges r, and at to the organisation.
func (e *Engine) deductWithin(ctx context.Context, at, r Request) (Joint, error) {
	var j Joint
	at, held, err := e.holdWithin(ctx, at, r, &j)
	if err != nil {
		return Joint{}, err
	}
	if !j.Organisation.Allowed {
		// A repeat may come after the user was charged and the hold expired.
		v, err := e.store.Load(ctx, query(r))
		if err != nil {
			return Joint{}, err
		}
		if have, ok := v.Records[r.Operation]; !ok || have.Kind != KindDeduct {
			e.finishSeen(ctx, query(r), v)
			return j, nil
		}
	}
	user, err := e.chargeWithin(ctx, at, r, held, &j)
	if err != nil {
		// Where nothing was charged, nothing is left to be held for. A hold that another delivery made is for that one to end, unless no repeat will charge the user under this id.
		if answers(err) || !errors.Is(err, ErrOutcomeUnknown) && !j.Organisation.Replay {
			_, _ = e.abandonApart(ctx, at, held)
		}
		e.finishSeen(ctx, query(r), user)
		return Joint{}, err
	}
	if !j.User.Allowed {
		j.Organisation, err = e.abandonApart(ctx, at, held)
		e.finishSeen(ctx, query(r), user)
		if err != nil {
			return Joint{}, err
		}
		return j, nil
	}
	if id := paidUnder(r, user); id != at.Operation {
		// The hold was made on a wrong guess of how the user's charge is stored.
		if _, err := e.abandonApart(ctx, at, held); err != nil && !errors.Is(err, errSettled) {
			return Joint{}, err
		}
		at.Operation = id
		if held, err = e.store.Load(ctx, query(at)); err != nil {
			return Joint{}, err
		}
	}
	return e.settleWithin(ctx, at, r, held, user, j)
}

// paidUnder is the organisation's id of r, which user shows charged. What is stored of the user says
// it, once and for all: one that names no organisation was charged by, or for, programs that settle it
// under the plain id.
func paidUnder(r Request, user View) string {
	if user.Records[r.Operation].Within == "" {
		return r.Operation
	}
	return OperationWithin(r.Subject, r.Operation)
}

// holdWithin holds at the organisation. It returns at with the id under which it did, and what is stored of the organisation then.
func (e *Engine) holdWithin(ctx context.Context, at, r Request, j *Joint) (_ Request, held View, err error) {
	at.Operation = OperationWithin(r.Subject, r.Operation)
	seen, err := e.store.Load(ctx, query(at))
	if err == nil && seen.Older {
		// Most likely the user is stored for such programs too.
		at.Operation = r.Operation
		seen, err = e.store.Load(ctx, query(at))
	}
	if err != nil {
		return at, seen, err
	}
	j.Organisation, held, err = e.attempt(ctx, start{seen: &seen}, query(at), e.rules.holdAgain(at, withinHold))
	e.finishSeen(ctx, query(at), held)
	if errors.Is(err, ErrOutcomeUnknown) {
		// It may hold, and nobody will charge for it now, unless an earlier delivery has.
		apart, cancel := apartFrom(ctx)
		defer cancel()
		v, failed := e.store.Load(apart, query(r))
		if _, charged := v.Records[r.Operation]; failed == nil && !charged {
			_, _, _ = e.attempt(apart, start{}, query(at), e.rules.abandon(at))
		}
	}
	return at, held, err
}

// chargeWithin charges the user, and returns what is stored of it then. held is what is stored of the organisation, and by its time the debt is dated: the store's own.
// An error other than ErrOutcomeUnknown says that this call charged nothing.
func (e *Engine) chargeWithin(ctx context.Context, at, r Request, held View, j *Joint) (user View, err error) {
	owed := Debt{To: at.Subject, Cost: r.Cost, Since: held.Now.UTC().Truncate(time.Second), Given: !r.Now.IsZero()}
	if j.User, user, err = e.chargeUser(ctx, r, owed); !errors.Is(err, ErrOutcomeUnknown) {
		return user, err
	}
	apart, cancel := apartFrom(ctx)
	defer cancel()
	d, v, again := e.chargeUser(apart, r, owed)
	if again != nil && !answers(again) {
		return user, err // still unknown
	}
	j.User = d
	return v, again
}

// chargeUser charges the user. A charge that names no organisation is a repeat too where the one that
// is owed is the witness that both paid: the release before named none.
func (e *Engine) chargeUser(ctx context.Context, r Request, owed Debt) (Decision, View, error) {
	d, v, err := e.makingRoom(ctx, r, e.rules.deductWithin(r, owed, false))
	if have := v.Records[r.Operation]; !errors.Is(err, ErrConflict) || have.Kind != KindDeduct || have.Within != "" || have.Cost != r.Cost {
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

// witness reports whether the record, which an organisation has under the plain id of an operation, is
// of what the release before held there: settled, or left when the caller died.
func (r Record) witness(cost int64) bool {
	estimate, held := r.estimate()
	givenBack := r.Kind == KindReleased && r.Expires.IsZero()
	return held && !givenBack && estimate == cost
}

// makingRoom charges the user. Where there is no room for one more debt, it finishes those that are there, for whoever made them.
func (e *Engine) makingRoom(ctx context.Context, r Request, charge intent) (Decision, View, error) {
	d, v, err := e.attempt(ctx, start{guess: e.guess(r)}, query(r), charge)
	for range maxTries {
		if !errors.Is(err, errOwing) || errors.Is(err, ErrOutcomeUnknown) {
			break
		}
		if _, n, _ := e.finish(ctx, query(r), v, v.State.Debts, &silent{}); n.Settled+n.TooOld == 0 {
			break
		}
		d, v, err = e.attempt(ctx, start{}, query(r), charge)
	}
	return d, v, err
}

// settleWithin charges the organisation, whatever the time and its limit say by now: the user is charged. Then it takes the debt off.
func (e *Engine) settleWithin(ctx context.Context, at, r Request, held, user View, j Joint) (Joint, error) {
	at.Over, at.SkipClosed = OverRecord, false
	var err error
	if j.Organisation, _, err = e.attempt(ctx, start{seen: &held}, query(at), e.rules.settleAlways(at)); err != nil {
		return Joint{}, err
	}
	j.Allowed, j.Operation = true, at.Operation
	// If the debt stays it is paid, and the next look finds that.
	after := user
	if own, owed := user.State.Debts[r.Operation]; owed {
		after, _ = e.clear(ctx, query(r), user, map[string]Debt{r.Operation: own})
	}
	// What others owed at the charge, and owe still, their callers have left behind. What came since is under way.
	left := maps.Clone(after.State.Debts)
	maps.DeleteFunc(left, func(id string, d Debt) bool {
		before, there := user.State.Debts[id]
		return id == r.Operation || !there || before.String() != d.String()
	})
	if len(left) > 0 {
		e.finish(ctx, query(r), after, left, &silent{})
	}
	return j, nil
}

// abandonApart gives back what the organisation holds, in a context of its own. If that fails, the hold expires.
func (e *Engine) abandonApart(ctx context.Context, at Request, held View) (Decision, error) {
	apart, cancel := apartFrom(ctx)
	defer cancel()
	d, _, err := e.attempt(apart, start{seen: &held}, query(at), e.rules.abandon(at))
	return d, err
}

// apartFrom is a context that the end of ctx does not end.
func apartFrom(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), apartTime)
}

// answers reports whether an error says what became of the operation: a repeat would say it again.
func answers(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, ErrTooOld) }
