package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// owed puts jobs into the table whose charge is pending, each open for a second longer than the
// next.
func (w *world) owed(n int) {
	w.t.Helper()
	for i := range n {
		id := fmt.Sprintf("job-%04d", i)
		j := Job{ID: id, UserID: fmt.Sprint("user-", i), Status: Succeeded, Charge: ChargePending, Attempt: 1, Cost: 1, Operation: id, RequestedAt: monday.Add(time.Duration(i-n) * time.Second), FinishedAt: monday, UpdatedAt: monday.Add(-time.Hour)}
		if done, err := w.jobs.Swap(context.Background(), Job{}, j); err != nil || !done {
			w.t.Fatal(done, err)
		}
	}
}

// TestARunKeepsItsPlace at each thousandth job, and where it is cut off; and a whole one keeps
// none.
func TestARunKeepsItsPlace(t *testing.T) {
	w := newWorld(t, Options{})
	w.owed(bookmarkEvery + 1)
	kept := 0
	w.wire.trouble = func(call string) fault {
		if call == "SetBookmark" {
			kept++
		}
		return fault{}
	}
	if r, err := w.p.Reconcile(t.Context(), ReconcileOptions{Workers: 1, DryRun: true}); err != nil || r.Finished != bookmarkEvery+1 || r.More || kept != 0 {
		t.Errorf("a dry run: %+v, %v, its place kept %d times", r, err, kept)
	}
	// It is cut off after 700 jobs, and begins there the next time; then it takes those before.
	ctx, stop := context.WithCancel(t.Context())
	n := 0
	var order []string
	each := func(j Job, _ string, _ error) {
		order = append(order, j.ID)
		if n++; n == 700 {
			stop()
		}
	}
	r, err := w.p.Reconcile(ctx, ReconcileOptions{Workers: 1, Each: each})
	at, _ := w.jobs.Bookmark(t.Context())
	if err != nil || r != (Reconciliation{Seen: 700, Finished: 700, More: true}) || at.ID != "job-0699" || kept != 1 {
		t.Fatalf("%+v, %v, stopped at %+v, kept %d times", r, err, at, kept)
	}
	// Two more come, one before its place and one after it.
	for _, i := range []int{-5000, 5000} {
		id := fmt.Sprint("new", i)
		w.put(Job{ID: id, UserID: "alice", Status: Succeeded, Charge: ChargePending, Attempt: 1, Cost: 1, Operation: id, RequestedAt: monday.Add(time.Duration(i)*time.Second - 6000*time.Second), FinishedAt: monday, UpdatedAt: monday.Add(-time.Hour)})
	}
	r, err = w.p.Reconcile(t.Context(), ReconcileOptions{Workers: 1, Each: each})
	at, _ = w.jobs.Bookmark(t.Context())
	if want := bookmarkEvery + 1 - 700 + 2; err != nil || r != (Reconciliation{Seen: want, Finished: want}) || !at.IsZero() || kept != 2 {
		t.Errorf("%+v, %v, stopped at %+v, kept %d times", r, err, at, kept)
	}
	if order[0] != "job-0000" || order[700] != "job-0700" || order[len(order)-2] != "new-5000" || order[len(order)-1] != "new5000" {
		t.Errorf("in the order %q ... %q", order[0], order[len(order)-2:])
	}
	// A whole run of more than a thousand keeps its place on the way.
	w = newWorld(t, Options{})
	w.owed(2 * bookmarkEvery)
	var marks []Opened
	w.wire.trouble = func(call string) fault {
		at, _ := w.jobs.Bookmark(t.Context())
		if call == "Get" && (len(marks) == 0 || marks[len(marks)-1] != at) {
			marks = append(marks, at)
		}
		return fault{}
	}
	if r, err := w.p.Reconcile(t.Context(), ReconcileOptions{Workers: 1}); err != nil || r.Finished != 2*bookmarkEvery || len(marks) != 2 || marks[1].ID != "job-0999" {
		t.Errorf("%+v, %v, %+v", r, err, marks)
	}
}

// TestQuestionsAreABurstAndThenOneAtATime by the clock.
func TestQuestionsAreABurstAndThenOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{every: 100 * time.Millisecond}
		began := time.Now()
		for range describeBurst {
			if !p.wait(t.Context()) {
				t.Fatal("no turn")
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the burst took %s", took)
		}
		for range 10 {
			p.wait(t.Context())
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("ten more took %s", took)
		}
		// After a rest there is a burst again, and no more than that.
		time.Sleep(time.Hour)
		began = time.Now()
		for range describeBurst + 1 {
			p.wait(t.Context())
		}
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("a burst and one more after a rest took %s", took)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, stop)
		if began = time.Now(); p.wait(ctx) || time.Since(began) != 50*time.Millisecond {
			t.Errorf("who has gone has his turn, after %s", time.Since(began))
		}
		if p.wait(ctx) {
			t.Error("who has gone has his turn")
		}
	})
}

