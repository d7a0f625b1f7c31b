package storetest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func neverOver(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	for i := range int64(28) {
		a.admit(id(i), 7, 7*(i+1))
	}
	a.refuse("a", 7, 196)
	a.refuse("b", 5, 196)
	a.admit("c", 4, 200)
	a.refuse("d", 1, 200)
	a.uses(200)

	none := newWorld(t, h).account(0)
	none.deduct("a", 1, headroom.ReasonNeverFits, 0)
	none.admit("b", 0, 0)
	none.uses(0)
}

func recorded(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("fits", 150, 150, record)
	a.deduct("past", 100, headroom.ReasonRecorded, 250, record)
	a.deduct("again", 1, headroom.ReasonRecorded, 251, record)
	a.refuse("more", 1, 251)
	a.admit("nothing", 0, 251, record)
	a.replay("fits", 150, 251)
	a.repeat("past", 100, headroom.ReasonRecorded, 251)
	a.uses(251)

	first := a.w.account(200)
	first.deduct("first", 300, headroom.ReasonRecorded, 300, record)
	first.deduct("second", 201, headroom.ReasonRecorded, 501, record)
	first.uses(501)
}

func neverRefusedWrongly(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("whole", 200, 200)
	a.refuse("more", 1, 200)
	a.w.set(monday)
	a.preflight("", 200, headroom.ReasonAdmitted, 0)
	a.admit("next", 199, 199)
	a.preflight("", 1, headroom.ReasonAdmitted, 199)
	a.preflight("", 2, headroom.ReasonOverLimit, 199)
	a.admit("more", 1, 200)
	a.uses(200, total(base, 200))
}

func loserTriesAgain(t *testing.T, h Harness) {
	for name, seen := range map[string]bool{"a new subject": false, "a subject of last week": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, h)
			a := w.account(200)
			var past []headroom.WindowTotal
			if seen {
				a.admit("before", 200, 200)
				past = append(past, total(base, 200))
			}
			w.set(monday)
			s, slow := a.tapped(headroom.Options{})
			s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				// Another writer is first into the week, just before the write that opens it.
				if s.commits.Load() == 2 {
					a.admit("winner", 60, 60)
				}
				return to.Commit(ctx, c)
			}
			slow.admit("loser", 140, 200)
			if n := s.commits.Load(); n != 3 {
				t.Errorf("the loser wrote %d times: want 3, a first guess, a lost second step and the first step again", n)
			}
			a.uses(200, past...)
		})
	}
}

func loserOfRepairTriesAgain(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("now", 100, 100)
	w.set(base.Add(year))
	a.admit("ahead", 10, 10)
	w.back(base)
	s, slow := a.tapped(headroom.Options{})
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if s.commits.Load() == 2 {
			a.admit("winner", 20, 130)
		}
		return to.Commit(ctx, c)
	}
	slow.admit("loser", 70, 200)
	a.uses(200)
}

func neverOverInRepair(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("now", 100, 100)
	w.set(base.Add(year))
	a.admit("ahead", 10, 10)
	w.back(base)
	s, slow := a.tapped(headroom.Options{})
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		// A writer whose clock is still wrong is faster than the one that brings the window back.
		if s.commits.Load() == 2 {
			a.admit("ahead too", 60, 70, at(base.Add(year)))
		}
		return to.Commit(ctx, c)
	}
	slow.refuse("late", 90, 170)
	slow.admit("rest", 30, 200)
	a.uses(200)
}

func requests(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	s, a := a.tapped(headroom.Options{})
	most := func(what string, commits, loads int64, f func()) {
		t.Helper()
		f()
		if c, l := s.commits.Swap(0), s.loads.Swap(0); c > commits || l > loads {
			t.Errorf("%s took %d commits and %d loads: want at most %d and %d", what, c, l, commits, loads)
		}
	}
	most("a subject's first deduction", 2, 0, func() { a.admit("a", 100, 100) })
	most("a deduction", 1, 0, func() { a.admit("b", 50, 150) })
	most("an old deduction", 1, 1, func() { a.admit("c", 1, 151, began(base.Add(-14*day))) })
	most("a refusal", 1, 0, func() { a.refuse("d", 50, 151) })
	most("a refusal for ever", 0, 1, func() { a.deduct("d", 201, headroom.ReasonNeverFits, 151) })
	most("a replay", 1, 0, func() { a.replay("b", 50, 151) })
	most("a charge past the limit", 2, 0, func() { a.deduct("d", 50, headroom.ReasonRecorded, 201, record) })
	most("a preflight", 0, 1, func() { a.preflight("", 1, headroom.ReasonOverLimit, 201) })
	w.set(monday)
	most("the first of a week", 2, 0, func() { a.admit("e", 1, 1) })
	w.set(epoch(base, horizon).Add(horizon + time.Minute))
	most("the first of a week and of a generation of ids", 2, 0, func() { a.admit("f", 1, 1) })
	w.set(w.now().Add(time.Second))
	most("a deduction after both", 1, 0, func() { a.admit("g", 1, 2) })
}

