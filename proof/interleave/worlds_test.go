package interleave

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/proof/report"
)

// Times of worlds: a Sunday, and the turn of its week.
var (
	sunday = time.Date(2031, time.June, 1, 23, 59, 0, 0, time.UTC)
	monday = time.Date(2031, time.June, 2, 0, 0, 1, 0, time.UTC)
)

func catalog(plans ...headroom.Plan) *headroom.Catalog {
	c, err := headroom.NewCatalog("free", plans, nil)
	if err != nil {
		panic(err)
	}
	return c
}

// free is a plan of 100 a week and no more.
func weekly(name string, units int64) headroom.Plan {
	return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: units}}}
}

var simple = catalog(weekly("free", 100), weekly("pro", 300))

func deduct(id string, cost int64) op { return op{verb: "deduct", id: id, cost: cost} }

func one(o ...op) script { return script{ops: o} }

func worlds() []*world {
	return []*world{
		{
			name: "a week's turn", times: []time.Time{sunday, monday},
			before:  []past{{sunday, deduct("old", 90)}},
			clients: []script{one(deduct("a", 50), deduct("d", 30)), one(deduct("b", 40)), one(deduct("c", 20))},
		},
		{
			name: "the first of a new subject", times: []time.Time{sunday},
			clients: []script{one(deduct("a", 60), deduct("d", 101)), one(deduct("b", 50)), one(deduct("c", 40))},
		},
		{
			name: "a lost answer", times: []time.Time{sunday, monday}, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{one(deduct("a", 30), deduct("d", 30)), one(deduct("b", 40))},
		},
	}
}

// explored runs a world to its end.
func explored(t *testing.T, w *world, limit int) (x *explorer, v *violation) {
	t.Helper()
	x = newExplorer(w)
	x.limit = limit
	if x.catalog == nil {
		x.catalog = simple
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
				report.Step("interleavings: "+w.name, x.shown.Load(), 0)
			}
		}
	})
	// In a bubble the waits between tries cost nothing.
	synctest.Test(t, func(t *testing.T) { v = x.explore(w.begin()) })
	close(done)
	watch.Wait()
	return x, v
}

// TestAllInterleavings: rules 1 to 7 and 9 to 13, of every schedule of each world.
func TestAllInterleavings(t *testing.T) {
	for _, w := range worlds() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			x, v := explored(t, w, 0)
			if v != nil {
				t.Fatal(v)
			}
			count, about := x.schedules()
			note := fmt.Sprintf("%d states, %d steps, %d nodes, %d tables", len(x.states), x.steps, len(x.nodes), len(x.values))
			if about > 9e18 {
				note = fmt.Sprintf("%.1e schedules, %s", about, note)
			}
			report.Add(t, report.Row{Part: "interleavings", Name: w.name, Count: count, Unit: "schedules", Note: note, Took: time.Since(began)})
		})
	}
}