// TestARunStopsReadingBeforeItsDeadline, and leaves time for what is under way and the bookmark.
func TestARunStopsReadingBeforeItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[time.Duration][2]time.Duration{
			300 * time.Second: {285 * time.Second, 298 * time.Second}, 10 * time.Second: {8 * time.Second, 9500 * time.Millisecond},
			75 * time.Second: {60 * time.Second, 73 * time.Second}, 40 * time.Second: {32 * time.Second, 38 * time.Second},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			began := time.Now()
			s := &sweep{}
			reading, work, stop := s.times(ctx)
			r, _ := reading.Deadline()
			w, _ := work.Deadline()
			if got := [2]time.Duration{r.Sub(began), w.Sub(began)}; got != want {
				t.Errorf("of %s: %v, want %v", limit, got, want)
			}
			if stop(); reading.Err() == nil || work.Err() == nil {
				t.Error("timers are left")
			}
			cancel()
		}
		ctx, cancel := context.WithCancel(t.Context())
		reading, work, stop := (&sweep{}).times(ctx)
		cancel()
		if stop(); reading.Err() == nil || work.Err() != nil {
			t.Error("who cancels stops the reading, and no job")
		}
	})
}

// TestAJobIsLookedAtAsItsRecordStands and not as the index has it: the index runs behind, and a
// record may have gone.
func TestAJobIsLookedAtAsItsRecordStands(t *testing.T) {
	for _, workers := range []int{1, 2} {
		w := newWorld(t, Options{})
		w.owed(3)
		w.put(Job{ID: "fresh", UserID: "alice", Status: Succeeded, Charge: ChargePending, Attempt: 1, Cost: 1, Operation: "fresh", RequestedAt: monday.Add(-2 * time.Hour), FinishedAt: monday, UpdatedAt: monday})
		listed := listedJobs{wiredJobs{w.jobs, &w.wire}, []Opened{{monday.Add(-3 * time.Hour), "gone"}}}
		j := w.record("job-0001")
		ended := j
		ended.Charge = Charged
		w.change(j, ended)
		listed.more = append(listed.more, ended.Opened())
		w.p.jobs = listed
		var did []string
		r, err := w.p.Reconcile(t.Context(), ReconcileOptions{OlderThan: time.Millisecond, Workers: workers, Each: func(j Job, _ string, _ error) { did = append(did, j.ID) }})
		slices.Sort(did)
		if err != nil || r != (Reconciliation{Seen: 2, Finished: 2}) || !slices.Equal(did, []string{"job-0000", "job-0002"}) {
			t.Errorf("%d workers: %+v, %v, %q", workers, r, err, did)
		}
	}
}

// listedJobs is a table whose index tells of more jobs than are open.
type listedJobs struct {
	wiredJobs
	more []Opened
}

func (j listedJobs) Open(ctx context.Context, after Opened, before time.Time, use func(Opened) bool) error {
	for _, o := range j.more {
		use(o)
	}
	return j.wiredJobs.Open(ctx, after, before, use)
}

// TestARunKeepsThePlaceBeforeTheFirstJobItDidNotComeTo: jobs wait for their turn to be asked about,
// or for a table that is slow, when the time is over. None of them lies before the place.
func TestARunKeepsThePlaceBeforeTheFirstJobItDidNotComeTo(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		for _, running := range []int{0, 400} {
			t.Run(fmt.Sprint(workers, " workers, ", running, " running"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBacklog(t, tableLatency)
					b.add(running, "a", Running, "")
					for i := range running {
						id := fmt.Sprintf("a-%06d", i)
						b.runs.ended[ExecutionName(id, 1)] = Execution{Status: "FAILED", Error: "E", Input: fmt.Appendf(nil, `{"jobId":%q,"userId":"user-%d"}`, id, i)}
					}
					b.add(5000, "b", Succeeded, ChargePending)
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					r, err := b.p.Reconcile(ctx, ReconcileOptions{OlderThan: time.Hour, Workers: workers})
					at, _ := b.jobs.Bookmark(t.Context())
					if err != nil || !r.More || r.Failed > 0 || at.IsZero() {
						t.Fatalf("%+v, %v, stopped at %+v", r, err, at)
					}
					first := Opened{}
					_ = b.jobs.Memory.Open(t.Context(), Opened{}, time.Now(), func(o Opened) bool { first = o; return false })
					if at.Compare(first) >= 0 {
						t.Errorf("it stopped at %+v, and did not come to %+v", at, first)
					}
				})
			})
		}
	}
}

// TestAJobThatCannotBeReadIsToldOf in the log, and counts as failed.
func TestAJobThatCannotBeReadIsToldOf(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w.owed(1)
	w.failNth("Get", 1, fault{before: throttled})
	if r, err := w.p.Reconcile(t.Context(), ReconcileOptions{Workers: 1}); err == nil || r != (Reconciliation{Seen: 1, Failed: 1}) || !strings.Contains(log.String(), "job=job-0000") || !strings.Contains(log.String(), "throttled") {
		t.Errorf("%+v, %v\n%s", r, err, &log)
	}
}

// TestTheRateOfQuestionsIsASecondsShare: 20 a second are one in 50 ms.
func TestTheRateOfQuestionsIsASecondsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(t, tableLatency)
		b.add(describeBurst+40, "runs", Running, "")
		began := time.Now()
		if r, err := b.p.Reconcile(t.Context(), ReconcileOptions{Workers: 3, Describes: 20}); err != nil || r.Running != describeBurst+40 {
			t.Errorf("%+v, %v", r, err)
		}
		if took := time.Since(began); took < 2*time.Second || took > 2500*time.Millisecond {
			t.Errorf("40 more than the burst took %s at 20 a second", took)
		}
	})
}
