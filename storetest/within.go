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

// newPair returns a user with 100 units a week, in an organisation with so many.
func (w *world) newPair(units int64) pair {
	w.Helper()
	a := w.accountOn(w.catalog(100, weekly("team", units), weekly("more", 1000)), 100)
	org := a.of(a.subject+" & co").under("team", units)
	org.setPlan("team")
	return pair{a, org}
}

// tapped returns a tap on the store, and the pair as an engine on that tap sees it.
func (p pair) tapped() (*tap, pair) {
	s, a := p.account.tapped(headroom.Options{})
	p.account, p.org.engine = a, a.engine
	return s, p
}

// its is the id that the organisation has for an operation of the user.
func (p pair) its(id string) string { return headroom.OperationWithin(p.subject, id) }

func (p pair) ask(id string, cost int64, mods ...mod) (headroom.DecisionWithin, error) {
	return p.engine.DeductWithin(p.w.Context(), p.org.subject, p.request(id, cost, mods...))
}

// pays deducts for both. It expects that both are charged, after which the organisation and the
// user have used so much.
func (p pair) pays(id string, cost, org, user int64, mods ...mod) headroom.DecisionWithin {
	p.w.Helper()
	return p.joint(id, cost, admitted, org, user, mods...)
}

func (p pair) joint(id string, cost int64, why headroom.Reason, org, user int64, mods ...mod) headroom.DecisionWithin {
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

// refuses deducts for both, and expects that neither is charged.
func (p pair) refuses(id string, cost int64, mods ...mod) headroom.DecisionWithin {
	p.w.Helper()
	j, err := p.ask(id, cost, mods...)
	if err != nil || j.Allowed || j.Organisation.Allowed && j.User.Allowed {
		p.w.Fatalf("%q: %v, %v; organisation: %s; user: %s", id, j.Allowed, err, text(j.Organisation), text(j.User))
	}
	return j
}

// uses checks how much both have used.
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
	// Either part can be refunded and repeated like any other charge.
	p.org.refund(p.its("a"), "r", 10, 10, 90)
	p.account.refund("a", "r", 10, 10, 90)
	p.pays("a", 60, 90, 90)
	p.fail("a", 60, headroom.Conflict)
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
	// The same id can be used again, at another cost too.
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
	p.refuses("b", 31, record) // the organisation refuses
	p.uses(120, 120)
	p.account = p.under("more", 1000)
	p.pays("c", 30, 150, 150, says("more"))
	// An organisation without a stored plan is on the default plan. The plan that the request names
	// is the user's.
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
		if !errors.Is(err, headroom.Conflict) || j.Allowed {
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
	want := []int64{10, 20, 10, 10, 20, 30, 30, 0, 30, 30, 0, 30} // the last write removes the debt
	if len(seen) != len(want) {
		t.Fatalf("a reader saw %d after four writes, want %d", seen, want)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Fatalf("a reader saw %d, want %d", seen, want)
		}
	}
}

// peek is how much the user has used. It asks by a preflight, which leaves debts as they are.
func (p pair) peek() int64 {
	p.w.Helper()
	d, err := p.engine.Preflight(p.w.Context(), p.request("", 0))
	if err != nil {
		p.w.Fatal(err)
	}
	return d.Used
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
	for name, ask := range map[string]func() (headroom.DecisionWithin, error){
		"no organisation": func() (headroom.DecisionWithin, error) {
			return p.engine.DeductWithin(t.Context(), "", p.request("a", 1))
		},
		"its own organisation": func() (headroom.DecisionWithin, error) {
			return p.engine.DeductWithin(t.Context(), p.subject, p.request("a", 1))
		},
		"no id":           func() (headroom.DecisionWithin, error) { return p.ask("", 1) },
		"a negative cost": func() (headroom.DecisionWithin, error) { return p.ask("a", -1) },
		"an unknown policy": func() (headroom.DecisionWithin, error) {
			return p.ask("a", 1, func(r *headroom.Request) { r.Over = 7 })
		},
		"a subject of no letter": func() (headroom.DecisionWithin, error) {
			return p.ask("a", 1, func(r *headroom.Request) { r.Subject = "" })
		},
	} {
		if j, err := ask(); !errors.Is(err, headroom.Invalid) || j.Allowed {
			t.Errorf("%s: %v, %v", name, j.Allowed, err)
		}
	}
	if l, c := s.loads.Load(), s.commits.Load(); l+c != 0 {
		t.Errorf("bad input reached the store: %d loads and %d commits", l, c)
	}
	j, err := p.ask("a", 1, began(base.Add(-horizon-time.Second)))
	if !errors.Is(err, headroom.TooOld) || j.Allowed {
		t.Errorf("too old: %v, %v", j.Allowed, err)
	}
	p.uses(0, 0)
}
