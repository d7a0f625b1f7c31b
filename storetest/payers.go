package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lumcast/headroom"
)

// fails makes n writes about a subject fail, before or after they take effect. If n is -1, all of
// them fail.
func (s *tap) fails(subject string, n int, failure error, after bool) {
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if c.Key.Subject != subject || n == 0 {
			return to.Commit(ctx, c)
		}
		if after {
			if v, done, err := to.Commit(ctx, c); err != nil || !done {
				return v, done, err
			}
		}
		n--
		return headroom.View{}, false, failure
	}
}

// free checks that the organisation has nothing used and nothing held.
func (p pair) free() {
	p.w.Helper()
	p.org.uses(0)
	v, err := p.w.store.Load(p.w.Context(), headroom.Query{Key: headroom.Key{Subject: p.org.subject, Meter: p.meter}})
	if err != nil || held(v.State) != 0 {
		p.w.Fatalf("the organisation has holds: %v, %v", v.State.Buckets, err)
	}
}

// colleague returns another user in the same organisation.
func (p pair) colleague() pair {
	p.account = p.of(p.subject + " 2")
	return p
}

func case51(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for code, calls := range map[headroom.Code]int{
		headroom.Throttled: 100, headroom.Contended: 5, headroom.Unavailable: 5, headroom.Rejected: 5,
		headroom.Unreadable: 5, headroom.Invalid: 5, headroom.ClockUntrusted: 5,
	} {
		w.Run(string(code), func(t *testing.T) {
			p := w.newPair(1000)
			s, tapped := p.tapped()
			failure := headroom.Errorf(code, nil, "the store failed; nothing was written")
			s.fails(p.subject, -1, failure, false)
			for i := range calls {
				if _, err := tapped.ask(fmt.Sprint("job-", i), 1); !errors.Is(err, failure) {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			if _, err := tapped.ask("large", 100); !errors.Is(err, failure) {
				t.Fatal(err)
			}
			p.free()
			p.account.uses(0)
			p.colleague().pays("job", 1, 1, 1)
			// The same ids can be used again.
			s.commit = nil
			tapped.pays("job-4", 1, 2, 1)
		})
	}
	w.Run("all units at once", func(t *testing.T) {
		p := w.newPair(100)
		s, tapped := p.tapped()
		s.fails(p.subject, -1, headroom.Throttled, false)
		if _, err := tapped.ask("job", 100); !errors.Is(err, headroom.Throttled) {
			t.Fatal(err)
		}
		p.colleague().pays("job", 100, 100, 100)
	})
	w.Run("the user has spent it", func(*testing.T) {
		p := w.newPair(1000)
		p.account.does(deduct, "own", 100, admitted, 100, 0)
		for i := range 30 {
			p.refuses(fmt.Sprint("job-", i), 1)
		}
		p.free()
		p.colleague().pays("job", 1, 1, 1)
	})
}

func callerGivesUp(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, c := range []struct {
		when  string
		write int64
		after bool
	}{
		{"before the hold is written", 1, false},
		{"while the answer to the hold is under way", 1, true},
		{"before the user's charge is written", 2, false},
	} {
		w.Run(c.when, func(t *testing.T) {
			p := w.newPair(1000)
			for i := range 30 {
				if id := fmt.Sprint("job-", i); p.givesUp(id, c.write, c.after) == nil {
					t.Fatalf("%s was charged", id)
				}
			}
			p.free()
			p.colleague().pays("job", 1, 1, 1)
		})
	}
	w.Run("while the answer to the user's charge is under way", func(*testing.T) {
		p := w.newPair(1000)
		_ = p.givesUp("job", 2, true)
		// The engine repeats the charge, and finds it made. Whoever looks next settles the
		// organisation.
		p.account.uses(1)
		p.org.uses(1)
	})
}

// givesUp asks for one unit. The caller cancels at the nth write, before it is sent or once it has
// taken effect.
func (p pair) givesUp(id string, n int64, after bool) error {
	s, tapped := p.tapped()
	ctx, cancel := context.WithCancel(p.w.Context())
	defer cancel()
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if s.commits.Load() != n {
			return to.Commit(ctx, c)
		}
		if !after {
			cancel()
			return to.Commit(ctx, c)
		}
		_, _, _ = to.Commit(ctx, c)
		cancel()
		return headroom.View{}, false, headroom.Errorf(headroom.OutcomeUnknown, ctx.Err(), "the caller gave up")
	}
	_, err := tapped.engine.DeductWithin(ctx, p.org.subject, p.request(id, 1))
	return err
}

var errLost = headroom.Errorf(headroom.OutcomeUnknown, context.DeadlineExceeded, "the answer was lost")

func repeatedOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, after := range map[string]bool{"before it takes effect": false, "after it took effect": true} {
		w.Run(name, func(t *testing.T) {
			p := w.newPair(150)
			s, tapped := p.tapped()
			s.fails(p.subject, 1, errLost, after)
			if j := tapped.pays("once", 20, 20, 20); j.User.Replay != after {
				t.Errorf("the user's part is a replay: %t", j.User.Replay)
			}
			p.staysUnknown(after)
			p.uses(50, 50)
			// Now the repeat says that the user's limit refuses. The organisation gets its units
			// back at once.
			tapped.account.does(deduct, "before", 1, admitted, 51, 0)
			s.fails(p.subject, 1, errLost, false)
			tapped.refuses("large", 80)
			p.uses(50, 51)
			p.org.does(deduct, "rest", 100, admitted, 150, 0)
		})
	}
}

