package pipeline

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// stopAt ends a context just before the nth call of a kind.
func (w *world) stopAt(kind string, nth int) context.Context {
	ctx, stop := context.WithCancel(context.Background())
	w.t.Cleanup(stop)
	n := 0
	w.wire.trouble = func(call string) fault {
		if call == kind {
			if n++; n == nth {
				stop()
			}
		}
		return fault{}
	}
	return ctx
}

// TestARunThatIsStoppedEarlyStaysInItsPlace: before its first job, and between the end of the table
// and its beginning. That is no failure.
func TestARunThatIsStoppedEarlyStaysInItsPlace(t *testing.T) {
	for part, c := range map[int]struct {
		done int
		want Opened
	}{1: {0, Opened{monday.Add(-2 * time.Second), "job-0001"}}, 2: {1, Opened{}}} {
		w := newWorld(t, Options{})
		w.owed(3)
		w.mark(w.record("job-0001").Opened())
		ctx := w.stopAt("Open", part)
		r, err := w.p.Reconcile(ctx, ReconcileOptions{Workers: 1})
		if want := (Reconciliation{Seen: c.done, Finished: c.done, More: true}); err != nil || r != want {
			t.Errorf("stopped before reading part %d: %+v, %v, want %+v", part, r, err, want)
		}
		if at, err := w.jobs.Bookmark(t.Context()); err != nil || at != c.want {
			t.Errorf("stopped before reading part %d it stands at %+v, %v, want %+v", part, at, err, c.want)
		}
	}
}

// readJobs counts what is read of the index.
type readJobs struct {
	Jobs
	read int
}

func (j *readJobs) Open(ctx context.Context, after Opened, before time.Time, use func(Opened) bool) error {
	return j.Jobs.Open(ctx, after, before, func(o Opened) bool { j.read++; return use(o) })
}

// TestARunReadsNoFurtherThanItGoes: not beyond the job at which it is stopped, nor, from the
// beginning, beyond the place at which it began. One job more tells it so.
func TestARunReadsNoFurtherThanItGoes(t *testing.T) {
	w := newWorld(t, Options{})
	w.owed(9)
	jobs := &readJobs{Jobs: w.jobs}
	w.p.jobs = jobs
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n := 0
	r, err := w.p.Reconcile(ctx, ReconcileOptions{Workers: 1, Each: func(Job, string, error) {
		if n++; n == 3 {
			stop()
		}
	}})
	if err != nil || r.Finished != 3 || jobs.read != 4 {
		t.Errorf("stopped at the third job: %+v, %v, %d read", r, err, jobs.read)
	}

	w = newWorld(t, Options{})
	for i := range 9 {
		j := Job{ID: fmt.Sprint("job-", i), UserID: "alice", Status: Running, Attempt: 1, RequestedAt: monday.Add(time.Duration(i-9) * time.Second)}
		w.runs.known[j.execution()] = Execution{Status: "RUNNING"}
		w.put(j)
	}
	w.mark(w.record("job-3").Opened())
	jobs = &readJobs{Jobs: w.jobs}
	w.p.jobs = jobs
	if r, err := w.p.Reconcile(t.Context(), ReconcileOptions{Workers: 1}); err != nil || r != (Reconciliation{Seen: 9, Running: 9}) || jobs.read != 5+4+1 {
		t.Errorf("begun in the middle: %+v, %v, %d read", r, err, jobs.read)
	}
}

// TestARunLeavesNoTimerBehind: each context that it makes for a call ends with the call or the run,
// in a function that is called again and again.
func TestARunLeavesNoTimerBehind(t *testing.T) {
	for _, workers := range []int{1, 3} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		jobs := watchedRun(t, ctx, workers)
		jobs.wantOver(t, ctx)
		for i, made := range jobs.seen {
			if _, bounded := made.Deadline(); !bounded {
				t.Errorf("call %d has no bound", i)
			}
		}
		cancel()
		// Without a bound of the caller's the place is read and kept without one, first and last.
		jobs = watchedRun(t, t.Context(), workers)
		jobs.seen = jobs.seen[1 : len(jobs.seen)-1]
		jobs.wantOver(t, t.Context())
	}
}

