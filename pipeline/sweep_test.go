package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// A request to a table takes tableLatency. Where it takes slowTable, as many requests fit into a
// run as into ten times the table: the same rules hold for a tenth of the jobs.
const (
	tableLatency = 4 * time.Millisecond
	slowTable    = 10 * tableLatency
)

// runLimit is what Lambda gives a run.
const runLimit = 300 * time.Second

// slowJobs is a table that takes its time.
type slowJobs struct {
	Memory
	takes time.Duration
	gets  atomic.Int64
	fail  func(id string) bool // the table does not answer about this job
}

func (j *slowJobs) Get(ctx context.Context, id string) (Job, bool, error) {
	time.Sleep(j.takes)
	j.gets.Add(1)
	if j.fail != nil && j.fail(id) {
		return Job{}, false, headroom.Errorf(headroom.Throttled, nil, "throttled")
	}
	return j.Memory.Get(ctx, id)
}

func (j *slowJobs) Swap(ctx context.Context, was, is Job) (bool, error) {
	time.Sleep(j.takes)
	return j.Memory.Swap(ctx, was, is)
}

type slowStore struct {
	headroom.Store
	takes time.Duration
}

func (s slowStore) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	time.Sleep(s.takes)
	return s.Store.Load(ctx, q)
}

func (s slowStore) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	time.Sleep(s.takes)
	return s.Store.Commit(ctx, c)
}

// askedExecutions counts the questions, and says that all run except those that have ended.
type askedExecutions struct {
	mu    sync.Mutex
	times []time.Time
	ended map[string]Execution
}

func (x *askedExecutions) Start(context.Context, string, []byte) error { return nil }

func (x *askedExecutions) Describe(_ context.Context, name string) (Execution, bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.times = append(x.times, time.Now())
	if e, ok := x.ended[name]; ok {
		return e, true, nil
	}
	return Execution{Status: "RUNNING"}, true, nil
}

func (x *askedExecutions) Finished(context.Context, string) ([]byte, bool, error) {
	return nil, false, nil
}

// backlog is a pipeline with jobs that have been open for long.
type backlog struct {
	t      *testing.T
	jobs   *slowJobs
	runs   *askedExecutions
	engine *headroom.Engine
	p      *Pipeline
}

func newBacklog(t *testing.T, takes time.Duration) *backlog {
	t.Helper()
	b := &backlog{t: t, jobs: &slowJobs{takes: takes}, runs: &askedExecutions{ended: map[string]Execution{}}}
	var err error
	if b.engine, err = headroom.New(slowStore{memstore.New(time.Now), takes}, headroom.DefaultCatalog(), headroom.Options{}); err != nil {
		t.Fatal(err)
	}
	if b.p, err = New(b.engine, headroom.DefaultCatalog(), b.jobs, b.runs, Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return b
}

// add puts jobs into the table, each requested a millisecond after the one before it.
func (b *backlog) add(n int, name string, status Status, charge Charge) {
	b.t.Helper()
	for i := range n {
		j := Job{
			ID: fmt.Sprintf("%s-%06d", name, i), UserID: fmt.Sprintf("user-%d", i%1000), Status: status, Charge: charge, Attempt: 1, Class: "standard", Seconds: 60, Cost: 1,
			RequestedAt: time.Now().Add(-3 * time.Hour).Add(time.Duration(i) * time.Millisecond),
		}
		j.UpdatedAt = j.RequestedAt
		if charge != "" {
			j.Operation = j.ID
		}
		if done, err := b.jobs.Memory.Swap(b.t.Context(), Job{}, j); err != nil || !done {
			b.t.Fatal(done, err)
		}
	}
}

// run reconciles as the scheduled function does, and returns how long it took.
func (b *backlog) run(o ReconcileOptions) (Reconciliation, time.Duration, error) {
	b.t.Helper()
	o.OlderThan = time.Hour
	ctx, cancel := context.WithTimeout(b.t.Context(), runLimit)
	defer cancel()
	began := time.Now()
	r, err := b.p.Reconcile(ctx, o)
	took := time.Since(began)
	if took >= runLimit {
		b.t.Errorf("a run took %s: the function is stopped after %s", took, runLimit)
	}
	return r, took, err
}

// used adds up what all users have used.
func (b *backlog) used() (sum int64) {
	b.t.Helper()
	for i := range 1000 {
		d, err := b.engine.Preflight(b.t.Context(), headroom.Request{Subject: fmt.Sprintf("user-%d", i), Meter: "slots"})
		if err != nil {
			b.t.Fatal(err)
		}
		sum += d.Used
	}
	return sum
}

// TestABacklogIsCharged is case 68.
func TestABacklogIsCharged(t *testing.T) {
	if !testing.Short() {
		t.Run("100,000 jobs", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newBacklog(t, tableLatency).isCharged(100_000, DefaultWorkers) })
		})
	}
	t.Run("two workers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { newBacklog(t, slowTable).isCharged(10_000, 2) })
	})
}

