package storetest

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func holdOfClosedWindow(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200).lasts(3 * day)
	w.set(monday.Add(-time.Hour))
	a.does(deduct, "before", 10, admitted, 10, 0)
	for i, id := range []string{"below", "at", "above", "nothing", "released", "live"} {
		a.does(hold, id, 30, admitted, 10, 30*int64(i+1))
	}
	w.set(monday)
	// The holds belong to last week. So far only 10 of that week are charged.
	a.does(deduct, "this", 190, admitted, 190, 0)
	a.uses(190, total(base, 10))
	last := a.in(base)
	last.does(settle, "below", 20, admitted, 190, 0)
	a.uses(190, total(base, 30))
	last.does(settle, "at", 30, admitted, 190, 0)
	a.uses(190, total(base, 60))
	a.unchanged(func() { a.does(settle, "above", 41, overLimit, 190, 0) }, "above")
	a.does(settle, "above", 40, admitted, 200, 0)
	a.uses(200, total(base, 90))
	last.does(settle, "nothing", 0, admitted, 200, 0)
	last.does(release, "released", 30, released, 200, 0)
	a.uses(200, total(base, 90))
	last.lasts(8*day).does(extend, "live", 30, extended, 200, 0)
	w.set(monday.Add(week))
	a.does(deduct, "next", 1, admitted, 1, 0)
	last.does(settle, "live", 0, admitted, 1, 0)
	a.uses(1, total(monday, 200), total(base, 90))
	last.repeats(settle, "below", 20, admitted, 1, 0)
	last.repeats(settle, "at", 30, admitted, 1, 0)
	a.in(monday).repeats(settle, "above", 40, admitted, 1, 0)
	last.repeats(hold, "above", 30, admitted, 1, 0)
	last.repeats(release, "released", 30, released, 1, 0)
}

func holdOfLastWindow(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200).lasts(3 * day)
	w.set(monday.Add(-time.Hour))
	a.does(hold, "below", 50, admitted, 0, 50)
	a.does(hold, "released", 60, admitted, 0, 110)
	a.does(hold, "above", 70, admitted, 0, 180)
	w.set(monday.Add(time.Hour))
	// The stored week is over, but nobody has written since.
	a.uses(0)
	last := a.in(base)
	last.does(settle, "below", 20, admitted, 0, 0)
	a.uses(0, total(base, 20))
	last.does(release, "released", 60, released, 0, 0)
	a.uses(0, total(base, 20))
	a.does(settle, "above", 270, admitted, 200, 0)
	a.uses(200, total(base, 90))
	last.repeats(settle, "below", 20, admitted, 200, 0)
}

func expiredInClosedWindow(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	w.set(monday.Add(-time.Minute))
	a.does(hold, "a", 80, admitted, 0, 80)
	a.does(deduct, "b", 10, admitted, 10, 80)
	w.set(monday)
	a.does(deduct, "c", 1, admitted, 1, 0)
	w.set(monday.Add(day))
	a.uses(1, total(base, 10))
	// This is a plain deduction. The week of the hold no longer matters.
	a.does(settle, "a", 80, admitted, 81, 0)
	a.uses(81, total(base, 10))
	a.repeats(settle, "a", 80, admitted, 81, 0)
	a.in(base).repeats(hold, "a", 80, admitted, 81, 0)
}

func holdOfTheFuture(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200).lasts(2 * week)
	a.does(deduct, "now", 50, admitted, 50, 0)
	w.set(monday)
	a.does(hold, "ahead", 60, admitted, 0, 60)
	w.back(base)
	a.holding(60).uses(50)
	a.does(deduct, "more", 10, admitted, 60, 60)
	a.holding(60).uses(60)
	// Then that Monday really comes. The hold counts in the week before it.
	w.set(monday.Add(time.Hour))
	a.uses(0, total(base, 60))
	a.does(deduct, "all", 200, admitted, 200, 0)
	a.uses(200, total(base, 60))
	a.does(deduct, "x", 1, overLimit, 200, 0)
	a.in(base).does(settle, "ahead", 30, admitted, 200, 0)
	a.uses(200, total(base, 90))
}

func sundayHold(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, c := range map[string]struct {
		used  int64
		by    []mod
		why   headroom.Reason
		after int64
	}{
		"it fits":             {0, nil, admitted, 199},
		"it does not fit":     {2, nil, overLimit, 2},
		"it is recorded":      {2, []mod{record}, past, 201},
		"Monday is used up":   {200, []mod{record}, past, 399},
		"a Monday of nothing": {0, []mod{record}, admitted, 199},
	} {
		w.Run(name, func(t *testing.T) {
			a := w.account(200)
			w.back(monday.Add(-time.Minute))
			a.does(hold, "job", 1, admitted, 0, 1)
			w.set(monday.Add(time.Minute))
			if c.used > 0 {
				a.does(deduct, "this week", c.used, admitted, c.used, 0)
			}
			a.does(settle, "job", 200, c.why, c.after, 0, c.by...)
			if c.why == overLimit {
				a.uses(c.after)
				return
			}
			a.uses(c.after, total(base, 1))
			a.repeats(settle, "job", 200, c.why, c.after, 0)
			a.in(base).repeats(hold, "job", 1, admitted, c.after, 0)
		})
	}
}
