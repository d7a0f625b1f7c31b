package headroom

import "slices"

// A request of several meters is decided for each meter by itself, under the rules of a request of
// that meter alone. Then the parts are joined: all or none. Each meter has a record of the
// operation, which names the others, so that whoever meets the operation at any of them knows.

// asked is an intent about the operation of r, which must stand for the meters of r and no others.
func (k rules) asked(r Request, decide intent) intent {
	return func(v View) (verdict, error) {
		if have, ok := v.Records[r.Operation]; ok {
			if err := sameMeters(r, have); err != nil {
				return verdict{}, err
			}
		}
		return decide(v)
	}
}

// several joins the parts of a request. of decides the part of one meter, and forgotten the part of
// a meter that has forgotten the operation, though another one remembers it: their horizons differ.
// have is what that one remembers.
func (k rules) several(parts []Request, of func(Request) intent, forgotten func(v View, r Request, have Record) (verdict, error)) joint {
	return func(views []View) ([]verdict, error) {
		known, have := -1, Record{}
		for i, r := range parts {
			if record, ok := views[i].Records[r.Operation]; ok && known < 0 {
				known, have = i, record
			}
		}
		answers := make([]verdict, len(parts))
		for i, r := range parts {
			decide := of(r)
			if _, here := views[i].Records[r.Operation]; known >= 0 && !here {
				decide = func(v View) (verdict, error) { return forgotten(v, r, have) }
			}
			var err error
			if answers[i], err = decide(views[i]); err != nil {
				return nil, err
			}
		}
		return k.allOrNone(parts, views, answers)
	}
}

// allOrNone makes the parts final if one of them is refused. The others then show what they would
// have come to, and nothing is written.
func (k rules) allOrNone(parts []Request, views []View, answers []verdict) ([]verdict, error) {
	refused := func(v verdict) bool { return v.change == nil && !v.decision.Allowed }
	if !slices.ContainsFunc(answers, refused) {
		return answers, nil
	}
	for i, r := range parts {
		if answers[i].change == nil {
			continue
		}
		plan, standings, err := k.place(views[i], r)
		if err != nil {
			return nil, err
		}
		answers[i] = final(decided(views[i], plan, standings, r.Cost, ReasonAdmitted, false))
	}
	return answers, nil
}

// repeats answers for a meter that has forgotten an operation which another one remembers: with the
// cost that is asked for, and today's figures.
func (k rules) repeats(v View, r Request, have Record) (verdict, error) {
	return k.replay(v, r, have.of(r.Cost), have.reason())
}

// settles decides the settlement at a meter that has forgotten a hold which another one remembers.
// If that one is settled, this one was settled in the same step. If not, the hold is long over
// here, and what is left is a plain deduction.
func (k rules) settles(v View, r Request, have Record) (verdict, error) {
	if have.Kind == KindSettled {
		return k.repeats(v, r, have)
	}
	r.Began = v.Now // the other meter knows that it was not settled
	return k.charge(v, r, Record{Kind: KindSettled, Cost: r.Cost, Held: r.Cost}, nil, r.Cost)
}

// unknownHere is the error of a meter that has forgotten an operation.
func unknownHere(done string) func(View, Request, Record) (verdict, error) {
	return func(_ View, r Request, _ Record) (verdict, error) { return verdict{}, unknown(r.Operation, done) }
}

// whole is an intent about all of an operation. If what is remembered of it names other meters,
// the error is *elsewhere, and nothing is decided.
func (k rules) whole(id string, decide intent) intent {
	return func(v View) (verdict, error) {
		if have := v.Records[id]; len(have.Also) > 0 {
			return verdict{}, &elsewhere{have.Also}
		}
		return decide(v)
	}
}
