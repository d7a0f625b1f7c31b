package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// stops lets an execution end otherwise than by its last step. result is of its work, if that was
// done: nobody sees it but who reads the history.
func (w *world) stops(name, status, why, cause, result string) {
	w.t.Helper()
	x, ok := w.runs.known[name]
	if !ok {
		w.t.Fatalf("no execution %q", name)
	}
	x.Status, x.Error, x.Cause, x.Output = status, why, cause, []byte(result)
	w.runs.known[name] = x
}

// ends is how an execution can end whose work is done and whose charge step never came through.
var ends = []struct {
	name, status, error, cause, history string
	cost                                int64
}{
	{"the charge step is exhausted", "FAILED", DoneNotCharged, `{"durationSeconds":840}`, ``, 28},
	{"the result says nothing", "FAILED", DoneNotCharged, `{}`, ``, 30},
	{"the cause is cut off", "FAILED", DoneNotCharged, `{"url":"s3://…`, `{"durationSeconds":840}`, 28},
	{"the cause is missing, and the history too", "FAILED", DoneNotCharged, ``, ``, 30},
	{"the result is strange", "FAILED", DoneNotCharged, `{"durationSeconds":null}`, ``, 30},
	{"timed out while it was charged", "TIMED_OUT", "", "", `{"durationSeconds":840}`, 28},
	{"stopped while it was charged", "ABORTED", "Operator", "by hand", `{"durationSeconds":840}`, 28},
	{"the result is too much for a state", "FAILED", "States.DataLimitExceeded", "too long", `{"durationSeconds":840}`, 28},
	{"a machine of one's own fails of its charge step", "FAILED", "Headroom.Temporary", "no answer", `{"durationSeconds":840}`, 28},
	{"a path of the last step leads nowhere", "FAILED", "States.Runtime", "no such path", `{"durationSeconds":840}`, 28},
}

// TestFinishedWorkIsChargedHoweverItsExecutionEnded (case 59): the callback is out for as long as
// the machine tries. The event of the end charges the job, or a reconciliation if that is lost too.
func TestFinishedWorkIsChargedHoweverItsExecutionEnded(t *testing.T) {
	for by, tell := range map[string]func(w *world, name, status string) error{
		"event": func(w *world, name, status string) error {
			_, err := w.event(name, status)
			return err
		},
		"event without input": func(w *world, name, status string) error {
			event := fmt.Appendf(nil, `{"source":"aws.states","detail":{"name":%q,"status":%q,"input":null}}`, name, status)
			_, err := w.p.Callback(context.Background(), event)
			return err
		},
		"reconciliation": func(w *world, _, _ string) error {
			w.clock = w.clock.Add(time.Hour + time.Second)
			_, err := w.p.Reconcile(context.Background(), ReconcileOptions{OlderThan: time.Hour, Workers: 1})
			return err
		},
	} {
		for _, end := range ends {
			t.Run(by+"/"+end.name, func(t *testing.T) {
				modes(t, func(t *testing.T, opts Options) {
					w := newWorld(t, opts)
					w.send(body("a", "alice", "neural", 900))
					_, held := w.used("alice")
					name := ExecutionName("a", 1)
					w.stops(name, end.status, end.error, end.cause, end.history)
					// Before anything is known of it the hold stays.
					w.want("a", Running, "", 0, held)
					// The history cannot be read at first: the job is left as it is, and not taken
					// for failed.
					w.runs.history = headroom.Errorf(headroom.Throttled, nil, "too many requests")
					if err := tell(w, name, end.status); err == nil && !json.Valid([]byte(end.cause)) {
						t.Error("an end that could not be looked at was taken for one")
					}
					if j := w.record("a"); j.Status == Failed {
						t.Fatalf("%+v", j)
					}
					w.runs.history = nil
					if err := errors.Join(tell(w, name, end.status), tell(w, name, end.status)); err != nil {
						t.Fatal(err)
					}
					w.want("a", Succeeded, Charged, end.cost, 0)
				})
			})
		}
	}
}

