package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestACallerWhoHasGoneWritesNothing into the table in memory, and is told so.
func TestACallerWhoHasGoneWritesNothing(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	m := &Memory{}
	j := Job{ID: "a", UserID: "alice", Status: Running, Attempt: 1, UpdatedAt: monday}
	_, _, get := m.Get(gone, "a")
	_, swap := m.Swap(gone, Job{}, j)
	_, bookmark := m.Bookmark(gone)
	for name, err := range map[string]error{
		"Get": get, "Swap": swap, "Bookmark": bookmark, "SetBookmark": m.SetBookmark(gone, Opened{ID: "a"}),
		"Open": m.Open(gone, Opened{}, monday, func(Opened) bool { return true }), "List": m.List(gone, Filter{}, func(Job) bool { return true }),
	} {
		if !errors.Is(err, headroom.Unavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if at, _ := m.Bookmark(t.Context()); len(m.jobs) > 0 || !at.IsZero() {
		t.Error(m.jobs, at)
	}
}

// TestARaceThatNeverEndsIsContended: each time that a handler writes, another was faster.
func TestARaceThatNeverEndsIsContended(t *testing.T) {
	for name, do := range map[string]func(w *world) error{
		"callback": func(w *world) error { return w.tellEnd("SUCCEEDED", 1) },
		"consumer": func(w *world) error {
			_, err := w.p.accept(t.Context(), Delivery{Body: messageOf(1)})
			return err
		},
		"close": func(w *world) error { _, err := w.p.Close(t.Context(), jobA, "ticket"); return err },
	} {
		w := newWorld(t, Options{})
		n := 0
		change := func() {
			j, _, _ := w.jobs.Get(t.Context(), jobA)
			n++
			next := Job{ID: jobA, UserID: "alice", Status: Queued, Attempt: 1, Returns: n, UpdatedAt: monday}
			w.change(j, next)
		}
		change()
		w.wire.between = change
		if err := do(w); !errors.Is(err, headroom.Contended) || n != swapTries+1 {
			t.Errorf("%s: %v after %d tries", name, err, n-1)
		}
		// One that is faster once is no obstacle.
		w.wire.between = func() { w.wire.between = nil; change() }
		if err := do(w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhoTakesAJobBackTooLateChangesNothing: its end was told while its execution was asked for.
func TestWhoTakesAJobBackTooLateChangesNothing(t *testing.T) {
	w := newWorld(t, Options{})
	refused(w, func() { w.send(messageOf(1)) })
	w.clock = w.clock.Add(2 * time.Hour)
	w.wire.between = func() {
		w.wire.between = nil
		w.hears("FAILED", 1)
	}
	if r := w.reconcile(); r != (Reconciliation{Seen: 1, Running: 1}) {
		t.Errorf("%+v", r)
	}
	w.want(jobA, Failed, "", 0, 0)
}

// TestAReconciliationNamesSomeFailuresAndCountsAll: the log has all of them.
func TestAReconciliationNamesSomeFailuresAndCountsAll(t *testing.T) {
	for n, want := range map[int]string{mostFailures: "", mostFailures + 1: "and 1 more", mostFailures + 5: "and 5 more"} {
		w := newWorld(t, Options{})
		for i := range n {
			w.put(Job{ID: fmt.Sprint("job-", i), UserID: "alice", Status: Succeeded, Charge: ChargePending, Attempt: 1, Cost: 1, Operation: fmt.Sprint("job-", i), FinishedAt: monday, UpdatedAt: monday})
		}
		w.clock = w.clock.Add(2 * time.Hour)
		w.wire.fail = throttled
		r, err := w.p.Reconcile(t.Context(), ReconcileOptions{Workers: 1})
		if err == nil || r != (Reconciliation{Seen: n, Failed: n}) || strings.Count(err.Error(), "throttled") != mostFailures || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "more") != (want != "") {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestAnIDHasTheCharactersThatANameShows at both ends of each range.
func TestAnIDHasTheCharactersThatANameShows(t *testing.T) {
	if name := ExecutionName("azAZ09_/:", 1); !strings.HasPrefix(name, "azAZ09_---") {
		t.Error(name)
	}
	for attempt, fails := range map[int]bool{0: true, 1: false, 9999: false, 10000: true} {
		if _, err := Send("a", "alice", "neural", 1, attempt, nil); (err != nil) != fails {
			t.Errorf("attempt %d: %v", attempt, err)
		}
	}
}

// TestADryRunNamesWhatWouldGoBack, and leaves it.
func TestADryRunNamesWhatWouldGoBack(t *testing.T) {
	w := newWorld(t, Options{})
	refused(w, func() { w.send(messageOf(1)) })
	w.clock = w.clock.Add(2 * time.Hour)
	var did []string
	r, err := w.p.Reconcile(t.Context(), ReconcileOptions{DryRun: true, Workers: 1, Each: func(j Job, what string, err error) { did = append(did, fmt.Sprint(j.ID, " ", what, " ", err)) }})
	if err != nil || r != (Reconciliation{Seen: 1, Waiting: 1}) || fmt.Sprint(did) != "[a queued <nil>]" {
		t.Errorf("%+v, %v, %q", r, err, did)
	}
	w.want(jobA, Running, "", 0, 0)
}

// TestALaterAttemptThatIsClosedGivesBackItsOwn: what it holds is under its own id.
func TestALaterAttemptThatIsClosedGivesBackItsOwn(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	w.send(messageOf(1))
	w.hears("FAILED", 1)
	w.send(messageOf(2))
	w.wire.fail = throttled
	w.hears("SUCCEEDED", 2)
	w.wire.fail = nil
	w.want(jobA, Succeeded, ChargePending, 0, 30)
	if _, err := w.p.Close(t.Context(), jobA, "goodwill"); err != nil {
		t.Fatal(err)
	}
	w.want(jobA, Unpaid, "", 0, 0)
}

// TestASuccessFillsInWhatTheRecordLacks, and keeps what it has of the attempt that did the work.
func TestASuccessFillsInWhatTheRecordLacks(t *testing.T) {
	early := monday.Add(-time.Hour)
	stamped := `{"jobId":"a","userId":"alice","headroom":{"attempt":%d,"voiceQuality":"neural","durationSeconds":900,"plan":"free","cost":30,"held":%t,"requestedAt":"2026-06-01T12:00:00Z"}}`
	for name, c := range map[string]struct {
		was       Job
		attempt   int
		held      bool
		want      bool // held
		plan      string
		requested time.Time
	}{
		"an empty record":        {Job{}, 1, true, true, "free", monday},
		"a full one":             {Job{Attempt: 1, Plan: "pro", RequestedAt: early, Held: true}, 1, true, true, "pro", early},
		"its hold is not told":   {Job{Attempt: 1, Plan: "pro", RequestedAt: early, Held: true}, 1, false, true, "pro", early},
		"another attempt, held":  {Job{Attempt: 2, Plan: "pro", RequestedAt: early}, 1, true, true, "pro", early},
		"another attempt, not":   {Job{Attempt: 2, Plan: "pro", RequestedAt: early, Held: true}, 1, false, false, "pro", early},
		"an attempt that is new": {Job{Attempt: 1, Plan: "pro", RequestedAt: early, Held: true}, 2, false, false, "pro", early},
	} {
		w := newWorld(t, Options{})
		c.was.ID, c.was.UserID, c.was.Status = jobA, "alice", Running
		w.put(c.was)
		w.wire.fail = throttled
		_, _ = w.p.Callback(t.Context(), fmt.Appendf(nil, `{"execution":"x","status":"SUCCEEDED","input":`+stamped+`,"result":{}}`, c.attempt, c.held))
		if j := w.record(jobA); j.Held != c.want || j.Plan != c.plan || !j.RequestedAt.Equal(c.requested) || j.Attempt != max(c.was.Attempt, c.attempt) {
			t.Errorf("%s: %+v", name, j)
		}
	}
}

// TestAStrangeResultCostsWhatWasAskedFor: by the consumer's estimate, where there is one; else by
// the message; else by the record.
func TestAStrangeResultCostsWhatWasAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		was   Job
		want  Job
	}{
		"the estimate":     {`{"jobId":"a","userId":"alice","voiceQuality":"neural","durationSeconds":900,"headroom":{"attempt":1,"cost":41}}`, Job{}, Job{Class: "neural", Seconds: 900, Cost: 41}},
		"an estimate of 1": {`{"jobId":"a","userId":"alice","headroom":{"attempt":1,"cost":1}}`, Job{}, Job{Cost: 1}},
		"the message":      {`{"jobId":"a","userId":"alice","voiceQuality":"neural","durationSeconds":900}`, Job{Class: "standard", Seconds: 60, Cost: 7}, Job{Class: "neural", Seconds: 900, Cost: 30}},
		"the record":       {`{"jobId":"a","userId":"alice"}`, Job{Class: "standard", Seconds: 60, Cost: 7}, Job{Class: "standard", Seconds: 60, Cost: 7}},
	} {
		w := newWorld(t, Options{})
		c.was.ID, c.was.UserID, c.was.Status, c.was.Attempt = jobA, "alice", Running, 1
		w.put(c.was)
		if _, err := w.p.Callback(t.Context(), fmt.Appendf(nil, `{"execution":"x","status":"SUCCEEDED","input":%s,"result":{"durationSeconds":null}}`, c.input)); err != nil {
			t.Fatal(err)
		}
		if j := w.record(jobA); j.Charge != Charged || j.Cost != c.want.Cost || j.Class != c.want.Class || j.Seconds != c.want.Seconds {
			t.Errorf("%s: %+v", name, j)
		}
		w.wantUsed("alice", c.want.Cost, 0)
	}
}

// TestAWrappedLetterIsUnwrapped: what is sent again is the message itself.
func TestAWrappedLetterIsUnwrapped(t *testing.T) {
	wrapped := `{"detail-type":"job","source":"studio","detail":` + messageOf(1) + `}`
	if l, err := ReadLetter(t.Context(), &Memory{}, []byte(wrapped)); err != nil || string(l.Body) != messageOf(1) || l.JobID != jobA {
		t.Errorf("%+v, %v", l, err)
	}
	// Neither a detail nor a source alone makes an event, nor does an empty one.
	for _, text := range []string{`{"detail-type":"job","detail":{"jobId":"a"}}`, `{"source":"studio","detail":{"jobId":"a"}}`, `{"source":"studio","detail-type":"job"}`, `{"detail":{"jobId":"a"}}`} {
		if got := unwrap([]byte(text)); string(got) != text {
			t.Errorf("%s is taken for %s", text, got)
		}
	}
	if got := unwrap([]byte(`{"source":"studio","detail-type":"job","detail":7}`)); string(got) != "7" {
		t.Errorf("%s", got)
	}
}

// TestACallThatFailsWhileAMessageWaitsIsTold: its record could not be written, so nothing is sent
// again.
func TestACallThatFailsWhileAMessageWaitsIsTold(t *testing.T) {
	sent := 0
	w := newWorld(t, Options{Hold: time.Hour, Later: func(context.Context, Delivery, time.Duration) error { sent++; return nil }})
	for i := range mostHolds {
		w.send(body(fmt.Sprint("job-", i), "alice", "standard", 60))
	}
	w.wire.jobsDown = throttled
	if failed := w.send(body("late", "alice", "standard", 60)); failed == nil || sent > 0 {
		t.Errorf("failed %v, sent again %d times", failed, sent)
	}
	w.wire.jobsDown = nil
	if failed := w.send(body("late", "alice", "standard", 60)); failed != nil || sent != 1 {
		t.Errorf("failed %v, sent again %d times", failed, sent)
	}
}

// TestALongIDIsRefused at the byte.
func TestALongIDIsRefused(t *testing.T) {
	for n, fails := range map[int]bool{MaxJobID: false, MaxJobID + 1: true} {
		if _, err := Send(strings.Repeat("j", n), "alice", "neural", 1, 1, nil); (err != nil) != fails {
			t.Errorf("a job id of %d bytes: %v", n, err)
		}
	}
	for n, fails := range map[int]bool{headroom.MaxSubject: false, headroom.MaxSubject + 1: true} {
		if _, err := Send("a", strings.Repeat("u", n), "neural", 1, 1, nil); (err != nil) != fails {
			t.Errorf("a user id of %d bytes: %v", n, err)
		}
	}
}
