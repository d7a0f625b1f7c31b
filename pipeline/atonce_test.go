package pipeline

import (
	"context"
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
			var all sync.WaitGroup
			for worker := range 8 {
				random := rand.New(rand.NewPCG(seed, uint64(worker)))
				all.Go(func() {
					for range 40 {
						w.anything(random)
					}
				})
			}
			all.Wait()
			// Then calls succeed, and each message and each end comes once more.
			w.p.jobs = w.jobs
			for n := range crowded {
				w.onceMore(n)
			}
			if w.wantUsed("alice", crowded*10, 0); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	})
}

// crowded is the number of jobs to which all happens at once.
const crowded = 6

// crowd is the message of one of them, and the name of its execution.
func crowd(n int) (message Batch, execution string) {
	id := fmt.Sprint("job-", n)
	return Batch{Records: []Delivery{{MessageID: "m", Body: body(id, "alice", "neural", 600)}}}, ExecutionName(id, 1)
}

// crowdEnd is the end of one of them.
func crowdEnd(input []byte) []byte {
	return fmt.Appendf(nil, `{"execution":"x","status":"SUCCEEDED","input":%s,"result":{"durationSeconds":300}}`, input)
}

// anything lets something happen to one of the jobs. It may fail: it comes again.
func (w *world) anything(random *rand.Rand) {
	ctx := context.Background()
	message, execution := crowd(random.IntN(crowded))
	switch random.IntN(4) {
	case 0, 1:
		_, _ = w.p.Consume(ctx, message)
	case 2:
		w.runs.mu.Lock()
		x, ran := w.runs.known[execution]
		w.runs.mu.Unlock()
		if ran {
			_, _ = w.p.Callback(ctx, crowdEnd(x.Input))
		}
	default:
		_, _ = w.p.Reconcile(ctx, ReconcileOptions{Workers: 1})
	}
}

// onceMore delivers the message and the end of one of the jobs, and expects it to be charged.
func (w *world) onceMore(n int) {
	w.t.Helper()
	message, execution := crowd(n)
	if out, err := w.p.Consume(context.Background(), message); err != nil || len(out.Items) > 0 {
		w.t.Fatal(out, err)
	}
	if _, err := w.p.Callback(context.Background(), crowdEnd(w.runs.known[execution].Input)); err != nil {
		w.t.Fatal(err)
	}
	if j := w.record(fmt.Sprint("job-", n)); j.Status != Succeeded || j.Charge != Charged || j.Cost != 10 {
		w.t.Errorf("%+v", j)
	}
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
