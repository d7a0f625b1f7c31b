// Package storetest tests a headroom.Store: that it keeps what the interface promises, and that the
// rules of quota enforcement hold on it.
//
// Begin with Contract. It calls the store's methods directly and takes a moment. A rule that fails
// there prints which promise was broken and why it matters. Then come the rules of behaviour: they
// ask through an engine, and a store that keeps the contract passes most of them at once. Run tests
// one rule after another, Concurrent what many writers do at the same time, and Model compares long
// random sequences of operations with a plain model of the rules.
//
//	var harness = storetest.Harness{
//		Open: func(tb testing.TB, clock func() time.Time) headroom.Store {
//			store := mystore.Open(tb.TempDir(), clock)
//			tb.Cleanup(func() { store.Close() })
//			return store
//		},
//	}
//
//	func TestContract(t *testing.T)   { storetest.Contract(t, harness) }
//	func TestRules(t *testing.T)      { storetest.Run(t, harness) }
//	func TestConcurrent(t *testing.T) { storetest.Concurrent(t, harness) }
//	func TestModel(t *testing.T)      { storetest.Model(t, harness) }
//
// The rules are data: contract.go lists those of the contract, index.go and indexverbs.go the
// others. Each has a name, the function that tests it, and the number under which docs/rules.md
// explains it.
//
// No test sleeps. Clocks are injected and move in whole seconds. No two tests share a subject, so
// one store may serve them all.
package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// Harness says how a store is opened, and what it can do beyond the contract.
type Harness struct {
	// Open returns an empty store, or one in which no other test uses the same subjects. The
	// store's time is that of clock, which many goroutines may call. Open arranges with tb.Cleanup
	// that the store is closed.
	Open func(tb testing.TB, clock func() time.Time) headroom.Store

	// Reopen opens the store again that Open returned and that was closed since, as a new process
	// would. Nil: its content ends with it, or it serves several tests and is not to be closed by
	// one of them.
	Reopen func(tb testing.TB, closed headroom.Store, clock func() time.Time) headroom.Store

	// HostClock says that the store knows no better time than the host's clock. Where that clock
	// falls far behind what the store has seen, its methods fail with ClockUntrusted until Accept
	// is called. A clock that ran ahead meanwhile must not have made the store forget an id too
	// early: the store keeps one more generation of ids, and remembers it at every time at which it
	// is not over.
	HostClock bool
	// Accept tells a store with HostClock that its clock is right now. Other stores leave it nil.
	Accept func(ctx context.Context, store headroom.Store) error

	// Sweeps says that the store forgets the ids of idle subjects by itself, once headroom.State
	// permits it. Model then expects that such an id is remembered or forgotten.
	Sweeps bool

	// Checks is how many random sequences Model tries. Zero: as many as the flag -rapid.checks
	// says, 100 by default. A store that takes milliseconds for a write may want fewer.
	Checks int
}

// rule is a named test.
type rule struct {
	of   string // where docs/rules.md explains it: "rule 5", "case 9", or the name of a topic
	name string // what must be so
	test func(*testing.T, Harness)
	why  string // why it matters; printed when the test fails
}

// run tests a rule as a subtest. What it prints when the rule fails is meant for the author of a
// store.
func (r rule) run(t *testing.T, h Harness) bool {
	return t.Run(r.of+": "+r.name, func(t *testing.T) {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the rule: %s\nwhy: %s\nsee: %s in docs/rules.md", r.name, r.why, r.of)
			}
		})
		r.test(t, h)
	})
}

// Contract tests the promises of each method of headroom.Store, without an engine. Begin with it.
func Contract(t *testing.T, h Harness) {
	for _, r := range contract {
		r.run(t, h)
	}
}

// Run tests the contract and then the rules of behaviour, one after another. It ends where the
// contract is broken, for then the rules of behaviour fail for the same reason, and say it less
// plainly.
func Run(t *testing.T, h Harness) {
	Contract(t, h)
	if t.Failed() {
		t.Fatal("the contract is broken: the rules of behaviour are not tested until it is kept")
	}
	for _, r := range behaviour {
		r.run(t, h)
	}
}

// Concurrent tests what many writers do at the same time.
func Concurrent(t *testing.T, h Harness) {
	for _, r := range slices.Concat(crowds, crowdsOfMeters) {
		r.run(t, h)
	}
}
