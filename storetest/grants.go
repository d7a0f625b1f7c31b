package storetest

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// left checks how much each live grant has left.
func (a account) left(want map[string]int64) {
	a.w.Helper()
	got := map[string]int64{}
	u := a.usage()
	var sum int64
	for id, g := range u.Grants {
		got[id] = g.Units - g.Used
		sum += g.Units - g.Used
	}
	v, err := a.w.store.Load(a.w.Context(), headroom.Query{Key: headroom.Key{Subject: a.subject, Meter: a.meter}})
	if err != nil {
		a.w.Fatal(err)
	}
	for id, g := range v.State.Grants {
		if g.Used < 0 || g.Used > g.Units {
			a.w.Errorf("of the %d units of grant %q %d are used", g.Units, id, g.Used)
		}
	}
	if !maps.Equal(got, want) || u.Granted != sum {
		a.w.Fatalf("grants have left %v, %d in all: want %v", got, u.Granted, want)
	}
}

func ownUnitsFirst(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.granting(30).grant("c", 30, base.Add(3*day), 0)
	a.granting(40).grant("a", 10, base.Add(day), 0)
	a.granting(60).grant("b", 20, base.Add(2*day), 0)
	a.granting(60).does(deduct, "own", 190, admitted, 190, 0)
	a.granting(55).does(deduct, "both", 15, admitted, 200, 0)
	a.left(map[string]int64{"a": 5, "b": 20, "c": 30})
	a.granting(40).does(deduct, "two", 15, admitted, 200, 0)
	a.left(map[string]int64{"a": 0, "b": 10, "c": 30})
	a.granting(40).does(preflight, "", 40, admitted, 200, 0)
	a.granting(40).does(preflight, "", 41, overLimit, 200, 0)
	a.unchanged(func() { a.granting(40).does(deduct, "x", 41, overLimit, 200, 0) }, "x")
	a.granting(0).does(deduct, "rest", 40, admitted, 200, 0)
	a.left(map[string]int64{"a": 0, "b": 0, "c": 0})
	a.granting(0).does(deduct, "x", 1, overLimit, 200, 0)
	a.granting(0).repeats(deduct, "two", 15, admitted, 200, 0)
	a.uses(200)
	w.set(monday)
	a.does(deduct, "next", 200, admitted, 200, 0)
	// The history counts only the plan's own units.
	a.uses(200, total(base, 200))
}

func grantedOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	ends := base.Add(10 * week)
	a.granting(50).grant("g", 50, ends, 0)
	a.granting(50).grantAgain("g", 50, ends, 0)
	a.granting(30).does(deduct, "a", 220, admitted, 200, 0)
	again := func(used int64) {
		t.Helper()
		a.granting(30).grantAgain("g", 50, ends, used)
		// a grant ends at a whole second
		a.granting(30).grantAgain("g", 50, ends.Add(time.Second-1), used)
		a.grantFails("g", 51, ends, headroom.Conflict)
		a.grantFails("g", 50, ends.Add(time.Second), headroom.Conflict)
	}
	again(200)
	a.fails(deduct, "g", 50, headroom.Conflict)
	a.fails(hold, "g", 50, headroom.Conflict)
	a.fails(release, "g", 50, headroom.Conflict)
	a.refundFails("g", "r", 1, headroom.Conflict)
	a.grantFails("a", 220, ends, headroom.Conflict)
	a.left(map[string]int64{"g": 30})
	// The id of a grant is remembered for as long as the grant lives.
	for i := range int64(3) {
		w.set(base.Add(time.Duration(i+1) * (horizon + day)))
		if _, err := a.engine.Deduct(t.Context(), a.request(id(i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	again(1)
	a.left(map[string]int64{"g": 30})
}

func grantEnds(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.granting(50).grant("g", 50, base.Add(time.Hour), 0)
	a.granting(50).does(deduct, "own", 200, admitted, 200, 0)
	w.set(base.Add(time.Hour - time.Second))
	a.granting(40).does(deduct, "a", 10, admitted, 200, 0)
	w.set(base.Add(time.Hour))
	a.unchanged(func() {
		a.left(map[string]int64{})
		a.does(preflight, "", 1, overLimit, 200, 0)
		a.does(deduct, "b", 1, overLimit, 200, 0)
		a.grantAgain("g", 50, base.Add(time.Hour), 200)
	}, "b")
	a.grantFails("over", 1, base.Add(time.Hour), headroom.Invalid)
	a.granting(1).grant("just", 1, base.Add(time.Hour+time.Second), 200)
	a.granting(0).does(deduct, "b", 1, admitted, 200, 0)
}

func grantLasts(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	ask := func(units int64, lasts time.Duration, left int64, replay bool) {
		t.Helper()
		r := a.grantOf("g", units, time.Time{})
		r.Lasts = lasts
		d, err := a.engine.Grant(t.Context(), r)
		asked := a.request("g", units)
		want := a.granting(left).want(asked, granted, 0)
		want.Replay = replay
		a.check("grant", asked, d, want, err)
	}
	other := func() {
		t.Helper()
		r := a.grantOf("g", 51, time.Time{})
		r.Lasts = time.Hour
		a.unchanged(func() {
			d, err := a.engine.Grant(t.Context(), r)
			a.failed("grant", a.request("g", 51), d, err, headroom.Conflict)
		}, "g")
	}
	ask(50, time.Hour, 50, false)
	w.set(base.Add(30 * time.Minute))
	ask(50, time.Hour, 50, true)
	ask(50, 2*time.Hour, 50, true)
	other()
	a.granting(50).grantAgain("g", 50, base.Add(time.Hour), 0) // the same grant, by its end
	w.set(base.Add(time.Hour - time.Second))
	a.left(map[string]int64{"g": 50})
	w.set(base.Add(time.Hour))
	a.left(map[string]int64{})
	a.unchanged(func() { ask(50, time.Hour, 0, true) }, "g")
	other()
	// The id of another operation cannot be given to a grant.
	a.does(deduct, "job", 50, admitted, 50, 0)
	r := a.grantOf("job", 50, time.Time{})
	r.Lasts = time.Hour
	d, err := a.engine.Grant(t.Context(), r)
	a.failed("grant", a.request("job", 50), d, err, headroom.Conflict)
}

func grantOverTheTurn(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.granting(100).grant("g", 100, base.Add(10*day), 0)
	a.granting(70).does(deduct, "a", 230, admitted, 200, 0)
	w.set(monday)
	a.granting(70).does(deduct, "b", 100, admitted, 100, 0)
	a.granting(50).does(deduct, "c", 120, admitted, 200, 0)
	a.uses(200, total(base, 200))
	a.granting(50).in(base).repeats(deduct, "a", 230, admitted, 200, 0)
	// The first deduction of a window may need the grant too.
	w.set(base.Add(2 * week))
	b := w.account(200)
	b.granting(50).grant("g", 50, base.Add(3*week), 0)
	b.granting(20).does(deduct, "first", 230, admitted, 200, 0)
	b.uses(200)
}

func holdOfGrant(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.granting(50).grant("g", 50, base.Add(week), 0)
	a.granting(10).does(hold, "job", 240, admitted, 0, 200)
	a.granting(0).does(hold, "rest", 10, admitted, 0, 200)
	a.granting(0).does(hold, "more", 1, overLimit, 0, 200)
	// The units that were drawn last come back first: 20 of the grant, and then the plan's own.
	a.granting(20).does(settle, "job", 220, admitted, 200, 0)
	a.granting(30).does(release, "rest", 10, released, 200, 0)
	a.left(map[string]int64{"g": 30})
	a.granting(50).refund("job", "r", 40, 40, 180)
	a.granting(50).does(hold, "next", 20, admitted, 180, 20)
	a.granting(45).does(settle, "next", 25, admitted, 200, 0)
	a.granting(50).refund("next", "r2", 5, 5, 200)
	a.uses(200)

	// A hold and its settlement may draw on one grant.
	b := w.account(200)
	b.granting(50).grant("g", 50, base.Add(week), 0)
	b.granting(20).does(hold, "job", 230, admitted, 0, 200)
	b.granting(10).does(settle, "job", 240, admitted, 200, 0)
	b.granting(45).refund("job", "r1", 35, 35, 200)
	b.granting(50).refund("job", "r2", 0, 205, 0)
	b.uses(0)
	b.left(map[string]int64{"g": 50})
}

func expiredHoldOfGrant(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.granting(50).grant("g", 50, base.Add(week), 0)
	a.granting(0).lasts(time.Minute).does(hold, "job", 250, admitted, 0, 200)
	w.set(base.Add(time.Minute))
	a.granting(50).uses(0)
	a.left(map[string]int64{"g": 50})
	a.granting(50).does(preflight, "", 250, admitted, 0, 0)
	a.granting(10).does(deduct, "a", 240, admitted, 200, 0)
	a.left(map[string]int64{"g": 10})
	a.granting(10).does(settle, "job", 11, overLimit, 200, 0)
	a.granting(0).does(settle, "job", 10, admitted, 200, 0)
	a.uses(200)

	// A hold that has units of a grant alone is in the way of that grant alone.
	b := w.account(200)
	b.granting(50).grant("g", 50, base.Add(week), 0)
	b.granting(50).does(deduct, "own", 200, admitted, 200, 0)
	b.granting(0).lasts(time.Second).does(hold, "job", 50, admitted, 200, 0)
	w.set(base.Add(time.Minute + time.Second))
	b.granting(0).does(deduct, "a", 50, admitted, 200, 0)
	b.left(map[string]int64{"g": 0})
	b.does(deduct, "b", 1, overLimit, 200, 0)
}

func recordUsesGrants(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.granting(100).grant("g", 100, base.Add(week), 0)
	a.granting(50).does(deduct, "fits", 250, admitted, 200, 0, record)
	a.granting(0).does(deduct, "past", 70, past, 220, 0, record)
	a.does(deduct, "more", 5, past, 225, 0, record)
	a.granting(50).refund("past", "r", 0, 70, 205)
	// The grant has its units again, but 5 units are still past the limit.
	a.left(map[string]int64{"g": 50})

	// A cost above the plan's limit may fit with the help of a grant.
	b := a.w.account(200)
	b.granting(100).grant("g", 100, base.Add(week), 0)
	b.granting(100).does(deduct, "nothing", 0, admitted, 0, 0)
	b.granting(50).does(deduct, "great", 250, admitted, 200, 0, record)
	b.left(map[string]int64{"g": 50})
}

func refusalCountsGrants(t *testing.T, h Harness) {
	w := newWorld(t, h)
	plan := headroom.Plan{Name: "two", Limits: []headroom.Limit{
		{Meter: meter, Name: "a", Units: 10}, {Meter: meter, Name: "b", Units: 100},
	}}
	a := w.accountOn(w.catalog(0, plan), 0)
	a.plan = "two"
	a.setPlan("two")
	week := headroom.ISOWeek(base).Key
	a.decides(deduct, "1", 10, admitted, "a* 10+0/10 in "+week, "b 10+0/100 in "+week, "week 10+0/9223372036854775807 in "+week)
	d, err := a.engine.Grant(t.Context(), a.grantOf("g", 5, base.Add(day)))
	if err != nil || d.Granted != 5 {
		t.Fatalf("grant: %s, %v", text(d), err)
	}
	figures := []string{"a* 10+0/10 in " + week, "b 10+0/100 in " + week, "week 10+0/9223372036854775807 in " + week}
	a.decides(deduct, "2", 6, overLimit, figures...)
	a.decides(deduct, "2", 15, overLimit, figures...) // in another week 10 and 5 would be enough
	a.decides(deduct, "2", 16, never, figures...)
	a.decides(deduct, "2", 5, admitted, figures...)
	w.set(monday)
	a.decides(preflight, "", 95, never, "a* 0+0/10 in "+headroom.ISOWeek(monday).Key,
		"b 0+0/100 in "+headroom.ISOWeek(monday).Key, "week 0+0/9223372036854775807 in "+headroom.ISOWeek(monday).Key)
	// Of two limits the one that stands in the way is named. What the other lacks, the grant could
	// give.
	b := w.accountOn(w.catalog(0, plan), 0)
	b.plan = "two"
	b.setPlan("two")
	week = headroom.ISOWeek(monday).Key
	if _, err := b.engine.Grant(t.Context(), b.grantOf("g", 5, monday.Add(day))); err != nil {
		t.Fatal(err)
	}
	b.on(w.catalog(0, headroom.Plan{Name: "two", Limits: []headroom.Limit{{Meter: meter, Name: "b", Units: 100}}}), headroom.Options{}).
		decides(deduct, "1", 97, admitted, "b* 97+0/100 in "+week, "week 97+0/9223372036854775807 in "+week)
	b.decides(deduct, "2", 12, overLimit, "a 0+0/10 in "+week, "b* 97+0/100 in "+week, "week 97+0/9223372036854775807 in "+week)
}

func goodwill(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.does(deduct, "a", 200, admitted, 200, 0)
	w.set(base.Add(2 * day))
	a.does(deduct, "b", 30, overLimit, 200, 0)
	end := headroom.ISOWeek(base).End
	a.granting(200).grant("goodwill", 200, end, 200)
	a.granting(170).does(deduct, "b", 30, admitted, 200, 0)
	a.uses(200)
	if got := a.limits()[0].Window.End; !got.Equal(end) {
		t.Errorf("the week ends at %s, want %s", got, end)
	}
	a.granting(170).does(deduct, "c", 171, overLimit, 200, 0)
	w.set(end)
	a.left(map[string]int64{})
	a.does(deduct, "d", 200, admitted, 200, 0)
	a.does(deduct, "e", 1, overLimit, 200, 0)
	a.uses(200, total(base, 200))
}

func grantAfterGrant(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.does(deduct, "own", 200, admitted, 200, 0)
	a.granting(50).grant("first", 50, base.Add(time.Hour), 200)
	a.granting(0).does(deduct, "a", 50, admitted, 200, 0)
	w.set(base.Add(2 * time.Hour))
	a.granting(30).grant("second", 30, base.Add(day), 200)
	a.left(map[string]int64{"second": 30})
	a.granting(30).does(deduct, "b", 31, overLimit, 200, 0)
	a.granting(0).does(deduct, "b", 30, admitted, 200, 0)
}

func badGrants(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	s, tapped := a.tapped(headroom.Options{})
	for name, spoil := range map[string]func(*headroom.GrantRequest){
		"no subject":       func(r *headroom.GrantRequest) { r.Subject = "" },
		"an unknown meter": func(r *headroom.GrantRequest) { r.Meter = "nonesuch" },
		"no id":            func(r *headroom.GrantRequest) { r.ID = "" },
		"an id of 257":     func(r *headroom.GrantRequest) { r.ID = strings.Repeat("g", 257) },
		"nothing":          func(r *headroom.GrantRequest) { r.Units = 0 },
		"a negative":       func(r *headroom.GrantRequest) { r.Units = -1 },
		"a year too far":   func(r *headroom.GrantRequest) { r.Expires = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"no end":           func(r *headroom.GrantRequest) { r.Expires = time.Time{} },
		"two ends":         func(r *headroom.GrantRequest) { r.Lasts = time.Hour },
		"half a second":    func(r *headroom.GrantRequest) { r.Expires, r.Lasts = time.Time{}, time.Second/2 },
		"a negative time":  func(r *headroom.GrantRequest) { r.Expires, r.Lasts = time.Time{}, -time.Hour },
	} {
		r := tapped.grantOf("g", 1, base.Add(day))
		spoil(&r)
		d, err := tapped.engine.Grant(t.Context(), r)
		tapped.failed(name, a.request("g", 1), d, err, headroom.Invalid)
	}
	if l, c := s.loads.Load(), s.commits.Load(); l+c != 0 {
		t.Errorf("bad input reached the store: %d loads and %d commits", l, c)
	}
	a.grantFails("g", 1, time.Time{}, headroom.Invalid)
	a.grantFails("g", 1, base, headroom.Invalid)
	// Sums of the greatest numbers do not wrap round.
	for i := range 2 {
		a.granting(headroom.Unlimited).grant(fmt.Sprint("great ", i), math.MaxInt64, base.Add(day), 0)
	}
	a.granting(headroom.Unlimited).does(deduct, "a", math.MaxInt64, admitted, 200, 0)
}
