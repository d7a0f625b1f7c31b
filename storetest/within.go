package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// pair is a user and its organisation.
type pair struct {
	account // of the user
	org     account
}

// newPair returns a user of 100 units a week in an organisation of so many.
func (w *world) newPair(units int64) pair {
	w.Helper()
	a := w.accountOn(w.catalog(100, weekly("team", units), weekly("more", 1000)), 100)
	org := a.of(a.subject+" & co").under("team", units)
	org.setPlan("team")
	return pair{a, org}
}

// tapped is the pair as an engine on a tap sees it.
func (p pair) tapped() (*tap, pair) {
	s, a := p.account.tapped(headroom.Options{})
	p.account, p.org.engine = a, a.engine
	return s, p
}

// its is the organisation's id of an operation of the user.
func (p pair) its(id string) string { return headroom.OperationWithin(p.subject, id) }

func (p pair) ask(id string, cost int64, mods ...mod) (headroom.Joint, error) {
	return p.engine.DeductWithin(p.w.Context(), p.org.subject, p.request(id, cost, mods...))
}

// pays expects that both are charged, after which the organisation and the user have used so much.
func (p pair) pays(id string, cost, org, user int64, mods ...mod) headroom.Joint {
	p.w.Helper()
	return p.joint(id, cost, admitted, org, user, mods...)
}

func (p pair) joint(id string, cost int64, why headroom.Reason, org, user int64, mods ...mod) headroom.Joint {
	p.w.Helper()
	j, err := p.ask(id, cost, mods...)
	r := p.request(id, cost)
	if !j.Allowed {
		p.w.Fatalf("%q: not allowed: %v; organisation: %s; user: %s", id, err, text(j.Organisation), text(j.User))
	}
	ofOrg, ofUser := p.org.want(r, admitted, org), p.want(r, why, user)
	ofOrg.Replay, ofUser.Replay = j.Organisation.Replay, j.User.Replay
	p.org.check("organisation", r, j.Organisation, ofOrg, err)
	p.account.check("user", r, j.User, ofUser, err)
	return j
}

// refuses expects that neither is charged.
func (p pair) refuses(id string, cost int64, mods ...mod) headroom.Joint {
	p.w.Helper()
	j, err := p.ask(id, cost, mods...)
	if err != nil || j.Allowed || j.Organisation.Allowed && j.User.Allowed {
		p.w.Fatalf("%q: %v, %v; organisation: %s; user: %s", id, j.Allowed, err, text(j.Organisation), text(j.User))
	}
	return j
}

// uses expects what both have used.
func (p pair) uses(org, user int64) {
	p.w.Helper()
	p.org.uses(org)
	p.account.uses(user)
}

func bothCharged(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(150)
	j := p.pays("a", 60, 60, 60)
	if j.Organisation.Replay || j.User.Replay {
		t.Error("the first is a replay")
	}
	p.pays("b", 40, 100, 100)
	j = p.pays("a", 60, 100, 100)
	if !j.Organisation.Replay || !j.User.Replay {
		t.Error("the repeat is none")
	}
	p.pays("nothing", 0, 100, 100)
	p.uses(100, 100)
	// Each is a charge like any other.
	p.org.refund(p.its("a"), "r", 10, 10, 90)
	p.account.refund("a", "r", 10, 10, 90)
	p.pays("a", 60, 90, 90)
	p.fail("a", 60, headroom.ErrConflict)
	p.org.repeats(settle, p.its("a"), 60, admitted, 90, 0)
}

func organisationRefuses(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(150)
	p.org.does(deduct, "others", 100, admitted, 100, 0)
	p.unchanged(func() {
		j := p.refuses("a", 60)
		p.org.check("organisation", p.request("a", 60), j.Organisation, p.org.want(p.request("a", 60), overLimit, 100), nil)
		if full(j.User) != full(headroom.Decision{}) {
			t.Errorf("the user was asked: %s", text(j.User))
		}
		if j = p.refuses("a", 151); j.Organisation.Reason != never {
			t.Errorf("the organisation said %s", text(j.Organisation))
		}
	}, "a")
	p.uses(100, 0)
	p.org.refund("others", "r", 50, 50, 50)
	p.pays("a", 60, 110, 60)
	p.uses(110, 60)
}

func userRefuses(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(150)
	p.account.does(deduct, "own", 50, admitted, 50, 0)
	p.unchanged(func() {
		j := p.refuses("a", 60)
		p.account.check("user", p.request("a", 60), j.User, p.want(p.request("a", 60), overLimit, 50), nil)
		p.org.check("organisation", p.request("a", 60), j.Organisation, p.org.want(p.request("a", 60), released, 0), nil)
	}, "a")
	p.uses(0, 50)
	p.org.does(deduct, "others", 50, admitted, 50, 0)
	// The same id can be asked again, at another cost too.
	p.pays("a", 50, 100, 100)
	p.uses(100, 100)
	p.refuses("b", 1)
	p.setPlan("more")
	p.account = p.under("more", 1000)
	p.pays("b", 50, 150, 150)
	p.uses(150, 150)
}

