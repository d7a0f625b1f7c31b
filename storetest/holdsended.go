package storetest

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// lives asks, and checks until when the answer says that its hold is live. The zero time means that
// none is.
func (a account) lives(v verb, r headroom.Request, want headroom.Reason, until time.Time, replay bool) {
	a.w.Helper()
	d, err := a.ask(v, r)
	if err != nil || d.Reason != want || !d.Expires.Equal(until) || d.Live == until.IsZero() || d.Replay != replay {
		a.w.Fatalf("%s %q: %s, live %t until %s, replay %v, %v: want %s until %s, replay %v", v, r.Operation, text(d),
			d.Live, short(d.Expires), d.Replay, err, want, short(until), replay)
	}
}

// liveUntil checks that nobody can take the replay of a hold that has ended for a hold that covers
// work.
func liveUntil(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	hour := base.Add(time.Hour)
	never := time.Time{}
	a.lives(hold, a.request("a", 50), admitted, hour, false)
	w.set(base.Add(30 * time.Minute))
	a.lives(hold, a.request("a", 50), admitted, hour, true)
	longer := a.lasts(90 * time.Minute)
	longer.lives(extend, a.request("a", 0), extended, base.Add(2*time.Hour), false)
	longer.lives(extend, a.request("a", 0), extended, base.Add(2*time.Hour), true)
	a.lives(hold, a.request("a", 50), admitted, base.Add(2*time.Hour), true)
	w.set(base.Add(2*time.Hour - time.Second))
	a.lives(hold, a.request("a", 50), admitted, base.Add(2*time.Hour), true)
	w.set(base.Add(2 * time.Hour))
	a.lives(hold, a.request("a", 50), admitted, never, true)
	a.lives(deduct, a.request("clears", 1), admitted, never, false)
	a.lives(hold, a.request("a", 50), admitted, never, true)

	a.lives(hold, a.request("b", 50), admitted, w.now().Add(time.Hour), false)
	a.lives(release, a.request("b", 0), released, never, false)
	a.lives(release, a.request("b", 0), released, never, true)
	a.lives(hold, a.request("b", 50), admitted, never, true)
	a.lives(hold, a.request("c", 50), admitted, w.now().Add(time.Hour), false)
	a.lives(settle, a.request("c", 60), admitted, never, false)
	a.lives(settle, a.request("c", 60), admitted, never, true)
	a.lives(hold, a.request("c", 50), admitted, never, true)
	a.lives(hold, a.request("d", 201), headroom.ReasonNeverFits, never, false)
	a.lives(deduct, a.request("e", 10), admitted, never, false)
	a.lives(preflight, a.request("f", 10), admitted, never, false)
}

// renewed checks that a hold which is asked for anew reserves its units again, or is refused.
func renewed(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	anew := func(id string, cost int64) headroom.Request {
		r := a.request(id, cost)
		r.Renew = true
		return r
	}
	// While the hold is live, the answer is a replay. Nothing is held twice, and its end does not
	// move.
	a.lives(hold, anew("a", 120), admitted, base.Add(time.Hour), false)
	w.set(base.Add(time.Minute))
	a.lives(hold, anew("a", 120), admitted, base.Add(time.Hour), true)
	a.holding(120).uses(0)
	// It has expired, and the units are still there.
	w.set(base.Add(time.Hour))
	a.lives(hold, anew("a", 120), admitted, base.Add(2*time.Hour), false)
	a.lives(hold, anew("a", 120), admitted, base.Add(2*time.Hour), true)
	a.holding(120).uses(0)
	a.holding(120).refuse("x", 81, 0)
	// It has expired, and others have spent the units. It is refused each time, and holds nothing.
	w.set(base.Add(2 * time.Hour))
	a.admit("y", 100, 100)
	for range 2 {
		a.lives(hold, anew("a", 120), overLimit, time.Time{}, false)
	}
	a.admit("z", 100, 200)
	w.set(monday)
	a.lives(hold, anew("a", 120), admitted, monday.Add(time.Hour), false)
	a.does(settle, "a", 110, admitted, 110, 0)
	// Work that was charged is not held again.
	a.lives(hold, anew("a", 120), admitted, time.Time{}, true)
	a.uses(110, total(base, 200))
	// A hold that was released is taken anew.
	a.does(hold, "b", 50, admitted, 110, 50)
	a.does(release, "b", 50, released, 110, 0)
	a.lives(hold, anew("b", 50), admitted, monday.Add(time.Hour), false)
	a.holding(50).uses(110, total(base, 200))
	// One id stands for one piece of work.
	a.does(release, "b", 50, released, 110, 0)
	for _, cost := range []int64{49, 51, 0} {
		if d, err := a.ask(hold, anew("b", cost)); err == nil {
			t.Errorf("a hold of 50 was taken anew at %d: %s", cost, text(d))
		}
	}
	a.fail("b", 50, headroom.Conflict)
}

func workersDie(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200).lasts(time.Minute)
	for i := range int64(10) {
		a.does(hold, id(i), 20, admitted, 0, 20*(i+1))
	}
	a.does(deduct, "x", 1, overLimit, 0, 200)
	w.set(base.Add(time.Minute))
	a.uses(0)
	a.does(deduct, "all", 200, admitted, 200, 0)
	a.uses(200)
}

