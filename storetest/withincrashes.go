package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// dies lets the process on a tap die at its nth write, before or after that takes effect. Nothing
// that it does later reaches the store.
func (s *tap) dies(n int64, after bool) {
	first, dead := s.commits.Load(), false
	died := headroom.Errorf(headroom.Unavailable, context.Canceled, "the process is dead")
	s.load = func() error {
		if dead {
			return died
		}
		return nil
	}
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if !dead && s.commits.Load()-first < n {
			return to.Commit(ctx, c)
		}
		if !dead && after {
			_, _, _ = to.Commit(ctx, c)
		}
		dead = true
		return headroom.View{}, false, died
	}
}

// revive puts a new process in the place of the one that died.
func (s *tap) revive() { s.load, s.commit = nil, nil }

// crash makes the nth write on a tap fail, before or after it takes effect.
func (s *tap) crash(n int64, after bool) {
	first := s.commits.Load()
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if s.commits.Load()-first != n {
			return to.Commit(ctx, c)
		}
		if after {
			if v, done, err := to.Commit(ctx, c); err != nil || !done {
				return v, done, err
			}
		}
		return headroom.View{}, false, headroom.Errorf(headroom.OutcomeUnknown, context.DeadlineExceeded, "the answer was lost")
	}
}

// crashes calls f with every n, before and after, until f reports that it was done in fewer writes.
func crashes(f func(n int64, after bool) (done bool)) {
	for _, after := range []bool{false, true} {
		for n := int64(1); n < 20 && !f(n, after); n++ {
		}
	}
}

func withinCrashes(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, c := range map[string]struct {
		cost, used int64
		wait       time.Duration
	}{
		"a repeat at once":                    {50, 50, 0},
		"a repeat after the hold has expired": {50, 50, time.Hour},
		"a user who refuses":                  {101, 0, 0},
		"a user who refuses after an hour":    {101, 0, time.Hour},
	} {
		w.Run(name, func(*testing.T) {
			crashes(func(n int64, after bool) (done bool) { return w.healed(n, after, c.cost, c.used, c.wait) })
		})
	}
}

// healed lets a process die at the nth write of a deduction within an organisation, and repeats the
// call after a while. It reports true if there were fewer writes.
func (w *world) healed(n int64, after bool, cost, used int64, wait time.Duration) (done bool) {
	w.Helper()
	w.back(base)
	p := w.newPair(150)
	s, tapped := p.tapped()
	s.dies(n, after)
	_, err := tapped.ask("a", cost)
	if s.commits.Load() < n {
		return true
	}
	if err == nil && n < 4 { // the fourth write removes a debt that is paid already
		w.Fatalf("death %d was not noticed", n)
	}
	s.revive()
	w.set(base.Add(wait))
	for range 2 {
		if used > 0 {
			tapped.pays("a", cost, used, used)
		} else {
			tapped.refuses("a", cost)
		}
		p.uses(used, used)
	}
	return false
}