// TestWorkThatWasNotDoneIsNotCharged: of an execution that was stopped at work there is no result.
func TestWorkThatWasNotDoneIsNotCharged(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		for _, end := range [][2]string{{"TIMED_OUT", ""}, {"ABORTED", "Operator"}, {"FAILED", "States.Timeout"}, {"FAILED", "States.Runtime"}, {"FAILED", "Synthesis"}} {
			w := newWorld(t, opts)
			w.send(body("a", "alice", "neural", 900))
			w.stops(ExecutionName("a", 1), end[0], end[1], "no", "")
			w.changes(ExecutionName("a", 1), end[0])
			w.want("a", Failed, "", 0, 0)
		}
	})
	// Where the last step has said that the work failed, nothing is looked up.
	w := newWorld(t, Options{})
	w.send(body("a", "alice", "neural", 900))
	w.ends(ExecutionName("a", 1), "")
	w.stops(ExecutionName("a", 1), "FAILED", "Synthesis", "no", "")
	w.runs.history = headroom.Errorf(headroom.Throttled, nil, "nobody asks")
	if _, err := w.event(ExecutionName("a", 1), "FAILED"); err != nil {
		t.Error(err)
	}
	w.want("a", Failed, "", 0, 0)
}

// TestTheLastStepIsHandedWhatItReads: of the input no more than names the job, and the consumer's
// own field. Class and duration as asked stand in that.
func TestTheLastStepIsHandedWhatItReads(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		for result, cost := range map[string]int64{`{}`: 30, `{"durationSeconds":840}`: 28, `{"voiceQuality":"standard"}`: 15, `{"durationSeconds":"x"}`: 30} {
			w := newWorld(t, opts)
			w.send(body("a", "alice", "neural", 900))
			var input fields
			if err := json.Unmarshal(w.runs.known[ExecutionName("a", 1)].Input, &input); err != nil {
				t.Fatal(err)
			}
			event := fmt.Sprintf(`{"execution":"x","status":"SUCCEEDED","input":{"jobId":%s,"userId":%s,"headroom":%s},"result":%s}`, input["jobId"], input["userId"], input["headroom"], result)
			// Also where the record was lost.
			for _, lost := range []bool{false, true} {
				if lost {
					w = newWorld(t, opts)
				}
				if _, err := w.p.Callback(context.Background(), []byte(event)); err != nil {
					t.Fatal(err)
				}
				w.want("a", Succeeded, Charged, cost, 0)
			}
		}
	})
}

// TestARedriveAfterWeeksIsCharged (case 63): nothing was charged before the work first succeeded,
// however long ago it was asked for.
func TestARedriveAfterWeeksIsCharged(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.send(body("a", "alice", "neural", 900))
		w.clock = w.clock.AddDate(0, 0, 2)
		w.ends(ExecutionName("a", 1), "")
		w.want("a", Failed, "", 0, 0)
		w.clock = w.clock.AddDate(0, 0, 13).Add(time.Hour)
		w.wire.fail = headroom.Errorf(headroom.Throttled, nil, "too many requests")
		if _, err := w.done(ExecutionName("a", 1), fifteen); err == nil {
			t.Fatal("charged without a charge")
		}
		w.wire.fail = nil
		// The charge is out for two weeks more.
		w.clock = w.clock.AddDate(0, 0, 14)
		w.reconcile()
		w.want("a", Succeeded, Charged, 30, 0)
		if j := w.record("a"); j.Reason != "" {
			t.Error(j.Reason)
		}
	})
}