// isCharged adds jobs to be charged, and runs until all are.
func (b *backlog) isCharged(jobs, workers int) {
	b.t.Helper()
	b.add(jobs, "owed", Succeeded, ChargePending)
	done, runs := 0, 0
	for done < jobs && runs < 20 {
		r, took, err := b.run(ReconcileOptions{Workers: workers})
		if err != nil || r.Finished == 0 || r.Failed > 0 || r.More != (done+r.Finished < jobs) {
			b.t.Fatalf("run %d: %+v, %v", runs, r, err)
		}
		done, runs = done+r.Finished, runs+1
		b.t.Logf("run %d: %d charged in %s, %d in all", runs, r.Finished, took.Round(time.Second), done)
	}
	if used := b.used(); done != jobs || used != int64(jobs) || len(b.runs.times) > 0 {
		b.t.Errorf("%d jobs charged with %d units by %d questions to executions, want %d, %d and none", done, used, len(b.runs.times), jobs, jobs)
	}
	if reads := b.jobs.gets.Load(); reads > int64(jobs+jobs/50) {
		b.t.Errorf("%d reads of jobs: a run reads again what another has done", reads)
	}
}

// TestJobsThatCannotBeFinishedKeepNoOthersFromIt puts them before all others: more than one run
// can look at.
func TestJobsThatCannotBeFinishedKeepNoOthersFromIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(t, slowTable)
		b.add(6_000, "a-broken", Succeeded, ChargePending)
		b.add(6_000, "b-owed", Succeeded, ChargePending) // of the same instants
		b.jobs.fail = func(id string) bool { return strings.HasPrefix(id, "a-") }
		done, seen, runs := 0, 0, 0
		for seen < 12_000 && runs < 20 {
			r, _, err := b.run(ReconcileOptions{Workers: 1})
			if err == nil || r.Failed == 0 || r.Finished == 0 || len(strings.Split(err.Error(), "\n")) > mostFailures+1 {
				t.Fatalf("run %d: %+v, %.500v", runs, r, err)
			}
			done, seen, runs = done+r.Finished, seen+r.Seen, runs+1
		}
		if done != 6_000 {
			t.Errorf("%d finished after %d runs that saw %d", done, runs, seen)
		}
		t.Logf("%d runs of one worker", runs)
		// They are looked at again when their turn comes.
		b.jobs.fail = nil
		for runs := 0; done < 12_000 && runs < 20; runs++ {
			r, _, err := b.run(ReconcileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			done += r.Finished
		}
		if used := b.used(); used != 12_000 {
			t.Errorf("%d units charged", used)
		}
	})
}

// TestAQuestionToAnExecutionHasARate lets 20,000 jobs run for long: not all can be asked about in
// one run, and those whose charge is pending need not wait for them.
func TestAQuestionToAnExecutionHasARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(t, tableLatency)
		b.add(20_000, "a-runs", Running, "")
		b.add(5_000, "b-owed", Succeeded, ChargePending)
		const rate = 20
		r, _, err := b.run(ReconcileOptions{Describes: rate})
		if err != nil || r.Finished != 5_000 || !r.More {
			t.Fatalf("%+v, %v, want 5,000 charged in the first run", r, err)
		}
		for runs := 1; len(b.runs.times) < 20_000; runs++ {
			asked := len(b.runs.times)
			if r, _, err := b.run(ReconcileOptions{Describes: rate}); err != nil || runs > 5 || len(b.runs.times) == asked {
				t.Fatalf("run %d: %+v, %v, %d of 20,000 asked about", runs, r, err, len(b.runs.times))
			}
		}
		slices.SortFunc(b.runs.times, time.Time.Compare)
		for i := describeBurst + rate; i < len(b.runs.times); i++ {
			// A new run has its burst anew, as the account's bucket has.
			if took := b.runs.times[i].Sub(b.runs.times[i-describeBurst-rate]); took < 950*time.Millisecond {
				t.Fatalf("%d questions within %s", describeBurst+rate, took)
			}
		}
	})
}

