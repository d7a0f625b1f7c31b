package headroom

import "maps"

// Apply returns the state after c. It does not change the state that it is given.
func (c Change) Apply(s State) State {
	if !c.Rotate.IsZero() {
		s.EpochBefore, s.Epoch = s.Epoch, c.Rotate
	}
	s.Counters, s.Holds, s.Grants = clone(s.Counters), clone(s.Holds), clone(s.Grants)
	for _, step := range c.Steps {
		s.Counters[step.Limit] = step.apply(s.Counters[step.Limit])
	}
	for _, r := range c.Records {
		delete(s.Holds, r.ID)
		if r.Is != nil && r.Is.Kind == KindHold {
			s.Holds[r.ID] = *r.Is
		}
	}
	for _, g := range c.Grants {
		switch is := s.Grants[g.ID]; {
		case g.Is != nil:
			s.Grants[g.ID] = *g.Is
		case g.Ends:
			delete(s.Grants, g.ID)
		default:
			is.Used += g.Add
			s.Grants[g.ID] = is
		}
	}
	if len(c.Debts) > 0 { // most changes have none
		s.Debts = clone(s.Debts)
	}
	for _, d := range c.Debts {
		delete(s.Debts, d.ID)
		if d.Is != nil {
			s.Debts[d.ID] = *d.Is
		}
	}
	return s
}

// clone copies a map. Of a nil map it makes an empty one.
func clone[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

func (s Step) apply(c Counter) Counter {
	if s.Opens {
		if !s.From.IsZero() {
			c.Past = addTotal(c.Past, Total{Start: s.From.Start, Units: c.Count})
		}
		c.Count = 0
	}
	for _, f := range s.Fold {
		c.Count += f.Units
		c.Past = addTotal(c.Past, Total{Start: f.Start})
	}
	for _, p := range s.Past {
		t, _ := totalOf(c.Past, p.Start)
		c.Past = addTotal(c.Past, Total{Start: p.Start, Units: t.Units + p.Units})
	}
	c.Count += s.Add
	if c.Window = s.To; !s.From.same(s.To) {
		c.Carried = s.Carried
	}
	return c
}
