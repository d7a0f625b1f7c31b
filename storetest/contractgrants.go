package storetest

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// strange is an id that a careless store takes apart, or for another.
const strange = "b c/%\x00\u65e5"

// grantSteps is a later change of grants.
func grantSteps(g ...headroom.GrantStep) headroom.Change {
	c := next()
	c.Grants = g
	return c
}

// gives is a grant until a week from base.
func gives(units, used int64) *headroom.Grant {
	return &headroom.Grant{Units: units, Used: used, Expires: base.Add(week)}
}

// draws is a step that adds to what is used of a grant, if that lies between.
func draws(id string, was *headroom.Grant, least, most, add int64) headroom.GrantStep {
	return headroom.GrantStep{ID: id, Was: was, Min: least, Max: most, Add: add}
}

// ends is a step that takes a grant away.
func ends(id string, was *headroom.Grant) headroom.GrantStep {
	return headroom.GrantStep{ID: id, Was: was, Max: anyMax, Ends: true}
}

// twoGrants returns a key with a grant "a" of 50 and a great one that is half used.
func twoGrants(t *testing.T, h Harness) bare {
	b := newBare(t, h)
	first := opened("week", 0)
	first.Grants = []headroom.GrantStep{{ID: "a", Is: gives(50, 0)}, {ID: strange, Is: gives(1<<60, 1<<59)}}
	b.commit("two grants", first, true)
	return b
}

func checksGrants(t *testing.T, h Harness) {
	b := twoGrants(t, h)
	later := gives(50, 0)
	later.Expires = base.Add(week + time.Second)
	b.commit("a new grant, where it is there", grantSteps(headroom.GrantStep{ID: "a", Is: gives(5, 0)}), false)
	b.commit("a grant that is not there", grantSteps(draws("x", gives(50, 0), 0, 50, 10)), false)
	b.commit("a grant of other units", grantSteps(draws("a", gives(51, 0), 0, 50, 10)), false)
	b.commit("a grant that ends later", grantSteps(draws("a", later, 0, 50, 10)), false)
	b.commit("a grant of which less is used than is asked for", grantSteps(draws("a", gives(50, 1), 1, 50, 10)), false)
	b.commit("a grant of which more is used than is asked for", grantSteps(draws(strange, gives(1<<60, 1<<59), 0, 1<<59-1, 10)), false)
	b.commit("the end of a grant that ends later", grantSteps(ends("a", later)), false)
	b.commit("another grant in the place of one that ends later",
		grantSteps(headroom.GrantStep{ID: "a", Was: later, Max: anyMax, Is: gives(5, 0)}), false)
	b.commit("one guard that is met and one that is not", grantSteps(draws("a", gives(50, 0), 0, 50, 10), ends("x", gives(1, 0))), false)
	b.commit("one guard that is not met and one that is",
		grantSteps(draws(strange, gives(1<<60, 0), 1<<60, 1<<60, 0), draws("a", gives(50, 0), 0, 50, 10)), false)
	// AllGrants says that there are no others.
	all := grantSteps(draws("a", gives(50, 0), 0, 50, 0))
	all.AllGrants = true
	b.commit("that one grant is all, where two are", all, false)
	all.Grants = nil
	b.commit("that there is no grant, where two are", all, false)
	all.Grants = []headroom.GrantStep{draws("a", gives(50, 0), 0, 0, 0), draws(strange, gives(1<<60, 1<<59), 1<<59, 1<<59, 0)}
	b.commit("that these two are all", all, true)
	// As many as there can be, which is a guard.
	more := func(from, to int64) headroom.Change {
		c := next()
		for i := from; i < to; i++ {
			c.Grants = append(c.Grants, headroom.GrantStep{ID: id(i), Is: gives(i+1, 0)})
		}
		return c
	}
	b.commit("as many as there can be, and one", more(2, headroom.MaxGrants+1), false)
	b.commit("as many as there can be", more(2, headroom.MaxGrants), true)
	b.commit("one more", more(100, 101), false)
	swap := more(100, 101)
	swap.Grants = append(swap.Grants, ends("a", gives(50, 0)))
	b.commit("one more in the place of one that ends", swap, true)
}

func drawsBlindly(t *testing.T, h Harness) {
	b := twoGrants(t, h)
	used := func(v headroom.View, want int64) {
		t.Helper()
		if g := v.State.Grants["a"]; g.Used != want {
			t.Fatalf("want %d of grant %q used, stored is\n%s", want, "a", viewText(v))
		}
	}
	// All five say that nothing was used yet. That is what they saw, and no guard.
	draw := grantSteps(draws("a", gives(50, 0), 0, 40, 10))
	for n := int64(10); n <= 50; n += 10 {
		used(b.commit("ten more of one", draw, true), n)
	}
	used(b.commit("more than is left", draw, false), 50)
	used(b.commit("units that come back to one, and one more of the other",
		grantSteps(draws("a", gives(50, 0), 7, anyMax, -7), draws(strange, gives(1<<60, 0), 0, 1<<60-1, 1)), true), 43)
	used(b.commit("more units come back than were used", grantSteps(draws("a", gives(50, 50), 44, anyMax, -44)), false), 43)
	later := gives(50, 0)
	later.Expires = base.Add(week + time.Second)
	anew := headroom.GrantStep{ID: "a", Was: gives(50, 0), Max: anyMax, Is: later}
	v := b.commit("a new one in the place of one, and the end of the other", grantSteps(anew, ends(strange, gives(1<<60, 0))), true)
	used(v, 0)
	if len(v.State.Grants) != 1 {
		t.Errorf("%d grants are there", len(v.State.Grants))
	}
}
