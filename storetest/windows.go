package storetest

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func neverGoBack(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("last", 100, 100)
	w.set(monday.Add(time.Minute))
	a.admit("this", 20, 20)
	w.set(monday.Add(-4 * time.Minute))
	a.in(monday).admit("late", 30, 50)
	a.in(monday).refuse("later", 151, 50)
	a.in(monday).uses(50, total(base, 100))
	w.set(monday.Add(2 * time.Minute))
	a.admit("on time", 150, 200)
	a.uses(200, total(base, 100))
}

func hostBehindOpensNone(t *testing.T, h Harness) {
	if h.HostClock {
		t.Skip("the store has no clock but the host's")
	}
	w := newWorld(t, h)
	a := w.account(200)
	w.set(monday.Add(day))
	a.admit("this", 20, 20)
	behind := a.by(base.Add(-week))
	behind.admit("late", 30, 50)
	behind.refuse("more", 151, 50)
	behind.admit("rest", 150, 200)
	a.uses(200)

	nobody := w.account(200)
	nobody.by(base.Add(-week)).admit("first", 1, 1)
	nobody.by(base.Add(year)).admit("second", 1, 2)
	nobody.uses(2)
}

func lastTotals(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	var all []headroom.WindowTotal
	for i := range int64(60) {
		then := base.Add(time.Duration(i) * week)
		w.set(then)
		a.admit(id(i), 100+i, 100+i)
		all = append([]headroom.WindowTotal{total(then, 100+i)}, all...)
	}
	a.uses(159, all[1:1+headroom.HistoryWindows]...)
	w.set(base.Add(60 * week))
	a.uses(0, all[:headroom.HistoryWindows]...)
}

func rollover(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("a", 100, 100)
	w.set(monday)
	a.uses(0, total(base, 100))
	a.preflight("", 200, headroom.ReasonAdmitted, 0)
	a.preflight("", 101, headroom.ReasonOverLimit, 100, at(monday.Add(-time.Second)))
	a.uses(0, total(base, 100))
	// A window in which nothing was charged leaves no total.
	a.admit("nothing", 0, 0)
	a.uses(0, total(base, 100))
	w.set(monday.Add(5 * week))
	a.admit("b", 50, 50)
	a.uses(50, total(base, 100))
	w.set(monday.Add(6 * week))
	a.admit("c", 25, 25)
	a.uses(25, total(monday.Add(5*week), 50), total(base, 100))
}

func everySecond(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	w.set(monday.Add(-time.Minute))
	a.admit("all", 200, 200)
	before := a.stored()
	s, asks := a.tapped(headroom.Options{})
	for i := int64(-10); i < 10; i++ {
		w.set(monday.Add(time.Duration(i) * time.Second))
		switch {
		case i < 0:
			asks.refuse(id(i), 60, 200)
		case i < 3:
			asks.admit(id(i), 60, 60*(i+1))
		default:
			asks.refuse(id(i), 60, 180)
		}
		if i == -1 {
			if after := a.stored(); after != before {
				t.Errorf("the refused ones changed\n%sto\n%s", before, after)
			}
		}
	}
	if s.applied.Load() != 3 {
		t.Errorf("%d changes were applied, want 3", s.applied.Load())
	}
	a.uses(180, total(base, 200))
}

func clocksDiffer(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	w.set(monday.Add(-time.Minute))
	a.admit("sunday", 150, 150)
	// Two writers take turns. The clock of the second is two seconds behind. The week turns with
	// the first charge that the first writer makes on Monday.
	used := int64(150)
	for i := int64(-4); i < 4; i++ {
		at := monday.Add(time.Duration(i) * time.Second)
		if i == 0 {
			used = 0
		}
		in := a.in(at)
		w.set(at)
		used += 10
		in.admit("first "+id(i), 10, used)
		used++
		if h.HostClock {
			w.set(at.Add(-2 * time.Second))
			in.admit("second "+id(i), 1, used)
		} else {
			in.by(at.Add(-2*time.Second)).admit("second "+id(i), 1, used)
		}
	}
	w.set(monday.Add(time.Minute))
	a.uses(44, total(base, 194))
}

func sundayMonday(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	w.set(monday.Add(-time.Second))
	a.admit("sunday", 180, 180)
	w.set(monday.Add(time.Second))
	a.admit("monday", 30, 30)
	a.uses(30, total(base, 180))
}

func turnsOfYears(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	for _, c := range []struct{ date, key string }{
		{"2005-01-02", "2004-W53"}, {"2008-12-29", "2009-W01"}, {"2012-01-01", "2011-W52"}, {"2016-01-01", "2015-W53"},
		{"2018-12-31", "2019-W01"}, {"2021-01-03", "2020-W53"}, {"2024-12-30", "2025-W01"}, {"2027-01-03", "2026-W53"},
	} {
		now, err := time.Parse(time.DateOnly, c.date)
		if err != nil {
			t.Fatal(err)
		}
		d, err := a.engine.Deduct(t.Context(), a.request(c.date, 10, at(now.Add(12*time.Hour))))
		if err != nil || !d.Allowed || d.Used != 10 || d.Window.Key != c.key || d.Window.End.Sub(d.Window.Start) != week {
			t.Errorf("%s: %s, %v: want 10 used in %s", c.date, text(d), err, c.key)
		}
	}
}

func hostZones(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, offset := range map[string]int{"America/New_York": -4, "Asia/Tokyo": 9} {
		a := w.account(200)
		zone := time.FixedZone(name, offset*3600)
		w.back(monday.Add(-time.Second).In(zone))
		a.in(base).admit("sunday", 200, 200)
		w.set(monday.In(zone))
		a.in(monday).admit("monday", 10, 10)
		a.in(monday).uses(10, total(base, 200))
		a.in(base).replay("sunday", 200, 10, began(monday.Add(-time.Second).In(zone)))
		a.in(monday).admit("given", 10, 20, at(monday.Add(time.Hour).In(zone)))
	}
}
