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