// staysUnknown asks for 30 units where 20 are used. The outcome of the user's charge is unknown,
// and so is the engine's repeat of it. The hold then stays for whoever repeats the call, until it
// expires.
func (p pair) staysUnknown(after bool) {
	p.w.Helper()
	s, tapped := p.tapped()
	tries := 0
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if c.Key.Subject != p.subject {
			return to.Commit(ctx, c)
		}
		if tries++; tries > 1 {
			return headroom.View{}, false, headroom.Throttled
		}
		if after {
			_, _, _ = to.Commit(ctx, c)
		}
		return headroom.View{}, false, errLost
	}
	if j, err := tapped.ask("twice", 30); !errors.Is(err, headroom.OutcomeUnknown) || j.Allowed {
		p.w.Fatalf("%v, %v", j.Allowed, err)
	}
	if !after {
		p.org.holding(30).uses(20)
	}
	if tries < 2 {
		p.w.Error("the user's charge was not repeated")
	}
	s.commit = nil
	tapped.pays("twice", 30, 50, 50)
}

func holdOfAnother(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := w.newPair(150)
	s, first := p.tapped()
	throttled, second := p.tapped()
	throttled.fails(p.subject, -1, headroom.Throttled, false)
	// A second delivery of the same operation fails between the hold and the charge of the first.
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if c.Key.Subject == p.subject && s.commits.Load() == 2 {
			if _, err := second.ask("a", 50); !errors.Is(err, headroom.Throttled) {
				t.Errorf("the second delivery: %v", err)
			}
			p.org.holding(50).uses(0)
		}
		return to.Commit(ctx, c)
	}
	first.pays("a", 50, 50, 50)
	p.uses(50, 50)
}

func case52(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := w.newPair(150)
	globex := p
	globex.org = p.of(p.subject+" & others").under("team", 150)
	globex.org.setPlan("team")
	conflicts := func(what string, ask func() error) {
		t.Helper()
		if err := ask(); !errors.Is(err, headroom.Conflict) {
			t.Fatalf("%s: %v: want a conflict", what, err)
		}
		globex.free()
	}
	within := func(p pair, id string, cost int64) func() error {
		return func() error { _, err := p.ask(id, cost); return err }
	}
	p.pays("a", 30, 30, 30)
	conflicts("under another organisation", within(globex, "a", 30))
	conflicts("of another cost", within(globex, "a", 20))
	conflicts("alone", func() error { _, err := p.account.ask(deduct, p.request("a", 30)); return err })
	p.uses(30, 30)
	p.account.does(deduct, "alone", 10, admitted, 40, 0)
	conflicts("within, after it was charged alone", within(p, "alone", 10))
	p.uses(30, 40)
	// It is a conflict also where the other organisation has no room.
	globex.org.does(deduct, "all", 150, admitted, 150, 0)
	for _, id := range []string{"a", "alone"} {
		cost := map[string]int64{"a": 30, "alone": 10}[id]
		if err := within(globex, id, cost)(); !errors.Is(err, headroom.Conflict) {
			t.Errorf("%q where there is no room: %v", id, err)
		}
	}
	globex.org.uses(150)
	p.uses(30, 40)
	if j := p.pays("a", 30, 30, 40); !j.Organisation.Replay || !j.User.Replay {
		t.Error("the repeat is none")
	}
	// A preflight does not say who pays.
	p.preflight("b", 10, admitted, 40)
	if d, err := p.account.ask(preflight, p.request("a", 30)); err != nil || !d.Replay {
		t.Errorf("preflight of what was charged within: %s, %v", text(d), err)
	}
	// After a refund it is still known who paid.
	p.account.refund("a", "r", 10, 10, 30)
	conflicts2 := within(globex, "a", 30)
	if err := conflicts2(); !errors.Is(err, headroom.Conflict) {
		t.Errorf("after a refund: %v", err)
	}
}

func case52Crashes(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, alone := range map[string]bool{"charged within another": false, "charged alone": true} {
		w.Run(name, func(t *testing.T) {
			crashes(func(n int64, after bool) bool {
				w.back(base)
				p := w.newPair(150)
				globex := p
				globex.org = p.of(p.subject+" & others").under("team", 150)
				globex.org.setPlan("team")
				org := int64(30)
				if alone {
					org = 0
					p.account.does(deduct, "a", 30, admitted, 30, 0)
				} else {
					p.pays("a", 30, 30, 30)
				}
				s, tapped := globex.tapped()
				s.dies(n, after)
				_, _ = tapped.ask("a", 30)
				over := s.commits.Load() < n
				s.revive()
				for range 2 {
					if _, err := tapped.ask("a", 30); !errors.Is(err, headroom.Conflict) {
						t.Fatalf("the repeat after death %d: %v: want a conflict", n, err)
					}
					globex.free()
					p.uses(org, 30)
				}
				return over
			})
		})
	}
}
