package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// all runs n calls at once and counts the decisions by reason. A replay counts as "replay". An
// error fails the test.
func (a account) all(n int, call func(i int) (headroom.Decision, error)) map[headroom.Reason]int {
	var mu sync.Mutex
	count := map[headroom.Reason]int{}
	together(n, func(i int) {
		d, err := call(i)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			a.w.Errorf("call %d: %v", i, err)
		case d.Replay:
			count["replay"]++
		default:
			count[d.Reason]++
			if d.Reason == admitted && d.Used+d.Held > d.Limit {
				a.w.Errorf("call %d: admitted over the limit: %s", i, text(d))
			}
		}
	})
	return count
}

func twentyHolds(t *testing.T, h Harness) {
	a := newWorld(t, h).account(500)
	n := a.all(20, func(i int) (headroom.Decision, error) { return a.ask(hold, a.request(id(int64(i)), 75)) })
	if n[admitted] != 6 || n[overLimit] != 14 {
		t.Errorf("decided %v: want 6 admitted and 14 refused", n)
	}
	a.holding(450).uses(0)
}

func holdsAndSettlements(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	var charged, refused atomic.Int64
	n := a.all(24, func(i int) (headroom.Decision, error) {
		name := id(int64(i))
		d, err := a.ask(hold, a.request(name, 10))
		if err != nil || !d.Allowed {
			refused.Add(1)
			return d, err
		}
		if i%4 == 0 {
			return a.ask(release, a.request(name, 10))
		}
		cost := int64(i % 11) // never more than is held
		charged.Add(cost)
		return a.ask(settle, a.request(name, cost))
	})
	if n[admitted]+n[released]+n[overLimit] != 24 || n[overLimit] != int(refused.Load()) {
		t.Errorf("decided %v, %d refused", n, refused.Load())
	}
	a.uses(charged.Load())
	if refused.Load() > 4 {
		t.Errorf("%d of 24 holds of 10 were refused on 200", refused.Load())
	}
}

func oneLifeAtOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	n := a.all(20, func(int) (headroom.Decision, error) { return a.ask(hold, a.request("id", 50)) })
	if n[admitted] != 1 || n["replay"] != 19 {
		t.Errorf("held %v: want one and 19 replays", n)
	}
	a.holding(50).uses(0)
	n = a.all(20, func(int) (headroom.Decision, error) { return a.ask(settle, a.request("id", 70)) })
	if n[admitted] != 1 || n["replay"] != 19 {
		t.Errorf("settled %v: want one and 19 replays", n)
	}
	a.uses(70)

	// A hold is settled, released and expires at the same time. Whichever is first, it is charged
	// once.
	b := w.account(200)
	b.does(hold, "id", 50, admitted, 0, 50)
	var settled, again atomic.Int64
	together(30, func(i int) {
		if i == 15 {
			w.set(base.Add(time.Hour))
		}
		if i%3 == 0 {
			_, _ = b.ask(release, b.request("id", 50)) // it may be a replay, expired or a conflict
			return
		}
		d, err := b.ask(settle, b.request("id", 60))
		switch {
		case err != nil || !d.Allowed:
			t.Errorf("settle: %s, %v", text(d), err)
		case d.Replay:
			again.Add(1)
		default:
			settled.Add(1)
		}
	})
	if settled.Load() != 1 || again.Load() != 19 {
		t.Errorf("settled %d times, and %d replays", settled.Load(), again.Load())
	}
	b.uses(60)
}

func sweptAtOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	for i := range int64(25) {
		a.does(hold, "dead "+id(i), 8, admitted, 0, 8*(i+1))
	}
	w.set(base.Add(time.Hour))
	n := a.all(40, func(i int) (headroom.Decision, error) {
		if i%2 == 0 {
			return a.ask(hold, a.request(id(int64(i)), 10))
		}
		return a.ask(deduct, a.request(id(int64(i)), 10))
	})
	if n[admitted] != 20 || n[overLimit] != 20 {
		t.Errorf("decided %v: want 20 admitted and 20 refused", n)
	}
	if l := a.limits()[0]; l.Used+l.Held != 200 {
		t.Errorf("%s", limitText(l.LimitState))
	}
}

func refundsAtOnce(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.does(deduct, "other", 50, admitted, 50, 0)
	a.does(deduct, "charge", 100, admitted, 150, 0)
	// Each of ten refunds of 15 is delivered twice. Six of them fit.
	var done, again, refused atomic.Int64
	together(20, func(i int) {
		switch d, err := a.engine.Refund(t.Context(), a.refundOf("charge", fmt.Sprint("r", i/2), 15)); {
		case errors.Is(err, headroom.Invalid):
			refused.Add(1)
		case err != nil:
			t.Errorf("refund: %v", err)
		case d.Replay:
			again.Add(1)
		default:
			done.Add(1)
		}
	})
	if done.Load() != 6 || again.Load() > 6 || done.Load()+again.Load()+refused.Load() != 20 {
		t.Errorf("%d refunds, %d replays, %d refused: want 6 refunds of 20 calls", done.Load(), again.Load(), refused.Load())
	}
	a.uses(60)
}

