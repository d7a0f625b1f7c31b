package headroom

import (
	"maps"
	"slices"
)

// giveBack takes units off a record and returns what that does to the state. The units leave in the
// reverse of the order in which they were drawn: first those of grants, then those of the plan, the
// latest window first.
//
// In a window that has closed this corrects the total, and the present window gains nothing. Units
// of a grant that has gone are gone with it.
func giveBack(v View, r *Record, units int64) ([]Step, []GrantStep, error) {
	drawn := map[string]int64{}
	r.Grants = slices.Clone(r.Grants)
	for i := len(r.Grants) - 1; i >= 0 && units > 0; i-- {
		use := &r.Grants[i]
		n := min(units, use.Units)
		use.Units -= n
		units -= n
		drawn[use.ID] += n
	}
	r.Grants = slices.DeleteFunc(r.Grants, func(u GrantUse) bool { return u.Units == 0 })
	var taken []ChargedWindow
	r.Windows, taken = r.take(units)
	steps, err := backToWindows(v.State.Counters, taken)
	return steps, backToGrants(v.State.Grants, drawn), err
}

// backToGrants returns what it does to the grants that units come back to them. drawn says how many
// units were drawn from each, by all records of the change together.
func backToGrants(grants map[string]Grant, drawn map[string]int64) (steps []GrantStep) {
	for _, id := range slices.Sorted(maps.Keys(drawn)) {
		was, there := grants[id]
		units := drawn[id]
		if !there || units == 0 {
			continue
		}
		step := GrantStep{ID: id, Was: &was, Min: units, Max: anyCount(0), Add: -units}
		if was.Used < units {
			// The records say more than the grant does. Nothing goes below 0.
			step.Min, step.Max, step.Add = was.Used, was.Used, -was.Used
		}
		if step.Add != 0 {
			steps = append(steps, step)
		}
	}
	return steps
}

// backToWindows returns what it does to the counters that units leave windows, sorted by limit.
func backToWindows(counters map[string]Counter, taken []ChargedWindow) ([]Step, error) {
	steps := map[string]*Step{}
	for _, t := range taken {
		counter, ok := counters[t.Limit]
		if t.Units == 0 || !ok {
			continue
		}
		s := steps[t.Limit]
		if s == nil {
			s = &Step{Limit: t.Limit, From: counter.Window, To: counter.Window, Carried: counter.Carried, Max: anyCount(0)}
			steps[t.Limit] = s
		}
		if err := s.giveBack(counter, t); err != nil {
			return nil, err
		}
	}
	var sorted []Step
	for _, limit := range slices.Sorted(maps.Keys(steps)) {
		s := steps[limit]
		s.Min = -s.Add
		if count := counters[limit].Count; count < s.Min {
			// Another writer has counted less than the records say. Nothing goes below 0.
			s.Add, s.Min, s.Max = -count, count, count
		}
		if s.Add != 0 || len(s.Past) > 0 {
			sorted = append(sorted, *s)
		}
	}
	return sorted, nil
}

// giveBack adds to a step that units leave one window of its counter.
func (s *Step) giveBack(counter Counter, t ChargedWindow) error {
	if t.Start.After(counter.Window.Start) && counter.rewound() {
		return nil // what was counted there was thrown away
	}
	if !t.Start.Before(counter.Window.Start) {
		s.Add -= t.Units
		return nil
	}
	total, known := totalOf(counter.Past, t.Start)
	if !known {
		if counter.Partial {
			return errNeedHistory
		}
		return nil
	}
	// Several records of one change may correct the same window.
	i := slices.IndexFunc(s.Past, func(p Total) bool { return p.Start.Equal(t.Start) })
	if i < 0 {
		i = len(s.Past)
		s.Past = append(s.Past, Total{Start: t.Start})
	}
	s.Past[i].Units = max(-total.Units, s.Past[i].Units-t.Units)
	return nil
}