func firstObeysTheLimit(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("before", 50, 50)
	a.w.set(monday)
	before := a.stored("big")
	a.deduct("big", 300, headroom.ReasonNeverFits, 0)
	a.preflight("", 300, headroom.ReasonNeverFits, 0)
	if after := a.stored("big"); after != before {
		t.Errorf("the refusal changed\n%sto\n%s", before, after)
	}
	a.uses(0, total(base, 50))
	a.admit("fits", 200, 200)
}

func refusalChangesNothing(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("last", 30, 30)
	w.set(monday)
	a.admit("now", 190, 190)
	s, tapped := a.tapped(headroom.Options{})
	before := a.stored("x")
	tapped.refuse("x", 11, 190)
	tapped.deduct("x", 201, headroom.ReasonNeverFits, 190)
	tapped.deduct("x", math.MaxInt64, headroom.ReasonNeverFits, 190)
	tapped.preflight("x", 5, headroom.ReasonAdmitted, 190)
	tapped.preflight("x", 11, headroom.ReasonOverLimit, 190)
	tapped.fail("now", 5, headroom.Conflict)
	tapped.fail("x", 5, headroom.TooOld, began(monday.Add(-2*horizon)))
	d, err := tapped.engine.Deduct(t.Context(), a.request("x", 1, at(base), skipClosed))
	if err != nil || d.Allowed || d.Reason != headroom.ReasonClosed {
		t.Errorf("a request of a closed week: %s, %v", text(d), err)
	}
	if s.applied.Load() != 0 {
		t.Errorf("%d changes were applied, want none", s.applied.Load())
	}
	if after := a.stored("x"); after != before {
		t.Errorf("refusals changed\n%sto\n%s", before, after)
	}

	nobody := w.account(200)
	before = nobody.stored("x")
	nobody.deduct("x", 201, headroom.ReasonNeverFits, 0)
	nobody.preflight("x", 200, headroom.ReasonAdmitted, 0)
	nobody.uses(0)
	if after := nobody.stored("x"); after != before {
		t.Errorf("asking for a subject that nobody has seen changed\n%sto\n%s", before, after)
	}
}

func lastWeekAtItsLimit(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("last", 200, 200)
	a.w.set(base.Add(week))
	a.admit("this", 15, 15)
	a.uses(15, total(base, 200))
}

func neverFits(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.deduct("first", 201, headroom.ReasonNeverFits, 0)
	a.uses(0)
	a.admit("small", 1, 1)
	a.admit("first", 199, 200)
}

func smallerAfterRefused(t *testing.T, h Harness) {
	a := newWorld(t, h).account(10)
	a.admit("a", 8, 8)
	a.refuse("b", 5, 8)
	a.admit("c", 2, 10)
	a.uses(10)
}

func refusalBurnsNoOther(t *testing.T, h Harness) {
	w := newWorld(t, h)
	two := func(units int64) *headroom.Catalog {
		return w.catalog(
			0,
			headroom.Plan{
				Name:   "two",
				Limits: []headroom.Limit{{Meter: "jobs", Name: "a", Units: units}, {Meter: "jobs", Name: "b", Units: 100}},
			},
		)
	}
	a := w.accountOn(two(1), 0)
	a.meter, a.plan = "jobs", "two"
	jobs := func(id string, allowed bool, limit string, used, left int64) {
		t.Helper()
		d, err := a.engine.Deduct(t.Context(), a.request(id, 1, says("two")))
		if err != nil || d.Allowed != allowed || d.LimitName != limit || d.Used != used || d.Remaining != left {
			t.Fatalf("%s: %s, %v", id, text(d), err)
		}
	}
	b := func(used int64) {
		t.Helper()
		v, err := w.store.Load(t.Context(), headroom.Query{Key: headroom.Key{Subject: a.subject, Meter: a.meter}})
		if got := v.State.Counters["b"].Count; err != nil || got != used {
			t.Fatalf("b has counted %d, %v: want %d", got, err, used)
		}
	}
	jobs("1", true, "a", 1, 0)
	jobs("2", false, "a", 1, 0)
	jobs("3", false, "a", 1, 0)
	b(1)
	a = a.on(two(2), headroom.Options{})
	jobs("4", true, "a", 2, 0)
	jobs("5", false, "a", 2, 0)
	b(2)
}

