package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func futureIsBroughtBack(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("now", 190, 190)
	w.set(base.Add(year))
	a.admit("ahead", 5, 5)
	a.uses(5, total(base, 190))
	w.back(base.Add(time.Hour))
	a.uses(195)
	a.preflight("", 5, headroom.ReasonAdmitted, 195)
	a.preflight("", 6, headroom.ReasonOverLimit, 195)
	a.refuse("much", 6, 195)
	a.admit("rest", 5, 200)
	a.uses(200)
	a.refuse("more", 1, 200)
	w.set(monday)
	a.admit("next", 200, 200)
	a.uses(200, total(base, 200))

	// It is the same where nothing was used before, and where the cost is nothing.
	b := w.account(200)
	w.set(base.Add(year))
	b.admit("ahead", 5, 5)
	w.back(base)
	b.uses(5)
	b.admit("nothing", 0, 5)
	b.uses(5)
	b.refuse("much", 196, 5)
	b.deduct("all", 200, headroom.ReasonRecorded, 205, record)
	b.uses(205)
}

func severalAreBroughtBack(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	w.set(base.Add(-week))
	a.admit("before", 7, 7)
	w.set(base)
	a.admit("now", 100, 100)
	for i := range int64(4) {
		w.set(base.Add(year + time.Duration(i)*week))
		a.admit(id(i), 10+i, 10+i)
	}
	w.back(base)
	a.uses(146, total(base.Add(-week), 7))
	a.refuse("much", 55, 146)
	a.admit("rest", 54, 200)
	a.uses(200, total(base.Add(-week), 7))
	for i := range int64(4) {
		a.in(base.Add(year+time.Duration(i)*week)).replay(id(i), 10+i, 200)
	}
	w.set(monday)
	a.admit("next", 1, 1)
	a.uses(1, total(base, 200), total(base.Add(-week), 7))
}

// manyLimits returns a subject with a dozen limits of 1000 units, by the day and by the week. Some
// of them carry units over.
func (w *world) manyLimits() account {
	w.Helper()
	var limits []headroom.Limit
	for i := range 12 {
		l := headroom.Limit{
			Meter: meter, Name: fmt.Sprintf("limit-%02d", i), Units: 1000, CarryOver: int64(i%3) * 10,
			Thresholds: []int{50},
		}
		if i%2 == 0 {
			l.Period = period(w.T, "day")
		}
		limits = append(limits, l)
	}
	c := w.limited(limits...)
	return w.accountOn(c, 1000)
}

// eachUses checks that every limit has so much used and held, and so many closed windows with
// totals.
func (a account) eachUses(used, held int64, history int) {
	a.w.Helper()
	for _, l := range a.usage().Limits {
		if l.Used != used || l.Held != held || l.Limit != 1000 || len(l.History) != history {
			a.w.Errorf("%s: %+v, want %d used, %d held and %d windows before", l.Name, l, used, held, history)
		}
	}
}

// takes deducts, and checks whether it is allowed.
func (a account) takes(id string, cost int64, allowed bool) headroom.Decision {
	a.w.Helper()
	d, err := a.engine.Deduct(a.w.Context(), a.request(id, cost))
	if err != nil || d.Allowed != allowed {
		a.w.Fatalf("%d for %s: %s, %v: want allowed %t", cost, id, text(d), err, allowed)
	}
	return d
}

