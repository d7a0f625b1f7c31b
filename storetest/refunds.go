package storetest

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func refundInParts(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.does(deduct, "a", 100, admitted, 100, 0)
	a.does(deduct, "b", 50, admitted, 150, 0)
	a.refund("a", "a1", 30, 30, 120)
	a.refund("a", "a2", 30, 30, 90)
	a.refundFails("a", "a3", 41, headroom.Invalid)
	a.refund("a", "a3", 0, 40, 50)
	a.refund("a", "a4", 0, 0, 50)
	a.refundFails("a", "a5", 1, headroom.Invalid)
	a.does(deduct, "c", 150, admitted, 200, 0)
	a.refund("b", "b1", 50, 50, 150)
	a.uses(150)
	a.w.set(monday)
	a.uses(0, total(base, 150))
}

func refundOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.does(deduct, "a", 100, admitted, 100, 0)
	a.does(deduct, "b", 50, admitted, 150, 0)
	a.refund("a", "r", 30, 30, 120)
	again := func(used int64) {
		t.Helper()
		a.refundAgain("a", "r", 30, 30, used)
		a.refundAgain("a", "r", 0, 30, used)
		a.refundFails("a", "r", 31, headroom.Conflict)
		a.refundFails("b", "r", 30, headroom.Conflict)
		a.refundFails("b", "a", 30, headroom.Conflict) // the id of a charge
		a.refundFails("a", "b", 30, headroom.Conflict)
		a.fails(deduct, "r", 30, headroom.Conflict)
		a.fails(hold, "r", 30, headroom.Conflict)
		a.fails(settle, "r", 30, headroom.Conflict)
		a.fails(release, "r", 30, headroom.Conflict)
		a.refundFails("r", "of a refund", 0, headroom.Conflict)
		a.grantFails("r", 30, base.Add(year), headroom.Conflict)
	}
	a.unchanged(func() { again(120) }, "a", "r")
	w.set(monday)
	a.does(deduct, "next", 10, admitted, 10, 0)
	again(10)
	a.uses(10, total(base, 120))
	// The horizon of both ids begins anew with the refund.
	w.set(base.Add(horizon - time.Second))
	if _, err := a.engine.Deduct(t.Context(), a.request("other", 1)); err != nil {
		t.Fatal(err)
	}
	again(1)
}

func refundOfClosedWindow(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.does(deduct, "a", 120, admitted, 120, 0)
	a.does(deduct, "b", 80, admitted, 200, 0)
	w.set(monday)
	a.does(deduct, "c", 150, admitted, 150, 0)
	a.refund("a", "a1", 20, 20, 150)
	a.uses(150, total(base, 180))
	w.set(monday.Add(week))
	a.does(deduct, "d", 1, admitted, 1, 0)
	a.refund("a", "a2", 0, 100, 1)
	a.uses(1, total(monday, 150), total(base, 80))
	a.refund("c", "c1", 50, 50, 1)
	a.refund("b", "b1", 0, 80, 1)
	// A week of which nothing is left has no total.
	a.uses(1, total(monday, 100))
	a.refund("d", "d1", 0, 1, 0)
	a.uses(0, total(monday, 100))
	a.does(deduct, "e", 200, admitted, 200, 0)
}

func refundOfLastWindow(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.does(deduct, "a", 120, admitted, 120, 0)
	w.set(monday)
	a.refund("a", "r", 50, 50, 0)
	a.uses(0, total(base, 70))
	a.does(deduct, "b", 200, admitted, 200, 0)
	a.uses(200, total(base, 70))
	a.refundAgain("a", "r", 50, 50, 200)
}

