package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// leave charges the user and not the organisation, because the process dies in between.
func (p pair) leave(id string, cost int64, mods ...mod) {
	p.w.Helper()
	s, tapped := p.tapped()
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if stepOf(p, c) == settlesIt {
			s.dies(0, false)
			return s.commit(ctx, c, to)
		}
		return to.Commit(ctx, c)
	}
	if _, err := tapped.ask(id, cost, mods...); !errors.Is(err, headroom.Unavailable) {
		p.w.Fatalf("%s: %v", id, err)
	}
}

// The writes of a deduction within an organisation that come after the user's charge.
const (
	settlesIt = iota + 1 // at the organisation
	clearsIt             // the debt
)

// stepOf tells which of them a change is; 0 if it is none.
func stepOf(p pair, c headroom.Change) int {
	for _, r := range c.Records {
		if c.Key.Subject == p.org.subject && r.Is != nil && r.Is.Kind == headroom.KindSettled {
			return settlesIt
		}
	}
	if len(c.Debts) > 0 && debtsGrow(c) < 0 {
		return clearsIt
	}
	return 0
}

func debtsGrow(c headroom.Change) int {
	_, debts := c.Grows()
	return debts
}

// owed returns the user's debts that are stored.
func (p pair) owed() map[string]headroom.Debt {
	p.w.Helper()
	v, err := p.w.store.Load(p.w.Context(), headroom.Query{Key: headroom.Key{Subject: p.subject, Meter: p.meter}})
	if err != nil {
		p.w.Fatal(err)
	}
	return v.State.Debts
}

// sweep finishes all debts in the store, and expects at least so many. Those of other tests may be
// among them.
func (p pair) sweep(least int) headroom.Finished {
	p.w.Helper()
	n, err := p.engine.FinishDebts(p.w.Context())
	if err != nil || n.Settled+n.TooOld < least {
		p.w.Fatalf("a sweep: %+v, %v: want at least %d debts", n, err, least)
	}
	return n
}

// settled checks that both have used so much, and that nothing is held or owed. It asks by
// preflights and so finishes no debt.
func (p pair) settled(org, user int64) {
	p.w.Helper()
	if got := p.peek(); got != user {
		p.w.Fatalf("the user has used %d, want %d", got, user)
	}
	of := p
	of.account = p.org
	if d, err := of.engine.Preflight(p.w.Context(), of.request("", 0)); err != nil || d.Used != org || d.Held != 0 {
		p.w.Fatalf("the organisation has %d used and %d held, want %d: %v", d.Used, d.Held, org, err)
	}
	if owed := p.owed(); len(owed) != 0 {
		p.w.Fatalf("it owes %v", owed)
	}
}

// unlisted checks that the store does not list the user among those who may owe.
func (p pair) unlisted() {
	p.w.Helper()
	if p.w.owing(100)[headroom.Key{Subject: p.subject, Meter: p.meter}] {
		p.w.Fatal("it is in the list of those who owe")
	}
}

// looks are calls that see a user, and so finish the user's debts.
var looks = map[string]func(p pair) error{
	"deduct":  asksOf(deduct, "other", 1),
	"repeat":  asksOf(deduct, "before", 5),
	"hold":    asksOf(hold, "other", 1),
	"settle":  asksOf(settle, "held", 1),
	"release": asksOf(release, "held", 1),
	"extend":  asksOf(extend, "held", 1),
	"refund": func(p pair) error {
		_, err := p.engine.Refund(p.w.Context(), p.refundOf("before", "r", 1))
		return err
	},
	"grant": func(p pair) error {
		_, err := p.engine.Grant(p.w.Context(), p.grantOf("g", 10, base.Add(day)))
		return err
	},
	"usage": func(p pair) error {
		u, err := p.engine.Usage(p.w.Context(), headroom.UsageRequest{Subject: p.subject, Meter: p.meter})
		if len(u.Debts) != 0 {
			return fmt.Errorf("it shows debts: %v", u.Debts)
		}
		return err
	},
	"within":                   func(p pair) error { _, err := p.ask("other", 1); return err },
	"within, refused":          func(p pair) error { _, err := p.ask("other", 140); return err },
	"within another":           func(p pair) error { p.org = p.of(p.subject + " & others"); _, err := p.ask("other", 1); return err },
	"the organisation refuses": func(p pair) error { _, err := p.ask("other", 151); return err },
	"a refusal":                func(p pair) error { _, err := p.account.ask(deduct, p.request("other", 1000)); return err },
	"a conflict": func(p pair) error {
		if _, err := p.account.ask(deduct, p.request("before", 6)); !errors.Is(err, headroom.Conflict) {
			return fmt.Errorf("%v: want a conflict", err)
		}
		return nil
	},
}

func asksOf(v verb, id string, cost int64) func(p pair) error {
	return func(p pair) error { _, err := p.account.ask(v, p.request(id, cost)); return err }
}

func case53(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, look := range looks {
		for later, wait := range map[string]time.Duration{"at once": 0, "after the hold has ended": 20 * time.Minute} {
			w.Run(name+" "+later, func(*testing.T) {
				w.back(base)
				w.newPair(150).finishedBy(look, wait)
			})
		}
	}
}

