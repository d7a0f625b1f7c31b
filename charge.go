package headroom

import (
	"cmp"
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

// tooOld reports that the id of an operation may have been forgotten since it began.
func (k rules) tooOld(v View, r Request) error {
	horizon := k.catalog.Horizon(r.Meter)
	if r.Began.IsZero() || v.Now.Sub(r.Began) <= horizon {
		return nil
	}
	return Errorf(CodeTooOld, nil, "operation %q began at %s, longer ago than ids are remembered (%s): whether it was charged cannot be known", r.Operation, r.Began.UTC().Format(time.RFC3339), horizon)
}

// refusal tells why units do not fit.
func refusal(standings []standing, v View, units int64) Reason {
	if asked := units - grantsLeft(v); asked > pick(standings, asked).most() {
		return ReasonNeverFits
	}
	return ReasonOverLimit
}

// final is a verdict whose change needs no room.
func (k rules) final(v View, r Request, c Change, why Reason) (verdict, error) {
	plan, standings, err := k.look(v, r)
	if err != nil {
		return verdict{}, err
	}
	if clear, ok := k.turn(v, standings, c); ok {
		return clear, nil
	}
	c.keepOpen(standings)
	return verdict{change: &c, decision: Decision{Cost: r.Cost, Plan: plan.name, Reason: why}}, nil
}

// keepOpen guards that no window closes before c that carries over what is left: a hold that lives longer, or is settled, was left out of that if it had expired by then.
func (c *Change) keepOpen(standings []standing) {
	if !slices.ContainsFunc(c.Records, func(r RecordStep) bool { return r.Was != nil && r.Was.Kind == KindHold && r.Is != nil }) {
		return
	}
	for _, s := range standings {
		changes := slices.ContainsFunc(c.Steps, func(step Step) bool { return step.Limit == s.limit.Name })
		if s.limit.CarryOver > 0 && !s.stored.Window.IsZero() && !changes {
			c.Steps = append(c.Steps, Step{Limit: s.limit.Name, From: s.stored.Window, To: s.stored.Window, Carried: s.stored.Carried, Max: anyCount(0)})
		}
	}
	slices.SortFunc(c.Steps, func(a, b Step) int { return cmp.Compare(a.Limit, b.Limit) })
}

// addWindow adds a charge to those of a record: in the same window, or in one after it.
func addWindow(windows []ChargedWindow, w ChargedWindow) []ChargedWindow {
	out := make([]ChargedWindow, 0, len(windows)+1)
	placed := false
	for _, have := range windows {
		if !placed && (have.Limit > w.Limit || have.Limit == w.Limit && have.Start.After(w.Start)) {
			out, placed = append(out, w), true
		}
		if !placed && have.Limit == w.Limit && have.Start.Equal(w.Start) {
			have.Units += w.Units
			placed = true
		}
		out = append(out, have)
	}
	if !placed {
		out = append(out, w)
	}
	return out
}

// reason is how the decision of a record fell.
func (r Record) reason() Reason {
	if r.Recorded {
		return ReasonRecorded
	}
	return ReasonAdmitted
}

// estimate returns what was held, if the record is of a hold.
func (r Record) estimate() (int64, bool) {
	switch r.Kind {
	case KindHold, KindReleased:
		return r.Cost, true
	case KindSettled:
		return r.Held, true
	}
	return 0, false
}

// what says in words what an id stands for.
func (r Record) what() string {
	word := map[Kind]string{
		KindDeduct: "a deduction of", KindHold: "a hold of", KindSettled: "a settled charge of", KindReleased: "a hold, now released, of", KindRefund: "a refund of", KindGrant: "a grant of",
	}[r.Kind]
	return word + " " + strconv.FormatInt(r.Cost, 10)
}

// until is when something ends that lasts from now on: a whole second, and not before its time.
func until(now time.Time, lasts time.Duration) time.Time {
	end := now.UTC().Add(lasts)
	if whole := end.Truncate(time.Second); !whole.Equal(end) {
		end = whole.Add(time.Second)
	}
	return end
}
