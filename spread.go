package headroom

import (
	"cmp"
	"maps"
	"slices"
)

// spread is where a cost comes from: units of the plan, then grants by earliest expiry.
type spread struct {
	own    int64
	grants []GrantUse
	fits   bool
}

// allocate spreads a cost.
func allocate(standings []standing, v View, cost int64) spread {
	free := cost
	for _, s := range standings {
		if s.limit.Mode == Hard {
			free = min(free, max(0, s.remaining()))
		}
	}
	a := spread{own: free}
	rest := cost - free
	for _, id := range liveGrants(v) {
		if left := v.grant(id).left(); rest > 0 && left > 0 {
			n := min(rest, left)
			a.grants = append(a.grants, GrantUse{ID: id, Units: n})
			rest -= n
		}
	}
	a.fits = rest == 0
	if !a.fits {
		a.own += rest
	}
	return a
}

// steps is what the spread draws from the grants. It guards no more than that: there are no other grants, those
// that are drawn on before the last of them have no more than they give, and that one has enough.
func (s spread) steps(v View) (steps []GrantStep) {
	live := liveGrants(v)
	before := len(live) // which are drawn on before the last: all, if they are not enough
	draws := map[string]int64{}
	for _, use := range s.grants {
		draws[use.ID] = use.Units
		if s.fits {
			before = slices.Index(live, use.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.State.Grants)) {
		was := v.State.Grants[id]
		step := GrantStep{ID: id, Was: &was, Max: anyCount(0), Add: draws[id]}
		if step.Add > 0 {
			step.Max = was.Units - step.Add
		}
		if slices.Contains(live[:before], id) {
			step.Min = was.Units - step.Add
		}
		steps = append(steps, step)
	}
	return steps
}

// obstructed reports whether what expired holds draw from grants stands in the way of writing what a cost draws from them, though it counts no more.
func (s spread) obstructed(v View) bool {
	return slices.ContainsFunc(s.grants, func(use GrantUse) bool { return use.Units > v.State.Grants[use.ID].left() })
}

// grant is a grant without what expired holds draw from it.
func (v View) grant(id string) Grant {
	g := v.State.Grants[id]
	for _, h := range v.State.Holds {
		for _, use := range h.Grants {
			if use.ID == id && h.expired(v.Now) {
				g.Used -= min(use.Units, g.Used)
			}
		}
	}
	return g
}

// liveGrants returns the ids of the grants that can be drawn on, the earliest expiry first.
func liveGrants(v View) []string {
	var ids []string
	for id, g := range v.State.Grants {
		if g.live(v.Now) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(v.State.Grants[a].Expires.Compare(v.State.Grants[b].Expires), cmp.Compare(a, b))
	})
	return ids
}

// grantsLeft is what live grants have left in all.
func grantsLeft(v View) (left int64) {
	for _, id := range liveGrants(v) {
		more := v.grant(id).left()
		if left > anyCount(more) {
			return Unlimited
		}
		left += more
	}
	return left
}
