package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func debtsFinishedByAnother(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, n := range []int{settlesIt, clearsIt} {
		for name, finish := range map[string]func(p pair){
			"a look":   func(p pair) { p.account.limits() },
			"a sweep":  func(p pair) { p.sweep(0) },
			"a repeat": func(p pair) { p.pays("a", 50, 50, 50) },
		} {
			p := w.newPair(150)
			s, tapped := p.tapped()
			s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				if stepOf(p, c) == n {
					s.commit = nil
					finish(p)
					p.settled(50, 50)
				}
				return to.Commit(ctx, c)
			}
			if j := tapped.pays("a", 50, 50, 50); j.Organisation.Replay != (n == settlesIt) || j.User.Replay {
				t.Errorf("%s before step %d: the organisation's part is a replay: %t", name, n, j.Organisation.Replay)
			}
			p.settled(50, 50)
		}
	}
}

// debtsFinishedTwice lets sixteen callers settle four debts at once. On a loaded machine the time
// of a look may be over before its turn comes. It then leaves its debts to the next look, as one
// does that others keep from its write.
func debtsFinishedTwice(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for range 10 {
		p := w.newPair(1000)
		for i := range 4 {
			p.leave(fmt.Sprint("job-", i), 10)
		}
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				var err error
				if i%2 == 0 {
					_, err = p.engine.Usage(t.Context(), headroom.UsageRequest{Subject: p.subject, Meter: p.meter})
				} else {
					_, err = p.engine.FinishDebts(t.Context())
				}
				if err != nil && !leftToTheNext(err) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for looks := 0; looks < 100 && len(p.owed()) > 0; looks++ {
			p.account.limits()
		}
		p.settled(40, 40)
	}
}

// leftToTheNext reports whether a failed look has only left debts to the next one.
func leftToTheNext(err error) bool {
	return errors.Is(err, headroom.Contended) || errors.Is(err, context.DeadlineExceeded)
}

func debtsLeft(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, look := range looks {
		switch name {
		case "within", "within, refused", "the organisation refuses", "usage":
			continue // they need the organisation
		}
		p := w.newPair(150)
		p.account.does(deduct, "before", 5, admitted, 5, 0)
		p.account.does(hold, "held", 1, admitted, 5, 1)
		p.leave("a", 50)
		s, tapped := p.tapped()
		s.fails(p.org.subject, -1, headroom.Throttled, false)
		if err := look(tapped); err != nil || len(p.owed()) != 1 {
			t.Errorf("%s: %v; it owes %v", name, err, p.owed())
		}
	}
	p := w.newPair(150)
	p.leave("a", 50)
	s, tapped := p.tapped()
	s.fails(p.org.subject, -1, headroom.Throttled, false)
	u, err := tapped.engine.Usage(t.Context(), headroom.UsageRequest{Subject: p.subject, Meter: p.meter})
	if err != nil || len(u.Debts) != 1 || u.Debts["a"].Units != 50 {
		t.Errorf("usage shows debts %v, %v", u.Debts, err)
	}
	if n, err := tapped.engine.FinishDebts(t.Context()); !errors.Is(err, headroom.Throttled) || n.Left < 1 {
		t.Errorf("a sweep: %+v, %v", n, err)
	}
	p.org.holding(50).uses(0)
	p.sweep(1)
	p.org.uses(50)
}

func debtsFull(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := w.newPair(1000)
	for i := range headroom.MaxDebts {
		// The debts stay, because no settlement goes through.
		p.leaveUnreached(fmt.Sprint("job-", i), 1)
	}
	if owed := p.owed(); len(owed) != headroom.MaxDebts {
		t.Fatalf("it owes %d", len(owed))
	}
	other := p
	other.org = p.of(p.subject+" & others").under("team", 1000)
	other.org.setPlan("team")
	s, tapped := other.tapped()
	s.fails(p.org.subject, -1, headroom.Throttled, false)
	for range 3 {
		j, err := tapped.ask("more", 1)
		var failure *headroom.Error
		if !errors.Is(err, headroom.Unavailable) || errors.Is(err, headroom.OutcomeUnknown) || !errors.As(err, &failure) ||
			j.Allowed {
			t.Fatalf("with %d debts: %v, %v", headroom.MaxDebts, j.Allowed, err)
		}
		other.free()
	}
	// A deduction that the user pays alone needs no room.
	tapped.account.does(deduct, "alone", 1, admitted, headroom.MaxDebts+1, 0)
	// Once the organisation can be reached, the call finishes older debts and so makes the room
	// that it needs.
	s.commit = nil
	tapped.pays("more", 1, 1, headroom.MaxDebts+2)
	p.settled(headroom.MaxDebts, headroom.MaxDebts+2)
}

// leaveUnreached is like leave. Earlier debts stay too, because no settlement goes through.
func (p pair) leaveUnreached(id string, cost int64) {
	p.w.Helper()
	s, tapped := p.tapped()
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		for _, r := range c.Records {
			if r.Is != nil && r.Is.Kind == headroom.KindSettled {
				return headroom.View{}, false, headroom.Throttled
			}
		}
		return to.Commit(ctx, c)
	}
	if _, err := tapped.ask(id, cost); !errors.Is(err, headroom.Throttled) {
		p.w.Fatalf("%s: %v", id, err)
	}
}

func debtsTooOld(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := w.newPair(150)
	p.leave("a", 50)
	w.set(base.Add(horizon))
	p.sweep(1)
	if d := p.org.limits()[0]; d.Used != 50 {
		t.Errorf("a horizon later: %s", usageText(d))
	}
	// Now the organisation has forgotten the id.
	w.back(base)
	p = w.newPair(150)
	p.leave("a", 50)
	p.org.does(release, p.its("a"), 50, released, 0, 0)
	for i := range 3 {
		w.set(base.Add(time.Duration(i+1) * horizon))
		p.org.does(deduct, fmt.Sprint("later ", i), 0, admitted, 0, 0)
	}
	if n := p.sweep(1); n.TooOld < 1 {
		t.Errorf("a sweep: %+v", n)
	}
	if d := p.org.limits()[0]; d.Used != 0 || len(d.History) != 0 {
		t.Errorf("whether it was paid nobody knows, and it is charged: %s", usageText(d))
	}
	if owed := p.owed(); len(owed) != 0 {
		t.Errorf("it owes %v", owed)
	}
}

func debtsOfALog(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := w.newPair(150)
	then := base.Add(-3*week + 90*time.Millisecond)
	p.leave("a", 50, at(then))
	if owed := p.owed()["a"]; !owed.Given || !owed.Since.Equal(then.Truncate(time.Second)) {
		t.Fatalf("it owes %v", owed)
	}
	p.sweep(1)
	d, err := p.engine.Usage(t.Context(), headroom.UsageRequest{Subject: p.org.subject, Meter: p.meter, Now: then.Add(time.Minute)})
	if err != nil || d.Limits[0].Used != 50 || d.Limits[0].Window != headroom.ISOWeek(then) {
		t.Errorf("the organisation: %s, %v", usageText(d.Limits...), err)
	}
}
