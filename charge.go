package headroom

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
)

// deduct decides a deduction that its subject pays alone.
func (k rules) deduct(r Request) intent {
	return func(v View) (verdict, error) {
		if have := v.Records[r.Operation]; have.Within != "" {
			return verdict{}, otherPayer(r, have, "")
		}
		return k.deductOrReplay(v, r)
	}
}

// preflight decides what a deduction would come to, and writes nothing.
func (k rules) preflight(r Request) intent {
	return func(v View) (verdict, error) {
		answer, err := k.deductOrReplay(v, r)
		if err != nil || answer.change == nil {
			return answer, err
		}
		plan, standings, err := k.place(v, r)
		if err != nil {
			return verdict{}, err
		}
		from, why := allocate(standings, v, r.Cost).atLeast(r.AtLeast), ReasonAdmitted
		if !from.fits() {
			why = ReasonRecorded
		}
		return final(decided(v, plan, standings, r.Cost-from.spared, why, false)), nil
	}
}

// deductWithin decides the subject's part of a deduction that an organisation pays too. witness
// says that the organisation knows of a charge of the subject that does not name it.
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
		if err != nil || answer.change == nil || answer.clears() {
			return answer, err
		}
		if _, there := v.State.Debts[r.Operation]; there || len(v.State.Debts) >= MaxDebts {
			return verdict{}, owing(r)
		}
		answer.change.Debts = []DebtStep{{ID: r.Operation, Is: &owed}}
		return answer, nil
	}
}

// deductOrReplay decides a deduction, whoever pays beside its subject.
func (k rules) deductOrReplay(v View, r Request) (verdict, error) {
	if have, ok := v.Records[r.Operation]; ok {
		return k.deducted(v, r, have)
	}
	return k.charge(v, r, Record{Kind: KindDeduct, Cost: r.Cost}, nil, r.Cost)
}

// deducted answers a deduction whose id is known already.
func (k rules) deducted(v View, r Request, have Record) (verdict, error) {
	if err := sameMeters(r, have); err != nil {
		return verdict{}, err
	}
	switch {
	case have.Kind == KindHold && v.live(have):
		return verdict{}, conflict("operation %q is held: settle or release it", r.Operation)
	case have.Kind != KindDeduct || !r.asks(have, have.Cost):
		return verdict{}, conflict(
			"operation %q stands for %s and now asks to deduct %s: an id stands for one piece of work",
			r.Operation, have.what(), r.wanted())
	}
	return k.replay(v, r, have, have.reason())
}

// sameMeters returns a conflict if an operation stands for other meters than a request asks for.
func sameMeters(r Request, have Record) error {
	if slices.Equal(have.Also, r.also()) {
		return nil
	}
	say := func(also []string) string {
		text := "meter " + strconv.Quote(r.Meter)
		for _, meter := range also {
			text += " and " + strconv.Quote(meter)
		}
		if len(also) == 0 {
			text += " alone"
		}
		return text
	}
	return conflict("operation %q stands for %s in %s and is now asked for in %s: an id stands for one piece of work",
		r.Operation, have.what(), say(have.Also), say(r.also()))
}

// otherPayer is the conflict if an operation was charged within another organisation than it is now
// asked for, or within none.
func otherPayer(r Request, have Record, within string) *Error {
	say := func(organisation string) string {
		if organisation == "" {
			return "to its subject alone"
		}
		return "within organisation " + strconv.Quote(organisation)
	}
	return conflict(
		"operation %q was charged %s and is now asked for %s: an id stands for one piece of work",
		r.Operation, say(have.Within), say(within))
}