// TestWhatMayHaveBeenChargedLongAgoIsOwed: since the work was done, ids are forgotten that may have
// been charged. It is not charged again, and its record says so.
func TestWhatMayHaveBeenChargedLongAgoIsOwed(t *testing.T) {
	for name, c := range map[string]struct {
		opts   Options
		status Status
		charge Charge
		used   int64
	}{
		"preflight": {Options{}, Unpaid, "", 0},
		// The hold is still known, and with it that nothing was charged.
		"hold": {Options{Hold: time.Hour}, Succeeded, Charged, 30},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.opts)
			w.send(body("a", "alice", "neural", 900))
			w.wire.fail = headroom.Errorf(headroom.Throttled, nil, "too many requests")
			w.ends(ExecutionName("a", 1), fifteen)
			w.wire.fail = nil
			w.clock = w.clock.Add(headroom.DefaultHorizon + time.Hour)
			for range 2 {
				if _, err := w.done(ExecutionName("a", 1), fifteen); err != nil {
					t.Fatal(err)
				}
			}
			w.want("a", c.status, c.charge, c.used, 0)
		})
	}
	// Of a job without a record its execution tells when the work was done.
	for days, want := range map[int]Status{14: Succeeded, 16: Unpaid} {
		w := newWorld(t, Options{})
		at := monday.AddDate(0, 0, -days)
		event := fmt.Sprintf(`{"execution":"x","status":"SUCCEEDED","entered":%q,"input":%s,"result":{}}`, at.Format(time.RFC3339Nano), body("a", "alice", "neural", 900))
		_, _ = w.p.Callback(context.Background(), []byte(event))
		if j := w.record("a"); j.Status != want {
			t.Errorf("done %d days ago: %+v", days, j)
		}
		w = newWorld(t, Options{})
		event = fmt.Sprintf(`{"source":"aws.states","detail":{"name":"x","status":"SUCCEEDED","stopDate":%d,"input":%q,"output":"{}"}}`, at.UnixMilli(), body("a", "alice", "neural", 900))
		_, _ = w.p.Callback(context.Background(), []byte(event))
		if j := w.record("a"); j.Status != want {
			t.Errorf("done %d days ago: %+v", days, j)
		}
	}
}

