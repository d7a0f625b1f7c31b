package headroom

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// clearing begins a change that only clears the way for a request. If the ids age with it, what the request is about stays remembered.
func (k rules) clearing(v View, key Key, now time.Time) Change {
	c := k.change(v, key, now)
	if !c.Rotate.IsZero() {
		c.Records = v.refiled()
	}
	return c
}

// refiled are the steps that bring what v remembers of ids into the younger generation, as it is. A hold ages in none.
func (v View) refiled() (steps []RecordStep) {
	for _, id := range slices.Sorted(maps.Keys(v.Records)) {
		if r := v.Records[id]; r.Kind != KindHold {
			steps = append(steps, RecordStep{ID: id, Was: &r, Is: &r})
		}
	}
	return steps
}

// atOnce is how many holds one write clears away: an expression of DynamoDB has 4 KB.
const atOnce = 20

// sweep clears away expired holds: only one, or as many as one write takes. There may be none.
func (k rules) sweep(v View, r Request, only string) (verdict, bool, error) {
	c := k.clearing(v, r.key(), r.Now)
	kept := len(c.Records)
	var taken []ChargedWindow
	type closing struct {
		limit string
		start int64
	}
	closed := map[closing]bool{}
	drawn := map[string]int64{}
	for _, id := range slices.Sorted(maps.Keys(v.State.Holds)) {
		hold := v.State.Holds[id]
		if !hold.expired(v.Now) || len(c.Records)-kept == atOnce || only != "" && id != only {
			continue
		}
		more := maps.Clone(closed)
		for _, w := range hold.Windows {
			if w.Start.Before(v.State.Counters[w.Limit].Window.Start) {
				more[closing{w.Limit, w.Start.Unix()}] = true
			}
		}
		if len(c.Records) > kept && len(more) > atOnce {
			continue // each window that has closed takes a part of the expression too
		}
		closed = more
		taken = append(taken, hold.Windows...)
		for _, use := range hold.Grants {
			drawn[use.ID] += use.Units
		}
		ended := hold.ended(true)
		c.Records = append(c.Records, RecordStep{ID: id, Was: &hold, Is: &ended})
	}
	if len(c.Records) == kept {
		return verdict{}, false, nil
	}
	var err error
	if c.Steps, err = returned(v.State.Counters, taken); err != nil {
		return verdict{}, false, err
	}
	c.Grants = given(v.State.Grants, drawn)
	_, standings, err := k.look(v, r)
	if err != nil {
		return verdict{}, false, err
	}
	if clear, ok := k.turn(v, standings, c); ok {
		return clear, true, nil
	}
	return verdict{change: &c, again: true}, true, nil
}

// turn opens the windows into which something is carried over, if c gives units back after the windows before them have ended: what was left at a window's end does not change any more.
func (k rules) turn(v View, standings []standing, c Change) (verdict, bool) {
	o := k.clearing(v, c.Key, c.Now)
	for _, s := range standings {
		if s.opens && !s.stored.Window.IsZero() && s.limit.CarryOver > 0 && slices.ContainsFunc(c.Steps, func(back Step) bool { return back.Limit == s.limit.Name }) {
			step, _ := s.step(0, false)
			o.Steps = append(o.Steps, step)
		}
	}
	if len(o.Steps) == 0 {
		return verdict{}, false
	}
	if clear, ok := k.astray(v, standings, c.Key, c.Now); ok {
		return clear, true
	}
	return verdict{change: &o, again: true}, true
}

// astray finds holds that say that they count in a window after the stored one: a wrong clock had opened it, and its count was folded into that. Before another window opens, and perhaps the same in earnest, they are told where they count.
func (k rules) astray(v View, standings []standing, key Key, now time.Time) (verdict, bool) {
	c := k.clearing(v, key, now)
	kept := len(c.Records)
	for _, id := range slices.Sorted(maps.Keys(v.State.Holds)) {
		hold := v.State.Holds[id]
		found := hold
		found.Windows = slices.Clone(hold.Windows)
		for i, w := range hold.Windows {
			for _, s := range standings {
				if s.opens && s.limit.Name == w.Limit && !s.stored.Window.IsZero() && w.Start.After(s.stored.Window.Start) {
					found.Windows[i].Start = s.stored.Window.Start
				}
			}
		}
		if len(c.Records)-kept < atOnce && hold.String() != found.String() {
			c.Records = append(c.Records, RecordStep{ID: id, Was: &hold, Is: &found})
		}
	}
	return verdict{change: &c, again: true}, len(c.Records) > kept
}

// How many windows that a wrong clock opened one write takes back, in all its counters: with a charge,
// which may draw on MaxGrants grants besides, and by itself. Each takes a part of the expression.
const (
	backBeside = 4
	backAtOnce = 48
)

// takeBack takes windows back that a wrong clock opened, where they are more than a charge takes along.
// It moves the counters towards the present one, as far as one write goes. Where a counter stands then
// may still be a window of the future, with the sums that it would have if that were the present one.
func (k rules) takeBack(v View, standings []standing, key Key, now time.Time) (verdict, bool) {
	windows := 0
	for _, s := range standings {
		windows += len(s.fold)
	}
	if windows <= backBeside {
		return verdict{}, false
	}
	c := k.clearing(v, key, now)
	room := backAtOnce
	for _, s := range standings {
		if room > 0 && len(s.fold) > 0 {
			s.nearer(room, v.Now)
			room -= len(s.fold)
			step, _ := s.step(0, false)
			c.Steps = append(c.Steps, step)
		}
	}
	return verdict{change: &c, again: true}, true
}

// nearer takes back no more than so many windows, the latest first, if that leaves the counter in a
// window which is of the future by any clock.
func (s *standing) nearer(most int, now time.Time) {
	if len(s.fold) <= most || !s.fold[most-1].Start.After(now.Add(ClockTolerance)) {
		return // of windows that begin within the tolerance there are few
	}
	for _, t := range s.fold[most:] {
		s.count -= t.Units
	}
	s.fold = s.fold[:most]
	s.window = s.at(s.fold[most-1].Start)
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
