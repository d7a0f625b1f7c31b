package headroom

import (
	"cmp"
	"maps"
	"slices"
	"time"
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

// release decides the end of a hold whose work was not done.
func (k rules) release(r Request) intent {
	return func(v View) (verdict, error) {
		have, ok := v.Records[r.Operation]
		switch {
		case !ok:
			return verdict{}, unknown(r.Operation, "released")
		case have.lapsed(v.Now):
			return verdict{}, Errorf(CodeExpired, nil, "the hold of operation %q ended at %s, and its units have come back", r.Operation, have.Expires.Format(time.RFC3339))
		case have.Kind == KindReleased:
			return k.replay(v, r, have, ReasonReleased)
		case have.Kind != KindHold:
			return verdict{}, conflict("operation %q stands for %s: only a hold can be released", r.Operation, have.what())
		}
		ended := have.ended(false)
		return k.free(v, r, have, &ended)
	}
}

// free ends a hold: its units come back, and it leaves behind what is.
func (k rules) free(v View, r Request, hold Record, is *Record) (verdict, error) {
	c := k.change(v, r.key(), r.Now)
	c.Records = []RecordStep{{ID: r.Operation, Was: &hold, Is: is}}
	rest := hold
	var err error
	if c.Steps, c.Grants, err = back(v, &rest, hold.Cost); err != nil {
		return verdict{}, err
	}
	r.Cost = hold.Cost
	return k.final(v, r, c, ReasonReleased)
}

// extend decides that a hold lasts from now on.
func (k rules) extend(r Request, lasts time.Duration) intent {
	return func(v View) (verdict, error) {
		expires := until(v.Now, lasts)
		have, ok := v.Records[r.Operation]
		switch {
		case !ok:
			return verdict{}, unknown(r.Operation, "extended")
		case have.lapsed(v.Now):
			return verdict{}, Errorf(CodeExpired, nil, "the hold of operation %q ended at %s: hold anew under another id", r.Operation, have.Expires.Format(time.RFC3339))
		case have.Kind != KindHold:
			return verdict{}, conflict("operation %q stands for %s: only a hold can be extended", r.Operation, have.what())
		case have.Expires.Equal(expires):
			again, err := k.replay(v, r, have, ReasonExtended)
			return again.until(have.Expires, err)
		}
		longer := have
		longer.Expires = expires
		c := k.change(v, r.key(), r.Now)
		c.Records = []RecordStep{{ID: r.Operation, Was: &have, Is: &longer}}
		r.Cost = have.Cost
		answer, err := k.final(v, r, c, ReasonExtended)
		return answer.until(expires, err)
	}
}

// lapsed reports whether the record is of a hold whose time was over before it was settled or released, whether or not it was cleared away since.
func (r Record) lapsed(now time.Time) bool {
	return r.Kind == KindHold && r.expired(now) || r.Kind == KindReleased && !r.Expires.IsZero()
}

// refund decides that units of a charge come back.
func (k rules) refund(r RefundRequest) intent {
	of := Request{Subject: r.Subject, Meter: r.Meter, Now: r.Now}
	began := Request{Meter: r.Meter, Operation: r.Operation, Began: r.Began}
	return func(v View) (verdict, error) {
		if have, ok := v.Records[r.ID]; ok {
			if have.Kind != KindRefund || have.Of != r.Operation || r.Units != 0 && r.Units != have.Cost {
				return verdict{}, conflict("id %q stands for %s and now asks for another refund", r.ID, have.what())
			}
			return k.replay(v, of, have, ReasonRefunded)
		}
		charged, ok := v.Records[r.Operation]
		if !ok {
			return verdict{}, cmp.Or[error](k.tooOld(v, began), unknown(r.Operation, "refunded"))
		}
		if charged.Kind != KindDeduct && charged.Kind != KindSettled {
			return verdict{}, conflict("operation %q stands for %s: only a charge can be refunded", r.Operation, charged.what())
		}
		left := charged.Cost - charged.Refunded
		if of.Cost = r.Units; of.Cost == 0 {
			of.Cost = left
		}
		if of.Cost > left {
			return verdict{}, invalid("a refund of %d of operation %q: of its %d units %d were refunded before", of.Cost, r.Operation, charged.Cost, charged.Refunded)
		}
		less := charged
		less.Refunded += of.Cost
		c := k.change(v, of.key(), r.Now)
		c.Records = []RecordStep{{ID: r.ID, Is: &Record{Kind: KindRefund, Cost: of.Cost, Of: r.Operation}}, {ID: r.Operation, Was: &charged, Is: &less}}
		var err error
		if c.Steps, c.Grants, err = back(v, &less, of.Cost); err != nil {
			return verdict{}, err
		}
		return k.final(v, of, c, ReasonRefunded)
	}
}

// grant decides that a subject gets units beside those of its plan.
func (k rules) grant(r GrantRequest) intent {
	of := Request{Subject: r.Subject, Meter: r.Meter, Cost: r.Units, Now: r.Now}
	return func(v View) (verdict, error) {
		granted := Record{Kind: KindGrant, Cost: r.Units, Expires: r.Expires.UTC().Truncate(time.Second)}
		have, ok := v.Records[r.ID]
		old, there := v.State.Grants[r.ID]
		if !ok && there && old.live(v.Now) {
			// The grant outlives what is remembered of its id.
			have, ok = Record{Kind: KindGrant, Cost: old.Units, Expires: old.Expires}, true
		}
		switch {
		case r.Lasts == 0:
		case ok && have.Kind == KindGrant:
			granted.Expires = have.Expires
		default:
			granted.Expires = until(v.Now, r.Lasts)
			if err := checkTime(granted.Expires); err != nil {
				return verdict{}, err
			}
		}
		switch {
		case ok && have.String() != granted.String():
			return verdict{}, conflict("id %q stands for %s and now asks for another grant", r.ID, have.what())
		case ok:
			return k.replay(v, of, have, ReasonGranted)
		case granted.expired(v.Now):
			return verdict{}, invalid("grant %q would end at %s, which is over", r.ID, granted.Expires.Format(time.RFC3339))
		}
		if live := len(liveGrants(v)); live >= MaxGrants {
			return verdict{}, Errorf(CodeTooMany, nil, "subject %q has %d live grants of meter %q, the most there can be", r.Subject, live, r.Meter)
		}
		c := k.change(v, of.key(), r.Now)
		for _, id := range slices.Sorted(maps.Keys(v.State.Grants)) {
			if g := v.State.Grants[id]; !g.live(v.Now) && id != r.ID {
				c.Grants = append(c.Grants, GrantStep{ID: id, Was: &g, Max: anyCount(0), Ends: true})
			}
		}
		step := GrantStep{ID: r.ID, Max: anyCount(0), Is: &Grant{Units: r.Units, Expires: granted.Expires}}
		if there {
			step.Was = &old
		}
		c.Grants = append(c.Grants, step)
		c.Records = []RecordStep{{ID: r.ID, Is: &granted}}
		return k.final(v, of, c, ReasonGranted)
	}
}

func unknown(id, done string) *Error {
	return Errorf(CodeNotFound, nil, "operation %q is not known and cannot be %s: it was refused, or never asked for, or is longer ago than ids are remembered", id, done)
}

func conflict(format string, args ...any) *Error { return Errorf(CodeConflict, nil, format, args...) }