func grantedAtOnce(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	n := a.all(20, func(i int) (headroom.Decision, error) {
		return a.engine.Grant(t.Context(), a.grantOf(fmt.Sprint("g", i%2), 50, base.Add(day)))
	})
	if n[granted] != 2 || n["replay"] != 18 {
		t.Errorf("decided %v: want two grants and 18 replays", n)
	}
	a.left(map[string]int64{"g0": 50, "g1": 50})
}

func drawnAtOnce(t *testing.T, h Harness) {
	a := newWorld(t, h).account(50)
	a.granting(30).grant("a", 30, base.Add(day), 0)
	a.granting(55).grant("b", 25, base.Add(2*day), 0)
	n := a.all(16, func(i int) (headroom.Decision, error) { return a.ask(deduct, a.request(id(int64(i)), 10)) })
	if n[admitted] != 10 || n[overLimit] != 6 {
		t.Errorf("decided %v: want 10 admitted and 6 refused", n)
	}
	a.granting(5).uses(50)
	a.left(map[string]int64{"a": 0, "b": 5})
}

func severalAtOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.dayAndWeek(60, 100), 0)
	calls := func(prefix string) map[headroom.Reason]int {
		return a.all(20, func(i int) (headroom.Decision, error) { return a.ask(deduct, a.request(prefix+id(int64(i)), 7)) })
	}
	if n := calls("today "); n[admitted] != 8 || n[overLimit] != 12 {
		t.Errorf("decided %v: want 8 admitted by the day", n)
	}
	w.set(base.Add(day))
	if n := calls("tomorrow "); n[admitted] != 6 || n[overLimit] != 14 {
		t.Errorf("decided %v: want 6 admitted by the week", n)
	}
	if l := a.limits(); l[0].Used != 42 || l[1].Used != 98 || len(l[0].History) != 1 || l[0].History[0].Units != 56 {
		t.Errorf("used %s", usageText(l...))
	}
}

func crossedAtOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.notified(100, 10, 50, 80, 100)
	var mu sync.Mutex
	crossed, by := map[int]int{}, map[string]string{}
	ask := func(i int) (headroom.Decision, error) {
		d, err := a.ask([]verb{deduct, hold}[i%2], a.request(id(int64(i)), 3))
		mu.Lock()
		defer mu.Unlock()
		for _, n := range d.Crossed {
			switch {
			case !d.Replay:
				crossed[n.Percent]++
				by[n.ID] = id(int64(i))
			case by[n.ID] != id(int64(i)):
				t.Errorf("a repeat of %s says that it crossed %d%%, which %s did", id(int64(i)), n.Percent, by[n.ID])
			}
		}
		return d, err
	}
	a.all(33, ask)
	for _, percent := range []int{10, 50, 80} {
		if crossed[percent] != 1 {
			t.Errorf("%d decisions crossed %d%%: want one", crossed[percent], percent)
		}
	}
	if crossed[100] != 0 || len(by) != 3 {
		t.Errorf("crossed %v at 99 of 100", crossed)
	}
	if n := a.all(33, ask); n["replay"] != 33 {
		t.Errorf("repeated %v", n)
	}
}

func usersAtOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	const users, calls = 20, 3
	p := w.newPair(450)
	of := func(i int) account { return p.of(fmt.Sprint(p.subject, "/", i)) }
	var mu sync.Mutex
	charged := map[int]int64{}
	ask := func(i int) {
		user := of(i % users)
		// Each user asks for 40 of 100 three times. The organisation has room for eleven charges.
		j, err := user.engine.DeductWithin(t.Context(), p.org.subject, user.request(id(int64(i)), 40))
		if err != nil {
			t.Errorf("call %d: %v", i, err)
			return
		}
		if j.Organisation.Reason == past || j.Organisation.Used+j.Organisation.Held > 450 || j.User.Used > 100 {
			t.Errorf("call %d: organisation %s; user %s", i, text(j.Organisation), text(j.User))
		}
		if j.Allowed && !j.User.Replay {
			mu.Lock()
			defer mu.Unlock()
			charged[i%users] += 40
		}
	}
	together(users*calls, ask)
	var sum int64
	check := func() {
		t.Helper()
		sum = 0
		for i := range users {
			of(i).uses(charged[i])
			sum += charged[i]
		}
		p.org.uses(sum)
	}
	check()
	if sum > 450 || sum < 40 {
		t.Errorf("%d were charged of 450", sum)
	}
	// While a hold was there that is given back later, others may have been refused. When each asks
	// again, one by one, all that fits is charged.
	for i := range users * calls {
		ask(i)
	}
	if check(); sum != 440 {
		t.Errorf("%d were charged of 450, want 440", sum)
	}
}

func withinAtOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := w.newPair(150)
	var first atomic.Int64
	together(12, func(i int) {
		j, err := p.ask("id", 60)
		if err != nil || !j.Allowed {
			t.Errorf("delivery %d: %v, %v", i, j.Allowed, err)
		}
		if !j.User.Replay {
			first.Add(1)
		}
	})
	if first.Load() != 1 {
		t.Errorf("%d deliveries were the first", first.Load())
	}
	p.uses(60, 60)
	together(12, func(i int) {
		if j, err := p.ask("refused", 50); err != nil || j.Allowed {
			t.Errorf("delivery %d of what the user refuses: %v, %v", i, j.Allowed, err)
		}
	})
	p.uses(60, 60)
}
