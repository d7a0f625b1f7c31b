package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// scene is a call, with what happened before it and what must be so after it.
type scene struct {
	name  string
	setup func(a account)
	act   func(ctx context.Context, a account) error
	check func(a account)
}

// asks returns a call as the act of a scene.
func asks(v verb, id string, cost int64, mods ...mod) func(context.Context, account) error {
	return func(ctx context.Context, a account) error {
		d, err := do(ctx, a.engine, v, a.request(id, cost, mods...), a.lasting)
		if err == nil && !d.Allowed {
			err = errors.New("refused: " + text(d))
		}
		return err
	}
}

// scenes has each verb in the situations in which it has most to write.
var scenes = []scene{
	{"deduct where an expired hold is in the way",
		func(a account) { a.does(hold, "dead", 150, admitted, 0, 150); a.w.set(base.Add(time.Hour)) },
		asks(deduct, "id", 180), func(a account) { a.uses(180) }},
	{"deduct from two grants",
		func(a account) {
			a.granting(30).grant("a", 30, base.Add(day), 0)
			a.granting(60).grant("b", 30, base.Add(2*day), 0)
		},
		asks(deduct, "id", 240), func(a account) { a.uses(200); a.left(map[string]int64{"a": 0, "b": 20}) }},
	{"hold", nil,
		asks(hold, "id", 50), func(a account) { a.holding(50).uses(0) }},
	{"hold in a new week",
		func(a account) { a.does(deduct, "last", 100, admitted, 100, 0); a.w.set(monday) },
		asks(hold, "id", 50), func(a account) { a.holding(50).uses(0, total(base, 100)) }},
	{"settle below the estimate",
		func(a account) { a.does(hold, "id", 50, admitted, 0, 50) },
		asks(settle, "id", 30), func(a account) { a.uses(30) }},
	{"settle above the estimate",
		func(a account) { a.does(hold, "id", 50, admitted, 0, 50) },
		asks(settle, "id", 210, record), func(a account) { a.uses(210) }},
	{"settle after the hold expired",
		func(a account) { a.does(hold, "id", 50, admitted, 0, 50); a.w.set(base.Add(time.Hour)) },
		asks(settle, "id", 60), func(a account) { a.uses(60) }},
	{"settle after the window closed",
		func(a account) {
			a.w.set(monday.Add(-time.Minute))
			a.does(hold, "id", 50, admitted, 0, 50)
			a.w.set(monday)
			a.does(deduct, "this", 10, admitted, 10, 0)
		},
		asks(settle, "id", 60), func(a account) { a.uses(20, total(base, 50)) }},
	{"release",
		func(a account) {
			a.granting(30).grant("g", 30, base.Add(day), 0)
			a.granting(20).does(hold, "id", 210, admitted, 0, 200)
		},
		asks(release, "id", 0), func(a account) { a.granting(30).uses(0); a.left(map[string]int64{"g": 30}) }},
	{"extend",
		func(a account) { a.lasts(time.Minute).does(hold, "id", 50, admitted, 0, 50) },
		asks(extend, "id", 0), func(a account) { a.w.set(base.Add(2 * time.Minute)); a.holding(50).uses(0) }},
	{"refund",
		func(a account) { a.does(deduct, "charge", 50, admitted, 50, 0) },
		func(ctx context.Context, a account) error {
			_, err := a.engine.Refund(ctx, a.refundOf("charge", "id", 20))
			return err
		}, func(a account) { a.uses(30) }},
	{"refund in a closed week",
		func(a account) { a.does(deduct, "charge", 50, admitted, 50, 0); a.w.set(monday) },
		func(ctx context.Context, a account) error {
			_, err := a.engine.Refund(ctx, a.refundOf("charge", "id", 20))
			return err
		}, func(a account) { a.uses(0, total(base, 30)) }},
	{"grant",
		func(a account) { a.granting(5).grant("old", 5, base.Add(time.Hour), 0); a.w.set(base.Add(time.Hour)) },
		func(ctx context.Context, a account) error {
			_, err := a.engine.Grant(ctx, a.grantOf("id", 20, base.Add(day)))
			return err
		}, func(a account) { a.left(map[string]int64{"id": 20}) }},
}

