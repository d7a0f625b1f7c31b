package embedded

import (
	"context"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/storetest"
)

var harness = storetest.Harness{
	Open:      func(tb testing.TB, clock func() time.Time) headroom.Store { return open(tb, nil, tb.TempDir(), clock) },
	HostClock: true,
	Accept:    func(ctx context.Context, store headroom.Store) error { return store.(*Store).AcceptClock(ctx) },
}

func TestRules(t *testing.T)      { storetest.Run(t, harness) }
func TestConcurrent(t *testing.T) { storetest.Concurrent(t, harness) }

// The model's oracle knows of each subject alone. It remembers an id until its own subject has turned
// twice, however long that takes; a sweep forgets it after three horizons (sweep_test.go).
func TestModel(t *testing.T) {
	model := harness
	model.Open = func(tb testing.TB, clock func() time.Time) headroom.Store {
		s, err := Open(tb.TempDir(), Options{Clock: clock, keepIDs: true})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = s.Close() })
		return s
	}
	storetest.Model(t, model)
}
