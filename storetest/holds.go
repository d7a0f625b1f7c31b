package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func holdAndSettle(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.does(deduct, "before", 50, admitted, 50, 0)
	a.does(hold, "below", 40, admitted, 50, 40)
	a.does(hold, "at", 30, admitted, 50, 70)
	a.does(hold, "above", 20, admitted, 50, 90)
	a.holding(90).uses(50)
	a.holding(90).refuse("x", 61, 50)
	a.does(deduct, "y", 60, admitted, 110, 90)
	a.does(preflight, "", 1, overLimit, 110, 90)
	a.does(settle, "below", 25, admitted, 135, 50)
	a.does(settle, "at", 30, admitted, 165, 20)
	a.does(settle, "above", 35, admitted, 200, 0)
	a.uses(200)

	b := a.w.account(200)
	b.does(hold, "all", 200, admitted, 0, 200)
	b.does(hold, "nothing", 0, admitted, 0, 200)
	b.does(settle, "nothing", 0, admitted, 0, 200)
	b.does(settle, "all", 0, admitted, 0, 0)
	b.does(deduct, "again", 200, admitted, 200, 0)
	b.does(hold, "nothing more", 0, admitted, 200, 0)
	b.uses(200)
	if u := b.usage(); len(u.Holds) != 1 || u.Holds[0].Holds != 1 || len(u.Holds[0].Windows) != 0 {
		t.Errorf("the live holds are %v", u.Holds)
	}
}

func settleAbove(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.does(hold, "job", 50, admitted, 0, 50)
	a.does(deduct, "others", 120, admitted, 120, 50)
	a.unchanged(func() {
		a.does(settle, "job", 81, overLimit, 120, 50)
		a.does(settle, "job", 500, never, 120, 50)
	}, "job")
	a.does(settle, "job", 80, admitted, 200, 0)
	a.repeats(settle, "job", 80, admitted, 200, 0)

	b := a.w.account(200)
	b.does(hold, "job", 50, admitted, 0, 50)
	b.does(deduct, "others", 150, admitted, 150, 50)
	b.does(settle, "job", 75, past, 225, 0, record)
	b.repeats(settle, "job", 75, past, 225, 0)
	b.refuse("more", 1, 225)
	b.uses(225)

	// The policy does not matter where the cost fits.
	c := a.w.account(200)
	c.does(hold, "job", 50, admitted, 0, 50)
	c.does(settle, "job", 200, admitted, 200, 0, record)
	c.uses(200)
}

func holdRefused(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.does(deduct, "before", 150, admitted, 150, 0)
	a.unchanged(func() {
		a.does(hold, "big", 51, overLimit, 150, 0)
		a.does(hold, "big", 201, never, 150, 0)
		a.does(hold, "big", 51, overLimit, 150, 0, record) // nothing is held past a limit
		d, err := a.engine.Hold(t.Context(), a.request("closed", 1, at(base.Add(-week)), skipClosed), time.Hour)
		if err != nil || d.Allowed || d.Reason != headroom.ReasonClosed {
			t.Errorf("a hold of a closed week: %s, %v", text(d), err)
		}
	}, "big", "closed")
	a.does(hold, "big", 50, admitted, 150, 50)
	a.does(hold, "more", 1, overLimit, 150, 50)
	a.does(release, "big", 50, released, 150, 0)
	a.does(hold, "more", 50, admitted, 150, 50)

	nobody := a.w.account(200)
	nobody.unchanged(func() { nobody.does(hold, "big", 201, never, 0, 0) }, "big")
	nobody.does(hold, "big", 200, admitted, 0, 200)
}

func expiresByTheClock(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.lasts(10*time.Minute).does(hold, "short", 150, admitted, 0, 150)
	a.lasts(20*time.Minute).does(hold, "long", 40, admitted, 0, 190)
	w.set(base.Add(10*time.Minute - time.Second))
	a.does(preflight, "", 11, overLimit, 0, 190)
	a.does(deduct, "x", 11, overLimit, 0, 190)
	w.set(base.Add(10 * time.Minute))
	a.unchanged(func() {
		a.holding(40).uses(0)
		a.does(preflight, "", 160, admitted, 0, 40)
		a.does(preflight, "", 161, overLimit, 0, 40)
		a.does(preflight, "", 161, past, 0, 40, record)
		a.does(preflight, "", 201, never, 0, 40)
	})
	a.does(deduct, "x", 160, admitted, 160, 40)
	w.set(base.Add(20 * time.Minute))
	a.uses(160)
	// A hold may also need the units of an expired one, and so may a charge past the limit.
	a.lasts(time.Second).does(hold, "y", 40, admitted, 160, 40)
	w.set(base.Add(20*time.Minute + time.Second))
	a.does(hold, "z", 40, admitted, 160, 40)
	a.lasts(time.Second).does(extend, "z", 40, extended, 160, 40)
	w.set(base.Add(20*time.Minute + 2*time.Second))
	a.does(deduct, "past", 50, past, 210, 0, record)
	a.uses(210)
	a.does(deduct, "nothing", 0, admitted, 210, 0)
}