func oddCosts(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.fail("negative", -1, headroom.Invalid)
	a.fail("negative", math.MinInt64, headroom.Invalid)
	a.deduct("greatest", math.MaxInt64, headroom.ReasonNeverFits, 0)
	a.admit("nothing", 0, 0)
	a.admit("most", 200, 200)
	a.admit("nothing more", 0, 200)
	a.replay("nothing", 0, 200)
	a.fail("nothing", 1, headroom.Conflict)
	a.deduct("greatest", math.MaxInt64, headroom.ReasonNeverFits, 200)
	a.deduct("greatest", math.MaxInt64-1, headroom.ReasonNeverFits, 200)
	a.refuse("one", 1, 200)
	a.uses(200)

	wide := a.w.account(math.MaxInt64)
	wide.admit("a", math.MaxInt64-5, math.MaxInt64-5)
	wide.refuse("b", 6, math.MaxInt64-5)
	wide.refuse("c", math.MaxInt64, math.MaxInt64-5)
	wide.admit("d", 5, math.MaxInt64)
	wide.admit("e", 0, math.MaxInt64)
	wide.refuse("f", 1, math.MaxInt64)
	wide.uses(math.MaxInt64)
}

func exactCounts(t *testing.T, h Harness) {
	const big = 1 << 53
	a := newWorld(t, h).account(big + 5)
	a.admit("a", big, big)
	a.admit("b", 1, big+1)
	a.admit("c", 1, big+2)
	a.admit("d", 1, big+3)
	a.refuse("e", 3, big+3)
	a.admit("f", 2, big+5)
	a.uses(big + 5)
	a.w.set(monday)
	a.admit("g", 3, 3)
	a.uses(3, total(base, big+5))
	a.in(base).replay("a", big, 3)
}

func beyondInt64(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("a", 50, 50)
	before := a.stored("b")
	a.fail("b", math.MaxInt64, headroom.Invalid, record)
	a.fail("b", math.MaxInt64-49, headroom.Invalid, record)
	if after := a.stored("b"); after != before {
		t.Errorf("an error changed\n%sto\n%s", before, after)
	}
	a.admit("c", 50, 100)
	a.deduct("d", math.MaxInt64-100, headroom.ReasonRecorded, math.MaxInt64, record)
	a.fail("e", 1, headroom.Invalid, record)
	a.refuse("e", 1, math.MaxInt64)
	a.admit("f", 0, math.MaxInt64, record)
	a.uses(math.MaxInt64)
	a.w.set(monday)
	a.admit("g", 200, 200)
	a.uses(200, total(base, math.MaxInt64))
}

// unseenIsTold checks that a subject of which nothing is stored is told from one that has used
// nothing, and that looks and refusals leave it unseen.
func unseenIsTold(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	is := func(a account, want bool) {
		t.Helper()
		d, err := a.engine.Preflight(t.Context(), a.request("", 1))
		if u := a.usage(); err != nil || d.Unseen != want || u.Unseen != want {
			t.Fatalf("unseen is %t in a preflight and %t in the usage, %v: want %t", d.Unseen, u.Unseen, err, want)
		}
	}
	is(a, true)
	d, err := a.engine.Deduct(t.Context(), a.request("too much", 201))
	if err != nil || d.Allowed || !d.Unseen {
		t.Fatalf("a refusal stores nothing: %s, %v", full(d), err)
	}
	is(a, true)
	if d, err = a.engine.Deduct(t.Context(), a.request("nothing", 0)); err != nil || d.Unseen {
		t.Fatalf("after a charge of 0: %s, %v", full(d), err)
	}
	is(a, false)
	a.uses(0)
	is(a.of(a.subject+" & co"), true)

	planned := w.account(200)
	if err := planned.engine.SetPlan(t.Context(), planned.subject, "free"); err != nil {
		t.Fatal(err)
	}
	is(planned, false)
}
