package storetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// What follows is the engine's doing alone, or takes too many operations for a store on a disk or
// in a network. It runs on the store in memory, and not on every store.

var inMemory = Harness{Open: func(_ testing.TB, clock func() time.Time) headroom.Store { return memstore.New(clock) }}

// TestContentionIsAnError: rule 2. Whoever always loses is told so, and was not refused. The engine
// waits between its tries, which takes no time here.
func TestContentionIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t, inMemory).account(200)
		s, slow := a.tapped(headroom.Options{})
		s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			// Whatever is tried, others are faster.
			v, err := to.Load(ctx, headroom.Query{Key: c.Key, IDs: ids(c)})
			return v, false, err
		}
		slow.fail("loser", 1, headroom.Contended)
		a.uses(0)
		a.admit("loser", 1, 1)
	})
}

// TestAHorizonChangesAnywhere: rule 5. Each change of a horizon, up and down, at times all over a
// generation of ids.
func TestAHorizonChangesAnywhere(t *testing.T) {
	for _, c := range [][2]time.Duration{{15 * day, 32 * day}, {15 * day, 60 * day}, {36 * time.Hour, 15 * day}, {7 * day, 9 * day}} {
		for fifths := range 5 {
			changedLive(t, inMemory, c[0], c[1], fifths)
			changedLive(t, inMemory, c[1], c[0], fifths)
		}
	}
}
