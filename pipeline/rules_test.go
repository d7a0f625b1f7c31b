package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumcast/headroom"
)

// failNth lets one call of a kind fail.
func (w *world) failNth(kind string, nth int, f fault) {
	w.wire.trouble = func(call string) fault {
		if call == kind {
			if nth--; nth == 0 {
				return f
			}
		}
		return fault{}
	}
}

// TestAPipelineNeedsAllItsParts: what is missing or cannot be is an error at the beginning.
func TestAPipelineNeedsAllItsParts(t *testing.T) {
	w := newWorld(t, Options{})
	catalog := headroom.DefaultCatalog()
	for name, make := range map[string]func() (*Pipeline, error){
		"no engine":           func() (*Pipeline, error) { return New(nil, catalog, w.jobs, w.runs, Options{}) },
		"no catalog":          func() (*Pipeline, error) { return New(w.engine, nil, w.jobs, w.runs, Options{}) },
		"no jobs":             func() (*Pipeline, error) { return New(w.engine, catalog, nil, w.runs, Options{}) },
		"no executions":       func() (*Pipeline, error) { return New(w.engine, catalog, w.jobs, nil, Options{}) },
		"a meter of no price": func() (*Pipeline, error) { return New(w.engine, catalog, w.jobs, w.runs, Options{Meter: "words"}) },
		"a hold below 0":      func() (*Pipeline, error) { return New(w.engine, catalog, w.jobs, w.runs, Options{Hold: -time.Hour}) },
		"a hold too short": func() (*Pipeline, error) {
			return New(w.engine, catalog, w.jobs, w.runs, Options{Hold: time.Second - 1})
		},
	} {
		if p, err := make(); !errors.Is(err, headroom.Invalid) && !errors.Is(err, headroom.NotFound) || p != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := New(w.engine, catalog, w.jobs, w.runs, Options{Hold: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if o := p.opts; o.Meter != "slots" || o.MaxSeconds != 86400 || o.PerMessage != 10*time.Second || o.Logger == nil {
		t.Errorf("%+v", o)
	}
	p, _ = New(w.engine, catalog, w.jobs, w.runs, Options{MaxSeconds: 60, PerMessage: time.Second, Meter: "slots", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if o := p.opts; o.MaxSeconds != 60 || o.PerMessage != time.Second {
		t.Errorf("%+v", o)
	}
	if _, err := p.cost("neural", 60); err != nil {
		t.Error(err)
	}
	if _, err := p.cost("neural", 60.5); !errors.Is(err, headroom.Invalid) {
		t.Error(err)
	}
	// Without a clock of the tests' own the host's stands in the records, and the store's decides.
	if at := p.now(); time.Since(at) > time.Hour || at.Location() != time.UTC || !p.decideAt().IsZero() {
		t.Error(at, p.decideAt())
	}
	if !w.p.decideAt().Equal(monday) || !w.p.now().Equal(monday) {
		t.Error(w.p.decideAt())
	}
}

// TestALineTellsHowLongAHandlerTook for each handler, in milliseconds.
func TestALineTellsHowLongAHandlerTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(t, Options{Namespace: "Headroom", Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		w.wire.trouble = func(call string) fault {
			if call == "Swap" {
				time.Sleep(250 * time.Millisecond)
			}
			return fault{}
		}
		w.send(messageOf(1))
		w.wire.fail = throttled
		w.hears("SUCCEEDED", 1)
		w.wire.fail = nil
		w.clock = w.clock.Add(2 * time.Hour)
		_ = w.look()
		var took []string
		for line := range strings.Lines(log.String()) {
			var l struct {
				Handler string
				Latency float64
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			took = append(took, fmt.Sprint(l.Handler, " ", l.Latency))
		}
		if want := []string{"consumer 250", "callback 250", "reconcile 250"}; !slices.Equal(took, want) {
			t.Errorf("%q, want %q", took, want)
		}
	})
}

// TestAnEventThatCannotBeAnEndWritesNothing: and its error says why it is none.
func TestAnEventThatCannotBeAnEndWritesNothing(t *testing.T) {
	w := newWorld(t, Options{})
	input := w.inputOf(1)
	for event, want := range map[string]string{
		`{"execution":"x","status":"RUNNING","input":` + input + `}`: "neither of the last step nor of a status change",
		`{"execution":"x","input":` + input + `}`:                    "neither of the last step nor of a status change",
		`[]`: "neither of the last step nor of a status change",
		`{"execution":"x","status":"SUCCEEDED","input":"a"}`:                                                        `the input of execution "x" is not a JSON object`,
		`{"execution":"x","status":"SUCCEEDED"}`:                                                                    `the input of execution "x" is not a JSON object`,
		`{"execution":"x","status":"SUCCEEDED","input":{"jobId":"a","userId":"alice","headroom":"strange"}}`:        "a field headroom that is not the consumer's",
		`{"execution":"x","status":"SUCCEEDED","input":{"jobId":"a"}}`:                                              "userId is missing",
		`{"source":"aws.states","detail":{"name":"gone","status":"FAILED","error":"E","input":null}}`:               `execution "gone", which does not exist`,
		`{"source":"aws.states","detail":{"name":"","status":"FAILED","error":"E","input":"{}"}}`:                   "no status change",
		`{"source":"aws.states","detail":{"name":"x","status":"","error":"E","input":"{}"}}`:                        "no status change",
		`{"source":"aws.lambda","detail":{"name":"x","status":"FAILED","error":"E","input":` + quoted(input) + `}}`: "no status change",
	} {
		if r, err := w.p.Callback(t.Context(), []byte(event)); err == nil || !strings.Contains(err.Error(), want) || r.Status != "" {
			t.Errorf("%s: %+v, %v, want %q", event, r, err, want)
		}
	}
	// Of one that runs nothing is asked, and nothing answered.
	w.wire.trouble = func(call string) fault { return fault{before: errors.New(call)} }
	for _, status := range []string{"RUNNING", "PENDING_REDRIVE"} {
		if r, err := w.p.Callback(t.Context(), fmt.Appendf(nil, `{"source":"aws.states","detail":{"name":"x","status":%q,"input":null}}`, status)); err != nil || r != (Result{}) {
			t.Error(r, err)
		}
	}
	if len(w.jobs.jobs) > 0 {
		t.Errorf("%+v", w.jobs.jobs)
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// TestWhatAnEventLeavesOutTheExecutionTells: a long input or output, or an error.
func TestWhatAnEventLeavesOutTheExecutionTells(t *testing.T) {
	for name, c := range map[string]struct {
		event  string // after the name
		x      Execution
		status Status
		cost   int64
	}{
		"output":              {`"status":"SUCCEEDED","input":INPUT,"output":null`, Execution{Status: "SUCCEEDED", Output: []byte(`{"result":` + doneA + `}`)}, Succeeded, 28},
		"input":               {`"status":"SUCCEEDED","input":null,"output":"{}"`, Execution{Status: "SUCCEEDED", Output: []byte(`{"result":` + doneA + `}`)}, Succeeded, 28},
		"error":               {`"status":"FAILED","input":INPUT`, Execution{Status: "FAILED", Error: DoneNotCharged, Cause: doneA}, Succeeded, 28},
		"nothing":             {`"status":"FAILED","input":INPUT,"error":"Synthesis"`, Execution{Status: "FAILED", Error: DoneNotCharged, Cause: doneA}, Failed, 30},
		"output is there":     {`"status":"SUCCEEDED","input":INPUT,"output":"{\"result\":{\"durationSeconds\":60}}"`, Execution{}, Succeeded, 2},
		"no result":           {`"status":"SUCCEEDED","input":INPUT,"output":"{}"`, Execution{}, Succeeded, 30},
		"output is no object": {`"status":"SUCCEEDED","input":INPUT,"output":"7"`, Execution{}, Succeeded, 30},
	} {
		w := newWorld(t, Options{})
		w.send(messageOf(1))
		c.x.Input = []byte(w.inputOf(1))
		w.runs.known[ExecutionName(jobA, 1)] = c.x
		event := fmt.Sprintf(`{"source":"aws.states","detail":{"name":%q,%s}}`, ExecutionName(jobA, 1), strings.Replace(c.event, "INPUT", quoted(w.inputOf(1)), 1))
		r, err := w.p.Callback(t.Context(), []byte(event))
		if err != nil || r.Status != c.status || r.Cost != c.cost {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if j := w.record(jobA); c.status == Succeeded && j.Reason != "" {
			t.Errorf("%s: %q", name, j.Reason)
		}
	}
	// An execution that cannot be asked leaves all as it is.
	w := newWorld(t, Options{})
	w.send(messageOf(1))
	w.failNth("Describe", 1, fault{before: throttled})
	if _, err := w.p.Callback(t.Context(), fmt.Appendf(nil, `{"source":"aws.states","detail":{"name":%q,"status":"FAILED","input":null}}`, ExecutionName(jobA, 1))); !errors.Is(err, headroom.Throttled) {
		t.Error(err)
	}
	w.want(jobA, Running, "", 0, 0)
}

// TestACauseThatIsNoResultIsNone: it is cut off, empty or blank, and the history has none. The
// job costs what was asked for, and nothing is strange about that.
func TestACauseThatIsNoResultIsNone(t *testing.T) {
	for _, cause := range []string{`{"url":"s3://…`, ``, ` `, ` null `, "\n{}\n"} {
		w := newWorld(t, Options{})
		w.send(messageOf(1))
		w.stops(ExecutionName(jobA, 1), "FAILED", DoneNotCharged, cause, "")
		if _, err := w.event(ExecutionName(jobA, 1), "FAILED"); err != nil {
			t.Fatal(err)
		}
		if w.want(jobA, Succeeded, Charged, 30, 0); w.record(jobA).Reason != "" {
			t.Errorf("%q: %q", cause, w.record(jobA).Reason)
		}
	}
}

// TestWhyAWorkFailed stands in the record in one line.
func TestWhyAWorkFailed(t *testing.T) {
	for want, x := range map[string]Execution{
		"Synthesis: no voice":        {Status: "FAILED", Error: "Synthesis", Cause: "no voice"},
		"Synthesis":                  {Status: "FAILED", Error: "Synthesis"},
		"no voice":                   {Status: "FAILED", Cause: "no voice"},
		"":                           {Status: "FAILED"},
		"TIMED_OUT":                  {Status: "TIMED_OUT"},
		"ABORTED: by hand":           {Status: "ABORTED", Cause: "by hand"},
		"Operator: by hand":          {Status: "ABORTED", Error: "Operator", Cause: "by hand"},
		"Runtime: no voice here":     {Status: "FAILED", Error: "Runtime", Cause: `{"errorMessage":"no voice here","errorType":"X"}`},
		`Runtime: {"errorType":"X"}`: {Status: "FAILED", Error: "Runtime", Cause: `{"errorType":"X"}`},
		"E: " + strings.Repeat("ä", 497) + "…": {Status: "FAILED", Error: "E", Cause: strings.Repeat("ä", 498)},
		"E: " + strings.Repeat("ö", 497):       {Status: "FAILED", Error: "E", Cause: strings.Repeat("ö", 497)},
	} {
		if got := because(x); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWhatNeverFitsSaysSo: to wait for the next week would be in vain.
func TestWhatNeverFitsSaysSo(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.send(body("a", "alice", "neural", 60*101))
		w.want("a", OverQuota, "", 0, 0)
		if j := w.record("a"); j.Reason != "202 units do not fit the limit of 200 in any window (plan free)" {
			t.Error(j.Reason)
		}
	})
}

// TestAHoldThatCannotBeLookedAtStartsNothing: whether a running job is still covered is not
// guessed.
func TestAHoldThatCannotBeLookedAtStartsNothing(t *testing.T) {
	for _, call := range []string{"Load", "Commit"} {
		w := newWorld(t, Options{Hold: time.Hour})
		refused(w, func() { w.send(messageOf(1)) })
		w.clock = w.clock.Add(30 * time.Minute)
		w.failNth(call, 1, fault{before: throttled})
		if failed := w.send(messageOf(1)); failed == nil || len(w.runs.known) > 0 {
			t.Errorf("%s: failed %v, started %v", call, failed, w.runs.known)
		}
	}
}

// TestARunningJobWithoutItsHoldAsksAnew, unless its execution is there.
func TestARunningJobWithoutItsHoldAsksAnew(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"it is not known": func(w *world) {},
		"it was charged otherwise": func(w *world) {
			r := headroom.Request{Subject: "alice", Meter: "slots", Operation: jobA, Cost: 7, Now: w.clock}
			if d, err := w.engine.Deduct(context.Background(), r); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		},
	} {
		for _, started := range []bool{false, true} {
			w := newWorld(t, Options{Hold: time.Hour})
			j := Job{ID: jobA, UserID: "alice", Status: Running, Attempt: 1, Held: true, Class: "neural", Seconds: askedA, Cost: 30, RequestedAt: w.clock, UpdatedAt: w.clock}
			w.put(j)
			lose(w)
			if started {
				w.runs.known[ExecutionName(jobA, 1)] = Execution{Status: "RUNNING"}
			}
			failed := w.send(messageOf(1))
			_, held := w.used("alice")
			switch {
			case started && (failed != nil || held != 0):
				t.Errorf("%s, started: failed %v, holds %d", name, failed, held)
			case !started && name == "it is not known" && (failed != nil || held != 30 || len(w.runs.known) != 1):
				t.Errorf("%s: failed %v, holds %d", name, failed, held)
			case !started && name != "it is not known" && (failed == nil || len(w.runs.known) > 0):
				t.Errorf("%s: failed %v, started %v: its id stands for other work", name, failed, w.runs.known)
			}
		}
	}
}

// TestAHoldThatEndsWhileItIsAskedForIsTakenAnew lets it end before each call of a delivery.
func TestAHoldThatEndsWhileItIsAskedForIsTakenAnew(t *testing.T) {
	for n := range 6 {
		w := newWorld(t, Options{Hold: time.Hour})
		w.wire.jobsDown = throttled
		w.send(messageOf(1)) // holds, and its record is not written
		w.wire.jobsDown = nil
		w.p.opts.Clock = nil // each call has a time of its own
		w.clock = w.clock.Add(time.Hour - time.Second)
		made := 0
		w.wire.trouble = func(string) fault {
			if made == n {
				w.clock = w.clock.Add(2 * time.Second)
			}
			made++
			return fault{}
		}
		failed := w.send(messageOf(1))
		w.wire.trouble = nil
		u, err := w.engine.Usage(t.Context(), headroom.UsageRequest{Subject: "alice", Meter: "slots", Now: w.clock})
		var left time.Duration
		for _, h := range u.Holds {
			left = h.Expires.Sub(w.clock)
		}
		if err != nil || failed != nil || left < time.Hour-3*time.Second {
			t.Errorf("before call %d: failed %v, held for %s, %v", n, failed, left, err)
		}
	}
}

// TestAHoldIsExtendedUnderAnyPlan: also when the plan of its start has left the configuration.
func TestAHoldIsExtendedUnderAnyPlan(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	now := func() time.Time { return w.clock }
	store := memstoreAt(&w.clock)
	deploy := func(units map[string]int64) {
		t.Helper()
		catalog := plans(t, units)
		var err error
		if w.engine, err = headroom.New(store, catalog, headroom.Options{Clock: now}); err != nil {
			t.Fatal(err)
		}
		if w.p, err = New(w.engine, catalog, w.jobs, w.runs, w.p.opts); err != nil {
			t.Fatal(err)
		}
	}
	deploy(map[string]int64{"free": 200, "pro": 5000})
	if err := w.engine.SetPlan(t.Context(), "alice", "pro"); err != nil {
		t.Fatal(err)
	}
	refused(w, func() { w.send(messageOf(1)) })
	deploy(map[string]int64{"free": 200})
	if failed := w.send(messageOf(1)); failed != nil || len(w.runs.known) != 1 {
		t.Errorf("failed %v, started %v", failed, w.runs.known)
	}
}

// TestWhoLosesTheJobLetsItsHoldGo, but not one by which the other runs.
func TestWhoLosesTheJobLetsItsHoldGo(t *testing.T) {
	for name, c := range map[string]struct {
		other Job
		held  int64
	}{
		"refused":        {Job{Status: OverQuota, UserID: "alice", Attempt: 1}, 0},
		"runs":           {Job{Status: Running, UserID: "alice", Attempt: 1, Held: true, Class: "neural", Seconds: askedA, Cost: 30}, 30},
		"failed":         {Job{Status: Failed, UserID: "alice", Attempt: 1}, 30},
		"a later one":    {Job{Status: OverQuota, UserID: "alice", Attempt: 2}, 30},
		"another user's": {Job{Status: Running, UserID: "bob", Attempt: 1}, 0},
	} {
		w := newWorld(t, Options{Hold: time.Hour})
		w.wire.between = func() {
			w.wire.between = nil
			c.other.ID = jobA
			w.put(c.other)
		}
		w.send(messageOf(1))
		if _, held := w.used("alice"); held != c.held {
			t.Errorf("%s: alice holds %d, want %d", name, held, c.held)
		}
	}
}

// TestWhoLosesTheJobInDoubtKeepsItsHold: the record that won is gone when it is looked at, and the
// message is taken anew. Nothing is given back on the way.
func TestWhoLosesTheJobInDoubtKeepsItsHold(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	w.wire.between = func() {
		w.wire.between = nil
		w.put(Job{ID: jobA, UserID: "bob", Status: OverQuota, Attempt: 1})
	}
	gets, writes := 0, map[int]int{} // by how many looks were made before
	w.wire.trouble = func(call string) fault {
		switch call {
		case "Get":
			if gets++; gets == 2 {
				delete(w.jobs.jobs, jobA)
			}
		case "Commit":
			writes[gets]++
		}
		return fault{}
	}
	if failed := w.send(messageOf(1)); failed != nil || gets != 3 || writes[2] > 0 {
		t.Errorf("failed %v, %d looks, writes to the quota %v", failed, gets, writes)
	}
	w.wire.trouble = nil
	w.want(jobA, Running, "", 0, 30)
}

// TestWhoLosesTheJobWithoutAHoldOnlyLooksAgain: there is nothing to give back.
func TestWhoLosesTheJobWithoutAHoldOnlyLooksAgain(t *testing.T) {
	w := newWorld(t, Options{})
	w.wire.between = func() {
		w.wire.between = nil
		w.put(Job{ID: jobA, UserID: "alice", Status: OverQuota, Attempt: 1})
	}
	n := w.calls()
	if failed := w.send(messageOf(1)); failed != nil || n["Get"] != 2 || n["Load"] != 1 || n["Commit"] != 0 {
		t.Errorf("failed %v, calls %v", failed, n)
	}
}

// TestAMessageFromBeforeTheHorizonIsNotCharged where no record tells that it was not.
func TestAMessageFromBeforeTheHorizonIsNotCharged(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		for _, known := range []bool{false, true} {
			w := newWorld(t, opts)
			w.p.opts.Clock = nil // the time of the message counts
			if known {
				w.put(Job{ID: jobA, UserID: "alice", Status: Queued, Attempt: 1, RequestedAt: monday.AddDate(0, 0, -20)})
			}
			d := Delivery{MessageID: "m", Body: messageOf(1), Attributes: map[string]string{"SentTimestamp": fmt.Sprint(monday.AddDate(0, 0, -20).UnixMilli())}}
			if out, err := w.p.Consume(t.Context(), Batch{Records: []Delivery{d}}); err != nil || len(out.Items) > 0 {
				t.Fatal(out, err)
			}
			want := Failed
			if known {
				want = Running
			}
			if j := w.record(jobA); j.Status != want || !j.RequestedAt.Equal(monday.AddDate(0, 0, -20)) || want == Failed && j.Decision != "too_old" {
				t.Errorf("known %t: %+v", known, j)
			}
		}
	})
}

// TestAPreflightAsksForUnits: an id that was charged otherwise is no leave to run.
func TestAPreflightAsksForUnits(t *testing.T) {
	w := newWorld(t, Options{})
	if d, err := w.engine.Deduct(t.Context(), headroom.Request{Subject: "alice", Meter: "slots", Operation: jobA, Cost: 30, Now: w.clock}); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	w.spend("alice", 170)
	w.send(messageOf(1))
	w.want(jobA, OverQuota, "", 200, 0)
}

// TestSendMakesWhatTheConsumerReads, or fails.
func TestSendMakesWhatTheConsumerReads(t *testing.T) {
	b, err := Send("a", "alice", "neural", 60, 2, map[string]json.RawMessage{"topic": []byte(`"tides"`), "jobId": []byte(`"other"`)})
	if want := `{"attempt":2,"durationSeconds":60,"jobId":"a","topic":"tides","userId":"alice","voiceQuality":"neural"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	if b, err := Send("a", "alice", "neural", 60, 1, nil); err != nil || strings.Contains(string(b), "attempt") {
		t.Errorf("%s, %v", b, err)
	}
	for name, make := range map[string]func() ([]byte, error){
		"no id":     func() ([]byte, error) { return Send("", "alice", "neural", 60, 1, nil) },
		"attempt 0": func() ([]byte, error) { return Send("a", "alice", "neural", 60, 0, nil) },
		"no number": func() ([]byte, error) { return Send("a", "alice", "neural", math.NaN(), 1, nil) },
		"not JSON": func() ([]byte, error) {
			return Send("a", "alice", "neural", 60, 1, map[string]json.RawMessage{"x": []byte("{")})
		},
		"the consumer's field": func() ([]byte, error) {
			return Send("a", "alice", "neural", 60, 1, map[string]json.RawMessage{"headroom": []byte("{}")})
		},
	} {
		b, err := make()
		if !errors.Is(err, headroom.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		if unwritten := strings.HasPrefix(name, "no number") || name == "not JSON"; unwritten && (b != nil || !strings.Contains(err.Error(), "cannot be written")) {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
}

// TestAChargeUnderTheDefaultPlanThatFailsIsToldOfAsSuch, by what was wrong at first.
func TestAChargeUnderTheDefaultPlanThatFailsIsToldOfAsSuch(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Plan: "gone"})
	w.put(Job{ID: jobA, UserID: "alice", Status: Succeeded, Charge: ChargePending, Attempt: 1, Cost: 28, Operation: jobA, FinishedAt: monday})
	w.wire.fail = throttled
	err := w.tellEnd("SUCCEEDED", 1)
	if !errors.Is(err, headroom.Invalid) || strings.Contains(log.String(), "charged under the default plan") {
		t.Errorf("%v\n%s", err, &log)
	}
	w.wire.fail = nil
	if err := w.tellEnd("SUCCEEDED", 1); err != nil || !strings.Contains(log.String(), "charged under the default plan") {
		t.Errorf("%v\n%s", err, &log)
	}
	w.want(jobA, Succeeded, Charged, 28, 0)
}

// TestAnotherJobsExecutionIsNotTaken: its name was used by hand.
func TestAnotherJobsExecutionIsNotTaken(t *testing.T) {
	w := newWorld(t, Options{})
	w.send(messageOf(1))
	w.runs.known[ExecutionName(jobA, 1)] = Execution{Status: "SUCCEEDED", Input: []byte(body("b", "alice", "neural", 900)), Output: []byte(`{}`)}
	w.clock = w.clock.Add(2 * time.Hour)
	if r, err := w.p.Reconcile(t.Context(), ReconcileOptions{OlderThan: time.Hour}); !errors.Is(err, headroom.Conflict) || r.Failed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	w.want(jobA, Running, "", 0, 0)
	if len(w.jobs.jobs) != 1 {
		t.Errorf("%+v", w.jobs.jobs)
	}
}
