package headroom

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Some changes cannot be made at once: something that is stored stands in their way, though it no
// longer counts. Then a change of its own clears it away, and the request is decided again. So no
// write grows with the state that it finds: an expression of DynamoDB has 4 KB.

// maxCleared is how many old holds or buckets one change turns, clears away or corrects.
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
		return k.sweep(v, r, BucketKey{})
	}
	if clear, needed := k.foldFirst(v, standings, r.key(), r.Now); needed {
		return clear, true, nil
	}
	clear, needed := k.correctBuckets(v, standings, r.key(), r.Now)
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
// is. Old holds are in no generation.
func (v View) refiled() (steps []RecordStep) {
	for _, id := range slices.Sorted(maps.Keys(v.Records)) {
		if _, old := v.State.OldHolds[id]; !old {
			r := v.Records[id]
			steps = append(steps, RecordStep{ID: id, Was: &r, Is: &r})
		}
	}
	return steps
}

// sweep clears away holds that are over, as many as one change takes. Those that end as first does
// come before all others. Their records stay: that the buckets of a hold are gone says that its
// units have come back. It reports false if no hold is over.
func (k rules) sweep(v View, r Request, first BucketKey) (verdict, bool, error) {
	return k.clearAway(v, r, v.overBuckets(first))
}

// clearAway returns a change that clears buckets away and gives their units back. It reports false
// if there are none.
func (k rules) clearAway(v View, r Request, buckets []Bucket) (verdict, bool, error) {
	if len(buckets) == 0 {
		return verdict{}, false, nil
	}
	c := k.beginClearing(v, r.key(), r.Now)
	c.Series, c.Swept, c.Sweep = v.State.Series, v.State.Swept, v.Now.UTC().Truncate(time.Second)
	if c.Sweep.Before(c.Swept) {
		c.Sweep = c.Swept
	}
	var taken []ChargedWindow
	drawn := map[string]int64{}
	for _, b := range buckets {
		switch {
		case b.Limit != "":
			taken = append(taken, ChargedWindow{Limit: b.Limit, Start: b.countsIn(), Units: b.Units})
		case b.Grant != "":
			drawn[b.Grant] += b.Units
		}
		c.Buckets = append(c.Buckets, BucketStep{BucketKey: b.BucketKey, There: true, Min: b.Units, Max: b.Units, Ends: true})
	}
	slices.SortFunc(c.Buckets, func(a, b BucketStep) int { return a.Compare(b.BucketKey) })
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

// holdFirst returns the verdict on what must come before a hold, if is is one and there is
// anything.
func (k rules) holdFirst(v View, r Request, is Record, p plan, standings []standing) (verdict, bool, error) {
	if is.Kind != KindHold {
		return verdict{}, false, nil
	}
	if full, needed, err := k.fullOfHolds(v, r, p, standings); needed || err != nil {
		return full, needed, err
	}
	return k.makeRoom(v, r, is)
}

// fullOfHolds returns the verdict if there are as many holds as the plan permits: those that are
// over are cleared away, and if none is, the hold is refused.
func (k rules) fullOfHolds(v View, r Request, p plan, standings []standing) (verdict, bool, error) {
	if most := p.mostHolds(r.Meter); most == 0 || v.State.holds() < most {
		return verdict{}, false, nil
	}
	if clear, over, err := k.sweep(v, r, BucketKey{}); over || err != nil {
		return clear, true, err
	}
	return final(decided(v, p, standings, r.Cost, ReasonTooManyHolds, false)), true, nil
}

// maxOver is how many ends of holds that are over a state keeps, before a hold with an end of its
// own clears some away.
const maxOver = 4

// mostBucketBytes is about how many bytes the buckets of a state may take. Holds of one length take
// less than a fiftieth of it, and holds of all lengths a fifth, under a limit by the week. Only
// windows that are far shorter than the holds, or grants with long ids, come to more.
const mostBucketBytes = 64 << 10

// bucketBytes returns about how many bytes the buckets take where they are stored.
func (s State) bucketBytes() (n int) {
	for _, b := range s.Buckets {
		n += len(b.Limit) + len(b.Grant) + 24
	}
	return n
}

// makeRoom returns the verdict that buckets must be cleared away before others are made, if so.
// These are buckets of holds that are over. If there is no more room, they are also those whose
// holds were all settled or released.
func (k rules) makeRoom(v View, r Request, is Record) (verdict, bool, error) {
	if v.State.bucketBytes() >= mostBucketBytes {
		clear, some, err := k.sweep(v, r, BucketKey{})
		if !some && err == nil {
			clear, some, err = k.clearAway(v, r, v.emptyBuckets())
		}
		if !some && err == nil {
			err = Errorf(TooMany, nil, "the holds of subject %q take all the room there is for meter %q: they last for too many "+
				"windows, or draw on too many grants; settle or release some, or hold for a shorter time", r.Subject, r.Meter)
		}
		return clear, true, err
	}
	if _, there := bucketAt(v.State.Buckets, is.bucket()); there || v.overEnds() < maxOver {
		return verdict{}, false, nil
	}
	return k.sweep(v, r, BucketKey{})
}

// overEnds returns how many ends of holds are over, and still have buckets.
func (v View) overEnds() (n int) {
	for i, b := range v.State.Buckets {
		if b.over(v.Now) && (i == 0 || !b.together(v.State.Buckets[i-1].BucketKey)) {
			n++
		}
	}
	return n
}

// together reports whether two buckets can be of one hold.
func (k BucketKey) together(o BucketKey) bool {
	return k.Expires.Equal(o.Expires) && k.Series == o.Series
}

// overBuckets returns the buckets of holds that are over, as many as one change clears away. Those
// that end as first does are the first. Buckets that end together stay together, unless they are
// too many for one change. Then the one that counts the holds is the first to go: once it is gone,
// the units of its holds come back, and until they all have, they only count for a little longer.
func (v View) overBuckets(first BucketKey) []Bucket {
	over := slices.Clone(v.State.Buckets)
	over = slices.DeleteFunc(over, func(b Bucket) bool { return !b.over(v.Now) })
	slices.SortStableFunc(over, func(a, b Bucket) int {
		return cmp.Compare(falseFirst(!a.together(first)), falseFirst(!b.together(first)))
	})
	if len(over) <= maxCleared {
		return over
	}
	n := maxCleared
	for n > 0 && over[n-1].together(over[n].BucketKey) {
		n--
	}
	if n == 0 {
		n = maxCleared
	}
	return over[:n]
}

// emptyBuckets returns buckets in which no hold has units any more, as many as one change clears
// away. Each may be made again, since no hold will look for units in it.
func (v View) emptyBuckets() []Bucket {
	empty := slices.Clone(v.State.Buckets)
	empty = slices.DeleteFunc(empty, func(b Bucket) bool { return b.Units != 0 })
	return empty[:min(maxCleared, len(empty))]
}

// falseFirst is a number to sort by.
func falseFirst(b bool) int {
	if b {
		return 1
	}
	return 0
}

// adopt returns a change that turns holds which older programs kept one by one into records and
// buckets, at most so many of them. It reports false if there are none.
func (k rules) adopt(v View, key Key, now time.Time, most int) (Change, bool) {
	if len(v.State.OldHolds) == 0 {
		return Change{}, false
	}
	c := k.beginClearing(v, key, now)
	ids := slices.Sorted(maps.Keys(v.State.OldHolds))
	ids = ids[:min(most, len(ids))]
	c.Records = slices.DeleteFunc(c.Records, func(r RecordStep) bool { return slices.Contains(ids, r.ID) })
	for _, id := range ids {
		old := v.State.OldHolds[id]
		is := old
		if is.Series = v.State.series(old.Expires); is.Series != v.State.Series {
			c.NewSeries = true
		}
		c.Records = append(c.Records, RecordStep{ID: id, Old: true, Was: &old, Is: &is})
	}
	for _, r := range c.Records[len(c.Records)-len(ids):] {
		if c.NewSeries {
			r.Is.Series = v.State.Series + 1
		}
		c.reserve(v.State, *r.Is)
	}
	return c, true
}

// adopting returns verdicts that only turn old holds, for the views that show some. It reports
// false if none does.
func (k rules) adopting(views []View, queries []Query) (answers []verdict, some bool) {
	for i, v := range views {
		if len(v.State.OldHolds) == 0 {
			continue
		}
		if !some {
			answers, some = make([]verdict, len(views)), true
		}
		c, _ := k.adopt(v, queries[i].Key, queries[i].Now, maxCleared)
		answers[i] = clearing(c)
	}
	return answers, some
}

// adopted returns v as it is once all old holds are turned into records and buckets, for a look
// that writes nothing.
func (k rules) adopted(v View, key Key, now time.Time) View {
	c, some := k.adopt(v, key, now, len(v.State.OldHolds))
	if !some {
		return v
	}
	v.Records = maps.Clone(v.Records)
	for _, r := range c.Records {
		if _, asked := v.Records[r.ID]; asked {
			v.Records[r.ID] = *r.Is
		}
	}
	c.Rotate = time.Time{}
	v.State = c.Apply(v.State)
	return v
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
	if clear, needed := k.correctBuckets(v, standings, c.Key, c.Now); needed {
		return clear, true
	}
	return clearing(o), true
}

// correctBuckets marks buckets that claim to count in a window after the stored one. A wrong clock
// had opened that window, and its count was folded into the stored one. The buckets must say so
// before another window opens, which may be the same one, this time rightly. A new series keeps the
// holds that are made in it then in buckets of their own.
func (k rules) correctBuckets(v View, standings []standing, key Key, now time.Time) (verdict, bool) {
	opening := map[string]time.Time{} // by limit: the start of the stored window that ends
	for _, s := range standings {
		if s.opens && !s.stored.Window.IsZero() {
			opening[s.limit.Name] = s.stored.Window.Start
		}
	}
	var steps []BucketStep
	for _, b := range v.State.Buckets {
		start, opens := opening[b.Limit]
		if len(steps) < maxCleared && opens && b.countsIn().After(start) {
			steps = append(steps, BucketStep{BucketKey: b.BucketKey, There: true, Min: b.Units, Max: b.Units, In: start})
		}
	}
	if len(steps) == 0 {
		return verdict{}, false
	}
	c := k.beginClearing(v, key, now)
	c.Buckets, c.Series, c.NewSeries = steps, v.State.Series, true
	return clearing(c), true
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
