package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestDeliveriesAtOnce lets deliveries, ends and reconciliations of the same jobs happen at the
// same time, some of them with failing calls: each job that ran is charged once, and none is lost.
func TestDeliveriesAtOnce(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		for seed := range uint64(20) {
			w := newWorld(t, opts)
			engine, err := headroom.New(memstoreAt(&w.clock), headroom.DefaultCatalog(), headroom.Options{Clock: func() time.Time { return w.clock }})
			if err != nil {
				t.Fatal(err)
			}
			w.engine, w.p.engine = engine, engine
			w.p.opts.Clock, w.p.jobs, w.p.executions = nil, flakyJobs{w.jobs}, &lockedRuns{runs: w.runs}
			ctx := context.Background()
			const jobs = 6
			id := func(n int) string { return fmt.Sprint("job-", n) }
			var all sync.WaitGroup
			for worker := range 8 {
				random := rand.New(rand.NewPCG(seed, uint64(worker)))
				all.Go(func() {
					for range 40 {
						n := random.IntN(jobs)
						switch random.IntN(4) {
						case 0, 1:
							_, _ = w.p.Consume(ctx, Batch{Records: []Delivery{{MessageID: "m", Body: body(id(n), "alice", "neural", 600)}}})
						case 2:
							w.runs.mu.Lock()
							x, ran := w.runs.known[ExecutionName(id(n), 1)]
							w.runs.mu.Unlock()
							if ran {
								_, _ = w.p.Callback(ctx, fmt.Appendf(nil, `{"execution":"x","status":"SUCCEEDED","input":%s,"result":{"durationSeconds":300}}`, x.Input))
							}
						default:
							_, _ = w.p.Reconcile(ctx, ReconcileOptions{Workers: 1})
						}
					}
				})
			}
			all.Wait()
			// Then calls succeed, and each message and each end comes once more.
			w.p.jobs = w.jobs
			for n := range jobs {
				if out, err := w.p.Consume(ctx, Batch{Records: []Delivery{{MessageID: "m", Body: body(id(n), "alice", "neural", 600)}}}); err != nil || len(out.Items) > 0 {
					t.Fatal(out, err)
				}
				input := w.runs.known[ExecutionName(id(n), 1)].Input
				event, err := json.Marshal(map[string]any{"execution": "x", "status": "SUCCEEDED", "input": json.RawMessage(input), "result": map[string]any{"durationSeconds": 300}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.p.Callback(ctx, event); err != nil {
					t.Fatal(err)
				}
				if j := w.record(id(n)); j.Status != Succeeded || j.Charge != Charged || j.Cost != 10 {
					t.Errorf("seed %d: %+v", seed, j)
				}
			}
			w.wantUsed("alice", jobs*10, 0)
		}
	})
}

// flakyJobs fails one write in eight, before or after it is made.
type flakyJobs struct{ Jobs }

func (j flakyJobs) Swap(ctx context.Context, was, is Job) (bool, error) {
	failure := headroom.Errorf(headroom.Unavailable, errors.New("no answer"), "job table")
	switch rand.N(16) {
	case 0:
		return false, failure
	case 1:
		_, _ = j.Jobs.Swap(ctx, was, is)
		return false, failure
	}
	return j.Jobs.Swap(ctx, was, is)
}

// lockedRuns is executions of which one start in eight fails, before or after it takes effect.
type lockedRuns struct{ runs *fakeExecutions }

func (x *lockedRuns) Start(ctx context.Context, name string, input []byte) error {
	failure := headroom.Errorf(headroom.Throttled, nil, "too many starts")
	switch rand.N(16) {
	case 0:
		return failure
	case 1:
		x.start(name, input)
		return failure
	}
	x.start(name, input)
	return nil
}

func (x *lockedRuns) start(name string, input []byte) {
	x.runs.mu.Lock()
	defer x.runs.mu.Unlock()
	if _, known := x.runs.known[name]; !known {
		x.runs.known[name] = Execution{Status: "RUNNING", Input: input}
	}
}

func (x *lockedRuns) Describe(ctx context.Context, name string) (Execution, bool, error) {
	return x.runs.Describe(ctx, name)
}

func (x *lockedRuns) Finished(ctx context.Context, name string) ([]byte, bool, error) {
	return x.runs.Finished(ctx, name)
}