// watchedRun reconciles jobs to be charged and one that has run, from the middle on.
func watchedRun(t *testing.T, ctx context.Context, workers int) *watchedJobs {
	t.Helper()
	w := newWorld(t, Options{})
	w.send(messageOf(1))
	x := w.runs.known[ExecutionName(jobA, 1)]
	x.Status, x.Output = "SUCCEEDED", []byte(`{"result":`+doneA+`}`)
	w.runs.known[ExecutionName(jobA, 1)] = x
	w.owed(3)
	w.mark(w.record("job-0001").Opened())
	jobs := &watchedJobs{Jobs: w.jobs}
	w.p.jobs = jobs
	w.clock = w.clock.Add(2 * time.Hour)
	if r, err := w.p.Reconcile(ctx, ReconcileOptions{Workers: workers}); err != nil || r != (Reconciliation{Seen: 4, Finished: 4}) {
		t.Errorf("%+v, %v", r, err)
	}
	return jobs
}

// TestWorkersWorkAtTheSameTime, as many as there are: those that finish jobs, and those that ask
// about executions.
func TestWorkersWorkAtTheSameTime(t *testing.T) {
	for status, want := range map[Status]map[int]time.Duration{
		Succeeded: {1: 12 * time.Second, 2: 6 * time.Second, 3: 4 * time.Second},
		// the last are asked about while none is read
		Running: {1: 24 * time.Second, 2: 7 * time.Second, 3: 5 * time.Second},
	} {
		for workers, want := range want {
			synctest.Test(t, func(t *testing.T) {
				if took := slowRun(t, status, workers); took != want {
					t.Errorf("%d workers took %s for 12 jobs that are %s, want %s", workers, took, status, want)
				}
			})
		}
	}
}

// slowRun is how long a run takes for twelve jobs, if each look at a job or an execution takes a
// second.
func slowRun(t *testing.T, status Status, workers int) time.Duration {
	t.Helper()
	w := newWorld(t, Options{})
	for i := range 12 {
		j := Job{
			ID: fmt.Sprint("job-", i), UserID: fmt.Sprint("user-", i), Status: status, Attempt: 1, Cost: 1,
			RequestedAt: monday.Add(-time.Hour), FinishedAt: monday,
		}
		if status == Succeeded {
			j.Charge, j.Operation = ChargePending, j.ID
		}
		w.runs.known[j.execution()] = Execution{Status: "RUNNING"}
		w.put(j)
	}
	w.wire.trouble = func(call string) fault {
		if call == "Get" || call == "Describe" {
			time.Sleep(time.Second)
		}
		return fault{}
	}
	began := time.Now()
	r, err := w.p.Reconcile(t.Context(), ReconcileOptions{Workers: workers})
	if err != nil || r.Finished+r.Running != 12 {
		t.Errorf("%+v, %v", r, err)
	}
	return time.Since(began)
}

// TestAJobThatARunDoesNotComeToIsLeft for the next one, wherever it is when the time is over; of
// several the first counts.
func TestAJobThatARunDoesNotComeToIsLeft(t *testing.T) {
	w := newWorld(t, Options{})
	w.send(messageOf(1))
	j := w.record(jobA)
	s := &sweep{p: w.p, work: context.Background(), before: monday.Add(time.Hour), pace: pace{every: time.Hour}}
	over, stop := context.WithCancel(t.Context())
	stop()
	n := w.calls()
	third := &task{n: 3, at: j.Opened()}
	if s.look(over, third); s.left != third || n["Get"] > 0 {
		t.Errorf("its turn came too late: left %+v, calls %v", s.left, n)
	}
	// The time is over while its record is read, and all those that ask are busy.
	s.lane = make(chan *task)
	second := &task{n: 2, at: j.Opened()}
	if s.look(w.stopAt("Get", 1), second); s.left != second {
		t.Errorf("it waited to be asked about: left %+v", s.left)
	}
	n = w.calls()
	if s.ask(over, &task{n: 1, job: j}); s.left.n != 1 || n["Describe"] > 0 {
		t.Errorf("it was to be asked about: left %+v, calls %v", s.left, n)
	}
	if s.leave(second); s.left.n != 1 {
		t.Errorf("the first that is left is %d", s.left.n)
	}
	if s.found != (Reconciliation{}) {
		t.Errorf("counted: %+v", s.found)
	}
}
