package linear_test

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/proof/report"
)

// onMemory returns a world on a store in memory, which spoil breaks.
func onMemory(t *testing.T, seed uint64, spoil func(headroom.Store) headroom.Store) *world {
	w := newWorld("memory", seed)
	w.add(t, tap{spoil(memstore.New(w.now))})
	return w
}

// spoilt is a store with a fault.
type spoilt struct {
	headroom.Store
	commit commit
	load   func(ctx context.Context, q headroom.Query, of headroom.Store) (headroom.View, error)
}

func (s spoilt) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	if s.commit == nil {
		return s.Store.Commit(ctx, c)
	}
	return s.commit(ctx, c, s.Store)
}

func (s spoilt) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	if s.load == nil {
		return s.Store.Load(ctx, q)
	}
	return s.load(ctx, q, s.Store)
}

// unguarded returns the change without guards on the counts.
func unguarded(c headroom.Change) headroom.Change {
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		c.Steps[i].Min, c.Steps[i].Max = math.MinInt64, math.MaxInt64
	}
	return c
}

// commit takes the place of a store's Commit.
type commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error)

// broken are stores with a fault. The check has to find each of them.
var broken = map[string]func(headroom.Store) headroom.Store{
	"reads, then writes without a guard": func(s headroom.Store) headroom.Store { return spoilt{Store: s, commit: readsThenWrites} },
	"acknowledges and forgets, now and then": func(s headroom.Store) headroom.Store {
		return spoilt{Store: s, commit: sometimes(20, forgets)}
	},
	"counts twice where the answer was lost": func(s headroom.Store) headroom.Store { return spoilt{Store: s, commit: countsTwice} },
	"shows what was there before":            showsWhatWasThere,
	"turns no week":                          func(s headroom.Store) headroom.Store { return spoilt{Store: s, commit: turnsNoWeek} },
	"is always contended": func(s headroom.Store) headroom.Store {
		return spoilt{Store: s, commit: fails(headroom.Contended)}
	},
	"is down one time in seven, where no fault was": func(s headroom.Store) headroom.Store {
		return spoilt{Store: s, commit: sometimes(7, fails(headroom.Unavailable))}
	},
}

// sometimes returns a commit that has a fault one time in so many.
func sometimes(of int64, faulty commit) commit {
	var n atomic.Int64
	return func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		if traced(ctx) == nil || n.Add(1)%of != 0 {
			return to.Commit(ctx, c)
		}
		return faulty(ctx, c, to)
	}
}

func fails(err error) commit {
	return func(context.Context, headroom.Change, headroom.Store) (headroom.View, bool, error) {
		return headroom.View{}, false, err
	}
}

func readsThenWrites(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
	v, err := to.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs()})
	if err != nil || c.Unmet(v) != "" {
		return v, false, err
	}
	runtime.Gosched()
	return to.Commit(ctx, unguarded(c))
}

func forgets(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
	v, err := to.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs()})
	if err != nil || c.Unmet(v) != "" {
		return v, false, err
	}
	v.State = c.Apply(v.State)
	return v, true, nil
}

func countsTwice(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
	v, done, err := to.Commit(ctx, c)
	if t := traced(ctx); !done || t == nil || t.kind != lose {
		return v, done, err
	}
	again := c
	again.Records, again.Grants, again.AllGrants = nil, nil, false
	again.Epoch, again.Rotate = v.State.Epoch, time.Time{}
	again.Steps = slices.Clone(c.Steps)
	for i := range again.Steps {
		again.Steps[i].From, again.Steps[i].Opens = again.Steps[i].To, false
	}
	_, _, _ = to.Commit(ctx, unguarded(again))
	return v, done, err
}

func showsWhatWasThere(s headroom.Store) headroom.Store {
	var mu sync.Mutex
	last := map[headroom.Key]headroom.View{}
	return spoilt{Store: s, load: func(ctx context.Context, q headroom.Query, of headroom.Store) (headroom.View, error) {
		v, err := of.Load(ctx, q)
		mu.Lock()
		defer mu.Unlock()
		old, ok := last[q.Key]
		if last[q.Key] = v; err == nil && ok && len(q.IDs) == 0 {
			return old, nil
		}
		return v, err
	}}
}

func turnsNoWeek(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		if s := &c.Steps[i]; s.Opens && !s.From.IsZero() {
			s.Opens, s.To = false, s.From
		}
	}
	return to.Commit(ctx, c)
}

// TestBrokenStoresAreFound shows that the check can fail.
func TestBrokenStoresAreFound(t *testing.T) {
	seed := report.Seed(t)
	const most = 3000 // histories in which each of them must be found
	for name, spoil := range broken {
		t.Run(name, func(t *testing.T) {
			sum := onMemory(t, seed, spoil).check(most)
			if sum.wrong == "" {
				t.Fatalf("not found in %d histories of HEADROOM_PROOF_SEED=%d", most, seed)
			}
			t.Logf("found in %d histories: %s", sum.histories, sum.wrong)
		})
	}
}

// changes make a right reply a wrong one.
var changes = []func(*reply){
	func(r *reply) { r.used++ },
	func(r *reply) { r.held-- },
	func(r *reply) { r.left++ },
	func(r *reply) { r.limit-- },
	func(r *reply) { r.granted++ },
	func(r *reply) { r.cost++ },
	func(r *reply) { r.replay = !r.replay },
	func(r *reply) { r.allowed = !r.allowed },
	func(r *reply) { r.plan += "?" },
	func(r *reply) { r.week++ },
	func(r *reply) { r.reason += "?" },
	func(r *reply) { r.past++ },
	func(r *reply) { r.grants += "?" },
	func(r *reply) { r.living += "?" },
}

// TestTheModelIsTheRules asks with one client, one call after another, so that nothing is left to
// chance. The model must say what the store answers, and must not take a changed answer for right.
func TestTheModelIsTheRules(t *testing.T) {
	w := onMemory(t, report.Seed(t), func(s headroom.Store) headroom.Store { return s })
	w.clients, w.calls, w.calm = 1, 40, true
	for n := range uint64(100) {
		h := w.plan(n)
		b := &batch{world: w, start: monday.AddDate(0, 0, 7*int(n)).Unix() - int64(turn), turnAt: int64(n % 100)}
		b.run([]*history{h})
		if wrong, _ := b.judge(h); wrong != "" {
			t.Fatalf("%s; see %s\n%s", wrong, b.page(h), b.text(h))
		}
		for i, change := range changes {
			o := h.ops[(int(n)+i)%len(h.ops)]
			if o.err != nil || o.ask.verb == setPlan {
				continue
			}
			right := o.reply
			change(&o.reply)
			if wrong, _ := b.judge(h); wrong == "" {
				t.Fatalf("history %d: %s -> %s is taken for right, which was %s", n, o.ask, o.reply, right)
			}
			o.reply = right
		}
	}
}
