package headroom

import (
	"maps"
	"slices"
	"time"
)

// Apply returns the state after c. It does not change the state that it is given.
func (c Change) Apply(s State) State {
	if !c.Rotate.IsZero() {
		s.EpochBefore, s.Epoch = s.Epoch, c.Rotate
	}
	s.Counters, s.Grants = clone(s.Counters), clone(s.Grants)
	for _, step := range c.Steps {
		s.Counters[step.Limit] = step.apply(s.Counters[step.Limit])
	}
	for _, r := range c.Records {
		if r.Old {
			s.OldHolds = clone(s.OldHolds)
			delete(s.OldHolds, r.ID)
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
	if len(c.Buckets) > 0 {
		s.Buckets = slices.Clone(s.Buckets)
	}
	for _, b := range c.Buckets {
		s.Buckets = b.apply(s.Buckets)
	}
	switch {
	case c.NewSeries:
		s.Series, s.Swept = s.Series+1, time.Time{}
	case !c.Sweep.IsZero():
		s.Swept = c.Sweep
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

func (b BucketStep) apply(all []Bucket) []Bucket {
	at, there := bucketAt(all, b.BucketKey)
	if b.Ends {
		return slices.Delete(all, at, at+1)
	}
	if !there {
		all = slices.Insert(all, at, Bucket{BucketKey: b.BucketKey})
	}
	all[at].Units += b.Add
	if !b.In.IsZero() {
		all[at].In = b.In
	}
	return all
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