func endsByTheStoresTime(t *testing.T, h Harness) {
	if h.HostClock {
		t.Skip("the store has no clock but the host's")
	}
	w := newWorld(t, h)
	a := w.account(200)
	a.by(base.Add(-day)).lasts(10*time.Minute).does(hold, "behind", 50, admitted, 0, 50)
	a.by(base.Add(day)).lasts(10*time.Minute).does(hold, "ahead", 60, admitted, 0, 110)
	w.set(base.Add(10*time.Minute - time.Second))
	a.holding(110).uses(0)
	w.set(base.Add(10 * time.Minute))
	a.uses(0)
	a.by(base.Add(-day)).does(settle, "behind", 200, admitted, 200, 0)
	a.uses(200)
}

func releaseGivesBack(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.does(hold, "a", 120, admitted, 0, 120)
	a.does(hold, "b", 80, admitted, 0, 200)
	a.does(release, "a", 120, released, 0, 80)
	a.does(deduct, "c", 120, admitted, 120, 80)
	a.does(release, "b", 80, released, 120, 0)
	a.uses(120)
	if u := a.usage(); len(u.Holds) != 0 {
		t.Errorf("holds are left: %v", u.Holds)
	}
}

func extendHold(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.lasts(10*time.Minute).does(hold, "a", 150, admitted, 0, 150)
	w.set(base.Add(9 * time.Minute))
	a.lasts(10*time.Minute).does(extend, "a", 150, extended, 0, 150)
	w.set(base.Add(18 * time.Minute))
	a.does(deduct, "x", 51, overLimit, 0, 150)
	a.lasts(10*time.Minute).does(extend, "a", 150, extended, 0, 150)
	a.lasts(10*time.Minute).repeats(extend, "a", 150, extended, 0, 150)
	a.lasts(time.Minute).does(extend, "a", 150, extended, 0, 150) // sooner than before
	w.set(base.Add(19 * time.Minute))
	a.uses(0)
	a.fails(extend, "a", 150, headroom.Expired)
	a.does(settle, "a", 200, admitted, 200, 0)
	a.fails(extend, "a", 200, headroom.Conflict)
}

func holdReplays(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	for _, id := range []string{"settled", "released", "expired", "live"} {
		if _, err := a.ask(hold, a.request(id, 30)); err != nil {
			t.Fatal(err)
		}
	}
	a.repeats(hold, "live", 30, admitted, 0, 120)
	a.does(settle, "settled", 20, admitted, 20, 90)
	a.does(release, "released", 30, released, 20, 60)
	a.lasts(time.Minute).does(extend, "expired", 30, extended, 20, 60)
	w.set(base.Add(time.Minute))
	repeat := func(a account, used, held int64) {
		t.Helper()
		for _, id := range []string{"settled", "released", "expired", "live"} {
			a.repeats(hold, id, 30, admitted, used, held) // whatever became of the hold
		}
		a.repeats(settle, "settled", 20, admitted, used, held)
		a.repeats(settle, "settled", 20, admitted, used, held, record)
		a.repeats(release, "released", 30, released, used, held)
		a.fails(release, "expired", 30, headroom.Expired)
		a.fails(extend, "expired", 30, headroom.Expired)
	}
	a.unchanged(func() { repeat(a, 20, 30) }, "settled", "released", "expired", "live")
	// A repeat does not move the expiry.
	w.set(base.Add(time.Hour))
	a.uses(20)
	// It makes no difference that somebody who needed the units has cleared the expired hold away.
	a.does(deduct, "all", 180, admitted, 200, 0)
	repeat(a, 200, 0)
	w.set(monday)
	repeat(a.in(base), 0, 0)
	a.does(deduct, "next", 5, admitted, 5, 0)
	repeat(a.in(base), 5, 0)
}

