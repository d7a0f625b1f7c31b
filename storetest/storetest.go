// Package storetest holds the rules that every headroom.Store must keep, as tests that a store joins with a harness.
//
// Run tests one rule after another, Concurrent what many writers do at once, and Model compares long random sequences of operations with a plain model of the rules.
// A store joins with a test of a few lines:
//
//	var harness = storetest.Harness{
//		Open: func(tb testing.TB, clock func() time.Time) headroom.Store {
//			store := mystore.Open(tb.TempDir(), clock)
//			tb.Cleanup(func() { store.Close() })
//			return store
//		},
//	}
//
//	func TestRules(t *testing.T)      { storetest.Run(t, harness) }
//	func TestConcurrent(t *testing.T) { storetest.Concurrent(t, harness) }
//	func TestModel(t *testing.T)      { storetest.Model(t, harness) }
//
// They need no more of a store than the contract of headroom.Store. Their clocks move in whole seconds, no test sleeps, and no two tests share a subject, so that one store could serve them all.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// Harness says how a store is made, and what it can do.
type Harness struct {
	// Open returns an empty store, or one whose subjects no other test uses. Its time is that of clock, which may be called by many goroutines. Open arranges with tb.Cleanup that the store is closed.
	Open func(tb testing.TB, clock func() time.Time) headroom.Store

	// HostClock says that the store knows no better time than the host's clock: where that falls far behind what the store has seen, its methods fail with ErrClock until Accept is called. A clock that ran ahead meanwhile has made it forget no id that is not due: it keeps a generation of ids more, and remembers it at times at which that is not over.
	HostClock bool
	// Accept tells a store with HostClock that its clock is right now. Other stores leave it nil.
	Accept func(ctx context.Context, store headroom.Store) error

	// Sweeps says that the store forgets an id by itself once that is permitted, State says when, though its subject was idle. Model then expects of such an id either.
	Sweeps bool

	// Checks is how many random sequences Model tries. Zero: as many as the flag -rapid.checks says, 100 by default. A store of which each write takes milliseconds may want fewer.
	Checks int
}

// rule is a named test.
type rule struct {
	name string
	test func(*testing.T, Harness)
}

// Run tests the rules one after another, each as a subtest of its own that is named after the rule, or after the case of the list of known faults that it holds.
func Run(t *testing.T, h Harness) {
	for _, rules := range [][]rule{admission, once, horizons, windows, plans, names, failures, logs, contract, holds, holdsOverTurn, refunds, grants, limits, carrying, notices, within, withinIDs, payers, debts, interrupted, forgets} {
		for _, r := range rules {
			t.Run(r.name, func(t *testing.T) { r.test(t, h) })
		}
	}
}

// Concurrent tests what many writers do at the same time.
func Concurrent(t *testing.T, h Harness) {
	for _, rules := range [][]rule{crowds, crowdsOfHolds} {
		for _, r := range rules {
			t.Run(r.name, func(t *testing.T) { r.test(t, h) })
		}
	}
}
