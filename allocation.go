package headroom

import (
	"cmp"
	"maps"
	"slices"
)

// allocation says where the units of a cost come from: from the plan first, then from grants, the
// earliest expiry first.
type allocation struct {
	own    int64 // units of the plan
	grants []GrantUse
	// lacks is what the plan and the grants do not have. Then own includes it, past the limits.
	lacks int64
	// spared is how much of the cost is left out, since fewer units will do.
	spared int64
}

// fits reports whether the plan and the grants have enough.
func (a allocation) fits() bool { return a.lacks == 0 }

// atLeast leaves out what is lacking, if the rest is still least or more. A least of 0 leaves out
// nothing.
func (a allocation) atLeast(least int64) allocation {
	there := a.own - a.lacks
	for _, use := range a.grants {
		there += use.Units
	}
	if least > 0 && a.lacks > 0 && there >= least {
		a.own, a.spared, a.lacks = a.own-a.lacks, a.lacks, 0
	}
	return a
}

// allocate says where the units of a cost come from.
func allocate(standings []standing, v View, cost int64) allocation {
	free := cost
	for _, s := range standings {
		if s.limit.Mode == Hard {
			free = min(free, max(0, s.remaining()))
		}
	}
	a := allocation{own: free}
	rest := cost - free
	for _, id := range liveGrants(v) {
		if left := v.grant(id).left(); rest > 0 && left > 0 {
			n := min(rest, left)
			a.grants = append(a.grants, GrantUse{ID: id, Units: n})
			rest -= n
		}
	}
	a.lacks = rest
	a.own += rest
	return a
}

// steps returns what the allocation does to the grants. The guard says no more than the decision
// needs, so that other writers may draw on the grants meanwhile: there are no other grants; those
// that come before the last one drawn on are used up; and that last one has enough.
func (a allocation) steps(v View) (steps []GrantStep) {
	live := liveGrants(v)
	before := len(live) // if the grants do not have enough, all of them are used up
	draws := map[string]int64{}
	for _, use := range a.grants {
		draws[use.ID] = use.Units
		if a.fits() && a.spared == 0 {
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

// obstructed reports whether expired holds stand in the way of drawing on the grants: the units
// that they drew no longer count, but the stored grants still include them.
func (a allocation) obstructed(v View) bool {
	return slices.ContainsFunc(a.grants, func(use GrantUse) bool { return use.Units > v.State.Grants[use.ID].left() })
}

// grant returns a grant without the units that expired holds drew from it.
func (v View) grant(id string) Grant {
	g := v.State.Grants[id]
	for _, b := range v.State.Buckets {
		if b.Grant == id && b.over(v.Now) {
			g.Used -= min(b.Units, g.Used)
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

// grantsLeft returns how many units the live grants have left together.
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
