package storetest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/storetest"
)

// The environment variables by which the test below runs itself again in a process of its own: on
// the store with this fault, by this part of the suite.
const (
	faultVariable = "HEADROOM_STORETEST_FAULT"
	partVariable  = "HEADROOM_STORETEST_PART"
)

// part is an entry of the suite.
type part struct {
	name string
	test func(*testing.T, storetest.Harness)
}

// parts are the entries of the suite, in the order in which an author of a store meets them.
var parts = []part{{"contract", storetest.Contract}, {"rules", storetest.Run}, {"concurrent", storetest.Concurrent}}

// TestAFaultIsNamed breaks a store in one way at a time, and reads what the suite prints as the
// author of that store would: the first rule that fails must say which promise is broken, and why
// it matters.
func TestAFaultIsNamed(t *testing.T) {
	if name := os.Getenv(faultVariable); name != "" {
		playBroken(t, name, os.Getenv(partVariable))
		return
	}
	var mu sync.Mutex
	found := map[string]int{}
	t.Cleanup(func() {
		t.Logf("of %d faults the contract alone finds %d, the rules find %d more, and crowds %d more",
			len(faults), found["contract"], found["rules"], found["concurrent"])
	})
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			part, printed := firstFound(t, f.name)
			if part != f.part {
				t.Fatalf("found by %q, want by %q:\n%s", part, f.part, printed)
			}
			for _, want := range append(f.prints, "the rule: ", "why: ", "in docs/rules.md") {
				if !strings.Contains(printed, want) {
					t.Errorf("the first rule that fails does not print %q:\n%s", want, printed)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			found[part]++
		})
	}
}

// firstFound is the part of the suite that is the first to find a fault, and what it prints of it.
func firstFound(t *testing.T, name string) (part, printed string) {
	t.Helper()
	for _, p := range parts {
		if printed := broken(t, name, p.name); printed != "" {
			return p.name, printed
		}
	}
	return "", ""
}

// playBroken runs a part of the suite on the store with a fault. It is to fail.
func playBroken(t *testing.T, name, of string) {
	at := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
	entry := slices.IndexFunc(parts, func(p part) bool { return p.name == of })
	parts[entry].test(t, storetest.Harness{
		Open: func(_ testing.TB, clock func() time.Time) headroom.Store {
			sound := memstore.New(clock)
			s := &faulty{Store: sound, Forgetter: sound, Joiner: sound}
			faults[at].spoil(s)
			return s
		},
		// A store in memory can still be used once it is closed.
		Reopen: func(_ testing.TB, closed headroom.Store, _ func() time.Time) headroom.Store { return closed },
	})
}

var firstFailure = regexp.MustCompile(`(?s)--- FAIL: TestAFaultIsNamed/.*`)

// broken is what the first rule prints that fails on the store with a fault, and nothing if all
// pass.
func broken(t *testing.T, name, part string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFaultIsNamed$", "-test.failfast")
	c.Env = append(os.Environ(), faultVariable+"="+name, partVariable+"="+part)
	out, err := c.CombinedOutput()
	if err == nil {
		return ""
	}
	failure := firstFailure.FindString(string(out))
	if failure == "" {
		t.Fatalf("the suite ended without a rule that failed: %v\n%s", err, out)
	}
	return failure
}

// faulty is a store with a fault: each hook takes the place of a method.
type faulty struct {
	headroom.Store
	headroom.Forgetter
	headroom.Joiner
	load    func(ctx context.Context, q headroom.Query) (headroom.View, error)
	commit  func(ctx context.Context, c headroom.Change) (headroom.View, bool, error)
	setPlan func(ctx context.Context, subject, plan string) error
	owing   func(ctx context.Context, after string, limit int) ([]headroom.Key, string, error)
	forget  func(ctx context.Context, subject string, meters []string, progress func(int)) (int, error)
	closed  func()

	loadAll   func(ctx context.Context, queries []headroom.Query) ([]headroom.View, error)
	commitAll func(ctx context.Context, changes []headroom.Change) ([]headroom.View, bool, error)
}