func refundOfSettled(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200).lasts(day)
	a.does(hold, "a", 50, admitted, 0, 50)
	a.refundFails("a", "r", 1, headroom.Conflict)
	a.does(settle, "a", 30, admitted, 30, 0)
	a.refund("a", "r", 10, 10, 20)
	a.refundFails("a", "r2", 21, headroom.Invalid)
	a.does(hold, "b", 50, admitted, 20, 50)
	a.does(release, "b", 50, released, 20, 0)
	a.refundFails("b", "r2", 1, headroom.Conflict)

	b := w.account(200).lasts(day)
	w.set(monday.Add(-time.Hour))
	b.does(hold, "job", 70, admitted, 0, 70)
	w.set(monday)
	b.does(settle, "job", 100, admitted, 30, 0)
	b.uses(30, total(base, 70))
	// The units that were charged last come back first.
	b.refund("job", "r1", 20, 20, 10)
	b.uses(10, total(base, 70))
	b.refund("job", "r2", 40, 40, 0)
	b.uses(0, total(base, 40))
	b.refund("job", "r3", 0, 40, 0)
	b.uses(0)
	b.repeats(settle, "job", 100, admitted, 0, 0)
}

func refundOfRecorded(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.does(deduct, "a", 500, past, 500, 0, record)
	a.refund("a", "r1", 299, 299, 201)
	a.does(deduct, "b", 1, overLimit, 201, 0)
	a.refund("a", "r2", 2, 2, 199)
	a.does(deduct, "b", 1, admitted, 200, 0)
	a.repeats(deduct, "a", 500, past, 200, 0)
}

func refundOfTheFuture(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.does(deduct, "now", 50, admitted, 50, 0)
	w.set(base.Add(year))
	a.does(deduct, "ahead", 60, admitted, 60, 0)
	w.back(base)
	// The first two refunds find the window of the future still stored. The others come after it
	// was brought back.
	a.refund("ahead", "r1", 10, 10, 100)
	a.refund("now", "r2", 10, 10, 90)
	a.does(deduct, "more", 100, admitted, 190, 0)
	a.refund("ahead", "r3", 0, 50, 140)
	a.refund("now", "r4", 0, 40, 100)
	a.uses(100)
}

// shortMemory is the view of a store that keeps only the latest total at hand, and the others
// elsewhere.
func shortMemory(v headroom.View) headroom.View {
	counters := map[string]headroom.Counter{}
	for name, c := range v.State.Counters {
		if len(c.Past) > 1 {
			c.Past, c.Partial = c.Past[:1], true
		}
		counters[name] = c
	}
	v.State.Counters = counters
	return v
}

func refundFarBack(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	s, tapped := a.tapped(headroom.Options{Horizon: 60 * day})
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		v, done, err := to.Commit(ctx, c)
		return shortMemory(v), done, err
	}
	s.loaded = func(q headroom.Query, v headroom.View) headroom.View {
		if q.History {
			return v
		}
		return shortMemory(v)
	}
	a = tapped.lasts(30 * day)
	w.set(base)
	a.does(deduct, "a", 100, admitted, 100, 0)
	a.does(hold, "h1", 50, admitted, 100, 50)
	a.does(hold, "h2", 30, admitted, 100, 80)
	var past []headroom.WindowTotal
	for i := range int64(4) {
		then := base.Add(time.Duration(i+1) * week)
		w.set(then)
		a.does(deduct, id(i), 10+i, admitted, 10+i, 0)
		if i < 3 {
			past = append([]headroom.WindowTotal{total(then, 10+i)}, past...)
		}
	}
	a.refund("a", "r", 40, 40, 13)
	a.uses(13, append(past, total(base, 60))...)
	a.in(base).does(settle, "h1", 20, admitted, 13, 0)
	a.uses(13, append(past, total(base, 80))...)
	a.in(base).does(release, "h2", 30, released, 13, 0)
	a.uses(13, append(past, total(base, 80))...)
	// A second try brings the history again.
	lost := true
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if lost {
			lost = false
			v, err := to.Load(ctx, headroom.Query{Key: c.Key, IDs: ids(c)})
			return shortMemory(v), false, err
		}
		v, done, err := to.Commit(ctx, c)
		return shortMemory(v), done, err
	}
	a.refund("a", "r2", 20, 20, 13)
	a.uses(13, append(past, total(base, 60))...)

	// This preflight needs the total of a window that a wrong clock left behind.
	w.back(base.Add(2 * week))
	a.does(preflight, "", 1, admitted, 11+12+13, 0)
}

