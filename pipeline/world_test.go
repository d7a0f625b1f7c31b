package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// monday is in the middle of nothing: noon of a day of 2026-W23.
var monday = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// crash is what a handler dies of.
type crash struct{ after int }

// wire stands between the handlers and everything that they write to. It counts the writes, and
// cuts the handler off after the one that is set.
type wire struct {
	mu     sync.Mutex // of writes: a reconciliation has workers
	writes int
	cut    int   // after how many writes; 0: never
	fail   error // the next write to the quota fails with it, before it is made

	jobsDown error  // writes to the job table fail with it
	between  func() // happens before each write to the job table

	// trouble says what goes wrong with a call. Nil: nothing does.
	trouble func(call string) fault
}

// fault is what goes wrong with one call: it fails before it takes effect, or after that.
type fault struct{ before, after error }

// meet is called before each call of what a handler works with.
func (w *wire) meet(call string) fault {
	if w.trouble == nil {
		return fault{}
	}
	return w.trouble(call)
}

// answer makes a call as its fault has it.
func answer[T any](f fault, call func() (T, bool, error)) (value T, ok bool, err error) {
	if f.before != nil {
		return value, false, f.before
	}
	if value, ok, err = call(); err == nil && f.after != nil {
		var none T
		return none, false, f.after
	}
	return value, ok, err
}

func (w *wire) wrote() {
	w.mu.Lock()
	w.writes++
	n := w.writes
	w.mu.Unlock()
	if n == w.cut {
		panic(crash{n})
	}
}

type wiredStore struct {
	headroom.Store
	*wire
}

func (s wiredStore) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	v, _, err := answer(s.meet("Load"), func() (headroom.View, bool, error) {
		v, err := s.Store.Load(ctx, q)
		return v, true, err
	})
	return v, err
}

func (s wiredStore) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	if s.fail != nil {
		return headroom.View{}, false, s.fail
	}
	return answer(s.meet("Commit"), func() (headroom.View, bool, error) {
		v, done, err := s.Store.Commit(ctx, c)
		if done {
			s.wrote()
		}
		return v, done, err
	})
}

type wiredJobs struct {
	Jobs
	*wire
}

func (j wiredJobs) Get(ctx context.Context, id string) (Job, bool, error) {
	return answer(j.meet("Get"), func() (Job, bool, error) { return j.Jobs.Get(ctx, id) })
}

func (j wiredJobs) Swap(ctx context.Context, was, is Job) (bool, error) {
	if j.jobsDown != nil {
		return false, j.jobsDown
	}
	if f := j.between; f != nil {
		f()
	}
	_, done, err := answer(j.meet("Swap"), func() (_ Job, done bool, err error) {
		if done, err = j.Jobs.Swap(ctx, was, is); done {
			j.wrote()
		}
		return is, done, err
	})
	return done, err
}

func (j wiredJobs) Open(ctx context.Context, after Opened, before time.Time, use func(Opened) bool) error {
	_, _, err := answer(j.meet("Open"), func() (Job, bool, error) { return Job{}, true, j.Jobs.Open(ctx, after, before, use) })
	return err
}

func (j wiredJobs) Bookmark(ctx context.Context) (Opened, error) {
	at, _, err := answer(j.meet("Bookmark"), func() (Opened, bool, error) {
		at, err := j.Jobs.Bookmark(ctx)
		return at, true, err
	})
	return at, err
}

func (j wiredJobs) SetBookmark(ctx context.Context, at Opened) error {
	_, _, err := answer(j.meet("SetBookmark"), func() (Opened, bool, error) { return at, true, j.Jobs.SetBookmark(ctx, at) })
	return err
}

// fakeExecutions starts nothing: tests say what becomes of an execution.
type fakeExecutions struct {
	*wire
	mu      sync.Mutex
	starts  map[string]int // calls of Start by name
	known   map[string]Execution
	history error // of the next looks into a history
	refuses error // the next starts fail with it
	differ  int   // calls of Start with another input than the first of the name
}

func (x *fakeExecutions) Start(_ context.Context, name string, input []byte) error {
	_, _, err := answer(x.meet("Start"), func() (_ Execution, ok bool, _ error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.starts[name]++
		if x.refuses != nil {
			return Execution{}, false, x.refuses
		}
		if have, ok := x.known[name]; !ok {
			x.known[name] = Execution{Status: "RUNNING", Input: input}
			x.wrote()
		} else if string(have.Input) != string(input) {
			x.differ++
		}
		return Execution{}, true, nil
	})
	return err
}

