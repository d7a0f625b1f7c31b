package network_test

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/proof/report"
)

// spoilt is a store whose commits have a fault.
type spoilt struct {
	headroom.Store
	commit func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error)
}

func (s spoilt) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	return s.commit(ctx, c, s.Store)
}

// commit takes the place of a store's Commit. n is its number.
type commit = func(ctx context.Context, n int64, c headroom.Change, to headroom.Store) (headroom.View, bool, error)

// TestBrokenStoresAreFound shows that the ledger can find faults.
func TestBrokenStoresAreFound(t *testing.T) {
	for name, commit := range map[string]commit{
		"acknowledges and forgets": func(ctx context.Context, n int64, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			v, err := to.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs()})
			if n%40 != 0 || err != nil || c.Unmet(v) != "" {
				return to.Commit(ctx, c)
			}
			v.State = c.Apply(v.State)
			return v, true, nil
		},
		"charges twice": func(ctx context.Context, n int64, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			v, done, err := to.Commit(ctx, c)
			if n%40 == 0 && done && err == nil {
				c.Epoch, c.Rotate = v.State.Epoch, time.Time{}
				_, _, _ = to.Commit(ctx, again(c))
			}
			return v, done, err
		},
		"goes past the limit": func(ctx context.Context, _ int64, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			return to.Commit(ctx, unguarded(c))
		},
		"shows more than there is": func(ctx context.Context, n int64, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			v, done, err := to.Commit(ctx, c)
			if count, ok := v.State.Counters["week"]; ok && !done && err == nil {
				count.Count += 12
				v.State.Counters["week"] = count
			}
			return v, done, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var commits atomic.Int64
			n := newRun(t, "dynoxide", name, report.Seed(t), 2000, func(s headroom.Store) headroom.Store {
				return spoilt{s, func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
					return commit(ctx, commits.Add(1), c, to)
				}}
			})
			n.play()
			n.resolve()
			n.audit()
			if len(n.violations) == 0 {
				t.Fatalf("not found in %d operations", n.many)
			}
			t.Logf("found by operation %d: %s", min(n.begun.Load(), n.many), n.violations[0])
		})
	}
}

// unguarded returns the change without guards on the counts.
func unguarded(c headroom.Change) headroom.Change {
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		c.Steps[i].Min, c.Steps[i].Max = 0, math.MaxInt64
	}
	return c
}

// again returns a change that counts a second time what c has counted.
func again(c headroom.Change) headroom.Change {
	c = unguarded(c)
	c.Records, c.Grants, c.AllGrants = nil, nil, false
	for i := range c.Steps {
		c.Steps[i].From, c.Steps[i].Opens = c.Steps[i].To, false
	}
	return c
}
