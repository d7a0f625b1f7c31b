package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestNoJobRunsOnADeadHold (case 61): the job table is out until ten messages, whose units are
// held, are dead letters. The holds end, and others spend the quota. The letters are sent on.
func TestNoJobRunsOnADeadHold(t *testing.T) {
	for name, c := range map[string]struct {
		spent         int64
		runs, refused int
	}{
		"the quota is spent":      {200, 0, 10},
		"half of it is":           {100, 5, 5},
		"nothing is: held anew":   {0, 10, 0},
		"but for a unit too few":  {181, 0, 10},
		"one of ten still fits":   {180, 1, 9},
		"the week has turned too": {200, 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{Hold: 3 * time.Hour})
			w.wire.jobsDown = headroom.Errorf(headroom.Throttled, nil, "the job table throttles")
			send := func() {
				for i := range 10 {
					w.send(body(fmt.Sprint("job-", i), "alice", "neural", 600)) // 20 slots
				}
			}
			send()
			send()
			w.wantUsed("alice", 0, 200)
			w.wire.jobsDown = nil
			w.clock = w.clock.Add(24 * time.Hour)
			if c.spent > 0 {
				w.spend("alice", c.spent)
			}
			used := c.spent
			if name == "the week has turned too" {
				w.clock, used = w.clock.AddDate(0, 0, 7), 0
			}
			send()
			send()
			status := map[Status]int{}
			for i := range 10 {
				status[w.record(fmt.Sprint("job-", i)).Status]++
			}
			if status[Running] != c.runs || status[OverQuota] != c.refused || len(w.runs.known) != c.runs {
				t.Errorf("%v, %d executions, want %d to run and %d refused", status, len(w.runs.known), c.runs, c.refused)
			}
			w.wantUsed("alice", used, 20*int64(c.runs))
			for name := range w.runs.known {
				w.ends(name, `{}`)
			}
			w.wantUsed("alice", used+20*int64(c.runs), 0)
		})
	}
}

// TestAHoldLastsFromTheStart: a job whose start was refused for long is covered for as long as a
// hold lasts when it does start; one whose hold ended meanwhile asks anew, unless it has started.
func TestAHoldLastsFromTheStart(t *testing.T) {
	begin := func(t *testing.T) *world {
		w := newWorld(t, Options{Hold: 3 * time.Hour})
		w.runs.refuses = headroom.Errorf(headroom.Throttled, nil, "too many starts")
		if failed := w.send(body("a", "alice", "neural", 900)); failed == nil {
			t.Fatal("a start that failed was reported as made")
		}
		w.want("a", Running, "", 0, 30)
		w.runs.refuses = nil
		return w
	}
	message := body("a", "alice", "neural", 900)
	until := func(t *testing.T, w *world, want time.Time) {
		t.Helper()
		u, err := w.engine.Usage(context.Background(), headroom.UsageRequest{Subject: "alice", Meter: "slots", Now: w.clock})
		if err != nil || len(u.Holds) != 1 || u.Holds[0].Expires.Before(want) || u.Holds[0].Expires.After(want.Add(3*time.Hour/16)) {
			t.Errorf("held until %v, want %s", u.Holds, want)
		}
	}
	t.Run("it lives", func(t *testing.T) {
		w := begin(t)
		w.clock = w.clock.Add(2*time.Hour + 59*time.Minute)
		w.send(message)
		w.want("a", Running, "", 0, 30)
		until(t, w, w.clock.Add(3*time.Hour))
		if w.runs.starts[ExecutionName("a", 1)] != 2 {
			t.Error(w.runs.starts)
		}
	})
	t.Run("it ended, the units are there", func(t *testing.T) {
		w := begin(t)
		w.clock = w.clock.Add(3 * time.Hour)
		w.send(message)
		w.want("a", Running, "", 0, 30)
		until(t, w, w.clock.Add(3*time.Hour))
		w.ends(ExecutionName("a", 1), `{}`)
		w.want("a", Succeeded, Charged, 30, 0)
	})
	t.Run("it ended, the units are spent", func(t *testing.T) {
		w := begin(t)
		w.clock = w.clock.Add(3 * time.Hour)
		w.spend("alice", 171)
		for range 2 {
			w.send(message)
		}
		w.want("a", OverQuota, "", 171, 0)
		if len(w.runs.known) != 0 {
			t.Error(w.runs.known)
		}
	})
	t.Run("it ended after the start, of which nobody knew", func(t *testing.T) {
		w := newWorld(t, Options{Hold: 3 * time.Hour})
		w.send(message)
		w.clock = w.clock.Add(3 * time.Hour)
		w.spend("alice", 200)
		w.send(message)
		w.want("a", Running, "", 200, 0)
		w.ends(ExecutionName("a", 1), `{}`)
		w.want("a", Succeeded, Charged, 230, 0)
	})
	t.Run("taken before the record, long ago", func(t *testing.T) {
		w := newWorld(t, Options{Hold: 3 * time.Hour})
		w.wire.jobsDown = headroom.Errorf(headroom.Throttled, nil, "the job table throttles")
		w.send(message)
		w.wire.jobsDown = nil
		w.clock = w.clock.Add(2*time.Hour + 59*time.Minute)
		w.send(message)
		w.want("a", Running, "", 0, 30)
		until(t, w, w.clock.Add(3*time.Hour))
	})
	t.Run("two deliveries at once", func(t *testing.T) {
		// The second asks while the first is between its hold and its record.
		w := newWorld(t, Options{Hold: 3 * time.Hour})
		w.wire.between = func() { w.wire.between = nil; w.send(message) }
		w.send(message)
		w.want("a", Running, "", 0, 30)
		if len(w.runs.known) != 1 || w.runs.differ != 0 {
			t.Error(w.runs.known)
		}
	})
}