func (x *fakeExecutions) Describe(_ context.Context, name string) (Execution, bool, error) {
	return answer(x.meet("Describe"), func() (Execution, bool, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		e, ok := x.known[name]
		return e, ok, nil
	})
}

// Finished reads what a test noted as the result of the work: the output of one that did not
// succeed.
func (x *fakeExecutions) Finished(_ context.Context, name string) ([]byte, bool, error) {
	return answer(x.meet("Finished"), func() ([]byte, bool, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.history != nil {
			return nil, false, x.history
		}
		e := x.known[name]
		return e.Output, len(e.Output) > 0 && e.Status != "SUCCEEDED", nil
	})
}

// world is a pipeline on stores in memory.
type world struct {
	t      testing.TB
	wire   wire
	clock  time.Time
	jobs   *Memory
	runs   *fakeExecutions
	engine *headroom.Engine
	p      *Pipeline
}

func newWorld(t testing.TB, opts Options) *world {
	t.Helper()
	w := &world{t: t, clock: monday, jobs: &Memory{}}
	w.runs = &fakeExecutions{wire: &w.wire, starts: map[string]int{}, known: map[string]Execution{}}
	now := func() time.Time { return w.clock }
	catalog, err := mostHoldsCatalog()
	if err != nil {
		t.Fatal(err)
	}
	if w.engine, err = headroom.New(wiredStore{memstore.New(now), &w.wire}, catalog, headroom.Options{Clock: now}); err != nil {
		t.Fatal(err)
	}
	opts.Clock = now
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if w.p, err = New(w.engine, catalog, wiredJobs{w.jobs, &w.wire}, w.runs, opts); err != nil {
		t.Fatal(err)
	}
	return w
}

// mostHolds is how many jobs of one user may be under way at a time.
const mostHolds = 100

// mostHoldsCatalog is the default catalog, with that many holds.
func mostHoldsCatalog() (*headroom.Catalog, error) {
	c := headroom.DefaultCatalog()
	plans := c.Plans()
	plans[0].Limits[0].MaxHolds = mostHolds
	prices, err := c.Prices("slots")
	if err != nil {
		return nil, err
	}
	return headroom.NewCatalog(c.Default(), plans, map[string]headroom.Prices{"slots": prices})
}

// modes are the two ways to ask at the consumer.
func modes(t *testing.T, test func(t *testing.T, opts Options)) {
	t.Run("preflight", func(t *testing.T) { test(t, Options{}) })
	t.Run("hold", func(t *testing.T) { test(t, Options{Hold: 3 * time.Hour}) })
}