func policyOfTheUser(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(150)
	p.joint("a", 120, past, 120, 120, record)
	p.joint("a", 120, past, 120, 120)
	p.refuses("b", 31, record) // by the organisation
	p.uses(120, 120)
	p.account = p.under("more", 1000)
	p.pays("c", 30, 150, 150, says("more"))
	// An organisation that has no plan stored is on the default one, whatever the user says that it is on.
	p.org = p.of(p.subject+" & others").under("free", 100)
	if j := p.refuses("d", 101, says("more")); j.Organisation.Reason != never || j.Organisation.Plan != "free" {
		t.Errorf("the organisation said %s", text(j.Organisation))
	}
}

func withinConflicts(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(150)
	p.pays("a", 60, 60, 60)
	conflicts := func(id string, cost int64) {
		t.Helper()
		j, err := p.ask(id, cost)
		if !errors.Is(err, headroom.ErrConflict) || j.Allowed {
			t.Fatalf("%q of %d: %v, %v: want a conflict", id, cost, j.Allowed, err)
		}
		p.uses(60, 60)
	}
	conflicts("a", 50)
	p.org.does(hold, p.its("held"), 20, admitted, 60, 20)
	p.org.does(release, p.its("held"), 20, released, 60, 0)
	conflicts("held", 10)
	p.account.does(hold, "of the user", 10, admitted, 60, 10)
	p.account.does(settle, "of the user", 0, admitted, 60, 0)
	conflicts("of the user", 10)
	p.org.does(deduct, p.its("of the organisation"), 0, admitted, 60, 0)
	conflicts("of the organisation", 0)
}

func inBetween(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(150)
	p.pays("first", 10, 10, 10)
	s, tapped := p.tapped()
	var seen []int64
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		v, done, err := to.Commit(ctx, c)
		org, user := p.org.limits()[0], p.peek()
		seen = append(seen, org.Used, org.Held, user)
		return v, done, err
	}
	tapped.pays("a", 20, 30, 30)
	want := []int64{10, 20, 10, 10, 20, 30, 30, 0, 30, 30, 0, 30} // the last write takes the debt off
	if len(seen) != len(want) {
		t.Fatalf("a reader saw %d after four writes, want %d", seen, want)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Fatalf("a reader saw %d, want %d", seen, want)
		}
	}
}

// peek is what the user has used, by a preflight: the one look that leaves debts as they are.
func (p pair) peek() int64 {
	p.w.Helper()
	d, err := p.engine.Preflight(p.w.Context(), p.request("", 0))
	if err != nil {
		p.w.Fatal(err)
	}
	return d.Used
}

// dies makes the nth write of a tap the last thing that its process does, before or after it takes effect. Nothing that comes later reaches the store.
func (s *tap) dies(n int64, after bool) {
	first, dead := s.commits.Load(), false
	died := headroom.Errorf(headroom.CodeUnavailable, context.Canceled, "the process is dead")
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

// revive is another process in the place of one that died.
func (s *tap) revive() { s.load, s.commit = nil, nil }

// crash makes the nth write of a tap fail, before or after it takes effect.
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
		return headroom.View{}, false, headroom.Errorf(headroom.CodeOutcomeUnknown, context.DeadlineExceeded, "the answer was lost")
	}
}

// crashes calls f with each way to crash, until it says that it was done before the crash.
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
		w.Run(name, func(t *testing.T) {
			crashes(func(n int64, after bool) bool {
				w.back(base)
				p := w.newPair(150)
				s, tapped := p.tapped()
				s.dies(n, after)
				_, err := tapped.ask("a", c.cost)
				if s.commits.Load() < n {
					return true
				}
				if err == nil && n < 4 {
					t.Fatalf("death %d was not noticed", n) // the fourth write takes off a debt that is paid
				}
				s.revive()
				w.set(base.Add(c.wait))
				for range 2 {
					if c.used > 0 {
						tapped.pays("a", c.cost, c.used, c.used)
					} else {
						tapped.refuses("a", c.cost)
					}
					p.uses(c.used, c.used)
				}
				return false
			})
		})
	}
}