// plans makes a catalog of plans of so many slots a week, of which "free" is the default.
func plans(t testing.TB, units map[string]int64) *headroom.Catalog {
	t.Helper()
	var all []headroom.Plan
	for name, n := range units {
		all = append(all, headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: n}}})
	}
	c, err := headroom.NewCatalog("free", all, map[string]headroom.Prices{"slots": {Step: 60, Rates: map[string]int64{"neural": 2}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// planChange is how the plans change between the start of a job and its charge.
type planChange struct {
	name    string
	refuse  bool
	deploys map[string]int64 // the plans of a new configuration. Nil: it stays
	stores  string           // the plan that the user has then
	status  Status
	plan    string
}

// TestThePlanThatIsStoredNowDecides (case 62), and not the plan at the start. If it is not in the
// configuration any more, the job is charged nevertheless, and the log says so.
func TestThePlanThatIsStoredNowDecides(t *testing.T) {
	for _, c := range []planChange{
		{"unchanged", true, nil, "pro", Succeeded, "pro"},
		{"lowered, refuse", true, nil, "free", Unpaid, "free"},
		{"removed, refuse", true, nil, "", Unpaid, "free"},
		{"removed, record", false, nil, "", Succeeded, "free"},
		{"raised", true, nil, "studio", Succeeded, "studio"},
		{"left the configuration, record", false, map[string]int64{"free": 200}, "pro", Succeeded, "free"},
		{"left the configuration, refuse", true, map[string]int64{"free": 200}, "pro", Succeeded, "free"},
		{"exchanged for another, refuse", true, map[string]int64{"free": 200, "max": 5000}, "max", Succeeded, "max"},
	} {
		t.Run(c.name, func(t *testing.T) { modes(t, c.test) })
	}
}

// deploy gives a world another configuration on a store that stays.
func (w *world) deploy(store headroom.Store, units map[string]int64) {
	w.t.Helper()
	catalog := plans(w.t, units)
	var err error
	if w.engine, err = headroom.New(store, catalog, headroom.Options{Clock: func() time.Time { return w.clock }}); err != nil {
		w.t.Fatal(err)
	}
	if w.p, err = New(w.engine, catalog, w.jobs, w.runs, w.p.opts); err != nil {
		w.t.Fatal(err)
	}
}

// setPlan stores another plan for alice.
func (w *world) setPlan(plan string) {
	w.t.Helper()
	if err := w.engine.SetPlan(context.Background(), "alice", plan); err != nil {
		w.t.Fatal(err)
	}
}

func (c planChange) test(t *testing.T, opts Options) {
	var log bytes.Buffer
	opts.Refuse, opts.Logger = c.refuse, slog.New(slog.NewTextHandler(&log, nil))
	w := newWorld(t, opts)
	store := memstoreAt(&w.clock)
	w.deploy(store, map[string]int64{"free": 200, "pro": 5000, "studio": 9000})
	w.setPlan("pro")
	w.send(body("a", "alice", "neural", 60*150)) // 300 slots
	w.send(body("b", "alice", "neural", 600))
	if c.deploys != nil && c.stores != "pro" {
		w.deploy(store, map[string]int64{"free": 200, "pro": 5000, c.stores: 5000})
	}
	w.setPlan(c.stores)
	if c.deploys != nil {
		w.deploy(store, c.deploys)
	}

	for range 2 {
		if _, err := w.done(ExecutionName("a", 1), `{}`); err != nil {
			t.Fatal(err)
		}
	}
	want := c.status
	if opts.Hold > 0 {
		want = Succeeded // what is held is there for it
	}
	if j := w.record("a"); j.Status != want || (j.Charge == Charged) != (want == Succeeded) {
		t.Errorf("%+v", j)
	}
	gone := c.deploys != nil && c.stores == "pro"
	if said := strings.Contains(log.String(), "charged under the default plan"); said != gone {
		t.Errorf("the log says that the plan is gone: %v", said)
	}

	// A failure gives back what was held, under whatever plan.
	if _, err := w.done(ExecutionName("b", 1), ""); err != nil {
		t.Fatal(err)
	}
	w.deploy(store, map[string]int64{"free": 200, "pro": 5000, "studio": 9000, "max": 5000})
	used := map[Status]int64{Succeeded: 300, Unpaid: 0}
	w.wantUsed("alice", used[want], 0)
}

// TestAChargeBetweenDeductionAndNoteIsFound (case 65): settle finds no hold, deducts, and dies
// before the note; and the other ways in which a record and the quota can disagree about a hold.
func TestAChargeBetweenDeductionAndNoteIsFound(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, w *world, r headroom.Request){
		"nothing was made": func(*testing.T, *world, headroom.Request) {},
		"it was deducted": func(t *testing.T, w *world, r headroom.Request) {
			if _, err := w.engine.Deduct(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		},
		"it was held": func(t *testing.T, w *world, r headroom.Request) {
			if _, err := w.engine.Hold(context.Background(), r, time.Hour); err != nil {
				t.Fatal(err)
			}
		},
		"it was held and settled": func(t *testing.T, w *world, r headroom.Request) {
			_, _ = w.engine.Hold(context.Background(), r, time.Hour)
			if _, err := w.engine.Settle(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		},
		"its hold was released": func(t *testing.T, w *world, r headroom.Request) {
			_, _ = w.engine.Hold(context.Background(), r, time.Hour)
			if _, err := w.engine.Release(context.Background(), r.Held()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the record says held ", held), func(t *testing.T) {
				w := newWorld(t, Options{})
				r := headroom.Request{Subject: "alice", Meter: "slots", Operation: "a", Cost: 30, Now: w.clock}
				before(t, w, r)
				j := Job{ID: "a", UserID: "alice", Status: Succeeded, Charge: ChargePending, Attempt: 1, Cost: 30, Operation: "a", Held: held, FinishedAt: w.clock, UpdatedAt: w.clock}
				if done, err := w.jobs.Swap(context.Background(), Job{}, j); err != nil || !done {
					t.Fatal(done, err)
				}
				w.clock = w.clock.Add(2 * time.Hour)
				w.reconcile()
				w.want("a", Succeeded, Charged, 30, 0)
			})
		}
	}
	// An id that stands for other work stays to be charged, and is told of at each run.
	w := newWorld(t, Options{})
	w.spend("alice", 7)
	j := Job{ID: "spend-7", UserID: "alice", Status: Succeeded, Charge: ChargePending, Attempt: 1, Cost: 30, Operation: "spend-7", FinishedAt: w.clock, UpdatedAt: w.clock}
	w.put(j)
	w.clock = w.clock.Add(2 * time.Hour)
	for range 2 {
		if r := w.reconcile(); r.Failed != 1 {
			t.Errorf("%+v", r)
		}
	}
	w.want("spend-7", Succeeded, ChargePending, 7, 0)
}
