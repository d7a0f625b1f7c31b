package headroom

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// giveBack is the part of a change that returns units.
type giveBack struct {
	steps  []Step
	grants []GrantStep
}

// back takes units off a record, in the reverse of the order in which they were drawn: from grants first, then from the plan's own, the latest window first. It changes the record and returns what that does to the state.
// A window that has closed has its total corrected, and the present one gets nothing; units of a grant that has expired are gone.
func (k rules) back(v View, r *Record, units int64) giveBack {
	var g giveBack
	r.Grants = slices.Clone(r.Grants)
	for i := len(r.Grants) - 1; i >= 0 && units > 0; i-- {
		use := &r.Grants[i]
		n := min(units, use.Units)
		use.Units -= n
		units -= n
		if have, ok := v.State.Grants[use.ID]; ok && n > 0 {
			less := have
			less.Used -= min(n, have.Used)
			g.grants = append(g.grants, GrantStep{ID: use.ID, Was: &have, Is: &less})
		}
	}
	r.Grants = slices.DeleteFunc(r.Grants, func(u GrantUse) bool { return u.Units == 0 })
	var taken []ChargedWindow
	r.Windows, taken = r.take(units)
	g.steps = returned(v.State.Counters, taken)
	return g
}

// returned is what it does to the counters when units leave windows.
func returned(counters map[string]Counter, taken []ChargedWindow) []Step {
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
		if !t.Start.Before(counter.Window.Start) {
			s.Add -= t.Units
			continue
		}
		// Several records of one change may correct one window.
		if i := slices.IndexFunc(s.Past, func(p Total) bool { return p.Start.Equal(t.Start) }); i >= 0 {
			s.Past[i].Units -= t.Units
		} else if _, known := totalOf(counter.Past, t.Start); known {
			s.Past = append(s.Past, Total{Start: t.Start, Units: -t.Units})
		}
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
	return sorted
}

// sweepAtOnce is how many expired holds one write clears away: an expression of DynamoDB has 4 KB.
const sweepAtOnce = 20

// sweep clears away expired holds: only one, or as many as one write takes. There may be none.
func (k rules) sweep(v View, key Key, now time.Time, only string) (verdict, bool) {
	c := k.change(v, key, now)
	var taken []ChargedWindow
	grants := maps.Clone(v.State.Grants)
	for _, id := range slices.Sorted(maps.Keys(v.State.Holds)) {
		hold := v.State.Holds[id]
		if !hold.expired(v.Now) || len(c.Records) == sweepAtOnce || only != "" && id != only {
			continue
		}
		taken = append(taken, hold.Windows...)
		for _, use := range hold.Grants {
			if g, ok := grants[use.ID]; ok {
				g.Used -= min(use.Units, g.Used)
				grants[use.ID] = g
			}
		}
		c.Records = append(c.Records, RecordStep{ID: id, Was: &hold, Is: &Record{Kind: KindReleased, Cost: hold.Cost}})
	}
	c.Steps = returned(v.State.Counters, taken)
	for _, id := range slices.Sorted(maps.Keys(grants)) {
		was, is := v.State.Grants[id], grants[id]
		if !was.same(is) {
			c.Grants = append(c.Grants, GrantStep{ID: id, Was: &was, Is: &is})
		}
	}
	return verdict{change: &c, again: true}, len(c.Records) > 0
}

// release decides the end of a hold whose work was not done. forget says that the id is to be free again.
func (k rules) release(key Key, id string, now time.Time, forget bool) intent {
	return func(v View) (verdict, error) {
		have, ok := v.Records[id]
		switch {
		case !ok:
			return verdict{}, unknown(id, "released")
		case have.Kind == KindReleased:
			return k.replay(v, key, "", have, ReasonReleased)
		case have.Kind != KindHold:
			return verdict{}, conflict("operation %q stands for %s: only a hold can be released", id, have.what())
		case have.expired(v.Now):
			return verdict{}, Errorf(CodeExpired, nil, "the hold of operation %q ended at %s, and its units have come back", id, have.Expires.Format(time.RFC3339))
		}
		gone := have
		back := k.back(v, &gone, have.Cost)
		c := k.change(v, key, now)
		c.Steps, c.Grants = back.steps, back.grants
		c.Records = []RecordStep{{ID: id, Was: &have, Is: &Record{Kind: KindReleased, Cost: have.Cost}}}
		if forget {
			c.Records[0].Is = nil
		}
		return k.final(v, key, "", c, have.Cost, ReasonReleased)
	}
}

