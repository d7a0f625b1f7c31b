package linear_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lumcast/headroom/proof/report"
)

// outcome is what became of many histories.
type outcome struct {
	histories, calls, ambiguous, failed, turned int

	// undecided counts calls that say that nothing was decided, each of which met a fault. faulted
	// counts all calls that met one.
	undecided, faulted int

	wrong string   // with the first history that is not right
	bad   *history // that one
	in    *batch   // in which it happened
}

// check plays many histories and judges them. It stops at the first batch with one that is wrong.
func (w *world) check(many int) (sum outcome) {
	defer w.idle()
	r := rand.New(rand.NewPCG(w.seed, 1<<63))
	for week := 0; sum.histories < many && sum.wrong == ""; week++ {
		histories := make([]*history, min(w.atOnce, many-sum.histories))
		calls := 0
		for i := range histories {
			histories[i] = w.plan(uint64(sum.histories + i))
			calls += len(histories[i].ops)
		}
		b := &batch{world: w, start: monday.AddDate(0, 0, 7*week).Unix() - int64(turn)}
		if r.IntN(2) == 0 {
			b.turnAt = 1 + r.Int64N(int64(3*calls))
			sum.turned += len(histories)
		}
		b.run(histories)
		b.count(histories, &sum)
		sum.histories += len(histories)
		sum.calls += calls
		report.Step("linearizability, "+w.name, int64(sum.histories), int64(many))
	}
	return sum
}

// count judges the histories of a batch, and adds up what became of them.
func (b *batch) count(histories []*history, sum *outcome) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, h := range histories {
		all.Go(func() {
			wrong, ambiguous := b.judge(h)
			mu.Lock()
			defer mu.Unlock()
			sum.ambiguous += ambiguous
			for _, o := range h.ops {
				sum.add(o)
			}
			if wrong != "" && (sum.bad == nil || h.number < sum.bad.number) {
				sum.wrong, sum.bad, sum.in = wrong, h, b
			}
		})
	}
	all.Wait()
}

// add counts how a call ended.
func (sum *outcome) add(o *op) {
	switch code := o.code(); {
	case slices.Contains(decided, code):
		sum.failed++
	case slices.Contains(undecided, code):
		sum.undecided++
	}
	if o.trace.struck() {
		sum.faulted++
	}
}

// TestHistoriesAreLinearizable: whatever callers do at the same time, each answer is one that a
// sequential Headroom could have given.
func TestHistoriesAreLinearizable(t *testing.T) {
	seed := report.Seed(t)
	for _, store := range []struct {
		name string
		open func(*testing.T) *world
		few  int
	}{
		{"embedded", func(t *testing.T) *world { return onEmbedded(t, seed) }, 200},
		{"dynoxide", func(t *testing.T) *world { return onDynamo(t, "dynoxide", seed) }, 48},
		{"dynalite", func(t *testing.T) *world {
			w := onDynamo(t, "dynalite", seed)
			w.clients, w.calls = 3, 4 // it does some hundred writes a second
			return w
		}, 16},
	} {
		t.Run(store.name, func(t *testing.T) {
			w := store.open(t)
			began := time.Now()
			sum := w.check(report.Of(store.few, 10_000))
			row := report.Row{
				Part:  "linearizability",
				Name:  store.name,
				Count: int64(sum.histories),
				Unit:  "histories",
				Took:  time.Since(began),
				Note: fmt.Sprintf(
					"%d calls, of which an error answered %d; %d undecided, where %d had a fault; "+
						"%d of ambiguous outcome; the week turned in %d histories",
					sum.calls, sum.failed, sum.undecided, sum.faulted, sum.ambiguous, sum.turned),
			}
			if sum.bad != nil {
				t.Errorf("%s; see %s\n%s", sum.wrong, sum.in.page(sum.bad), sum.in.text(sum.bad))
			}
			report.Add(t, row)
		})
	}
}