func (s *faulty) LoadAll(ctx context.Context, queries []headroom.Query) ([]headroom.View, error) {
	if s.loadAll != nil {
		return s.loadAll(ctx, queries)
	}
	return s.Joiner.LoadAll(ctx, queries)
}

func (s *faulty) CommitAll(ctx context.Context, changes []headroom.Change) ([]headroom.View, bool, error) {
	if s.commitAll != nil {
		return s.commitAll(ctx, changes)
	}
	return s.Joiner.CommitAll(ctx, changes)
}

func (s *faulty) Close() error {
	if s.closed != nil {
		s.closed()
	}
	return s.Store.Close()
}

func (s *faulty) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	if s.load != nil {
		return s.load(ctx, q)
	}
	return s.Store.Load(ctx, q)
}

func (s *faulty) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	if s.commit != nil {
		return s.commit(ctx, c)
	}
	return s.Store.Commit(ctx, c)
}

func (s *faulty) SetPlan(ctx context.Context, subject, plan string) error {
	if s.setPlan != nil {
		return s.setPlan(ctx, subject, plan)
	}
	return s.Store.SetPlan(ctx, subject, plan)
}

func (s *faulty) Owing(ctx context.Context, after string, limit int) ([]headroom.Key, string, error) {
	if s.owing != nil {
		return s.owing(ctx, after, limit)
	}
	return s.Store.Owing(ctx, after, limit)
}

func (s *faulty) Forget(ctx context.Context, subject string, meters []string, progress func(int)) (int, error) {
	if s.forget != nil {
		return s.forget(ctx, subject, meters, progress)
	}
	return s.Forgetter.Forget(ctx, subject, meters, progress)
}

// shows spoils every view that the store returns.
func shows(f func(v *headroom.View)) func(*faulty) {
	return func(s *faulty) {
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			v, err := s.Store.Load(ctx, q)
			f(&v)
			return v, err
		}
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			v, made, err := s.Store.Commit(ctx, c)
			f(&v)
			return v, made, err
		}
	}
}

// asks spoils every query.
func asks(f func(s *faulty, q *headroom.Query)) func(*faulty) {
	return func(s *faulty) {
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			q.IDs = slices.Clone(q.IDs)
			f(s, &q)
			return s.Store.Load(ctx, q)
		}
	}
}

// writes spoils every change, knowing what is stored.
func writes(f func(c *headroom.Change, v headroom.View)) func(*faulty) {
	return func(s *faulty) {
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			v, err := s.Store.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs(), Now: c.Now, History: true})
			if err != nil {
				return v, false, err
			}
			c.Records, c.Steps, c.Grants, c.Debts = slices.Clone(
				c.Records,
			), slices.Clone(
				c.Steps,
			), slices.Clone(
				c.Grants,
			), slices.Clone(
				c.Debts,
			)
			f(&c, v)
			return s.Store.Commit(ctx, c)
		}
	}
}

// steps spoils every step of a counter, knowing how the counter stands.
func steps(f func(s *headroom.Step, c headroom.Counter)) func(*faulty) {
	return writes(func(c *headroom.Change, v headroom.View) {
		for i := range c.Steps {
			f(&c.Steps[i], v.State.Counters[c.Steps[i].Limit])
		}
	})
}

// without returns a copy of a map without the keys for which f holds.
func without[V any](m map[string]V, f func(string, V) bool) map[string]V {
	kept := map[string]V{}
	for k, v := range m {
		if !f(k, v) {
			kept[k] = v
		}
	}
	return kept
}

// key changes the key of every call.
func keys(f func(k headroom.Key) headroom.Key) func(*faulty) {
	return func(s *faulty) {
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			q.Key = f(q.Key)
			return s.Store.Load(ctx, q)
		}
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			c.Key = f(c.Key)
			return s.Store.Commit(ctx, c)
		}
	}
}

// joined is a careless key of two names: the delimiter may occur in either.
func joined(k headroom.Key) headroom.Key {
	return headroom.Key{Subject: fmt.Sprint(k.Subject, "_", k.Meter)}
}
