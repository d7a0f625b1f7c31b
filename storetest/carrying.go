package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// carrier returns a subject with so many units a week. At most so many are carried over to the next
// week.
func (w *world) carrier(units, most int64) account {
	w.Helper()
	c, err := headroom.NewCatalog("free", []headroom.Plan{
		{Name: "free", Limits: []headroom.Limit{{Meter: meter, Name: "week", Units: units, CarryOver: most}}}, weekly("plain", units),
	}, nil)
	if err != nil {
		w.Fatal(err)
	}
	return w.accountOn(c, units)
}

// allowed returns the account with so many units expected in the present window.
func (a account) allowed(units int64) account { a.limit = units; return a }

func carriesOver(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.carrier(100, 30)
	a.does(deduct, "first", 90, admitted, 90, 0) // nothing is carried into the first window
	w.set(monday)
	a.allowed(110).uses(0, total(base, 90))
	a.allowed(110).does(preflight, "", 110, admitted, 0, 0)
	a.allowed(110).does(preflight, "", 111, overLimit, 0, 0)
	a.allowed(110).does(deduct, "second", 20, admitted, 20, 0)
	a.allowed(110).does(deduct, "x", 91, overLimit, 20, 0)
	w.set(monday.Add(week))
	a.allowed(130).uses(0, total(monday, 20), total(base, 90))
	a.allowed(130).does(deduct, "third", 130, admitted, 130, 0)
	a.allowed(130).does(deduct, "x", 1, overLimit, 130, 0)
	w.set(monday.Add(2 * week))
	a.does(deduct, "fourth", 100, admitted, 100, 0)
	a.does(deduct, "x", 1, overLimit, 100, 0)
	a.does(deduct, "past", 50, past, 150, 0, record)
	w.set(monday.Add(3 * week))
	a.does(deduct, "x", 101, overLimit, 0, 0)
	a.does(deduct, "fifth", 100, admitted, 100, 0)
}

func carriesOverUnseen(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a, b := w.carrier(100, 250), w.carrier(100, 250)
	a.does(deduct, "first", 40, admitted, 40, 0)
	b.does(deduct, "first", 40, admitted, 40, 0)
	for i, allowed := range []int64{160, 260, 350, 350} {
		w.set(monday.Add(time.Duration(i) * week))
		// It makes no difference whether somebody wrote in the meantime.
		b.allowed(allowed).does(deduct, id(int64(i)), 0, admitted, 0, 0)
		a.allowed(allowed).does(preflight, "", allowed, admitted, 0, 0)
		a.allowed(allowed).does(preflight, "", allowed+1, []headroom.Reason{overLimit, overLimit, never, never}[i], 0, 0)
	}
	a.allowed(350).does(deduct, "all", 350, admitted, 350, 0)

	// After a long time without use, no more than 52 windows' units are carried over.
	c := w.carrier(1, 1<<60)
	c.does(deduct, "first", 1, admitted, 1, 0)
	w.set(w.now().Add(100 * week))
	c.allowed(53).does(deduct, "x", 54, never, 0, 0)
	c.allowed(53).does(deduct, "all", 53, admitted, 53, 0)
}

func carriesOverHolds(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.carrier(100, 100)
	w.set(monday.Add(-2 * time.Hour))
	a.lasts(time.Hour).does(hold, "expires before", 10, admitted, 0, 10)
	a.lasts(2*time.Hour).does(hold, "expires at the end", 20, admitted, 0, 30)
	a.lasts(3*time.Hour).does(hold, "expires after", 30, admitted, 0, 60)
	for _, at := range []time.Time{monday, monday.Add(time.Hour), monday.Add(day)} {
		// It makes no difference when somebody looks first.
		w.set(at)
		a.allowed(170).uses(0)
	}
	a.allowed(170).does(deduct, "a", 170, admitted, 170, 0)
	a.allowed(170).uses(170)
}

