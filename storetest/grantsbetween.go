package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func splitIsExact(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.granting(50).grant("g", 50, base.Add(week), 0)
	a.granting(50).does(deduct, "own", 200, admitted, 200, 0)
	s, slow := a.tapped(headroom.Options{})
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		// Units of the plan come back after the engine decided that there are none.
		if len(c.Grants) > 0 {
			s.commit = nil
			a.granting(50).refund("own", "r", 15, 15, 185)
		}
		return to.Commit(ctx, c)
	}
	slow.granting(45).does(deduct, "both", 20, admitted, 200, 0)
	a.left(map[string]int64{"g": 45})
}

func drawnThoughLate(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, c := range []struct {
		what    string
		before  func(a account)
		between func(a account)
		left    map[string]int64
	}{
		{"a grant where there was none",
			func(account) {},
			func(a account) { a.granting(30).grant("g", 30, base.Add(day), 200) }, map[string]int64{"g": 10}},
		{"a grant that ends before another",
			func(a account) { a.granting(30).grant("late", 30, base.Add(week), 200) },
			func(a account) { a.granting(45).grant("g", 15, base.Add(day), 200) }, map[string]int64{"g": 0, "late": 25}},
		{"a grant in the place of one that is over",
			func(a account) {
				a.granting(5).grant("over", 5, base.Add(time.Hour), 200)
				w.set(base.Add(time.Hour))
			},
			func(a account) { a.granting(30).grant("g", 30, base.Add(day), 200) }, map[string]int64{"g": 10}},
		{"units that come back to one that was used up",
			func(a account) {
				a.granting(30).grant("g", 30, base.Add(day), 200)
				a.granting(0).does(deduct, "drawn", 30, admitted, 200, 0)
			},
			func(a account) { a.granting(25).refund("drawn", "r", 25, 25, 200) }, map[string]int64{"g": 5}},
	} {
		w.Run(c.what, func(t *testing.T) {
			w.back(base)
			a := w.account(200)
			a.does(deduct, "own", 200, admitted, 200, 0)
			c.before(a)
			s, slow := a.tapped(headroom.Options{})
			s.commit = func(ctx context.Context, change headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				if s.commits.Load() == 2 { // the first is a guess
					c.between(a)
				}
				return to.Commit(ctx, change)
			}
			var left int64
			for _, n := range c.left {
				left += n
			}
			slow.granting(left).does(deduct, "spent", 20, admitted, 200, 0, record)
			a.left(c.left)
		})
	}
}

func twentyGrants(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(0)
	for i := range int64(headroom.MaxGrants) {
		a.granting(10*(i+1)).grant(id(i), 10, base.Add(time.Duration(i/10+1)*time.Hour), 0)
	}
	a.grantFails("more", 1, base.Add(day), headroom.TooMany)
	a.granting(200).grantAgain(id(3), 10, base.Add(time.Hour), 0)
	a.granting(5).does(deduct, "a", 195, admitted, 0, 0)
	a.grantFails("more", 1, base.Add(day), headroom.TooMany) // a refund may come
	w.set(base.Add(time.Hour))
	a.granting(6).grant("more", 1, base.Add(day), 0)
	a.granting(8).grant("yet more", 2, base.Add(day), 0)
	a.granting(5).does(deduct, "b", 3, admitted, 0, 0)
	if u := a.usage(); len(u.Grants) != headroom.MaxGrants/2+2 {
		t.Errorf("%d live grants: %q", len(u.Grants), slices.Sorted(maps.Keys(u.Grants)))
	}
}

func grantsOvertaken(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(0)
	s, overtaken := a.tapped(headroom.Options{})
	// In the second round both find room that they may take, since the grants of the first round
	// are over.
	for round := range 2 {
		name := func(what string) string { return fmt.Sprint(what, " ", round) }
		ends := w.now().Add(time.Hour)
		for i := range int64(headroom.MaxGrants - 1) {
			a.granting(i+1).grant(name(id(i)), 1, ends, 0)
		}
		s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			s.commit = nil
			a.granting(headroom.MaxGrants).grant(name("comes between"), 1, ends, 0)
			return to.Commit(ctx, c)
		}
		d, err := overtaken.engine.Grant(t.Context(), a.grantOf(name("loses"), 1, ends))
		a.failed("grant", a.request(name("loses"), 1), d, err, headroom.TooMany)
		u := a.usage()
		_, won := u.Grants[name("comes between")]
		if len(u.Grants) != headroom.MaxGrants || u.Granted != headroom.MaxGrants || !won || s.commit != nil {
			t.Fatalf("%d live grants of %d units: %q", len(u.Grants), u.Granted, slices.Sorted(maps.Keys(u.Grants)))
		}
		w.set(ends)
	}
	// The grant that lost can be asked for again.
	a.granting(1).grant("loses 0", 1, w.now().Add(time.Hour), 0)
}