func refundToGrant(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.granting(50).grant("soon", 50, base.Add(day), 0)
	a.granting(110).grant("late", 60, base.Add(week), 0)
	a.granting(10).does(deduct, "a", 300, admitted, 200, 0)
	// The grant that expires last gets its units back first, and the plan's own units come last.
	a.granting(40).refund("a", "r1", 30, 30, 200)
	a.granting(80).refund("a", "r2", 40, 40, 200)
	a.granting(110).refund("a", "r3", 40, 40, 190)
	a.granting(110).refund("a", "r4", 0, 190, 0)
	a.granting(110).uses(0)

	a.granting(110).does(deduct, "b", 200, admitted, 200, 0)
	a.granting(30).does(deduct, "c", 80, admitted, 200, 0)
	w.set(base.Add(day))
	// The first grant has expired: its units are gone.
	a.granting(30).uses(200)
	a.granting(60).refund("c", "r5", 30, 30, 200)
	a.granting(60).refund("c", "r6", 50, 50, 200)
	w.set(monday)
	a.granting(60).refund("b", "r7", 10, 10, 0)
	a.granting(60).uses(0, total(base, 190))
}

func refundedStaysKnown(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.does(deduct, "a", 100, admitted, 100, 0)
	a.refund("a", "r", 0, 100, 0)
	a.repeats(deduct, "a", 100, admitted, 0, 0)
	a.fails(deduct, "a", 50, headroom.Conflict)
	a.uses(0)
}

func oddRefunds(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.refundFails("never", "r", 0, headroom.NotFound)
	a.does(deduct, "nothing", 0, admitted, 0, 0)
	a.refund("nothing", "r0", 0, 0, 0)
	a.refundFails("nothing", "r1", 1, headroom.Invalid)
	a.does(deduct, "refused", 201, never, 0, 0)
	a.refundFails("refused", "r2", 201, headroom.NotFound)
	a.does(deduct, "a", 100, admitted, 100, 0)
	a.refundFails("a", "r3", 101, headroom.Invalid)
	a.refundFails("a", "r3", math.MaxInt64, headroom.Invalid)
	a.refund("a", "r3", 100, 100, 0)
	a.refundAgain("a", "r3", 100, 100, 0)
	a.uses(0)
	// Now nothing is used in the present week, and the charge was in the week before.
	a.does(deduct, "b", 100, admitted, 100, 0)
	a.w.set(monday)
	a.refund("b", "r4", 60, 60, 0)
	a.refundAgain("b", "r4", 60, 60, 0)
	a.uses(0, total(base, 40))
}

func badRefunds(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	s, a := a.tapped(headroom.Options{})
	for name, spoil := range map[string]func(*headroom.RefundRequest){
		"no subject":       func(r *headroom.RefundRequest) { r.Subject = "" },
		"an unknown meter": func(r *headroom.RefundRequest) { r.Meter = "nonesuch" },
		"no operation":     func(r *headroom.RefundRequest) { r.Operation = "" },
		"no id":            func(r *headroom.RefundRequest) { r.ID = "" },
		"an id of 257":     func(r *headroom.RefundRequest) { r.ID = strings.Repeat("r", 257) },
		"one id for both":  func(r *headroom.RefundRequest) { r.ID = r.Operation },
		"a negative":       func(r *headroom.RefundRequest) { r.Units = -1 },
		"a year too far":   func(r *headroom.RefundRequest) { r.Now = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		r := a.refundOf("a", "r", 1)
		spoil(&r)
		d, err := a.engine.Refund(t.Context(), r)
		a.failed(name, a.request("a", 1), d, err, headroom.Invalid)
	}
	if l, c := s.loads.Load(), s.commits.Load(); l+c != 0 {
		t.Errorf("bad input reached the store: %d loads and %d commits", l, c)
	}
}
