package storetest

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// lives asks, and expects an answer whose hold is live until a time: the zero time, if none is.
func (a account) lives(v verb, r headroom.Request, want headroom.Reason, until time.Time, replay bool) {
	a.w.Helper()
	d, err := a.ask(v, r)
	if err != nil || d.Reason != want || !d.Expires.Equal(until) || d.Replay != replay {
		a.w.Fatalf("%s %q: %s, live until %s, replay %v, %v: want %s until %s, replay %v", v, r.Operation, text(d), short(d.Expires), d.Replay, err, want, short(until), replay)
	}
}

// liveUntil holds that nobody takes a replay of a hold that has ended for one that covers work.
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

// renewed holds that a hold which is asked for anew reserves its units anew, or is refused.
func renewed(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	anew := func(id string, cost int64) headroom.Request {
		r := a.request(id, cost)
		r.Renew = true
		return r
	}
	// One that lives is a replay: nothing is held twice, and its end does not move.
	a.lives(hold, anew("a", 120), admitted, base.Add(time.Hour), false)
	w.set(base.Add(time.Minute))
	a.lives(hold, anew("a", 120), admitted, base.Add(time.Hour), true)
	a.holding(120).uses(0)
	// Over, and the units are there.
	w.set(base.Add(time.Hour))
	a.lives(hold, anew("a", 120), admitted, base.Add(2*time.Hour), false)
	a.lives(hold, anew("a", 120), admitted, base.Add(2*time.Hour), true)
	a.holding(120).uses(0)
	a.holding(120).refuse("x", 81, 0)
	// Over, and others have spent them: it is refused, as often as it is asked, and holds nothing.
	w.set(base.Add(2 * time.Hour))
	a.admit("y", 100, 100)
	for range 2 {
		a.lives(hold, anew("a", 120), overLimit, time.Time{}, false)
	}
	a.admit("z", 100, 200)
	w.set(monday)
	a.lives(hold, anew("a", 120), admitted, monday.Add(time.Hour), false)
	a.does(settle, "a", 110, admitted, 110, 0)
	// What is charged is not held again.
	a.lives(hold, anew("a", 120), admitted, time.Time{}, true)
	a.uses(110, total(base, 200))
	// Released, then taken anew.
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
	a.fail("b", 50, headroom.ErrConflict)
}