// TestEachRunningJobIsAskedAboutInItsTurn has one job that has ended among thousands that run.
func TestEachRunningJobIsAskedAboutInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(t, tableLatency)
		b.add(10_000, "runs", Running, "")
		last := "runs-009999"
		b.runs.ended[ExecutionName(last, 1)] = Execution{Status: "SUCCEEDED", Input: []byte(`{"jobId":"` + last + `","userId":"user-999","voiceQuality":"standard","durationSeconds":60}`), Output: []byte(`{"result":{}}`)}
		runs := 0
		for finished := 0; finished == 0; runs++ {
			r, _, err := b.run(ReconcileOptions{})
			if err != nil || runs > 4 {
				t.Fatalf("run %d: %+v, %v", runs, r, err)
			}
			finished = r.Finished
		}
		if j, _, err := b.jobs.Memory.Get(t.Context(), last); err != nil || j.Charge != Charged {
			t.Errorf("%+v, %v", j, err)
		}
		t.Logf("found in run %d", runs)
	})
}

// TestADryRunChangesNothing also names what would be done.
func TestADryRunChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(t, tableLatency)
		b.add(3, "owed", Succeeded, ChargePending)
		b.add(2, "runs", Running, "")
		b.add(1, "waits", Queued, "")
		b.runs.ended[ExecutionName("runs-000001", 1)] = Execution{Status: "FAILED", Input: []byte(`{"jobId":"runs-000001","userId":"user-1","voiceQuality":"standard","durationSeconds":60}`)}
		did := map[string]string{}
		r, _, err := b.run(ReconcileOptions{DryRun: true, Each: func(j Job, what string, err error) { did[j.ID] = what }})
		if want := (Reconciliation{Seen: 6, Finished: 4, Running: 1, Waiting: 1}); err != nil || r != want {
			t.Errorf("%+v, %v, want %+v", r, err, want)
		}
		if len(did) != 4 || did["owed-000000"] != "charge" || did["runs-000001"] != "FAILED" {
			t.Errorf("%q", did)
		}
		if used := b.used(); used != 0 {
			t.Errorf("%d units charged", used)
		}
		if r, _, err := b.run(ReconcileOptions{}); err != nil || r.Finished != 4 {
			t.Errorf("the run after it: %+v, %v", r, err)
		}
	})
}

// TestWhoStopsAReconciliationLosesNothing cancels it in the middle.
func TestWhoStopsAReconciliationLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(t, tableLatency)
		b.add(10_000, "owed", Succeeded, ChargePending)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r, err := b.p.Reconcile(ctx, ReconcileOptions{OlderThan: time.Hour})
		if err != nil || !r.More || r.Failed > 0 || r.Finished == 0 || r.Finished == 10_000 {
			t.Errorf("%+v, %v", r, err)
		}
		next, _, err := b.run(ReconcileOptions{})
		if err != nil || r.Finished+next.Finished != 10_000 || next.More {
			t.Errorf("%+v after %+v, %v", next, r, err)
		}
	})
}

// TestAReconciliationThatCannotReadFails counts nothing as done.
func TestAReconciliationThatCannotReadFails(t *testing.T) {
	w := newWorld(t, Options{})
	for name, jobs := range map[string]Jobs{"open": brokenOpen{Jobs: w.jobs, open: true}, "bookmark": brokenOpen{Jobs: w.jobs}} {
		w.p.jobs = jobs
		if r, err := w.p.Reconcile(t.Context(), ReconcileOptions{OlderThan: time.Hour}); !errors.Is(err, headroom.Throttled) || r.Seen > 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, o := range []ReconcileOptions{{OlderThan: -1}, {Workers: -1}, {Describes: -1}} {
		if _, err := w.p.Reconcile(t.Context(), o); !errors.Is(err, headroom.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

type brokenOpen struct {
	Jobs
	open bool
}

func (j brokenOpen) Open(context.Context, Opened, time.Time, func(Opened) bool) error {
	return headroom.Errorf(headroom.Throttled, nil, "throttled")
}

func (j brokenOpen) Bookmark(ctx context.Context) (Opened, error) {
	if j.open {
		return j.Jobs.Bookmark(ctx)
	}
	return Opened{}, headroom.Errorf(headroom.Throttled, nil, "throttled")
}
