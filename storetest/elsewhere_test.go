package storetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/storetest"
)

// elsewhere is a store that keeps all totals but the latest elsewhere, and brings them only if it
// is asked for the history.
type elsewhere struct{ headroom.Store }

func (s elsewhere) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	v, err := s.Store.Load(ctx, q)
	if q.History {
		return v, err
	}
	return atHand(v), err
}

func (s elsewhere) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	v, done, err := s.Store.Commit(ctx, c)
	return atHand(v), done, err
}

func atHand(v headroom.View) headroom.View {
	counters := map[string]headroom.Counter{}
	for name, c := range v.State.Counters {
		if len(c.Past) > 1 {
			c.Past, c.Partial = c.Past[:1], true
		}
		counters[name] = c
	}
	v.State.Counters = counters
	return v
}

// TestHistoryElsewhere holds that nothing depends on totals being at hand.
func TestHistoryElsewhere(t *testing.T) {
	h := storetest.Harness{
		Open:   func(_ testing.TB, clock func() time.Time) headroom.Store { return elsewhere{memstore.New(clock)} },
		Checks: 150,
	}
	t.Run("rules", func(t *testing.T) { storetest.Run(t, h) })
	t.Run("model", func(t *testing.T) { storetest.Model(t, h) })
}