// play returns a new account for which all has happened that comes before the scene's call.
func (s scene) play(w *world) account {
	w.back(base)
	a := w.account(200)
	if s.setup != nil {
		s.setup(a)
	}
	return a
}

func verbsInterrupted(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, scene := range scenes {
		w.Run(scene.name, func(t *testing.T) {
			crashes(func(n int64, after bool) bool {
				a := scene.play(w)
				s, tapped := a.tapped(headroom.Options{})
				s.crash(n, after)
				if err := scene.act(t.Context(), tapped); err == nil {
					scene.check(a)
					return s.commits.Load() < n
				} else if !errors.Is(err, headroom.OutcomeUnknown) {
					t.Fatalf("crash %d: %v", n, err)
				}
				s.commit = nil
				for range 2 {
					if err := scene.act(t.Context(), tapped); err != nil {
						t.Fatalf("the repeat after crash %d: %v", n, err)
					}
				}
				scene.check(a)
				return false
			})
		})
	}
}

func verbsFail(t *testing.T, h Harness) {
	w := newWorld(t, h)
	failure := headroom.Errorf(headroom.Throttled, nil, "the store failed")
	for _, scene := range scenes {
		w.Run(scene.name, func(t *testing.T) {
			a := scene.play(w)
			s, tapped := a.tapped(headroom.Options{LetThrough: true})
			fails := func(ctx context.Context, what string, target error) {
				t.Helper()
				a.unchanged(func() {
					err := scene.act(ctx, tapped)
					if headroom.CodeOf(err) == "" || target != nil && !errors.Is(err, target) {
						t.Errorf("%s: %v", what, err)
					}
				}, "id")
			}
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			fails(cancelled, "a call that was cancelled", nil)
			s.load = func() error { return failure }
			s.commit = func(context.Context, headroom.Change, headroom.Store) (headroom.View, bool, error) {
				return headroom.View{}, false, failure
			}
			fails(t.Context(), "reads and writes fail", failure)
			s.load = nil
			fails(t.Context(), "writes fail", failure)
			s.commit = nil
			if err := scene.act(t.Context(), tapped); err != nil {
				t.Fatal(err)
			}
			scene.check(a)
		})
	}
}

func verbsOvertaken(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, scene := range scenes {
		w.Run(scene.name, func(t *testing.T) {
			// Another delivery makes the same call just before the first write.
			a := scene.play(w)
			s, tapped := a.tapped(headroom.Options{})
			s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				s.commit = nil
				if err := scene.act(ctx, a); err != nil {
					t.Errorf("the other delivery: %v", err)
				}
				return to.Commit(ctx, c)
			}
			if err := scene.act(t.Context(), tapped); err != nil {
				t.Errorf("the slow delivery: %v", err)
			}
			scene.check(a)
		})
	}
}

func case16(t *testing.T, h Harness) {
	w := newWorld(t, h)
	crashes(func(n int64, after bool) bool {
		a := w.account(200)
		s, tapped := a.tapped(headroom.Options{})
		s.crash(n, after)
		for _, step := range []struct {
			v    verb
			id   string
			cost int64
		}{{deduct, "before", 100}, {hold, "job", 20}, {settle, "job", 12}} {
			_, err := tapped.ask(step.v, a.request(step.id, step.cost))
			if errors.Is(err, headroom.OutcomeUnknown) {
				_, err = tapped.ask(step.v, a.request(step.id, step.cost))
			}
			if err != nil {
				t.Fatalf("crash %d: %s: %v", n, step.v, err)
			}
		}
		a.uses(112)
		a.repeats(settle, "job", 12, admitted, 112, 0)
		return s.commits.Load() < n
	})
}