// TestAJobThatWasNeverStartedRunsWhenItsMessageComes (case 60): starts are refused until the
// message is a dead letter, and reconciliations find that there is no execution. The letter is sent
// on.
func TestAJobThatWasNeverStartedRunsWhenItsMessageComes(t *testing.T) {
	for _, weeks := range []int{0, 1, 4} {
		modes(t, func(t *testing.T, opts Options) { neverStarted(t, opts, weeks) })
	}
}

func neverStarted(t *testing.T, opts Options, weeks int) {
	w := newWorld(t, opts)
	message := body("a", "alice", "neural", 900)
	isQueued := func(returns int) {
		t.Helper()
		if j := w.record("a"); j.Status != Queued || j.Returns != returns {
			t.Fatalf("%+v, want it queued after %d returns", j, returns)
		}
	}
	w.runs.refuses = headroom.Errorf(headroom.Throttled, nil, "too many starts")
	for range 5 {
		w.send(message)
	}
	for range 3 {
		w.clock = w.clock.Add(2 * time.Hour)
		if r := w.reconcile(); r != (Reconciliation{Seen: 1, Waiting: 1}) {
			t.Fatalf("%+v", r)
		}
	}
	isQueued(1)
	// Starts are still refused, and it goes back once more.
	w.send(message)
	w.clock = w.clock.Add(2 * time.Hour)
	w.reconcile()
	isQueued(2)
	w.runs.refuses = nil
	w.clock = w.clock.AddDate(0, 0, 7*weeks)
	for range 2 {
		if failed := w.send(message); failed != nil {
			t.Fatal(failed)
		}
	}
	if len(w.runs.known) != 1 {
		t.Fatalf("executions %v", w.runs.known)
	}
	w.ends(ExecutionName("a", 1), `{}`)
	w.send(message)
	w.want("a", Succeeded, Charged, 30, 0)
	if j := w.record("a"); j.Reason != "" || len(w.runs.known) != 1 {
		t.Errorf("%+v", j)
	}
}

// TestAJobThatWentBackIsNotRefusedOnceItRuns: the start took effect after all, later than a
// reconciliation looked.
func TestAJobThatWentBackIsNotRefusedOnceItRuns(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		message := body("a", "alice", "neural", 900)
		w.runs.refuses = headroom.Errorf(headroom.Unavailable, nil, "no answer")
		w.send(message)
		w.clock = w.clock.Add(4 * time.Hour)
		w.reconcile()
		w.runs.refuses = nil
		_ = w.runs.Start(context.Background(), ExecutionName("a", 1), []byte(`{"jobId":"a","userId":"alice","voiceQuality":"neural","durationSeconds":900}`))
		w.spend("alice", 200)
		w.send(message)
		w.want("a", Running, "", 200, 0)
		w.ends(ExecutionName("a", 1), `{}`)
		w.want("a", Succeeded, Charged, 230, 0)

		// And if it has ended before its message comes again.
		w = newWorld(t, opts)
		w.runs.refuses = headroom.Errorf(headroom.Unavailable, nil, "no answer")
		w.send(message)
		w.clock = w.clock.Add(4 * time.Hour)
		w.reconcile()
		w.runs.refuses = nil
		_ = w.runs.Start(context.Background(), ExecutionName("a", 1), []byte(message))
		w.ends(ExecutionName("a", 1), `{}`)
		w.send(message)
		w.want("a", Succeeded, Charged, 30, 0)
	})
}

