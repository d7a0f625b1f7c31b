package headroom

import "slices"

// Holds reports whether the guard of c holds for v, whose Records are those of the ids in c.
func (c Change) Holds(v View) bool {
	if v.State.Plan != c.Plan && !(c.PlanOrNone && v.State.Plan == "") || !v.State.Epoch.Equal(c.Epoch) {
		return false
	}
	for _, r := range c.Records {
		have, remembered := v.Records[r.ID]
		if remembered != (r.Was != nil) || remembered && have.String() != r.Was.String() {
			return false
		}
	}
	for _, g := range c.Grants {
		have, there := v.State.Grants[g.ID]
		if there != (g.Was != nil) || there && !g.holds(have) {
			return false
		}
	}
	if c.AllGrants && len(v.State.Grants) != c.GrantsBefore() {
		return false
	}
	for _, d := range c.Debts {
		have, there := v.State.Debts[d.ID]
		if there != (d.Was != nil) || there && have.String() != d.Was.String() {
			return false
		}
	}
	room := func(have, more, most int) bool { return more <= 0 || have+more <= most }
	return room(len(v.State.Holds), c.MoreHolds(), MaxHolds) && room(len(v.State.Grants), c.MoreGrants(), MaxGrants) && room(len(v.State.Debts), c.MoreDebts(), MaxDebts) &&
		!slices.ContainsFunc(c.Steps, func(s Step) bool { return !s.holds(v.State.Counters[s.Limit]) })
}

// holds reports whether the guard of g holds for the grant that is there.
func (g GrantStep) holds(have Grant) bool {
	return have.same(*g.Was) && g.Min <= have.Used && have.Used <= g.Max
}

func (s Step) holds(c Counter) bool {
	if !c.Window.same(s.From) || s.From.same(s.To) && !s.Corrects() && c.Carried != s.Carried {
		return false
	}
	for _, f := range s.Fold {
		if t, ok := totalOf(c.Past, f.Start); !ok || t.Units != f.Units {
			return false
		}
	}
	for _, p := range s.Past {
		if t, ok := totalOf(c.Past, p.Start); !ok || t.Units+p.Units < 0 {
			return false
		}
	}
	return s.From.IsZero() || s.Min <= c.Count && c.Count <= s.Max
}
