package storetest

import (
	"context"
	"testing"

	"github.com/lumcast/headroom"
)

func atLeast(least int64) mod { return func(r *headroom.Request) { r.AtLeast = least } }

// fits asks for as much as fits, and expects so many units in all to be admitted.
func (a account) fits(v verb, r headroom.Request, want headroom.Reason, units int64, replay bool) headroom.Decision {
	a.w.Helper()
	d, err := a.ask(v, r)
	if err != nil || d.Reason != want || d.Cost != units || d.Replay != replay {
		a.w.Fatalf("%s %q of %d, at least %d: %s, %v: want %s, %d, replay %t",
			v, r.Operation, r.Cost, r.AtLeast, text(d), err, want, units, replay)
	}
	return d
}

// asMuchAsFits checks that a request which takes less is admitted at all that there is, and that a
// repeat gets the same number, whatever there is by then.
func asMuchAsFits(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, v := range []verb{deduct, hold} {
		a := w.account(1000)
		call := func(id string, cost, least int64) headroom.Request { return a.request(id, cost, atLeast(least)) }
		a.fits(deduct, a.request("before", 600), admitted, 600, false)
		a.fits(preflight, call("", 1000, 100), admitted, 400, false)
		a.unchanged(func() {
			d := a.fits(v, call("more", 1000, 401), overLimit, 1000, false)
			if d.Remaining != 400 {
				t.Errorf("400 are left: %s", text(d))
			}
			a.fits(v, call("never", 2000, 1001), headroom.ReasonNeverFits, 2000, false)
		}, "more", "never")
		if d := a.fits(v, call("call", 1000, 100), admitted, 400, false); d.Remaining != 0 {
			t.Errorf("all is taken: %s", text(d))
		}
		a.fits(deduct, a.request("x", 1), overLimit, 1, false)
		a.fits(v, call("late", 1000, 1), overLimit, 1000, false)
		a.fits(v, call("call", 1000, 100), admitted, 400, true)
		a.fails(v, "call", 400, headroom.Conflict)
		a.fails(v, "call", 1000, headroom.Conflict)
		a.fails(v, "call", 1000, headroom.Conflict, atLeast(99))
		a.fails(v, "call", 999, headroom.Conflict, atLeast(100))
		w.set(w.now().Add(week))
		if v == hold {
			continue
		}
		a.fits(v, call("call", 1000, 100), admitted, 400, true)
		a.fits(v, call("whole", 900, 100), admitted, 900, false)
		a.fits(v, call("whole", 900, 100), admitted, 900, true)
		a.fits(v, call("part", 900, 100), admitted, 100, false)
		a.fits(v, call("part", 900, 100), admitted, 100, true)
		if _, err := a.engine.Refund(t.Context(), headroom.RefundRequest{Subject: a.subject, Meter: a.meter, Operation: "part", ID: "back"}); err != nil {
			t.Fatal(err)
		}
		a.fits(v, call("part", 900, 100), admitted, 100, true)
		a.fits(v, call("again", 900, 100), admitted, 100, false)
	}
}

// heldAsMuchAsFits checks that a hold of as much as fits is settled, released and taken anew like
// any other.
func heldAsMuchAsFits(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(1000)
	call := func(id string) headroom.Request { return a.request(id, 1000, atLeast(100)) }
	a.fits(deduct, a.request("before", 600), admitted, 600, false)
	a.fits(hold, call("settled"), admitted, 400, false)
	a.fits(settle, a.request("settled", 150), admitted, 150, false)
	a.fits(settle, a.request("settled", 150), admitted, 150, true)
	a.fits(hold, call("settled"), admitted, 400, true)
	a.fails(settle, "settled", 150, headroom.Invalid, atLeast(1))

	a.fits(hold, call("released"), admitted, 250, false)
	a.fits(release, a.request("released", 0), released, 250, false)
	d := a.fits(hold, call("released"), admitted, 250, true)
	if d.Live {
		t.Errorf("a released hold is live: %s", full(d))
	}
	renew := call("released")
	renew.Renew = true
	a.fits(hold, a.request("other", 100), admitted, 100, false)
	a.fits(hold, renew, admitted, 150, false)
	a.fits(settle, a.request("released", 150), admitted, 150, false)
}

// fitsWithGrants checks that what grants have is a part of what there is.
func fitsWithGrants(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.granting(30).grant("g", 30, base.Add(3*day), 0)
	a.granting(50).grant("h", 20, base.Add(day), 0)
	a.fits(deduct, a.request("own", 190), admitted, 190, false)
	a.fits(deduct, a.request("x", 500, atLeast(61)), headroom.ReasonOverLimit, 500, false)
	a.fits(deduct, a.request("all", 500, atLeast(60)), admitted, 60, false)
	a.left(map[string]int64{"g": 0, "h": 0})
	a.fits(deduct, a.request("x", 5, atLeast(1)), overLimit, 5, false)
	a.fits(deduct, a.request("all", 500, atLeast(60)), admitted, 60, true)
}

// fitsExactly checks that what comes between the look and the write counts: what is taken is what
// there is at the write, no more and no less.
func fitsExactly(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, test := range map[string]struct {
		between func(account)
		want    int64
	}{
		"others spend":   {func(a account) { a.fits(deduct, a.request("between", 30), admitted, 30, false) }, 70},
		"units are back": {func(a account) { a.fits(release, a.request("held", 0), released, 40, false) }, 140},
		"a grant comes":  {func(a account) { a.granting(25).grant("g", 25, w.now().Add(day), 60) }, 125},
	} {
		a := w.account(200)
		a.fits(deduct, a.request("before", 60), admitted, 60, false)
		a.fits(hold, a.request("held", 40), admitted, 40, false)
		s, overtaken := a.tapped(headroom.Options{})
		s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			s.commit = nil
			test.between(a.holding(40))
			return to.Commit(ctx, c)
		}
		r := a.request("call", 1000, atLeast(10))
		d, err := overtaken.engine.Deduct(t.Context(), r)
		if err != nil || d.Cost != test.want || !d.Allowed || d.Remaining != 0 || d.Granted != 0 {
			t.Errorf("%s: %s, %v: want %d", name, text(d), err, test.want)
		}
	}
}

// badAtLeast checks that what as much as fits does not go with is an error before any write.
func badAtLeast(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.unchanged(func() {
		a.fails(deduct, "x", 10, headroom.Invalid, atLeast(11))
		a.fails(deduct, "x", 10, headroom.Invalid, atLeast(-1))
		a.fails(hold, "x", 10, headroom.Invalid, atLeast(11))
		a.fails(preflight, "x", 10, headroom.Invalid, atLeast(11))
		a.fails(deduct, "x", 10, headroom.Invalid, atLeast(5), record)
		a.fails(settle, "x", 10, headroom.Invalid, atLeast(5))
		a.fails(deduct, "x", 10, headroom.Invalid, atLeast(5), func(r *headroom.Request) {
			r.More = []headroom.Amount{{Meter: "calls", Cost: 1}}
		})
		r := a.request("x", 10, atLeast(5))
		if _, err := a.engine.DeductWithin(t.Context(), "acme", r); headroom.CodeOf(err) != headroom.Invalid {
			t.Errorf("within an organisation: %v", err)
		}
	}, "x")
}
