package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// calls counts calls by kind from now on.
func (w *world) calls() map[string]int {
	n := map[string]int{}
	w.wire.trouble = func(call string) fault {
		n[call]++
		return fault{}
	}
	return n
}

// TestAJobThatRunsByNoHoldNeedsNone: it was started in the other mode.
func TestAJobThatRunsByNoHoldNeedsNone(t *testing.T) {
	for _, c := range []struct {
		hold time.Duration
		held bool
	}{{0, true}, {time.Hour, false}} {
		w := newWorld(t, Options{Hold: c.hold})
		w.put(Job{ID: jobA, UserID: "alice", Status: Running, Attempt: 1, Held: c.held, Class: "neural", Seconds: askedA, Cost: 30, RequestedAt: monday, UpdatedAt: monday})
		n := w.calls()
		if failed := w.send(messageOf(1)); failed != nil || n["Start"] != 1 || n["Load"]+n["Commit"]+n["Describe"] > 0 {
			t.Errorf("%+v: failed %v, calls %v", c, failed, n)
		}
	}
}

// TestAFailureGivesBackWhatTheRecordSaysIsHeld, though the execution's input does not tell.
func TestAFailureGivesBackWhatTheRecordSaysIsHeld(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	w.send(messageOf(1))
	w.want(jobA, Running, "", 0, 30)
	if _, err := w.p.Callback(t.Context(), []byte(`{"execution":"x","status":"FAILED","input":`+messageOf(1)+`}`)); err != nil {
		t.Fatal(err)
	}
	w.want(jobA, Failed, "", 0, 0)
}

// TestAnExecutionIsAskedAboutOnlyWhereThereMayBeOne: not of a job that is refused at once, nor of
// one that waits.
func TestAnExecutionIsAskedAboutOnlyWhereThereMayBeOne(t *testing.T) {
	w := newWorld(t, Options{})
	w.spend("alice", 200)
	n := w.calls()
	w.send(messageOf(1))
	w.want(jobA, OverQuota, "", 200, 0)
	if n["Describe"] > 0 {
		t.Error(n)
	}
	w = newWorld(t, Options{})
	w.put(Job{ID: jobA, UserID: "alice", Status: Queued, Attempt: 1, RequestedAt: monday, UpdatedAt: monday})
	w.clock = w.clock.Add(2 * time.Hour)
	n = w.calls()
	if r := w.reconcile(); r != (Reconciliation{Seen: 1, Waiting: 1}) || n["Describe"] > 0 {
		t.Errorf("%+v, %v", r, n)
	}
	// One that went back and has none is refused as any other; where it cannot be known, nothing
	// is.
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		refused(w, func() { w.send(messageOf(1)) })
		w.clock = w.clock.Add(4 * time.Hour)
		w.reconcile()
		w.spend("alice", 200)
		w.failNth("Describe", 1, fault{before: throttled})
		if failed := w.send(messageOf(1)); failed == nil || w.record(jobA).Status != Queued {
			t.Errorf("failed %v, %+v", failed, w.record(jobA))
		}
		w.send(messageOf(1))
		w.want(jobA, OverQuota, "", 200, 0)
		if len(w.runs.known) > 0 {
			t.Error("it was started")
		}
	})
}

// TestARunSeesEachJobOnce, also one that begins in the middle; and a slow rate is a rate.
func TestARunSeesEachJobOnce(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 9 {
		j := Job{ID: fmt.Sprint("job-", i), UserID: "alice", Status: Running, Attempt: 1, RequestedAt: monday.Add(time.Duration(i) * time.Second), UpdatedAt: monday}
		w.put(j)
		w.runs.known[j.execution()] = Execution{Status: "RUNNING"}
		if i == 4 {
			w.mark(j.Opened())
		}
	}
	w.clock = w.clock.Add(2 * time.Hour)
	if r, err := w.p.Reconcile(t.Context(), ReconcileOptions{Workers: 1, Describes: 0.5}); err != nil || r != (Reconciliation{Seen: 9, Running: 9}) {
		t.Errorf("%+v, %v", r, err)
	}
	// A place that cannot be kept is told.
	w.mark(Opened{monday, "job-0"})
	w.failNth("SetBookmark", 1, fault{before: throttled})
	if _, err := w.p.Reconcile(t.Context(), ReconcileOptions{Workers: 1}); !errors.Is(err, headroom.Throttled) {
		t.Error(err)
	}
	if _, err := w.p.Reconcile(t.Context(), ReconcileOptions{Workers: 1}); err != nil {
		t.Error(err)
	}
}