func oneLife(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	for _, v := range []verb{settle, release, extend} {
		a.fails(v, "unknown", 1, headroom.NotFound)
	}
	a.does(deduct, "deducted", 10, admitted, 10, 0)
	a.does(hold, "held", 20, admitted, 10, 20)
	a.does(hold, "settled", 30, admitted, 10, 50)
	a.does(settle, "settled", 25, admitted, 35, 20)
	a.does(hold, "released", 40, admitted, 35, 60)
	a.does(release, "released", 40, released, 35, 20)
	for _, c := range []struct {
		v    verb
		id   string
		cost int64
	}{
		{hold, "deducted", 10}, {settle, "deducted", 10}, {release, "deducted", 10}, {extend, "deducted", 10},
		{deduct, "held", 20}, {preflight, "held", 20}, {hold, "held", 21}, {hold, "held", 0},
		{deduct, "settled", 25}, {deduct, "settled", 30}, {hold, "settled", 25}, {settle, "settled", 30}, {release, "settled", 25},
		{extend, "settled", 25},
		{deduct, "released", 40}, {hold, "released", 41}, {extend, "released", 40},
	} {
		a.fails(c.v, c.id, c.cost, headroom.Conflict)
		a.fails(c.v, c.id, c.cost, headroom.Conflict, record)
	}
	a.fails(hold, "old", 1, headroom.TooOld, began(base.Add(-horizon-time.Second)))
	// A hold is known for as long as it lasts, however long ago its work began.
	w.set(base.Add(30 * time.Minute))
	a.does(settle, "held", 22, admitted, 57, 0, began(base.Add(-year)))
	a.uses(57)
}

func manyHolds(t *testing.T, h Harness) {
	w := newWorld(t, h)
	const all, dead = 120, 30
	a := w.account(all + 100)
	for i := range int64(all) {
		if i < dead {
			a.lasts(time.Minute).does(hold, id(i), 1, admitted, 0, i+1)
		} else {
			a.does(hold, id(i), 1, admitted, 0, i+1)
		}
	}
	a.holding(all).uses(0)
	if u := a.usage(); len(u.Holds) != 2 || u.Holds[0].Holds != dead || u.Holds[1].Holds != all-dead ||
		u.Holds[1].Windows[0].Units != all-dead || !u.Holds[0].Expires.Equal(base.Add(time.Minute)) {
		t.Errorf("the live holds are %v", u.Holds)
	}
	a.repeats(hold, id(7), 1, admitted, 0, all)
	a.does(deduct, "a deduction", 1, admitted, 1, all)
	a.does(release, id(1), 1, released, 1, all-1)
	a.does(settle, id(2), 3, admitted, 4, all-2)
	w.set(base.Add(time.Minute))
	a.holding(all - dead).uses(4)
	a.does(deduct, "what they held", 100+dead-4, admitted, 100+dead, all-dead)
	a.fails(release, id(3), 1, headroom.Expired)
	a.does(settle, id(4), 1, overLimit, 100+dead, all-dead)
	a.does(release, id(all-1), 1, released, 100+dead, all-dead-1)
	a.does(settle, id(4), 1, admitted, 101+dead, all-dead-1)
}

// atMostSoManyHolds is about a plan that says how many holds there may be.
func atMostSoManyHolds(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.limited(
		headroom.Limit{Meter: meter, Name: "week", Units: 200, MaxHolds: 3},
		headroom.Limit{Meter: meter, Name: "other", Units: 1000, MaxHolds: 5},
	), 200)
	ask := func(id string, want headroom.Reason) {
		t.Helper()
		if d, err := a.ask(hold, a.request(id, 1)); err != nil || d.Reason != want || d.Allowed != (want == admitted) {
			t.Errorf("hold %q: %s, %v: want %s", id, text(d), err, want)
		}
	}
	ask("a", admitted)
	a.lasts(time.Minute).lives(hold, a.request("b", 1), admitted, base.Add(time.Minute), false)
	ask("c", admitted)
	a.unchanged(func() { ask("d", headroom.ReasonTooManyHolds) }, "d")
	ask("c", admitted) // a repeat
	if d, err := a.ask(settle, a.request("a", 5)); err != nil || !d.Allowed {
		t.Errorf("settle: %s, %v", text(d), err)
	}
	ask("d", admitted)
	ask("e", headroom.ReasonTooManyHolds)
	w.set(base.Add(time.Minute)) // a hold that is over makes room
	ask("e", admitted)
	ask("f", headroom.ReasonTooManyHolds)
	var held atomic.Int64
	if d, err := a.ask(release, a.request("e", 0)); err != nil || !d.Allowed {
		t.Errorf("release: %s, %v", text(d), err)
	}
	together(10, func(i int) {
		d, err := a.ask(hold, a.request("at once "+id(int64(i)), 0))
		if err != nil {
			t.Errorf("hold: %v", err)
		}
		if d.Allowed {
			held.Add(1)
		}
	})
	if held.Load() != 1 {
		t.Errorf("%d of ten were held in the place of one", held.Load())
	}
}

