package headroom

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"
)

// deduct decides a deduction that its subject pays alone.
func (k rules) deduct(r Request) intent {
	return func(v View) (verdict, error) {
		if have := v.Records[r.Operation]; have.Within != "" {
			return verdict{}, otherPayer(r, have, "")
		}
		return k.ask(v, r)
	}
}

// deductWithin decides the user's part of a deduction. witness says that the organisation knows of a charge that does not name it.
func (k rules) deductWithin(r Request, owed Debt, witness bool) intent {
	return func(v View) (verdict, error) {
		if have, ok := v.Records[r.Operation]; ok {
			// Programs that do not know Within left it out.
			unsaid := have.Within == "" && (v.Older || witness)
			if have.Kind == KindDeduct && have.Within != owed.To && !unsaid {
				return verdict{}, otherPayer(r, have, owed.To)
			}
			return k.deducted(v, r, have)
		}
		answer, err := k.charge(v, r, Record{Kind: KindDeduct, Cost: r.Cost, Within: owed.To}, nil, r.Cost)
		if err != nil || !answer.charges {
			return answer, err
		}
		if _, there := v.State.Debts[r.Operation]; there || len(v.State.Debts) >= MaxDebts {
			return verdict{}, owing(r)
		}
		answer.change.Debts = []DebtStep{{ID: r.Operation, Is: &owed}}
		return answer, nil
	}
}

// ask decides a deduction, whoever pays beside its subject.
func (k rules) ask(v View, r Request) (verdict, error) {
	if have, ok := v.Records[r.Operation]; ok {
		return k.deducted(v, r, have)
	}
	return k.charge(v, r, Record{Kind: KindDeduct, Cost: r.Cost}, nil, r.Cost)
}

// deducted answers a deduction of which the id is known.
func (k rules) deducted(v View, r Request, have Record) (verdict, error) {
	switch {
	case have.Kind == KindHold:
		return verdict{}, conflict("operation %q is held: settle or release it", r.Operation)
	case have.Kind != KindDeduct || have.Cost != r.Cost:
		return verdict{}, conflict("operation %q stands for %s and now asks to deduct %d: an id stands for one piece of work", r.Operation, have.what(), r.Cost)
	}
	return k.replay(v, r, have, have.reason())
}

// otherPayer is the conflict of an operation that was charged together with another organisation, or with none.
func otherPayer(r Request, have Record, within string) *Error {
	say := func(organisation string) string {
		if organisation == "" {
			return "to its subject alone"
		}
		return "within organisation " + strconv.Quote(organisation)
	}
	return conflict("operation %q was charged %s and is now asked for %s: an id stands for one piece of work", r.Operation, say(have.Within), say(within))
}

// charge decides whether units more may be counted, for the record is; was is what is remembered of the id so far.
func (k rules) charge(v View, r Request, is Record, was *Record, units int64) (verdict, error) {
	if was == nil {
		if err := k.tooOld(v, r); err != nil {
			return verdict{}, err
		}
	}
	plan, standings, err := k.look(v, r)
	if err != nil {
		return verdict{}, err
	}
	if r.SkipClosed && slices.ContainsFunc(standings, func(s standing) bool { return s.stored.Window.Start.After(v.Now) }) {
		return verdict{decision: decided(v, plan, standings, is.Cost, ReasonClosed, false)}, nil
	}
	from := allocate(standings, v, units)
	if is.Recorded = !from.fits; is.Recorded && r.Over != OverRecord {
		d := decided(v, plan, standings, units, refusal(standings, v, units), false)
		d.Cost = is.Cost
		return verdict{decision: d}, nil
	}
	d := Decision{Cost: is.Cost, Plan: plan.name, Reason: is.reason()}
	for _, s := range standings {
		if count := s.count - s.dead; count > anyCount(from.own) {
			return verdict{}, invalid("a charge of %d on a count of %d is beyond int64", from.own, count)
		}
	}
	if from.obstructed(v) || slices.ContainsFunc(standings, func(s standing) bool { return s.obstructed(from.own) }) {
		clear, ok, err := k.sweep(v, r, "")
		if ok {
			clear.decision = d
		}
		return clear, err
	}
	for _, way := range []func(View, []standing, Key, time.Time) (verdict, bool){k.takeBack, k.astray} {
		if clear, ok := way(v, standings, r.key(), r.Now); ok {
			clear.decision = d
			return clear, nil
		}
	}
	c := k.change(v, r.key(), r.Now)
	c.PlanOrNone = v.State.Plan == "" || v.State.Plan == plan.name && plan.name == cmp.Or(r.Plan, k.catalog.fallback)
	c.Plan = cmp.Or(v.State.Plan, plan.name)
	is.Crossed = slices.Clip(is.Crossed)
	splits := from.fits && len(from.grants) > 0
	for _, s := range standings {
		s.last = splits && s.limit.Name == pick(standings, 0).limit.Name
		step, crossed := s.step(from.own, is.Recorded)
		c.Steps = append(c.Steps, step)
		is.Windows = addWindow(is.Windows, ChargedWindow{Limit: step.Limit, Start: step.To.Start, Units: from.own})
		is.Crossed = append(is.Crossed, crossed...)
	}
	if is.Recorded || len(from.grants) > 0 {
		// They are what the plan has not, in the order in which they end: one more, or units that come back to one, would be drawn on before.
		c.Grants, c.AllGrants = from.steps(v), true
	}
	is.Grants = append(slices.Clip(is.Grants), from.grants...)
	if r.Operation == "" {
		return verdict{change: &c, decision: d, charges: true, nameless: &is}, nil
	}
	c.Records = []RecordStep{{ID: r.Operation, Was: was, Is: &is}}
	return verdict{change: &c, decision: d, charges: true}, nil
}

// refusal tells why units do not fit.
func refusal(standings []standing, v View, units int64) Reason {
	if asked := units - grantsLeft(v); asked > pick(standings, asked).most() {
		return ReasonNeverFits
	}
	return ReasonOverLimit
}

// errOwing says that a charge has no room for its debt.
var errOwing = errors.New("debts are in the way")

// owing is the error of a charge that has no room for its debt.
func owing(r Request) *Error {
	return Errorf(CodeUnavailable, errOwing, "subject %q has %d charges of meter %q for which organisations are not settled, the most there can be; "+
		"nothing was charged, try again once the organisations can be reached", r.Subject, MaxDebts, r.Meter)
}
