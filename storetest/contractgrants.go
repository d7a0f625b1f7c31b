package storetest

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func grantContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	grant := func(units, used int64) *headroom.Grant {
		return &headroom.Grant{Units: units, Used: used, Expires: base.Add(week)}
	}
	const second = "b c/%\x00\u65e5"
	first := opened("week", 0)
	first.Grants = []headroom.GrantStep{{ID: "a", Is: grant(50, 0)}, {ID: second, Is: grant(1<<60, 1<<59)}}
	b.commit("two grants", first, true)
	step := func(steps ...headroom.GrantStep) headroom.Change {
		c := next()
		c.Grants = steps
		return c
	}
	uses := func(id string, was *headroom.Grant, least, most, add int64) headroom.GrantStep {
		return headroom.GrantStep{ID: id, Was: was, Min: least, Max: most, Add: add}
	}
	ends := func(id string, was *headroom.Grant) headroom.GrantStep {
		return headroom.GrantStep{ID: id, Was: was, Max: 1 << 62, Ends: true}
	}
	shows := func(what string, v headroom.View, want map[string]*headroom.Grant) {
		t.Helper()
		same := len(v.State.Grants) == len(want)
		for id, g := range want {
			have := v.State.Grants[id]
			same = same && have.Units == g.Units && have.Used == g.Used && have.Expires.Equal(g.Expires)
		}
		if !same {
			t.Fatalf("%s: %s", what, viewText(v))
		}
	}
	later := grant(50, 0)
	later.Expires = base.Add(week + time.Second)
	both := map[string]*headroom.Grant{"a": grant(50, 0), second: grant(1<<60, 1<<59)}
	for what, s := range map[string][]headroom.GrantStep{
		"a grant that is there":              {{ID: "a", Is: grant(5, 0)}},
		"a grant that is not there":          {uses("x", grant(50, 0), 0, 50, 10)},
		"a grant of other units":             {uses("a", grant(51, 0), 0, 50, 10)},
		"a grant of which more is used":      {uses("a", grant(50, 1), 1, 50, 10)},
		"a grant of which less is used":      {uses(second, grant(1<<60, 1<<59), 0, 1<<59-1, 10)},
		"a grant that ends later":            {uses("a", later, 0, 50, 10)},
		"one that is so and one that is not": {uses("a", grant(50, 0), 0, 50, 10), ends("x", grant(1, 0))},
		"one that is not and one that is so": {uses(second, grant(1<<60, 0), 1<<60, 1<<60, 0), uses("a", grant(50, 0), 0, 50, 10)},
		"another in the place of another":    {{ID: "a", Was: later, Max: 1 << 62, Is: grant(5, 0)}},
		"the end of one that ends later":     {ends("a", later)},
	} {
		shows(what, b.commit(what, step(s...), false), both)
	}
	all := step(uses("a", grant(50, 0), 0, 50, 0))
	all.AllGrants = true
	b.commit("one where there are two", all, false)
	all.Grants = nil
	b.commit("none where there are two", all, false)
	all.Grants = []headroom.GrantStep{uses("a", grant(50, 0), 0, 0, 0), uses(second, grant(1<<60, 1<<59), 1<<59, 1<<59, 0)}
	shows("as they were", b.commit("all that there are, as they were", all, true), both)

	// What a change says was used is no guard: others may add to it meanwhile.
	draw := uses("a", grant(50, 0), 0, 40, 10)
	for used := int64(10); used <= 50; used += 10 {
		both["a"].Used = used
		shows("drawn", b.commit("ten more of one", step(draw), true), both)
	}
	shows("used up", b.commit("more than is left", step(draw), false), both)
	both["a"].Used, both[second].Used = 43, 1<<59+1
	v := b.commit("units that come back to one, and one more of the other", step(uses("a", grant(50, 0), 7, 1<<62, -7), uses(second, grant(1<<60, 0), 0, 1<<60-1, 1)), true)
	shows("both", v, both)
	shows("less", b.commit("more than was used comes back", step(uses("a", grant(50, 50), 44, 1<<62, -44)), false), both)
	anew := headroom.GrantStep{ID: "a", Was: grant(50, 0), Max: 1 << 62, Is: later}
	v = b.commit("a new one in the place of one, and the end of the other", step(anew, ends(second, grant(1<<60, 0))), true)
	shows("one", v, map[string]*headroom.Grant{"a": later})
}
