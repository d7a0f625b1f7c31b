package headroom

import (
	"maps"
	"slices"
)

// back takes units off a record, in the reverse of the order in which they were drawn: from grants first, then from the plan's own, the latest window first. It changes the record and returns what that does to the state.
// A window that has closed has its total corrected, and the present one gets nothing; units of a grant that has expired are gone.
func back(v View, r *Record, units int64) ([]Step, []GrantStep, error) {
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
	steps, err := returned(v.State.Counters, taken)
	return steps, given(v.State.Grants, drawn), err
}

// given is what it does to the grants when units that were drawn from them come back. Of a grant that is not there any more they are gone.
// A record may draw on one grant more than once, and several records of one change on the same.
func given(grants map[string]Grant, drawn map[string]int64) (steps []GrantStep) {
	for _, id := range slices.Sorted(maps.Keys(drawn)) {
		was, there := grants[id]
		units := drawn[id]
		if !there || units == 0 {
			continue
		}
		step := GrantStep{ID: id, Was: &was, Min: units, Max: anyCount(0), Add: -units}
		if was.Used < units {
			// Less is used of it than the records say: nothing goes below 0.
			step.Min, step.Max, step.Add = was.Used, was.Used, -was.Used
		}
		if step.Add != 0 {
			steps = append(steps, step)
		}
	}
	return steps
}

// returned is what it does to the counters when units leave windows.
func returned(counters map[string]Counter, taken []ChargedWindow) ([]Step, error) {
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
		if t.Start.After(counter.Window.Start) && counter.turnedBack() {
			continue // what was counted there was thrown away
		}
		if !t.Start.Before(counter.Window.Start) {
			s.Add -= t.Units
			continue
		}
		total, known := totalOf(counter.Past, t.Start)
		if !known {
			if counter.Partial {
				return nil, errNeedHistory
			}
			continue
		}
		// Several records of one change may correct one window.
		i := slices.IndexFunc(s.Past, func(p Total) bool { return p.Start.Equal(t.Start) })
		if i < 0 {
			i = len(s.Past)
			s.Past = append(s.Past, Total{Start: t.Start})
		}
		s.Past[i].Units = max(-total.Units, s.Past[i].Units-t.Units)
	}
	var sorted []Step
	for _, limit := range slices.Sorted(maps.Keys(steps)) {
		s := steps[limit]
		s.Min = -s.Add
		if count := counters[limit].Count; count < s.Min {
			// Another writer has counted less than this record says: nothing goes below 0.
			s.Add, s.Min, s.Max = -count, count, count
		}
		if s.Add != 0 || len(s.Past) > 0 {
			sorted = append(sorted, *s)
		}
	}
	return sorted, nil
}
