package storetest

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// skews are how much the clocks of hosts are wrong.
var skews = []time.Duration{
	0, -2 * time.Second, 2 * time.Second, -headroom.ClockTolerance - time.Second,
	headroom.ClockTolerance + time.Second, -3 * day, -week, week, -year, year,
}

func crowdDisagrees(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(50)
	w.set(monday.Add(-time.Second))
	a.admit("before", 1, 1)
	hosts := make([]account, len(skews))
	for i, skew := range skews {
		hosts[i] = a.on(a.catalog, headroom.Options{Clock: func() time.Time { return w.now().Add(skew) }})
	}
	var y tally
	turning := w.turning()
	together(120, func(i int) {
		turning()
		y.spend(hosts[i%len(hosts)], id(int64(i)), 1)
	})
	last, this := headroom.ISOWeek(base).Key, headroom.ISOWeek(monday).Key
	if y.units[this] != 50 || y.units[last] > 49 || y.admitted+y.refused != 120 || len(y.units) > 2 {
		t.Errorf("%d admitted (by week %v), %d refused: want 50 in %s and at most 49 in %s", y.admitted, y.units, y.refused, this, last)
	}
	a.uses(50, total(base, 1+y.units[last]))
}

func clockJumps(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	w.set(monday.Add(-3 * time.Minute))
	a.admit("before", 1, 1)
	jump := func(t time.Time) time.Time { return t.Add(time.Duration(rand.N(240)) * time.Second) }
	w.lie.Store(&jump)
	var y tally
	together(120, func(i int) { y.spend(a, id(int64(i)), 1) })
	w.lie.Store(nil)
	last, this := headroom.ISOWeek(base).Key, headroom.ISOWeek(monday).Key
	if y.admitted != 120 || y.units[last]+y.units[this] != 120 {
		t.Errorf("%d admitted (by week %v), %d refused: want all 120, in %s and %s", y.admitted, y.units, y.refused, last, this)
	}
	w.set(monday.Add(time.Minute))
	a.uses(y.units[this], total(base, 1+y.units[last]))
}

func readingsAhead(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("before", 10, 10)
	var readings atomic.Int64
	ahead := func(t time.Time) time.Time {
		if readings.Add(1)%40 == 20 {
			return t.Add(year)
		}
		return t
	}
	w.lie.Store(&ahead)
	together(120, func(i int) {
		for {
			d, err := a.engine.Deduct(t.Context(), a.request(id(int64(i)), 1))
			if h.HostClock && errors.Is(err, headroom.ClockUntrusted) {
				err = h.Accept(t.Context(), w.store)
				if err == nil {
					continue
				}
			}
			if err != nil || !d.Allowed || d.Replay {
				t.Errorf("%d: %s, %v", i, text(d), err)
			}
			return
		}
	})
	w.lie.Store(nil)
	w.back(base.Add(time.Hour))
	a.uses(130)
	a.refuse("much", 71, 130)
	a.admit("rest", 70, 200)
	a.uses(200)
	w.set(monday)
	a.admit("next", 200, 200)
	a.uses(200, total(base, 200))
}
