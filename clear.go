package headroom

import (
	"maps"
	"slices"
	"time"
)

// Some changes cannot be made at once: something that is stored stands in their way, though it no
// longer counts. Then a change of its own clears it away, and the request is decided again. So no
// write grows with the state that it finds: an expression of DynamoDB has 4 KB.

// maxCleared is how many holds one change clears away or corrects.
const maxCleared = 20

// clearWay returns the verdict that something must be cleared before a charge is written, if so.
func (k rules) clearWay(v View, r Request, standings []standing, from allocation) (verdict, bool, error) {
	for _, s := range standings {
		if count := s.count - s.expired; count > anyCount(from.own) {
			return verdict{}, false, invalid("a charge of %d on a count of %d is beyond int64", from.own, count)
		}
	}
	obstructed := func(s standing) bool { return s.obstructed(from.own) }
	if from.obstructed(v) || slices.ContainsFunc(standings, obstructed) {
		return k.clearExpired(v, r, "")
	}
	if clear, needed := k.foldFirst(v, standings, r.key(), r.Now); needed {
		return clear, true, nil
	}
	clear, needed := k.correctHolds(v, standings, r.key(), r.Now)
	return clear, needed, nil
}

// beginClearing begins a change that only clears the way. If that change begins a new generation of
// ids, it keeps what the request is about: else the request would be decided without it.
func (k rules) beginClearing(v View, key Key, now time.Time) Change {
	c := k.begin(v, key, now)
	if !c.Rotate.IsZero() {
		c.Records = v.refiled()
	}
	return c
}

// refiled returns the steps that move what v remembers into the younger generation of ids, as it
// is. Holds are in no generation.
func (v View) refiled() (steps []RecordStep) {
	for _, id := range slices.Sorted(maps.Keys(v.Records)) {
		if r := v.Records[id]; r.Kind != KindHold {
			steps = append(steps, RecordStep{ID: id, Was: &r, Is: &r})
		}
	}
	return steps
}

// clearExpired clears away expired holds: the one named by only or, if that is empty, as many as
// one change takes. It reports false if there are none.
func (k rules) clearExpired(v View, r Request, only string) (verdict, bool, error) {
	expired := v.expiredHolds(only)
	if len(expired) == 0 {
		return verdict{}, false, nil
	}
	c := k.beginClearing(v, r.key(), r.Now)
	var taken []ChargedWindow
	drawn := map[string]int64{}
	for _, id := range expired {
		hold := v.State.Holds[id]
		taken = append(taken, hold.Windows...)
		for _, use := range hold.Grants {
			drawn[use.ID] += use.Units
		}
		ended := hold.ended(true)
		c.Records = append(c.Records, RecordStep{ID: id, Was: &hold, Is: &ended})
	}
	var err error
	if c.Steps, err = backToWindows(v.State.Counters, taken); err != nil {
		return verdict{}, false, err
	}
	c.Grants = backToGrants(v.State.Grants, drawn)
	_, standings, err := k.place(v, r)
	if err != nil {
		return verdict{}, false, err
	}
	if clear, needed := k.openFirst(v, standings, c); needed {
		return clear, true, nil
	}
	return clearing(c), true, nil
}

// expiredHolds returns the ids of expired holds that one change can clear away: only that of one
// hold, or of all if only is empty. Each closed window that they corrected takes room in the change
// too.
func (v View) expiredHolds(only string) (ids []string) {
	type closing struct {
		limit string
		start int64
	}
	closed := map[closing]bool{}
	for _, id := range slices.Sorted(maps.Keys(v.State.Holds)) {
		hold := v.State.Holds[id]
		if !hold.expired(v.Now) || len(ids) == maxCleared || only != "" && id != only {
			continue
		}
		more := maps.Clone(closed)
		for _, w := range hold.Windows {
			if w.Start.Before(v.State.Counters[w.Limit].Window.Start) {
				more[closing{w.Limit, w.Start.Unix()}] = true
			}
		}
		if len(ids) > 0 && len(more) > maxCleared {
			continue
		}
		closed = more
		ids = append(ids, id)
	}
	return ids
}