func body(job, user, class string, seconds float64) string {
	b, err := json.Marshal(map[string]any{"jobId": job, "userId": user, "voiceQuality": class, "durationSeconds": seconds, "topic": "tides"})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// again runs a handler, and runs it again if it was cut off.
func (w *world) again(handler func()) {
	cut := func() (cut bool) {
		defer func() {
			switch r := recover().(type) {
			case nil:
			case crash:
				cut = true
			default:
				panic(r)
			}
		}()
		handler()
		return false
	}
	for cut() {
	}
}

// send delivers messages in one batch, and returns the ids ("0", "1", ...) of those that failed.
func (w *world) send(bodies ...string) []string {
	w.t.Helper()
	var failed []string
	w.again(func() {
		var b Batch
		for i, body := range bodies {
			b.Records = append(b.Records, Delivery{MessageID: fmt.Sprint(i), Body: body})
		}
		out, err := w.p.Consume(context.Background(), b)
		if err != nil {
			w.t.Fatal(err)
		}
		failed = nil
		for _, f := range out.Items {
			failed = append(failed, f.MessageID)
		}
	})
	return failed
}

// done says how an execution ended, and lets the last step of the state machine tell it. result is
// of the work, "" if it failed.
func (w *world) done(name, result string) (r Result, err error) {
	w.t.Helper()
	w.again(func() {
		x, ok := w.runs.known[name]
		if !ok {
			w.t.Fatalf("no execution %q", name)
		}
		step := map[string]any{"execution": name, "status": "SUCCEEDED", "input": json.RawMessage(x.Input), "result": json.RawMessage(result)}
		x.Status, x.Output = "SUCCEEDED", []byte(`{"result":`+result+`}`)
		if result == "" {
			step["status"], step["error"] = "FAILED", map[string]string{"Error": "Synthesis", "Cause": "no voice"}
			delete(step, "result")
			x.Status, x.Output, x.Error = "FAILED", nil, "Synthesis"
		}
		w.runs.known[name] = x
		event, bad := json.Marshal(step)
		if bad != nil {
			w.t.Fatal(bad)
		}
		r, err = w.p.Callback(context.Background(), event)
	})
	return r, err
}

// ends is done where what becomes of the job is looked at, and not the answer: a state machine
// repeats what fails.
func (w *world) ends(name, result string) {
	w.t.Helper()
	_, _ = w.done(name, result)
}

// put writes the record of a job that has none.
func (w *world) put(j Job) {
	w.t.Helper()
	w.change(Job{}, j)
}

// change replaces a record.
func (w *world) change(was, is Job) {
	w.t.Helper()
	if done, err := w.jobs.Swap(context.Background(), was, is); err != nil || !done {
		w.t.Fatalf("from %+v to %+v: %v, %v", was, is, done, err)
	}
}

// mark sets the place at which the next reconciliation begins.
func (w *world) mark(at Opened) {
	w.t.Helper()
	if err := w.jobs.SetBookmark(context.Background(), at); err != nil {
		w.t.Fatal(err)
	}
}

// event delivers a status-change event.
func (w *world) event(name, status string) (r Result, err error) {
	w.t.Helper()
	w.again(func() {
		x := w.runs.known[name]
		detail := map[string]any{"name": name, "status": status, "input": string(x.Input), "inputDetails": map[string]bool{"included": true}}
		if status == "SUCCEEDED" {
			detail["output"] = string(x.Output)
		} else {
			detail["error"], detail["cause"] = x.Error, x.Cause
		}
		event, bad := json.Marshal(map[string]any{"source": "aws.states", "detail-type": "Step Functions Execution Status Change", "detail": detail})
		if bad != nil {
			w.t.Fatal(bad)
		}
		r, err = w.p.Callback(context.Background(), event)
	})
	return r, err
}

// changes is event where what becomes of the job is looked at, and not the answer.
func (w *world) changes(name, status string) {
	w.t.Helper()
	_, _ = w.event(name, status)
}

func (w *world) reconcile() Reconciliation {
	w.t.Helper()
	var r Reconciliation
	w.again(func() {
		var err error
		if r, err = w.p.Reconcile(context.Background(), ReconcileOptions{OlderThan: time.Hour, Workers: 1}); err != nil {
			w.t.Logf("reconcile: %v", err)
		}
	})
	return r
}

// want checks a job and its user's units.
func (w *world) want(job string, status Status, charge Charge, used, held int64) {
	w.t.Helper()
	j, ok, err := w.jobs.Get(context.Background(), job)
	if err != nil || !ok {
		w.t.Fatalf("job %q: %v, %v", job, ok, err)
	}
	if j.Status != status || j.Charge != charge {
		w.t.Errorf("job %q is %s %s (%s), want %s %s", job, j.Status, j.Charge, j.Reason, status, charge)
	}
	w.wantUsed(j.UserID, used, held)
}

func (w *world) wantUsed(user string, used, held int64) {
	w.t.Helper()
	if u, h := w.used(user); u != used || h != held {
		w.t.Errorf("user %q has used %d and holds %d, want %d and %d", user, u, h, used, held)
	}
}

func (w *world) used(user string) (used, held int64) {
	w.t.Helper()
	u, err := w.engine.Usage(context.Background(), headroom.UsageRequest{Subject: user, Meter: "slots", Now: w.clock})
	if err != nil {
		w.t.Fatal(err)
	}
	return u.Limits[0].Used, u.Limits[0].Held
}

// spend uses units up by another way than a job.
func (w *world) spend(user string, units int64) {
	w.t.Helper()
	d, err := w.engine.Deduct(context.Background(), headroom.Request{Subject: user, Meter: "slots", Operation: fmt.Sprintf("spend-%d", units), Cost: units, Now: w.clock})
	if err != nil || !d.Allowed {
		w.t.Fatal(d, err)
	}
}

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func memstoreAt(clock *time.Time) headroom.Store {
	return memstore.New(func() time.Time { return *clock })
}

// countingStore counts requests.
type countingStore struct {
	headroom.Store
	loads, commits int
}

func (s *countingStore) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	s.loads++
	return s.Store.Load(ctx, q)
}

func (s *countingStore) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	s.commits++
	return s.Store.Commit(ctx, c)
}