func organisationSlow(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := w.newPair(150)
	p.pays("first", 10, 10, 10)
	s, tapped := p.tapped()
	s.dies(3, false) // between the user's deduction and the settlement
	if _, err := tapped.ask("a", 50); !errors.Is(err, headroom.Unavailable) {
		t.Fatal(err)
	}
	s.revive()
	w.set(base.Add(time.Hour))
	p.org.does(deduct, "others", 120, admitted, 130, 0)
	j, err := tapped.ask("a", 50)
	if err != nil || !j.Allowed || j.Organisation.Reason != past || j.Organisation.Used != 180 || !j.User.Replay || j.User.Used != 60 {
		t.Fatalf("the repeat: %v, %v; organisation: %s; user: %s", j.Allowed, err, text(j.Organisation), text(j.User))
	}
	p.uses(180, 60)
	j, err = tapped.ask("a", 50)
	if err != nil || !j.Allowed || !j.Organisation.Replay || !j.User.Replay {
		t.Fatalf("the next repeat: %v, %v; organisation: %s; user: %s", j.Allowed, err, text(j.Organisation), text(j.User))
	}
	p.uses(180, 60)

	// While the user is not charged yet, the organisation may still refuse.
	p = w.newPair(150)
	s, tapped = p.tapped()
	s.dies(2, false)
	if _, err := tapped.ask("a", 50); !errors.Is(err, headroom.Unavailable) {
		t.Fatal(err)
	}
	s.revive()
	w.set(base.Add(2 * time.Hour))
	p.org.does(deduct, "others", 120, admitted, 120, 0)
	tapped.refuses("a", 50)
	p.uses(120, 0)

	// If the user was charged, the repeat is not refused as a late row of a log, though the
	// organisation's week has turned.
	p = w.newPair(150)
	p.pays("first", 10, 10, 10)
	s, tapped = p.tapped()
	s.dies(3, false)
	if _, err := tapped.ask("a", 50); !errors.Is(err, headroom.Unavailable) {
		t.Fatal(err)
	}
	s.revive()
	then := w.now().Add(time.Hour)
	w.set(monday)
	p.org.does(deduct, "others", 20, admitted, 20, 0)
	j, err = tapped.ask("a", 50, at(then), skipClosed)
	if err != nil || !j.Allowed || !j.Organisation.Allowed || !j.User.Replay {
		t.Fatalf("the repeat: %v, %v; organisation: %s; user: %s", j.Allowed, err, text(j.Organisation), text(j.User))
	}
	if used := p.org.limits()[0]; used.Used+used.History[0].Units != 80 {
		t.Errorf("the organisation was charged %s", usageText(used))
	}
}

func twoDeliveries(t *testing.T, h Harness) {
	w := newWorld(t, h)
	w.Run("both are refused", func(*testing.T) {
		p := w.newPair(150)
		p.account.does(deduct, "own", 90, admitted, 90, 0)
		p.beforeGivingBack(func() { p.refuses("a", 50) }).refuses("a", 50)
		p.uses(0, 90)
	})
	w.Run("one is refused before the plan is raised, the other charged after", func(t *testing.T) {
		p := w.newPair(150)
		p.account.does(deduct, "own", 90, admitted, 90, 0)
		slow := p.beforeGivingBack(func() {
			p.setPlan("more")
			if j, err := p.ask("a", 50); err != nil || !j.Allowed {
				t.Errorf("the other delivery: %v, %v", j.Allowed, err)
			}
		})
		slow.account, p.account = slow.under("more", 1000), p.under("more", 1000)
		slow.pays("a", 50, 50, 140)
		p.uses(50, 140)
	})
}

// beforeGivingBack is the pair as a slow delivery sees it. Something happens just before the last
// write of a refused delivery, by which it gives back what the organisation holds.
func (p pair) beforeGivingBack(happens func()) pair {
	s, slow := p.tapped()
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if last := c.Records[0]; s.commits.Load() > 1 && c.Key.Subject == p.org.subject && last.Is == nil {
			s.commit = nil
			happens()
		}
		return to.Commit(ctx, c)
	}
	return slow
}

func withinTurns(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, n := range []int64{2, 3} { // before the user's deduction, and after it
		w.back(monday.Add(-time.Minute))
		p := w.newPair(150)
		p.pays("first", 10, 10, 10)
		s, tapped := p.tapped()
		s.dies(n, false)
		if _, err := tapped.ask("a", 50); !errors.Is(err, headroom.Unavailable) {
			t.Fatal(err)
		}
		s.revive()
		w.set(monday)
		if j, err := tapped.ask("a", 50); err != nil || !j.Allowed {
			t.Fatalf("the repeat: %v, %v", j.Allowed, err)
		}
		// The organisation pays in the old week, in which it held. The user pays in the week of the
		// charge.
		p.org.uses(0, total(base, 60))
		if n == 2 {
			p.account.uses(50, total(base, 10))
		} else {
			p.account.uses(0, total(base, 60))
		}
	}
}