// charge decides whether units more may be counted. is is what shall be remembered of the
// operation, and was is what is remembered of it so far, or nil.
func (k rules) charge(v View, r Request, is Record, was *Record, units int64) (verdict, error) {
	if was == nil {
		if err := k.tooOld(v, r); err != nil {
			return verdict{}, err
		}
	}
	plan, standings, err := k.place(v, r)
	if err != nil {
		return verdict{}, err
	}
	later := func(s standing) bool { return s.stored.Window.Start.After(v.Now) }
	if r.SkipClosed && slices.ContainsFunc(standings, later) {
		return final(decided(v, plan, standings, is.Cost, ReasonClosed, false)), nil
	}
	from := allocate(standings, v, units).atLeast(r.AtLeast)
	is.Recorded, is.Also = !from.fits(), r.also()
	if is.Recorded && r.Over != RecordOverLimit {
		least := cmp.Or(r.AtLeast, units)
		d := decided(v, plan, standings, least, refusal(standings, v, least), false)
		d.Cost = is.Cost
		return final(d), nil
	}
	if r.AtLeast > 0 {
		is.Asked, is.AtLeast = r.Cost, r.AtLeast
		is.Cost -= from.spared
	}
	if clear, needed, err := k.holdFirst(v, r, is, plan, standings); needed || err != nil {
		return clear, err
	}
	if clear, needed, err := k.clearWay(v, r, standings, from); needed || err != nil {
		return clear, err
	}
	c := k.begin(v, r.key(), r.Now)
	// Another write may store the plan that is in force anyway.
	c.PlanOrNone = v.State.Plan == "" || v.State.Plan == plan.name && plan.name == cmp.Or(r.Plan, k.catalog.fallback)
	c.Plan = cmp.Or(v.State.Plan, plan.name)
	c.draw(v, standings, from, &is)
	if was != nil && v.live(*was) {
		c.unreserve(*was)
	}
	if is.Kind == KindHold {
		c.reserve(v.State, is)
		c.MostHolds = plan.mostHolds(r.Meter)
	}
	if r.Operation != "" {
		c.Records = []RecordStep{{ID: r.Operation, Was: was, Is: &is}}
	}
	return verdict{change: &c, promise: promise{
		reason: is.reason(), plan: plan.name, cost: is.Cost, record: &is, charges: true, unremembered: r.Operation == "",
	}}, nil
}

// draw adds to c that units are drawn from the plan and from grants, and to the record is what it
// draws from where.
func (c *Change) draw(v View, standings []standing, from allocation, is *Record) {
	is.Crossed = slices.Clip(is.Crossed)
	exhausts := from.spared > 0 || from.fits() && len(from.grants) > 0
	tightest := ""
	if exhausts {
		tightest = strictest(standings, 0).limit.Name
	}
	for _, s := range standings {
		s.exhausts = exhausts && s.limit.Name == tightest
		step, crossed := s.step(from.own, is.Recorded)
		c.Steps = append(c.Steps, step)
		is.Windows = addWindow(is.Windows, ChargedWindow{Limit: step.Limit, Start: step.To.Start, Units: from.own})
		is.Crossed = append(is.Crossed, crossed...)
	}
	if is.Recorded || from.spared > 0 || len(from.grants) > 0 {
		// What the charge draws from grants depends on all of them. Units of another grant, or
		// units that come back to one, would have to be drawn first.
		c.Grants, c.AllGrants = from.steps(v), true
	}
	is.Grants = append(slices.Clip(is.Grants), from.grants...)
}

// refusal tells why units do not fit.
func refusal(standings []standing, v View, units int64) Reason {
	if asked := units - grantsLeft(v); asked > strictest(standings, asked).most() {
		return ReasonNeverFits
	}
	return ReasonOverLimit
}

// errOwing says that a charge has no room for its debt.
var errOwing = errors.New("debts are in the way")

// owing is the error of a charge that has no room for its debt.
func owing(r Request) *Error {
	return Errorf(Unavailable, errOwing, "subject %q has %d charges of meter %q for which organisations are not settled, the most there can be; "+
		"nothing was charged, try again once the organisations can be reached", r.Subject, MaxDebts, r.Meter)
}