// TestMoreJobsThanHoldsWaitAndRun (case 64): 150 jobs of a user, sent one at a time, with units for
// all. No message fails, so none becomes a dead letter; each that has to wait comes again, and
// runs.
func TestMoreJobsThanHoldsWaitAndRun(t *testing.T) {
	var queue []Delivery
	var delays []time.Duration
	opts := Options{Hold: time.Hour, Later: func(_ context.Context, d Delivery, after time.Duration) error {
		queue, delays = append(queue, d), append(delays, after)
		return nil
	}}
	w := newWorld(t, opts)
	deliver := func(d Delivery) {
		t.Helper()
		out, err := w.p.Consume(context.Background(), Batch{Records: []Delivery{d}})
		if err != nil || len(out.Items) != 0 {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	for i := range 150 {
		deliver(Delivery{MessageID: fmt.Sprint("m", i), Body: body(fmt.Sprint("job-", i), "alice", "standard", 60)})
	}
	if len(w.runs.known) != mostHolds || len(queue) != 50 {
		t.Fatalf("%d run and %d wait", len(w.runs.known), len(queue))
	}
	if j := w.record("job-149"); j.Status != Queued || j.Reason == "" || j.RequestedAt.IsZero() {
		t.Errorf("%+v", j)
	}
	for round := 0; len(queue) > 0; round++ {
		if round == 20 {
			t.Fatalf("%d wait still", len(queue))
		}
		w.clock = w.clock.Add(delays[0])
		// Seven end, and so seven more can begin.
		ended := 0
		for name, x := range w.runs.known {
			if x.Status == "RUNNING" && ended < 7 {
				w.ends(name, `{}`)
				ended++
			}
		}
		now := queue
		queue, delays = nil, nil
		for _, d := range now {
			deliver(d)
		}
	}
	for name, x := range w.runs.known {
		if x.Status == "RUNNING" {
			w.ends(name, `{}`)
		}
	}
	if len(w.runs.known) != 150 {
		t.Errorf("%d jobs have run", len(w.runs.known))
	}
	w.wantUsed("alice", 150, 0)
}

// TestHowLongAMessageWaits: a quarter of what it has waited, within what a queue can delay.
func TestHowLongAMessageWaits(t *testing.T) {
	var after time.Duration
	var broken error
	w := newWorld(t, Options{Hold: 100 * time.Hour, Later: func(_ context.Context, _ Delivery, d time.Duration) error {
		after = d
		return broken
	}})
	for i := range mostHolds {
		w.send(body(fmt.Sprint("job-", i), "alice", "standard", 60))
	}
	for _, c := range []struct{ waited, want time.Duration }{
		{0, 15 * time.Second}, {time.Minute, 15 * time.Second}, {2 * time.Minute, 30 * time.Second}, {time.Hour, 15 * time.Minute}, {48 * time.Hour, 15 * time.Minute},
	} {
		w.clock = monday.Add(c.waited)
		if failed := w.send(body("late", "alice", "standard", 60)); failed != nil || after != c.want {
			t.Errorf("after %s it waits %s, want %s; failed %v", c.waited, after, c.want, failed)
		}
	}
	if j := w.record("late"); j.Status != Queued || !j.UpdatedAt.Equal(monday) {
		t.Errorf("each delivery writes the record: %+v", j)
	}
	// A record that an application queued says from now on that the job waits, and for what.
	w.put(Job{ID: "queued", UserID: "alice", Status: Queued, RequestedAt: monday, UpdatedAt: monday})
	if failed := w.send(body("queued", "alice", "standard", 60)); failed != nil {
		t.Error(failed)
	}
	if j := w.record("queued"); j.Status != Queued || j.Attempt != 1 || j.Reason == "" || !j.UpdatedAt.Equal(w.clock) {
		t.Errorf("%+v", j)
	}
	// What cannot be sent again comes back by the queue.
	broken = errors.New("the queue throttles")
	if failed := w.send(body("late", "alice", "standard", 60)); failed == nil {
		t.Error("a message that was not sent again was deleted")
	}
	// A rerun waits as well, and a job whose start was refused.
	broken = nil
	w.ends(ExecutionName("job-0", 1), "")
	w.send(body("in its place", "alice", "standard", 60))
	again, _ := Send("job-0", "alice", "standard", 60, 2, nil)
	if failed := w.send(string(again)); failed != nil {
		t.Error(failed)
	}
	if j := w.record("job-0"); j.Status != Queued || j.Attempt != 2 {
		t.Errorf("%+v", j)
	}
	w.ends(ExecutionName("job-1", 1), `{}`)
	w.send(string(again))
	if j := w.record("job-0"); j.Status != Running || j.Attempt != 2 || j.Reason != "" {
		t.Errorf("%+v", j)
	}
}

// TestARecordWithAStrangeStatusLosesNoMessage: an application may write records of its own. A
// message whose job has a status that is none of ours comes back, and says why.
func TestARecordWithAStrangeStatusLosesNoMessage(t *testing.T) {
	for _, status := range []Status{"", "new", "Queued"} {
		modes(t, func(t *testing.T, opts Options) {
			w := newWorld(t, opts)
			w.jobs.jobs = map[string]Job{"a": {ID: "a", UserID: "alice", Status: status}}
			if failed := w.send(body("a", "alice", "neural", 60)); len(failed) != 1 {
				t.Errorf("status %q: the message is lost", status)
			}
			if len(w.runs.starts) != 0 {
				t.Errorf("status %q: started %v", status, w.runs.starts)
			}
		})
	}
}
