package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lumcast/headroom"
)

func oneIDOfTwo(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(1000)
	q := p.colleague()
	p.pays("job", 60, 60, 60)
	if j := q.pays("job", 60, 120, 60); j.Organisation.Replay || j.User.Replay {
		t.Error("the work of the second user is a replay of the first's")
	}
	for _, u := range []pair{p, q} {
		if j := u.pays("job", 60, 120, 60); !j.Organisation.Replay || !j.User.Replay || j.Operation != u.its("job") {
			t.Errorf("the repeat is none, or is called %q", j.Operation)
		}
	}
	// Another cost is not a conflict either.
	p.pays("more", 10, 130, 70)
	q.pays("more", 20, 150, 80)
	// Each of them can be refunded by itself.
	p.org.refund(p.its("job"), "r1", 60, 60, 90)
	p.org.refund(q.its("job"), "r2", 60, 60, 30)
	p.org.uses(30)
}

func oneIDLeftAlone(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, other := range map[string]func(q pair){
		"the other's limit refuses": func(q pair) {
			q.account.does(deduct, "own", 80, admitted, 80, 0)
			q.refuses("job", 50)
		},
		"the other's store fails": func(q pair) {
			s, tapped := q.tapped()
			s.fails(q.subject, -1, headroom.Throttled, false)
			if _, err := tapped.ask("job", 50); !errors.Is(err, headroom.Throttled) {
				q.w.Fatal(err)
			}
		},
		"the other charged it alone": func(q pair) {
			q.account.does(deduct, "job", 50, admitted, 50, 0)
			if _, err := q.ask("job", 50); !errors.Is(err, headroom.Conflict) {
				q.w.Fatalf("%v: want a conflict", err)
			}
		},
	} {
		w.Run(name, func(t *testing.T) {
			p := w.newPair(1000)
			q := p.colleague()
			s, tapped := p.tapped()
			s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				if c.Key.Subject == p.subject && s.commits.Load() == 2 {
					other(q) // between the hold and the charge
					p.org.holding(50).uses(0)
				}
				return to.Commit(ctx, c)
			}
			if j := tapped.pays("job", 50, 50, 50); j.Organisation.Replay || j.User.Replay {
				t.Error("the first is a replay")
			}
		})
	}
}

func oneIDCrashes(t *testing.T, h Harness) {
	w := newWorld(t, h)
	crashes(func(n int64, after bool) bool {
		w.back(base)
		p := w.newPair(1000)
		q := p.colleague()
		s, tapped := p.tapped()
		s.dies(n, after)
		_, _ = tapped.ask("job", 50)
		over := s.commits.Load() < n
		if j, err := q.ask("job", 50); err != nil || !j.Allowed || j.Organisation.Replay || j.User.Replay {
			t.Fatalf("after death %d of the first user: %v, %v; organisation: %s; user: %s", n, j.Allowed, err,
				text(j.Organisation), text(j.User))
		}
		p.sweep(0)
		user := p.peek()
		w.set(base.Add(time.Hour))
		p.settled(user+50, user)
		q.settled(user+50, 50)
		p.pays("job", 50, 100, 50)
		q.pays("job", 50, 100, 50)
		p.settled(100, 50)
		return over
	})
}

func withinIDsApart(t *testing.T, h Harness) {
	long := strings.Repeat("ж", 100)
	names := [][2]string{
		{"a", "b@c"},
		{"c", "a@b"},
		{"b@c", "a"},
		{"a", "b"},
		{"b", "a"},
		{"a b", "c"},
		{"a", "b c"},
		{`a" "b`, "c"},
		{"a", `b" "c`},
		{
			long + "1", long + "1",
		},
		{long + "1", long + "2"},
		{long + "2", long + "1"},
		{"x" + long, "x" + long},
		{strings.Repeat("s", headroom.MaxSubject), strings.Repeat("o", headroom.MaxOperation)},
	}
	p := newWorld(t, h).newPair(1000)
	seen := map[string][2]string{}
	for i, n := range names {
		id := headroom.OperationWithin(n[0], n[1])
		if other, twice := seen[id]; twice || len(id) > headroom.MaxOperation || !utf8.ValidString(id) {
			t.Errorf("%q is the id of %q and of %q", id, n, other)
		}
		seen[id] = n
		u := p
		if u.account = p.of(n[0] + p.subject); len(u.subject) > headroom.MaxSubject {
			u.account = p.of(n[0])
		}
		if j, err := u.ask(n[1], 1); err != nil || !j.Allowed || j.Organisation.Used != int64(i+1) {
			t.Errorf("%q: %v, %v; organisation: %s", n, j.Allowed, err, text(j.Organisation))
		}
	}
}