// extend decides that a hold lasts from now on.
func (k rules) extend(key Key, id string, lasts time.Duration, now time.Time) intent {
	return func(v View) (verdict, error) {
		expires := until(v.Now, lasts)
		have, ok := v.Records[id]
		switch {
		case !ok:
			return verdict{}, unknown(id, "extended")
		case have.Kind != KindHold:
			return verdict{}, conflict("operation %q stands for %s: only a hold can be extended", id, have.what())
		case have.expired(v.Now):
			return verdict{}, Errorf(CodeExpired, nil, "the hold of operation %q ended at %s: hold anew under another id", id, have.Expires.Format(time.RFC3339))
		case have.Expires.Equal(expires):
			return k.replay(v, key, "", have, ReasonExtended)
		}
		longer := have
		longer.Expires = expires
		c := k.change(v, key, now)
		c.Records = []RecordStep{{ID: id, Was: &have, Is: &longer}}
		return k.final(v, key, "", c, have.Cost, ReasonExtended)
	}
}

// refund decides that units of a charge come back.
func (k rules) refund(r RefundRequest) intent {
	key := Key{Subject: r.Subject, Meter: r.Meter}
	return func(v View) (verdict, error) {
		if have, ok := v.Records[r.ID]; ok {
			if have.Kind != KindRefund || have.Of != r.Operation || r.Units != 0 && r.Units != have.Cost {
				return verdict{}, conflict("id %q stands for %s and now asks for another refund", r.ID, have.what())
			}
			return k.replay(v, key, "", have, ReasonRefunded)
		}
		charged, ok := v.Records[r.Operation]
		if !ok {
			return verdict{}, unknown(r.Operation, "refunded")
		}
		if charged.Kind != KindDeduct && charged.Kind != KindSettled {
			return verdict{}, conflict("operation %q stands for %s: only a charge can be refunded", r.Operation, charged.what())
		}
		left := charged.Cost - charged.Refunded
		units := r.Units
		if units == 0 {
			units = left
		}
		if units > left {
			return verdict{}, invalid("a refund of %d of operation %q: of its %d units %d were refunded before", units, r.Operation, charged.Cost, charged.Refunded)
		}
		less := charged
		less.Refunded += units
		back := k.back(v, &less, units)
		c := k.change(v, key, r.Now)
		c.Steps, c.Grants = back.steps, back.grants
		c.Records = []RecordStep{{ID: r.ID, Is: &Record{Kind: KindRefund, Cost: units, Of: r.Operation}}, {ID: r.Operation, Was: &charged, Is: &less}}
		return k.final(v, key, "", c, units, ReasonRefunded)
	}
}

// grant decides that a subject gets units beside those of its plan.
func (k rules) grant(r GrantRequest) intent {
	key := Key{Subject: r.Subject, Meter: r.Meter}
	expires := r.Expires.UTC().Truncate(time.Second)
	return func(v View) (verdict, error) {
		if have, ok := v.Records[r.ID]; ok {
			if have.Kind != KindGrant || have.Cost != r.Units || !have.Expires.Equal(expires) {
				return verdict{}, conflict("id %q stands for %s and now asks for another grant", r.ID, have.what())
			}
			return k.replay(v, key, "", have, ReasonGranted)
		}
		if !expires.After(v.Now) {
			return verdict{}, invalid("grant %q would end at %s, which is over", r.ID, expires.Format(time.RFC3339))
		}
		c := k.change(v, key, r.Now)
		live := 0
		for _, id := range slices.Sorted(maps.Keys(v.State.Grants)) {
			if g := v.State.Grants[id]; g.live(v.Now) {
				live++
			} else if id != r.ID {
				c.Grants = append(c.Grants, GrantStep{ID: id, Was: &g})
			}
		}
		if live >= MaxGrants {
			return verdict{}, Errorf(CodeTooMany, nil, "subject %q has %d live grants of meter %q, the most there can be", r.Subject, live, r.Meter)
		}
		step := GrantStep{ID: r.ID, Is: &Grant{Units: r.Units, Expires: expires}}
		if g, ok := v.State.Grants[r.ID]; ok {
			if g.live(v.Now) {
				return verdict{}, conflict("grant %q is still live", r.ID)
			}
			step.Was = &g
		}
		c.Grants = append(c.Grants, step)
		c.Records = []RecordStep{{ID: r.ID, Is: &Record{Kind: KindGrant, Cost: r.Units, Expires: expires}}}
		return k.final(v, key, "", c, r.Units, ReasonGranted)
	}
}

func unknown(id, done string) *Error {
	return Errorf(CodeNotFound, nil, "operation %q is not known and cannot be %s: it was refused, or never asked for, or is longer ago than ids are remembered", id, done)
}

func conflict(format string, args ...any) *Error { return Errorf(CodeConflict, nil, format, args...) }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
