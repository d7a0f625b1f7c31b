package storetest

import (
	"context"
	"testing"

	"github.com/lumcast/headroom"
)

func planTakesEffect(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300), weekly("least", 0)), 200)
	a.setPlan("pro") // before the subject has used anything
	pro, least := a.under("pro", 300), a.under("least", 0)
	pro.uses(0)
	pro.admit("a", 250, 250)
	pro.refuse("b", 51, 250)
	a.setPlan("free")
	a.uses(250)
	a.refuse("b", 1, 250)
	a.deduct("b", 201, headroom.ReasonNeverFits, 250)
	a.admit("nothing", 0, 250)
	a.setPlan("pro")
	a.setPlan("pro")
	pro.admit("b", 50, 300)
	a.setPlan("least")
	least.deduct("c", 1, headroom.ReasonNeverFits, 300)
	least.deduct("d", 1, headroom.ReasonRecorded, 301, record)
	a.setPlan("")
	a.uses(301)
	a.refuse("c", 1, 301)
	w.set(monday)
	a.admit("c", 200, 200)
	a.setPlan("pro")
	pro.admit("e", 100, 300)
	pro.uses(300, total(base, 301))
}

func limitTakesEffect(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	more, less := a.on(w.catalog(300), headroom.Options{}).under("free", 300), a.on(w.catalog(100), headroom.Options{}).under("free", 100)
	a.admit("a", 150, 150)
	more.admit("b", 100, 250)
	a.refuse("c", 1, 250)
	less.refuse("c", 1, 250)
	less.uses(250)
	more.admit("c", 50, 300)
	w.set(monday)
	less.deduct("d", 101, headroom.ReasonNeverFits, 0)
	less.admit("d", 100, 100)
	a.admit("e", 100, 200)
	more.admit("f", 100, 300)
	less.uses(300, total(base, 300))
}

func usageUnderPlan(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300)), 200)
	shows := func(says, plan string, used, limit int64) {
		t.Helper()
		u, err := a.engine.Usage(t.Context(), headroom.UsageRequest{Subject: a.subject, Meter: a.meter, Plan: says})
		if err != nil || u.Plan != plan || len(u.Limits) != 1 || u.Limits[0].Used != used || u.Limits[0].Limit != limit {
			t.Fatalf("usage under %q: %v, %+v, want %d of %d on plan %q", says, err, u, used, limit, plan)
		}
	}
	shows("pro", "pro", 0, 300)
	a.admit("a", 150, 150)
	shows("", "free", 150, 200)
	shows("pro", "pro", 150, 300)
	a.setPlan("pro")
	shows("free", "pro", 150, 300)
	shows("nonesuch", "pro", 150, 300) // a caller's plan matters only where none is stored
	a.setPlan("")
	_, err := a.engine.Usage(t.Context(), headroom.UsageRequest{Subject: a.subject, Meter: a.meter, Plan: "nonesuch"})
	a.failed("usage", a.request("", 0), headroom.Decision{}, err, headroom.Invalid)
}

func planOfAllMeters(t *testing.T, h Harness) {
	w := newWorld(t, h)
	of := func(plan string, slots, tokens int64) headroom.Plan {
		return headroom.Plan{
			Name:   plan,
			Limits: []headroom.Limit{{Meter: meter, Name: "week", Units: slots}, {Meter: "tokens", Name: "week", Units: tokens}},
		}
	}
	a := w.accountOn(w.catalog(1, of("small", 10, 1000), of("large", 20, 2000)), 1)
	tokens := func(a account, limit int64) account { a.meter, a.limit = "tokens", limit; return a }
	a.setPlan("small")
	small := a.under("small", 10)
	small.admit("a", 10, 10)
	tokens(small, 1000).admit("a", 1000, 1000)
	a.setPlan("large")
	large := a.under("large", 20)
	large.admit("b", 10, 20)
	tokens(large, 2000).admit("b", 1000, 2000)
	tokens(large, 2000).refuse("c", 1, 2000)
	a.of(a.subject+"x").admit("b", 1, 1)
	tokens(a.of(a.subject+"x"), headroom.Unlimited).admit("b", 1, 1)
}

func assumedAnotherPlan(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300), weekly("mini", 50)), 200)
	// The plan that the caller names counts only while none is stored.
	a.under("pro", 300).admit("a", 210, 210, says("pro"))
	a.refuse("b", 1, 210)
	a.setPlan("free")
	a.refuse("b", 1, 210, says("pro"))
	a.setPlan("pro")
	pro := a.under("pro", 300)
	pro.admit("b", 10, 220)
	pro.admit("c", 60, 280, says("mini"))
	pro.deduct("d", 301, headroom.ReasonNeverFits, 280, says("mini"))
	pro.deduct("d", 301, headroom.ReasonNeverFits, 280, says("nonesuch"))
	a.setPlan("")
	pro.fail("d", 1, headroom.Invalid, says("nonesuch"))
	a.setPlan("pro")
	pro.deduct("d", 60, headroom.ReasonRecorded, 340, says("mini"), record)

	// Now a plan is stored between the engine's first guess and its write.
	for plan, limit := range map[string]int64{"pro": 300, "mini": 50} {
		b := w.accountOn(a.catalog, 200)
		b.admit("before", 10, 10)
		s, slow := b.tapped(headroom.Options{})
		s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			if s.commits.Load() == 1 {
				b.setPlan(plan)
			}
			return to.Commit(ctx, c)
		}
		slow = slow.under(plan, limit)
		if plan == "pro" {
			slow.admit("x", 100, 110)
		} else {
			slow.deduct("x", 100, headroom.ReasonNeverFits, 10)
			slow.refuse("y", 41, 10)
		}
	}
}

