package headroom

import (
	"maps"
	"slices"
	"time"
)

// grant decides that a subject gets units beside those of its plan.
func (k rules) grant(r GrantRequest) intent {
	of := Request{Subject: r.Subject, Meter: r.Meter, Cost: r.Units, Now: r.Now}
	return func(v View) (verdict, error) {
		have, ok := v.granted(r.ID)
		asked := Record{Kind: KindGrant, Cost: r.Units}
		var err error
		if asked.Expires, err = r.end(v.Now, have); err != nil {
			return verdict{}, err
		}
		switch {
		case ok && have.String() != asked.String():
			return verdict{}, conflict("id %q stands for %s and now asks for another grant", r.ID, have.what())
		case ok:
			return k.replay(v, of, have, ReasonGranted)
		case asked.expired(v.Now):
			return verdict{}, invalid(
				"grant %q would end at %s, which is over", r.ID, asked.Expires.Format(time.RFC3339))
		}
		if live := len(liveGrants(v)); live >= MaxGrants {
			return verdict{}, Errorf(TooMany, nil,
				"subject %q has %d live grants of meter %q, the most there can be", r.Subject, live, r.Meter)
		}
		c := k.begin(v, of.key(), r.Now)
		c.Records = []RecordStep{{ID: r.ID, Is: &asked}}
		c.Grants = v.endedGrants(r.ID)
		step := GrantStep{ID: r.ID, Max: anyCount(0), Is: &Grant{Units: r.Units, Expires: asked.Expires}}
		if old, there := v.State.Grants[r.ID]; there {
			step.Was = &old
		}
		c.Grants = append(c.Grants, step)
		return k.allow(v, of, c, nil, ReasonGranted)
	}
}

// granted returns what id stands for. A grant can outlive what is remembered of its id.
func (v View) granted(id string) (Record, bool) {
	if have, ok := v.Records[id]; ok {
		return have, true
	}
	if g, there := v.State.Grants[id]; there && g.live(v.Now) {
		return Record{Kind: KindGrant, Cost: g.Units, Expires: g.Expires}, true
	}
	return Record{}, false
}

// end returns when the grant ends. have is what its id stands for already: a repeat that says how
// long the grant lasts keeps the end of the first request.
func (r GrantRequest) end(now time.Time, have Record) (time.Time, error) {
	switch {
	case r.Lasts == 0:
		return r.Expires.UTC().Truncate(time.Second), nil
	case have.Kind == KindGrant:
		return have.Expires, nil
	}
	end := endAfter(now, r.Lasts)
	return end, checkTime(end)
}

// endedGrants returns the steps that remove the grants that are over, but for one.
func (v View) endedGrants(except string) (steps []GrantStep) {
	for _, id := range slices.Sorted(maps.Keys(v.State.Grants)) {
		if g := v.State.Grants[id]; !g.live(v.Now) && id != except {
			steps = append(steps, GrantStep{ID: id, Was: &g, Max: anyCount(0), Ends: true})
		}
	}
	return steps
}