func organisationsOwn(t *testing.T, h Harness) {
	p := newWorld(t, h).newPair(1000)
	p.org.does(deduct, "deducted", 10, admitted, 10, 0)
	p.org.does(hold, "held", 10, admitted, 10, 10)
	p.org.does(release, "held", 10, released, 10, 0)
	p.org.does(hold, "settled", 10, admitted, 10, 10)
	p.org.does(settle, "settled", 10, admitted, 20, 0)
	for i, id := range []string{"deducted", "held", "settled"} {
		if j := p.pays(id, 10, int64(30+10*i), int64(10+10*i)); j.Organisation.Replay || j.User.Replay {
			t.Errorf("%q is a replay", id)
		}
	}
	p.org.repeats(deduct, "deducted", 10, admitted, 50, 0)
	p.org.repeats(settle, "settled", 10, admitted, 50, 0)
}

// chargedBefore finishes what the release before began. That release held and settled under the
// user's own id, and its records do not name the organisation that pays.
func chargedBefore(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for steps, name := range []string{"it held and died", "it charged the user and died", "it was done"} {
		for _, wait := range []time.Duration{0, time.Hour} {
			w.Run(fmt.Sprintf("%s, %s before", name, wait), func(t *testing.T) {
				w.back(base)
				p := w.newPair(150)
				p.begunBefore(steps)
				w.set(base.Add(wait))
				if wait > 0 { // what has expired may have been cleared away
					p.org.does(hold, "sweeps", 1, admitted, p.org.limits()[0].Used, 1)
					p.org.does(release, "sweeps", 1, released, p.org.limits()[0].Used, 0)
				}
				for range 2 {
					p.chargedOnce(steps > 0)
				}
				w.set(base.Add(wait + 10*time.Minute))
				p.settled(50, 50)
				// A colleague's work under the same id has nothing to do with that.
				p.colleague().pays("job", 50, 100, 50)
			})
		}
	}
}

// begunBefore does what the release before did for a job, as far as it came.
func (p pair) begunBefore(steps int) {
	p.w.Helper()
	p.org.lasts(5*time.Minute).does(hold, "job", 50, admitted, 0, 50)
	if steps > 0 {
		p.account.does(deduct, "job", 50, admitted, 50, 0)
	}
	if steps > 1 {
		p.org.does(settle, "job", 50, admitted, 50, 0)
	}
}

// chargedOnce asks for the job, which then is charged to both: under the user's own id, if the user
// was charged before.
func (p pair) chargedOnce(before bool) {
	p.w.Helper()
	j, err := p.ask("job", 50)
	if err != nil || !j.Allowed || j.User.Replay != before && j.User.Used != 50 || j.Organisation.Used != 50 {
		p.w.Fatalf("%v, %v; organisation: %s; user: %s", j.Allowed, err, text(j.Organisation), text(j.User))
	}
	if plain := j.Operation == "job"; plain != before {
		p.w.Errorf("it is called %q", j.Operation)
	}
}

func unknownPlanWithin(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := w.newPair(150)
	s, tapped := p.tapped()
	if j, err := tapped.ask("job", 50, says("nonesuch")); !errors.Is(err, headroom.Invalid) || j.Allowed {
		t.Fatalf("a plan of the caller that is not known: %v, %v", j.Allowed, err)
	}
	if s.commits.Load() != 0 {
		t.Errorf("it wrote %d times", s.commits.Load())
	}
	// A stored plan counts before the one that the caller names, and only the write of the charge
	// sees it.
	p.setPlan("more")
	p.account = p.under("more", 1000)
	p.pays("stored", 10, 10, 10, says("nonesuch"))
	less := p
	less.account = p.on(w.catalog(100, weekly("team", 150)), headroom.Options{})
	if j, err := less.ask("job", 50); !errors.Is(err, headroom.Invalid) || j.Allowed {
		t.Fatalf("a stored plan that is not known: %v, %v", j.Allowed, err)
	}
	p.org.uses(10)
	v, err := w.store.Load(t.Context(), headroom.Query{Key: headroom.Key{Subject: p.org.subject, Meter: p.meter}})
	if err != nil || held(v.State) != 0 {
		t.Errorf("the organisation has holds: %v, %v", v.State.Buckets, err)
	}
}