func removedInBetween(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300)), 200)
	a.admit("before", 150, 150)
	a.setPlan("pro")
	s, slow := a.tapped(headroom.Options{})
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		// The first write finds out which plan is stored. The second one assumes that plan.
		if s.commits.Load() == 2 {
			a.setPlan("")
		}
		return to.Commit(ctx, c)
	}
	slow.refuse("x", 100, 150)
	slow.admit("y", 50, 200)
}

func storedPlanUnknown(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300)), 200)
	a.setPlan("pro")
	old := a.on(w.catalog(200), headroom.Options{})
	old.fail("a", 1, headroom.Invalid)
	r := a.request("a", 1)
	d, err := old.engine.Preflight(t.Context(), r)
	old.failed("preflight", r, d, err, headroom.Invalid)
	old.failed("set plan", r, d, old.engine.SetPlan(t.Context(), a.subject, "pro"), headroom.Invalid)
	a.under("pro", 300).uses(0)
	old.setPlan("")
	old.admit("a", 1, 1)
}

// anyPlan checks that finished work can be charged, whatever became of its user's plan.
func anyPlan(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300)), 200)
	a.setPlan("pro")
	old := a.on(w.catalog(200), headroom.Options{})
	any := func(r *headroom.Request) { r.AnyPlan = true }
	old.fail("a", 150, headroom.Invalid)
	old.admit("a", 150, 150, any)
	old.fail("b", 1, headroom.Invalid)
	old.refuse("b", 51, 150, any)
	old.deduct("b", 51, headroom.ReasonRecorded, 201, any, record)
	for _, v := range []verb{hold, extend, release} {
		r := old.request("c", 0)
		d, err := old.ask(v, r)
		old.failed(string(v), r, d, err, headroom.Invalid)
		r.AnyPlan = true
		if d, err = old.ask(v, r); err != nil || d.Plan != "free" {
			t.Errorf("%s: %s, %v", v, text(d), err)
		}
	}
	// The stored plan stays. An engine that knows it decides by it, and then AnyPlan changes
	// nothing.
	pro := a.under("pro", 300)
	pro.uses(201)
	pro.refuse("d", 100, 201, any)
	pro.admit("d", 99, 300, any)
	// AnyPlan also helps where the caller names an unknown plan and none is stored.
	b := w.accountOn(w.catalog(200), 200)
	b.fail("a", 1, headroom.Invalid, says("nonesuch"))
	b.admit("a", 1, 1, says("nonesuch"), any)
	b.setPlan("free")
	b.admit("b", 1, 2, says("nonesuch"), any)
}

// seenPlan checks that a plan which was seen earlier gives nobody more than the stored plan does.
func seenPlan(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300)), 200)
	seen := func(plan string) func(*headroom.Request) { return func(r *headroom.Request) { r.Seen = plan } }
	a.admit("begins", 10, 10)
	for i, plan := range []string{"", "free", "pro", "nonesuch"} {
		b := w.accountOn(a.catalog, 200)
		b.deduct("x", 201, headroom.ReasonNeverFits, 0, seen(plan))
		b.admit("x", 200, 200, seen(plan))
		b.refuse("y", 1, 200, seen(plan))
		b.setPlan("pro")
		pro := b.under("pro", 300)
		pro.admit(id(int64(i)), 100, 300, seen(plan))
		pro.refuse("y", 1, 300, seen(plan))
		b.setPlan("")
		b.refuse("y", 1, 300, seen(plan))
	}
	// A right guess saves a request.
	a.setPlan("pro")
	s, counted := a.tapped(headroom.Options{})
	pro := counted.under("pro", 300)
	pro.admit("a", 10, 20, seen("pro"))
	if s.commits.Load() != 1 {
		t.Errorf("with the plan known a deduction took %d writes", s.commits.Load())
	}
}

func limitAdded(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("a", 150, 150)
	both := w.limited(
		headroom.Limit{Meter: meter, Name: "week", Units: 200},
		headroom.Limit{Meter: meter, Name: "burst", Units: 20},
	)
	b := a.on(both, headroom.Options{})
	for _, c := range []struct {
		id      string
		cost    int64
		allowed bool
		limit   string
		used    int64
	}{{"b", 21, false, "burst", 0}, {"b", 15, true, "burst", 15}, {"c", 6, false, "burst", 15}, {"c", 5, true, "burst", 20}} {
		d, err := b.engine.Deduct(t.Context(), b.request(c.id, c.cost))
		if err != nil || d.Allowed != c.allowed || d.LimitName != c.limit || d.Used != c.used {
			t.Errorf("%s of %d: %s, %v", c.id, c.cost, text(d), err)
		}
	}
	// An engine whose catalog does not have the new limit yet goes on as before.
	a.admit("d", 30, 200)
	a.uses(200)
}

func loweredInBetween(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300)), 200)
	a.setPlan("pro")
	pro := a.under("pro", 300)
	pro.admit("a", 150, 150)
	pro.preflight("b", 100, headroom.ReasonAdmitted, 150)
	a.setPlan("free")
	a.refuse("b", 100, 150, says("pro"))
	a.admit("c", 50, 200, says("pro"))
	a.uses(200)
}