// TestWhatAHandlerFailsOfIsItsAnswer: the callback's decision, and the error of a close.
func TestWhatAHandlerFailsOfIsItsAnswer(t *testing.T) {
	w := newWorld(t, Options{})
	w.send(messageOf(1))
	w.wire.fail = throttled
	r, err := w.p.Callback(t.Context(), []byte(`{"execution":"x","status":"SUCCEEDED","input":`+w.inputOf(1)+`,"result":{}}`))
	if !errors.Is(err, headroom.Throttled) || r.Decision != "throttled" || r.Status != Succeeded || r.Charge != ChargePending {
		t.Errorf("%+v, %v", r, err)
	}
	w.wire.fail = nil
	w.failNth("Get", 1, fault{before: throttled})
	if _, err := w.p.Close(t.Context(), jobA, "ticket"); !errors.Is(err, headroom.Throttled) {
		t.Error(err)
	}
	w.failNth("Swap", 1, fault{before: throttled})
	if _, err := w.p.Close(t.Context(), jobA, "ticket"); !errors.Is(err, headroom.Throttled) {
		t.Error(err)
	}
	w.want(jobA, Succeeded, ChargePending, 0, 0)
	w.failNth("Get", 1, fault{before: throttled})
	if err := w.tellChange("aws.states", "FAILED", "Synthesis", 1); !errors.Is(err, headroom.Throttled) {
		t.Error(err)
	}
	w.wire.trouble = nil
	// What is no UTF-8 is no message, wherever that is in it.
	if failed := w.send(strings.Replace(body("b", "alice", "neural", 60), "tides", "\xff", 1)); failed == nil {
		t.Error("a message that is not UTF-8 was taken")
	}
}

