package headroom

import (
	"cmp"
	"slices"
)

// allow is the verdict on a change that needs no room, since it adds nothing to a count: it is
// always allowed. is says what the answer shows of the operation, and may be nil.
func (k rules) allow(v View, r Request, c Change, is *Record, why Reason) (verdict, error) {
	plan, standings, err := k.place(v, r)
	if err != nil {
		return verdict{}, err
	}
	if clear, needed := k.openFirst(v, standings, c); needed {
		return clear, nil
	}
	c.keepOpen(standings)
	return verdict{change: &c, promise: promise{reason: why, plan: plan.name, cost: r.Cost, record: is}}, nil
}

// keepOpen adds a guard to a change that settles a hold or moves its end: no window that carries
// units over closes before the change. Whether the hold had expired by the window's end says what
// was carried over, and must not change afterwards.
func (c *Change) keepOpen(standings []standing) {
	ofHold := func(r RecordStep) bool { return r.Was != nil && r.Was.Kind == KindHold && r.Is != nil }
	if !slices.ContainsFunc(c.Records, ofHold) {
		return
	}
	for _, s := range standings {
		changes := slices.ContainsFunc(c.Steps, func(step Step) bool { return step.Limit == s.limit.Name })
		if s.limit.CarryOver > 0 && !s.stored.Window.IsZero() && !changes {
			w := s.stored.Window
			c.Steps = append(c.Steps, Step{Limit: s.limit.Name, From: w, To: w, Carried: s.stored.Carried, Max: anyCount(0)})
		}
	}
	slices.SortFunc(c.Steps, func(a, b Step) int { return cmp.Compare(a.Limit, b.Limit) })
}