func carriesOverNoReturns(t *testing.T, h Harness) {
	for name, back := range map[string]func(a account){
		"refund":  func(a account) { a.refund("charge", "r", 0, 40, 0) },
		"release": func(a account) { a.in(base).does(release, "hold", 30, released, 0, 0) },
		"settle":  func(a account) { a.in(base).does(settle, "hold", 5, admitted, 0, 0) },
		"an expired hold that is settled": func(a account) {
			a.w.set(monday.Add(2 * day))
			a.does(settle, "hold", 500, never, 0, 0)
		},
		"nothing": func(account) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, h)
			a := w.carrier(100, 100)
			w.set(monday.Add(-time.Hour))
			a.does(deduct, "charge", 40, admitted, 40, 0)
			a.lasts(day).does(hold, "hold", 30, admitted, 40, 30)
			w.set(monday)
			a = a.allowed(130)
			back(a)
			a.does(deduct, "all", 130, admitted, 130, 0)
			a.does(deduct, "x", 1, overLimit, 130, 0)
		})
	}
}

func carriedCouldFit(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.carrier(100, 50)
	a.does(deduct, "a", 150, overLimit, 0, 0)
	a.does(deduct, "a", 151, never, 0, 0)
	a.does(deduct, "nothing", 0, admitted, 0, 0)
	w.set(monday)
	a.allowed(150).does(deduct, "a", 150, admitted, 150, 0)
}

func carriedStays(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.carrier(100, 50)
	a.does(deduct, "a", 60, admitted, 60, 0)
	w.set(monday)
	a.allowed(140).does(deduct, "b", 10, admitted, 10, 0)
	a.setPlan("plain")
	plain := a.under("plain", 140)
	plain.does(deduct, "c", 130, admitted, 140, 0)
	w.set(monday.Add(week))
	plain.under("plain", 100).does(deduct, "d", 50, admitted, 50, 0)
	a.setPlan("free")
	// This window began under a plan that carries nothing over.
	a.does(deduct, "e", 20, admitted, 70, 0)
	w.set(monday.Add(2 * week))
	a.allowed(130).does(deduct, "f", 130, admitted, 130, 0)
}

func carriedIsNoSecondAllowance(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.carrier(100, 50)
	a.does(deduct, "a", 60, admitted, 60, 0)
	w.set(base.Add(year))
	a.allowed(150).does(deduct, "ahead", 20, admitted, 20, 0)
	w.back(base)
	a.uses(80)
	a.does(deduct, "b", 21, overLimit, 80, 0)
	a.does(deduct, "b", 20, admitted, 100, 0)
	a.uses(100)
	a.does(deduct, "c", 1, overLimit, 100, 0)
}

// carriesOverNoExtended lets the window turn between what Extend or Settle has read and what it
// writes. By then the hold has ended, and its units were carried over to the next window.
func carriesOverNoExtended(t *testing.T, h Harness) {
	for name, late := range map[string]func(a account) (headroom.Decision, error){
		"extend": func(a account) (headroom.Decision, error) {
			return a.engine.Extend(t.Context(), a.request("held", 0).Held(), time.Hour)
		},
		"settle": func(a account) (headroom.Decision, error) {
			return a.engine.Settle(t.Context(), a.request("held", 100))
		},
	} {
		w := newWorld(t, h)
		a := w.carrier(100, 100)
		w.set(monday.Add(-time.Hour))
		if d, err := a.engine.Hold(t.Context(), a.request("held", 100), time.Hour-time.Second); err != nil || !d.Allowed {
			t.Fatalf("hold: %s, %v", full(d), err)
		}
		w.set(monday.Add(-2 * time.Second))
		s, slow := a.tapped(headroom.Options{})
		s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			s.commit = nil
			w.set(monday)
			a.allowed(200).does(deduct, "all", 200, admitted, 200, 0)
			return to.Commit(ctx, c)
		}
		if d, err := late(slow); err == nil && d.Allowed {
			t.Errorf("%s: %s: 300 in two windows of 100", name, full(d))
		}
		a.allowed(200).uses(200)
	}
}
