package storetest

import (
	"fmt"
	"testing"

	"github.com/lumcast/headroom"
)

// drawnMeanwhile expects that exactly as many units are admitted as the grants have, whatever
// happens to the grants in the meantime.
func drawnMeanwhile(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, c := range []struct {
		what      string
		meanwhile func(a account) error
		admitted  int
		left      map[string]int64
	}{
		{"nothing", func(account) error { return nil }, 30, map[string]int64{"early": 0, "late": 0}},
		{"a grant is added", func(a account) error {
			_, err := a.engine.Grant(t.Context(), a.grantOf("more", 5, base.Add(2*day)))
			return err
		}, 35, map[string]int64{"early": 0, "late": 0, "more": 0}},
		{"units come back to the one that ends first", func(a account) error {
			_, err := a.engine.Refund(t.Context(), a.refundOf("drawn", "r", 7))
			return err
		}, 37, map[string]int64{"early": 0, "late": 0}},
		{"units of the plan come back", func(a account) error {
			_, err := a.engine.Refund(t.Context(), a.refundOf("own", "r", 9))
			return err
		}, 39, map[string]int64{"early": 0, "late": 0}},
		{"the one that ends first is over", func(account) error {
			w.set(base.Add(day))
			return nil
		}, 30, map[string]int64{"late": 0}},
	} {
		w.Run(c.what, func(t *testing.T) {
			w.back(base)
			a := w.account(50)
			a.does(deduct, "own", 50, admitted, 50, 0)
			a.granting(20).grant("early", 20, base.Add(day), 50)
			a.granting(0).does(deduct, "drawn", 20, admitted, 50, 0)
			a.granting(30).grant("late", 30, base.Add(3*day), 50)
			if n := a.crowdDraws(c.meanwhile); n != c.admitted {
				t.Errorf("%d are admitted, want %d", n, c.admitted)
			}
			a.left(c.left)
		})
	}
}

// crowdDraws has a crowd ask for a unit each, and calls meanwhile in its midst. Then each asks
// again: whoever was refused before the units were there is admitted now. It returns how many are
// admitted in all.
func (a account) crowdDraws(meanwhile func(a account) error) int {
	a.w.Helper()
	const crowd = 48
	ask := func(i int) (headroom.Decision, error) {
		return a.lasts(2*day).ask([]verb{deduct, hold}[i%2], a.request(id(int64(i)), 1))
	}
	n := a.all(crowd, func(i int) (headroom.Decision, error) {
		if i == crowd/4 {
			if err := meanwhile(a); err != nil {
				return headroom.Decision{}, fmt.Errorf("meanwhile: %w", err)
			}
		}
		return ask(i)
	})[admitted]
	for i := range crowd {
		d, err := ask(i)
		if err != nil {
			a.w.Fatal(err)
		}
		if d.Allowed && !d.Replay {
			n++
		}
	}
	return n
}