// TestAnOverageIsCountedOnce: not again where the same end is told again.
func TestAnOverageIsCountedOnce(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, Options{Namespace: "Headroom", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w.spend("alice", 170)
	w.send(messageOf(1))
	w.spend("alice", 29)
	for range 3 {
		if err := w.tellEnd("SUCCEEDED", 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "OverAtCallback=1"); n != 1 {
		t.Errorf("counted %d times:\n%s", n, &log)
	}
}

// TestAFieldThatCannotBeReadHasNoValue: whoever overlooks why gets nothing to go on with.
func TestAFieldThatCannotBeReadHasNoValue(t *testing.T) {
	f, err := readFields([]byte(`{"null":null,"text":"7","many":1e400,"half":1.5,"none":1e-320,"least":1e-100,"under":9.9e-101,"below":-1e-320}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"null", "text", "many", "missing"} {
		if n, strange := f.number(name); n != 0 || strange == "" {
			t.Errorf("%s is %v, %q", name, n, strange)
		}
	}
	for _, name := range []string{"text", "many", "half"} {
		if n, strange := f.whole(name, 1); n != 0 || strange == "" {
			t.Errorf("%s is %v, %q", name, n, strange)
		}
	}
	for name, want := range map[string]float64{"none": 0, "below": 0, "under": 0, "least": 1e-100} {
		if n, strange := f.number(name); n != want || strange != "" {
			t.Errorf("%s is %v, %q, want %v", name, n, strange, want)
		}
	}
	for text, why := range map[string]string{"null": "null is no object", "[]": "cannot unmarshal array", "{": "unexpected end"} {
		if f, err := readFields([]byte(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, %v", text, f, err)
		}
	}
}

// TestARefusalIsCountedOnce, and is none of those that were admitted.
func TestARefusalIsCountedOnce(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, Options{Namespace: "Headroom", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w.spend("alice", 200)
	for range 3 {
		w.send(messageOf(1))
	}
	if n := strings.Count(log.String(), " Refused=1"); n != 1 {
		t.Errorf("counted %d times:\n%s", n, &log)
	}
}

// TestAClosedJobGivesBackWhatItsChargeWouldHaveTaken, which may be another attempt's than the last.
func TestAClosedJobGivesBackWhatItsChargeWouldHaveTaken(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	for _, id := range []string{jobA, operation(jobA, 2)} {
		if _, err := w.engine.Hold(t.Context(), headroom.Request{Subject: "alice", Meter: "slots", Operation: id, Cost: 30, Now: w.clock}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	w.put(Job{ID: jobA, UserID: "alice", Status: Succeeded, Charge: ChargePending, Attempt: 2, Operation: jobA, Cost: 30, Held: true, UpdatedAt: monday})
	if _, err := w.p.Close(t.Context(), jobA, "goodwill"); err != nil {
		t.Fatal(err)
	}
	u, err := w.engine.Usage(t.Context(), headroom.UsageRequest{Subject: "alice", Meter: "slots", Now: w.clock})
	if err != nil || len(u.Holds) != 1 || u.Holds[0].Holds != 1 {
		t.Errorf("%+v, %v", u.Holds, err)
	}
	first := headroom.Request{Subject: "alice", Meter: "slots", Operation: jobA, Cost: 30, Now: w.clock}
	if d, err := w.engine.Hold(t.Context(), first, time.Hour); err != nil || !d.Expires.IsZero() {
		t.Errorf("the hold of the first attempt is still there: %+v, %v", d, err)
	}
	// What could not be given back is told.
	w = newWorld(t, Options{Hold: time.Hour})
	w.send(messageOf(1))
	w.wire.fail = throttled
	if _, err := w.p.Close(t.Context(), jobA, "ticket"); !errors.Is(err, headroom.Throttled) {
		t.Error(err)
	}
}

// TestARecordWithoutAnAttemptIsOfTheFirst: an application wrote it.
func TestARecordWithoutAnAttemptIsOfTheFirst(t *testing.T) {
	begin := func(s Status) *world {
		w := newWorld(t, Options{})
		w.put(Job{ID: jobA, UserID: "alice", Status: s, Class: "neural", Seconds: askedA, RequestedAt: monday, UpdatedAt: monday})
		return w
	}
	w := begin(Running)
	if err := w.tellEnd("FAILED", 1); err != nil {
		t.Fatal(err)
	}
	if j := w.record(jobA); j.Status != Failed || j.Attempt != 1 {
		t.Errorf("%+v", j)
	}
	for attempt, next := range map[int]int{1: 1, 2: 0} {
		w = begin(Running)
		if l, err := ReadLetter(t.Context(), w.jobs, []byte(messageOf(attempt))); err != nil || l.Next != next || l.Over || (next == 0) != strings.Contains(l.Reason, "follows on a failure, but attempt 1 is running") {
			t.Errorf("attempt %d: %+v, %v", attempt, l, err)
		}
	}
}

// TestWhoListsJobsMayStop after any of them.
func TestWhoListsJobsMayStop(t *testing.T) {
	w := newWorld(t, Options{})
	w.owed(5)
	n := 0
	if err := w.jobs.List(t.Context(), Filter{}, func(Job) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("%d jobs, %v", n, err)
	}
}

// TestUnitsThatAreNotGivenBackAreToldOf: the work no longer fits, and the release of what it held
// fails.
func TestUnitsThatAreNotGivenBackAreToldOf(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour, Refuse: true})
	w.spend("alice", 165)
	w.send(messageOf(1))
	told := 0
	for nth := 1; nth < 6 && told == 0; nth++ {
		w.failNth("Commit", nth, fault{before: throttled})
		_, err := w.p.Callback(t.Context(), []byte(`{"execution":"x","status":"SUCCEEDED","input":`+w.inputOf(1)+`,"result":{"durationSeconds":1200}}`))
		if j := w.record(jobA); j.Status == Unpaid && err != nil {
			told++
		} else if j.Status == Unpaid {
			break
		}
	}
	if told == 0 {
		t.Error("nobody hears that a release failed")
	}
	w.wire.trouble = nil
	if err := w.tellEnd("SUCCEEDED", 1); err != nil {
		t.Fatal(err)
	}
	w.want(jobA, Unpaid, "", 165, 0)
}
