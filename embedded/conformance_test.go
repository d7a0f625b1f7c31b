package embedded

import (
	"context"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/storetest"
)

var harness = storetest.Harness{
	Open: func(tb testing.TB, clock func() time.Time) headroom.Store { return open(tb, nil, tb.TempDir(), clock) },
	Reopen: func(tb testing.TB, closed headroom.Store, clock func() time.Time) headroom.Store {
		return open(tb, nil, closed.(*Store).dir, clock)
	},
	HostClock: true,
	Sweeps:    true,
	Accept:    func(ctx context.Context, store headroom.Store) error { return store.(*Store).AcceptClock(ctx) },
}

func TestRules(t *testing.T)      { storetest.Run(t, harness) }
func TestConcurrent(t *testing.T) { storetest.Concurrent(t, harness) }
func TestModel(t *testing.T)      { storetest.Model(t, harness) }