// endsRounded is about when holds end.
func endsRounded(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	w.set(base.Add(7 * time.Second))
	for lasts, want := range map[time.Duration]time.Duration{
		time.Second:      8 * time.Second,  // as asked
		time.Minute:      69 * time.Second, // a multiple of 3 s, as are 69 s after 10:00:00
		5 * time.Minute:  315 * time.Second,
		10 * time.Minute: 630 * time.Second,
		time.Hour:        63 * time.Minute,
		24 * time.Hour:   25 * time.Hour,
	} {
		a.lasts(lasts).lives(hold, a.request(lasts.String(), 1), admitted, base.Add(want), false)
	}
	// An extension to the same end is a repeat.
	w.set(base.Add(8 * time.Second))
	a.lasts(10*time.Minute).lives(extend, a.request("10m0s", 0), extended, base.Add(630*time.Second), true)
	w.set(base.Add(31 * time.Second))
	a.lasts(10*time.Minute).lives(extend, a.request("10m0s", 0), extended, base.Add(660*time.Second), false)
	w.set(base.Add(659 * time.Second))
	a.lives(hold, a.request("10m0s", 1), admitted, base.Add(660*time.Second), true)
	w.set(base.Add(660 * time.Second))
	a.lives(hold, a.request("10m0s", 1), admitted, time.Time{}, true)
}

// holdsAge is about a hold whose id is of the older generation when it is settled.
func holdsAge(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200).lasts(horizon)
	a.does(hold, "old", 50, admitted, 0, 50)
	a.does(hold, "longer", 60, admitted, 0, 110)
	w.set(base.Add(horizon - time.Hour))
	a.window = headroom.Window{}
	if d, err := a.ask(extend, a.request("longer", 0)); err != nil || !d.Allowed {
		t.Fatalf("extend: %s, %v", text(d), err)
	}
	if d, err := a.ask(settle, a.request("old", 70)); err != nil || !d.Allowed || d.Cost != 70 {
		t.Fatalf("settle: %s, %v", text(d), err)
	}
	w.set(base.Add(2*horizon - 2*time.Hour))
	if d, err := a.ask(settle, a.request("longer", 40)); err != nil || !d.Allowed || d.Cost != 40 {
		t.Fatalf("settle: %s, %v", text(d), err)
	}
	if d, err := a.engine.Hold(t.Context(), a.request("too long", 1), horizon+time.Second); headroom.CodeOf(err) != headroom.Invalid {
		t.Errorf("a hold that lasts longer than ids are remembered: %s, %v", text(d), err)
	}
	if d, err := a.engine.Extend(t.Context(), a.request("old", 1).Held(), horizon+time.Second); headroom.CodeOf(err) != headroom.Invalid {
		t.Errorf("an extension for longer than ids are remembered: %s, %v", text(d), err)
	}
}

func badHolds(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	s, a := a.tapped(headroom.Options{})
	for name, spoil := range map[string]mod{
		"no subject":     func(r *headroom.Request) { r.Subject = "" },
		"no meter":       func(r *headroom.Request) { r.Meter = "nonesuch" },
		"no id":          func(r *headroom.Request) { r.Operation = "" },
		"not UTF-8":      func(r *headroom.Request) { r.Operation = "\xc3" },
		"a negative":     func(r *headroom.Request) { r.Cost = -1 },
		"a policy":       func(r *headroom.Request) { r.Over = 7 },
		"a year too far": at(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)),
	} {
		verbs := []verb{hold, settle, release, extend}
		if name == "a negative" || name == "a policy" {
			verbs = []verb{hold, settle} // the others ask for no cost
		}
		for _, v := range verbs {
			r := a.request("id", 1, spoil)
			d, err := a.ask(v, r)
			a.failed(name+": "+string(v), r, d, err, headroom.Invalid)
		}
	}
	for _, lasts := range []time.Duration{0, -time.Hour, time.Second - 1} {
		r := a.request("id", 1)
		d, err := a.engine.Hold(t.Context(), r, lasts)
		a.failed(fmt.Sprintf("hold for %s", lasts), r, d, err, headroom.Invalid)
		d, err = a.engine.Extend(t.Context(), r.Held(), lasts)
		a.failed(fmt.Sprintf("extend for %s", lasts), r, d, err, headroom.Invalid)
	}
	if l, c := s.loads.Load(), s.commits.Load(); l+c != 0 {
		t.Errorf("bad input reached the store: %d loads and %d commits", l, c)
	}
	a.lasts(time.Second).does(hold, "id", 1, admitted, 0, 1)
	if got := a.usage().Holds; len(got) != 1 || got[0].Holds != 1 {
		t.Errorf("the live holds are %v", got)
	}
}