func manyAreBroughtBack(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.manyLimits()
	a.takes("now", 100, true)
	const ahead = 20
	for i := range ahead {
		w.set(base.Add(year + time.Duration(i)*week))
		a.takes(id(int64(i)), 10, true)
	}
	if d, err := a.engine.Hold(t.Context(), a.request("held", 5), day); err != nil || !d.Allowed {
		t.Fatalf("%s, %v", text(d), err)
	}
	w.back(base.Add(time.Minute))
	const used = 100 + 10*ahead
	a.eachUses(used, 5, 0)
	a.takes("much", 1000-used-5+1, false)
	a.eachUses(used, 5, 0)
	if d := a.takes("rest", 1000-used-5, true); len(d.Crossed) != len(d.Limits) {
		t.Errorf("%d thresholds are crossed, want one of each limit", len(d.Crossed))
	}
	a.eachUses(995, 5, 0)
	a.takes("more", 1, false)
	if d := a.takes(id(ahead-1), 10, true); !d.Replay {
		t.Errorf("no replay: %s", text(d))
	}
	if _, err := a.engine.Release(t.Context(), a.request("held", 5).Held()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.engine.Refund(t.Context(), a.refundOf(id(ahead-2), "back", 0)); err != nil {
		t.Fatal(err)
	}
	a.eachUses(985, 0, 0)
	w.set(monday)
	for _, l := range a.takes("next", 1, true).Limits {
		if l.Used != 1 {
			t.Errorf("%s: %+v", l.Name, l)
		}
	}
}

func totalFarBack(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(1000)
	var past []headroom.WindowTotal
	for i := int64(13); i > 0; i-- {
		then := base.Add(-time.Duration(i) * week)
		w.set(then)
		a.admit("past "+id(i), i, i)
		past = append([]headroom.WindowTotal{total(then, i)}, past...)
	}
	w.set(base)
	a.admit("now", 100, 100)
	for i := range int64(14) {
		w.set(base.Add(time.Duration(i+1) * week))
		a.admit(id(i), 10, 10)
	}
	w.back(base)
	a.preflight("", 761, headroom.ReasonOverLimit, 240)
	a.refuse("much", 761, 240)
	a.admit("rest", 760, 1000)
	a.uses(1000, past...)
	w.set(monday)
	a.admit("next", 1, 1)
	a.uses(1, append([]headroom.WindowTotal{total(base, 1000)}, past...)...)
}

func fiveMinutes(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	w.set(monday)
	a.admit("this", 20, 20)
	w.back(monday.Add(-headroom.ClockTolerance))
	a.in(monday).admit("a little early", 30, 50)
	w.back(monday.Add(-headroom.ClockTolerance - time.Second))
	a.in(base).admit("too early", 40, 90)
	a.in(base).uses(90)
	w.set(monday)
	a.admit("next", 1, 1)
	a.uses(1, total(base, 90))
}

func idsOfTheFuture(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("now", 10, 10)
	ahead := base.Add(year)
	w.set(ahead)
	a.admit("ahead", 20, 20)
	w.back(base)
	a.replay("now", 10, 30)
	a.in(ahead).replay("ahead", 20, 30)
	a.admit("after", 30, 60)
	a.replay("now", 10, 60)
	a.in(ahead).replay("ahead", 20, 60)
	a.replay("after", 30, 60)
	a.fail("ahead", 21, headroom.Conflict)
	// An id is remembered for the horizon also if it was charged while the clock was behind the
	// label of its generation.
	w.set(base.Add(horizon - time.Second))
	if _, err := a.engine.Deduct(t.Context(), a.request("other", 1)); err != nil {
		t.Fatal(err)
	}
	a.in(base).replay("after", 30, 1)
}

func wrongReadingForgetsNone(t *testing.T, h Harness) {
	if !h.HostClock {
		t.Skip("the store has a clock of its own, which is right")
	}
	w := newWorld(t, h)
	a := w.account(200)
	turn := epoch(base, horizon).Add(horizon)
	w.set(turn.Add(-time.Second))
	a.admit("before", 10, 10)
	w.set(turn)
	if _, err := a.engine.Deduct(t.Context(), a.request("after", 1)); err != nil {
		t.Fatal(err)
	}
	w.set(turn.Add(year))
	a.admit("ahead", 2, 2)
	w.back(turn.Add(time.Hour))
	used := a.limits()[0].Used
	a.in(turn.Add(-time.Second)).replay("before", 10, used)
	a.in(turn).replay("after", 1, used)
	a.fail("before", 11, headroom.Conflict)
	w.set(turn.Add(horizon - 2*time.Second))
	a.admit("later", 1, 3) // with the 2 units that were charged by the wrong reading
	a.in(turn.Add(-time.Second)).replay("before", 10, 3)
	// Its generation is over now, as it would be with a clock that was always right.
	w.set(turn.Add(horizon))
	a.admit("before", 10, a.limits()[0].Used+10)
}

func distrustedClock(t *testing.T, h Harness) {
	if !h.HostClock {
		t.Skip("the store has a clock of its own")
	}
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("now", 100, 100)
	w.set(base.Add(-headroom.ClockTolerance))
	a.admit("a little late", 10, 110)
	w.set(base.Add(-headroom.ClockTolerance - time.Second))
	r := a.request("x", 1)
	for _, v := range []verb{deduct, preflight} {
		d, err := a.ask(v, r)
		a.failed(string(v), r, d, err, headroom.ClockUntrusted)
		if !strings.Contains(err.Error(), "headroom clock accept") {
			t.Errorf("%s: the error does not name the remedy: %v", v, err)
		}
	}
	// A time that the caller gives takes the place of every clock.
	a.admit("given", 10, 120, at(base))
	nobody := w.account(200)
	nobody.fail("x", 1, headroom.ClockUntrusted)
	w.set(base)
	a.admit("on time", 10, 130)

	w.set(base.Add(year))
	a.admit("ahead", 10, 10)
	w.set(base)
	a.fail("x", 1, headroom.ClockUntrusted)
	if err := h.Accept(t.Context(), w.store); err != nil {
		t.Fatal(err)
	}
	a.admit("x", 1, 141)
	w.set(base.Add(-day))
	if _, err := a.engine.Deduct(t.Context(), a.request("y", 1)); !errors.Is(err, headroom.ClockUntrusted) {
		t.Errorf("the clock fell back again after it was accepted: %v, want %s", err, headroom.ClockUntrusted)
	}
}

func badClocks(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("before", 190, 190)
	if h.HostClock {
		w.set(base.Add(year))
		a.admit("ahead", 5, 5)
		w.set(base.Add(-3 * day))
		a.fail("behind", 0, headroom.ClockUntrusted)
		w.set(base)
		a.fail("now", 1, headroom.ClockUntrusted)
		w.back(base)
	} else {
		a.by(base.Add(year)).admit("ahead", 5, 195)
		a.by(base.Add(-3*day)).admit("behind", 0, 195)
		a.by(base.Add(-3*day)).refuse("behind too", 6, 195)
	}
	a.uses(195)
	a.refuse("much", 6, 195)
	a.admit("rest", 5, 200)
	a.uses(200)
	w.set(monday)
	a.admit("next", 200, 200)
	a.uses(200, total(base, 200))
}