// openFirst opens the present windows of limits that carry units over, if c gives units back to the
// windows before them. What was left at the end of a window does not change any more, so it must be
// carried over before the units come back.
func (k rules) openFirst(v View, standings []standing, c Change) (verdict, bool) {
	o := k.beginClearing(v, c.Key, c.Now)
	for _, s := range standings {
		changes := func(step Step) bool { return step.Limit == s.limit.Name }
		if s.opens && !s.stored.Window.IsZero() && s.limit.CarryOver > 0 && slices.ContainsFunc(c.Steps, changes) {
			step, _ := s.step(0, false)
			o.Steps = append(o.Steps, step)
		}
	}
	if len(o.Steps) == 0 {
		return verdict{}, false
	}
	if clear, needed := k.correctHolds(v, standings, c.Key, c.Now); needed {
		return clear, true
	}
	return clearing(o), true
}

// correctHolds corrects holds that claim to count in a window after the stored one. A wrong clock
// had opened that window, and its count was folded into the stored one. The holds must say so
// before another window opens, which may be the same one, this time rightly.
func (k rules) correctHolds(v View, standings []standing, key Key, now time.Time) (verdict, bool) {
	opening := map[string]time.Time{} // by limit: the start of the stored window that ends
	for _, s := range standings {
		if s.opens && !s.stored.Window.IsZero() {
			opening[s.limit.Name] = s.stored.Window.Start
		}
	}
	if len(opening) == 0 || len(v.State.Holds) == 0 {
		return verdict{}, false
	}
	c := k.beginClearing(v, key, now)
	kept := len(c.Records)
	for _, id := range slices.Sorted(maps.Keys(v.State.Holds)) {
		hold := v.State.Holds[id]
		right := hold
		right.Windows = slices.Clone(hold.Windows)
		for i, w := range right.Windows {
			if start, opens := opening[w.Limit]; opens && w.Start.After(start) {
				right.Windows[i].Start = start
			}
		}
		if len(c.Records)-kept < maxCleared && hold.String() != right.String() {
			c.Records = append(c.Records, RecordStep{ID: id, Was: &hold, Is: &right})
		}
	}
	return clearing(c), len(c.Records) > kept
}

// How many windows that a wrong clock opened one change folds back, in all counters together. A
// charge folds maxFolded of them along, since it may draw on MaxGrants grants too. A change of its
// own folds maxFoldedAlone.
const (
	maxFolded      = 4
	maxFoldedAlone = 48
)

// foldFirst folds back windows that a wrong clock opened, if there are more than a charge takes
// along. It moves the counters towards the present window as far as one change goes. A counter may
// then still stand in a window of the future, with the sums that it would have if that window were
// the present one.
func (k rules) foldFirst(v View, standings []standing, key Key, now time.Time) (verdict, bool) {
	windows := 0
	for _, s := range standings {
		windows += len(s.fold)
	}
	if windows <= maxFolded {
		return verdict{}, false
	}
	c := k.beginClearing(v, key, now)
	room := maxFoldedAlone
	for _, s := range standings {
		if room > 0 && len(s.fold) > 0 {
			s.foldLatest(room, v.Now)
			room -= len(s.fold)
			step, _ := s.step(0, false)
			c.Steps = append(c.Steps, step)
		}
	}
	return clearing(c), true
}

// foldLatest folds back only the latest windows, at most so many, if that leaves the counter in a
// window that is of the future by any clock. Of windows that begin within the tolerance of clocks
// there are few.
func (s *standing) foldLatest(most int, now time.Time) {
	if len(s.fold) <= most || !s.fold[most-1].Start.After(now.Add(ClockTolerance)) {
		return
	}
	for _, t := range s.fold[most:] {
		s.count -= t.Units
	}
	s.fold = s.fold[:most]
	s.window = s.at(s.fold[most-1].Start)
}