// finishedBy leaves a debt. A while later a look at the user must pay it.
func (p pair) finishedBy(look func(p pair) error, wait time.Duration) {
	p.w.Helper()
	p.account.does(deduct, "before", 5, admitted, 5, 0)
	p.account.does(hold, "held", 1, admitted, 5, 1)
	p.leave("a", 50)
	owed := p.owed()
	if d := owed["a"]; len(owed) != 1 || d.To != p.org.subject || d.Cost != 50 || !d.Since.Equal(base) {
		p.w.Fatalf("it owes %v", owed)
	}
	p.w.set(base.Add(wait))
	if err := look(p); err != nil {
		p.w.Fatal(err)
	}
	if owed := p.owed(); len(owed) != 0 {
		p.w.Errorf("after the look it owes %v", owed)
	}
	if d := p.org.limits()[0]; d.Used < 50 || d.Used > 51 || d.Held != 0 {
		p.w.Errorf("the organisation: %s", usageText(d))
	}
}

func case53Sweep(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, wait := range map[string]time.Duration{"at once": 0, "after a day": day} {
		w.Run(name, func(t *testing.T) {
			w.back(base)
			p := w.newPair(1000)
			var all []pair
			for i := range 20 {
				u := p
				u.account = p.of(fmt.Sprint(p.subject, " ", i))
				u.leave(fmt.Sprint("a ", i), 10)
				u.leave(fmt.Sprint("b ", i), 20)
				all = append(all, u)
			}
			w.set(base.Add(wait))
			p.sweep(40)
			for _, u := range all {
				u.settled(600, 30)
				u.unlisted()
			}
		})
	}
}

func case71(t *testing.T, h Harness) {
	w := newWorld(t, h)
	finishers := map[string]func(p pair, s *tap){
		"a look":   func(p pair, _ *tap) { p.account.limits() },
		"a sweep":  func(p pair, _ *tap) { p.sweep(0) },
		"a repeat": func(p pair, _ *tap) { p.pays("a", 50, 50, 50) },
	}
	for name, finish := range finishers {
		for _, cost := range []int64{50, 0} {
			if cost == 0 && name == "a repeat" {
				continue
			}
			w.Run(fmt.Sprint(name, " ", cost), func(t *testing.T) {
				crashes(func(n int64, after bool) bool {
					w.back(base)
					p := w.newPair(150)
					s, tapped := p.tapped()
					s.dies(n, after)
					_, _ = tapped.ask("a", cost)
					over := s.commits.Load() < n
					finish(p, s)
					user := p.peek()
					w.set(base.Add(time.Hour)) // a hold that nobody settled has expired
					p.settled(user, user)
					// There is nothing left to finish.
					p.sweep(0)
					p.settled(user, user)
					p.pays("a", cost, cost, cost)
					p.settled(cost, cost)
					// A store may write its list of debtors before the charge. Then the list names
					// the user for a while, though nothing was charged.
					w.set(base.Add(4 * time.Hour))
					p.unlisted()
					return over
				})
			})
		}
	}
	w.Run("a finisher who dies too", func(t *testing.T) {
		crashes(func(n int64, after bool) bool {
			w.back(base)
			p := w.newPair(150)
			p.leave("a", 50)
			w.set(base.Add(20 * time.Minute)) // there is an expired hold to clear away
			s, tapped := p.tapped()
			s.dies(n, after)
			_, _ = tapped.engine.FinishDebts(t.Context())
			over := s.commits.Load() < n
			p.sweep(0)
			p.settled(50, 50)
			p.unlisted()
			return over
		})
	})
}

func debtsAndPreflight(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(150)
	p.leave("a", 50)
	p.unchanged(func() { p.preflight("b", 10, admitted, 50) }, "a")
	p.org.holding(50).uses(0)
}

func debtsPaid(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, c := range map[string]struct {
		meets func(p pair, org account)
		used  int64
	}{
		"settled by hand":                 {func(p pair, org account) { org.does(settle, p.its("a"), 50, admitted, 50, 0) }, 50},
		"settled by hand, at other units": {func(p pair, org account) { org.does(settle, p.its("a"), 40, admitted, 40, 0) }, 40},
		"released by hand":                {func(p pair, org account) { org.does(release, p.its("a"), 50, released, 0, 0) }, 50},
		"deducted under the same id": {func(p pair, org account) {
			org.w.set(base.Add(20 * time.Minute))
			org.does(hold, "sweeps", 1, admitted, 0, 1)
			org.does(release, "sweeps", 1, released, 0, 0)
		}, 50},
		"refunded": {func(p pair, org account) {
			org.does(settle, p.its("a"), 50, admitted, 50, 0)
			org.refund(p.its("a"), "r", 50, 50, 0)
		}, 0},
	} {
		w.Run(name, func(t *testing.T) {
			w.back(base)
			p := w.newPair(150)
			p.leave("a", 50)
			c.meets(p, p.org.lasts(time.Minute))
			p.account.limits()
			p.settled(c.used, 50)
		})
	}
}