func succeedsAfterAll(t *testing.T, h Harness) {
	for name, end := range map[string]func(a account){
		"released": func(a account) { a.does(release, "job", 50, released, 0, 0) },
		"expired":  func(a account) { a.w.set(base.Add(time.Hour)) },
		"expired and cleared away": func(a account) {
			a.w.set(base.Add(time.Hour))
			a.does(deduct, "all", 200, admitted, 200, 0)
			a.refund("all", "all back", 0, 200, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, h)
			a := w.account(200)
			a.does(hold, "job", 50, admitted, 0, 50)
			end(a)
			a.does(settle, "job", 201, never, 0, 0)
			a.does(deduct, "others", 180, admitted, 180, 0)
			a.does(settle, "job", 50, overLimit, 180, 0)
			a.does(settle, "job", 30, past, 210, 0, record)
			a.repeats(settle, "job", 30, past, 210, 0)
			a.repeats(settle, "job", 30, past, 210, 0, record)
			a.repeats(hold, "job", 50, admitted, 210, 0)
			a.fails(settle, "job", 50, headroom.Conflict)
			a.fails(release, "job", 50, headroom.Conflict)
			a.uses(210)
		})
	}
}

func settleBeyondInt64(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.does(deduct, "a", 50, admitted, 50, 0)
	a.does(hold, "job", 10, admitted, 50, 10)
	a.fails(settle, "job", math.MaxInt64, headroom.Invalid, record)
	a.fails(settle, "job", math.MaxInt64-49, headroom.Invalid, record)
	a.does(settle, "job", math.MaxInt64, never, 50, 10)
	a.does(settle, "job", math.MaxInt64-50, past, math.MaxInt64, 0, record)
	a.does(hold, "more", 1, overLimit, math.MaxInt64, 0)
	a.w.set(monday)
	a.does(hold, "next", 200, admitted, 0, 200)
	a.does(hold, "greatest", math.MaxInt64, never, 0, 200)
	a.holding(200).uses(0, total(base, math.MaxInt64))

	// An expired hold is in nobody's way, and is cleared away only by a write that needs its units.
	b := a.w.account(200)
	b.does(deduct, "a", 50, admitted, 50, 0)
	b.lasts(time.Second).does(hold, "dead", 10, admitted, 50, 10)
	a.w.set(monday.Add(time.Second))
	b.fails(deduct, "b", math.MaxInt64-49, headroom.Invalid, record)
	b.does(preflight, "", math.MaxInt64-50, past, 50, 0, record)
	b.does(deduct, "b", math.MaxInt64-50, past, math.MaxInt64, 0, record)
}

func settleTouchesNoOther(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	for i := range int64(3) {
		a.does(hold, id(i), 30, admitted, 0, 30*(i+1))
	}
	w.set(base.Add(time.Hour))
	s, tapped := a.tapped(headroom.Options{})
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if touched := ids(c); len(touched) > 0 && !slices.Equal(touched, []string{id(1)}) {
			t.Errorf("a settlement writes %q", touched)
		}
		return to.Commit(ctx, c)
	}
	tapped.does(settle, id(1), 40, admitted, 40, 0)
}

// clearedForGood is about a clock that goes back after holds were cleared away. A hold that then
// ends when one of those did has units of its own.
func clearedForGood(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	short := a.lasts(2 * time.Minute)
	short.does(hold, "cleared", 150, admitted, 0, 150)
	w.set(base.Add(4 * time.Minute))
	a.does(deduct, "needs the room", 60, admitted, 60, 0)
	w.set(base)
	short.lives(hold, a.request("same end", 100), admitted, base.Add(2*time.Minute), false)
	a.does(hold, "longer", 20, admitted, 60, 120)
	w.set(base.Add(30 * time.Second))
	a.lasts(90*time.Second).lives(extend, a.request("longer", 0), extended, base.Add(2*time.Minute), false)
	a.fails(release, "cleared", 150, headroom.Expired)
	a.does(settle, "cleared", 10, admitted, 70, 120)
	a.does(settle, "same end", 90, admitted, 160, 20)
	a.does(release, "longer", 20, released, 160, 0)
	a.uses(160)
	w.set(base.Add(4 * time.Minute))
	a.does(deduct, "the rest", 40, admitted, 200, 0)
}

// holdsLeaveRoom is about one subject with as many grants as there can be, all with long ids. Its
// holds draw on all of them, and none ends when another does.
func holdsLeaveRoom(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(0)
	for i := range int64(headroom.MaxGrants) {
		a.granting(i+1).grant(strings.Repeat("g", 240)+id(i), 1, base.AddDate(0, 1, 0), 0)
	}
	const rounds, most = 20, 80 << 10
	for i := range int64(rounds) {
		if d, err := a.lasts(time.Duration(i+1)*time.Hour).ask(hold, a.request(id(i), headroom.MaxGrants)); err != nil || d.Reason != admitted {
			t.Fatalf("round %d: %s, %v", i, text(d), err)
		}
		if d, err := a.ask(release, a.request(id(i), headroom.MaxGrants)); err != nil || d.Reason != released {
			t.Fatalf("round %d: %s, %v", i, text(d), err)
		}
	}
	v, err := w.store.Load(t.Context(), headroom.Query{Key: headroom.Key{Subject: a.subject, Meter: a.meter}})
	if err != nil {
		t.Fatal(err)
	}
	bytes := 0
	for _, b := range v.State.Buckets {
		bytes += len(b.Limit) + len(b.Grant)
	}
	if bytes > most {
		t.Errorf("the names of %d buckets take %d bytes, and no hold is live", len(v.State.Buckets), bytes)
	}
}