func organisationSlow(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := w.newPair(150)
	p.pays("first", 10, 10, 10)
	s, tapped := p.tapped()
	s.dies(3, false) // between the user's deduction and the settlement
	if _, err := tapped.ask("a", 50); !errors.Is(err, headroom.ErrUnavailable) {
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

	// If the user was not charged yet, the organisation may refuse after all.
	p = w.newPair(150)
	s, tapped = p.tapped()
	s.dies(2, false)
	if _, err := tapped.ask("a", 50); !errors.Is(err, headroom.ErrUnavailable) {
		t.Fatal(err)
	}
	s.revive()
	w.set(base.Add(2 * time.Hour))
	p.org.does(deduct, "others", 120, admitted, 120, 0)
	tapped.refuses("a", 50)
	p.uses(120, 0)

	// A user who was charged is no late row of a log, though the organisation's week has turned.
	p = w.newPair(150)
	p.pays("first", 10, 10, 10)
	s, tapped = p.tapped()
	s.dies(3, false)
	if _, err := tapped.ask("a", 50); !errors.Is(err, headroom.ErrUnavailable) {
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
	for name, more := range map[string]bool{"both are refused": false, "one is refused before the plan is raised, the other charged after": true} {
		t.Run(name, func(t *testing.T) {
			p := newWorld(t, h).newPair(150)
			p.account.does(deduct, "own", 90, admitted, 90, 0)
			s, slow := p.tapped()
			s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				// The last write of a refused delivery gives back what the organisation holds.
				if last := c.Records[0]; s.commits.Load() > 1 && c.Key.Subject == p.org.subject && last.Is == nil {
					s.commit = nil
					if more {
						p.setPlan("more")
						p.under("more", 1000)
						if j, err := p.ask("a", 50); err != nil || !j.Allowed {
							t.Errorf("the other delivery: %v, %v", j.Allowed, err)
						}
					} else {
						p.refuses("a", 50)
					}
				}
				return to.Commit(ctx, c)
			}
			if !more {
				slow.refuses("a", 50)
				p.uses(0, 90)
				return
			}
			slow.account, p.account = slow.under("more", 1000), p.under("more", 1000)
			slow.pays("a", 50, 50, 140)
			p.uses(50, 140)
		})
	}
}

func withinTurns(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, n := range []int64{2, 3} { // before the user's deduction, and after it
		w.back(monday.Add(-time.Minute))
		p := w.newPair(150)
		p.pays("first", 10, 10, 10)
		s, tapped := p.tapped()
		s.dies(n, false)
		if _, err := tapped.ask("a", 50); !errors.Is(err, headroom.ErrUnavailable) {
			t.Fatal(err)
		}
		s.revive()
		w.set(monday)
		if j, err := tapped.ask("a", 50); err != nil || !j.Allowed {
			t.Fatalf("the repeat: %v, %v", j.Allowed, err)
		}
		// The organisation held in the old week, and so it pays there; the user where it was charged.
		p.org.uses(0, total(base, 60))
		if n == 2 {
			p.account.uses(50, total(base, 10))
		} else {
			p.account.uses(0, total(base, 60))
		}
	}
}

func withinCrosses(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.notified(200, 50)
	p := pair{a, a.of(a.subject + " & co")}
	for _, step := range []struct {
		id        string
		cost      int64
		org, user []int
	}{{"a", 90, nil, nil}, {"b", 20, []int{50}, []int{50}}, {"c", 10, nil, nil}} {
		var first []string
		for repeat := range 2 {
			j, err := p.ask(step.id, step.cost)
			if err != nil || !j.Allowed {
				t.Fatalf("%s: %v, %v", step.id, j.Allowed, err)
			}
			got := append(p.org.crossed(j.Organisation, base, step.org...), p.account.crossed(j.User, base, step.user...)...)
			if repeat == 0 {
				first = got
			} else if !slices.Equal(got, first) {
				t.Errorf("%s: notices %q, and at the repeat %q", step.id, first, got)
			}
		}
	}
}

func badWithin(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(150)
	s, p := p.tapped()
	for name, ask := range map[string]func() (headroom.Joint, error){
		"no organisation": func() (headroom.Joint, error) { return p.engine.DeductWithin(t.Context(), "", p.request("a", 1)) },
		"its own organisation": func() (headroom.Joint, error) {
			return p.engine.DeductWithin(t.Context(), p.subject, p.request("a", 1))
		},
		"no id":                  func() (headroom.Joint, error) { return p.ask("", 1) },
		"a negative cost":        func() (headroom.Joint, error) { return p.ask("a", -1) },
		"an unknown policy":      func() (headroom.Joint, error) { return p.ask("a", 1, func(r *headroom.Request) { r.Over = 7 }) },
		"a subject of no letter": func() (headroom.Joint, error) { return p.ask("a", 1, func(r *headroom.Request) { r.Subject = "" }) },
	} {
		if j, err := ask(); !errors.Is(err, headroom.ErrInvalid) || j.Allowed {
			t.Errorf("%s: %v, %v", name, j.Allowed, err)
		}
	}
	if l, c := s.loads.Load(), s.commits.Load(); l+c != 0 {
		t.Errorf("bad input reached the store: %d loads and %d commits", l, c)
	}
	j, err := p.ask("a", 1, began(base.Add(-horizon-time.Second)))
	if !errors.Is(err, headroom.ErrTooOld) || j.Allowed {
		t.Errorf("too old: %v, %v", j.Allowed, err)
	}
	p.uses(0, 0)
}
