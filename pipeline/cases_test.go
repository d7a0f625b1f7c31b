package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

const fifteen = `{"durationSeconds":900}` // 30 slots of class neural

func TestTheSameMessageSixTimesIsOneExecution(t *testing.T) { // case 27
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		for range 6 {
			if failed := w.send(body("a", "alice", "neural", 900)); failed != nil {
				t.Fatal(failed)
			}
		}
		if len(w.runs.known) != 1 {
			t.Fatal(w.runs.known)
		}
	})
}

func TestAMalformedMessageFailsAlone(t *testing.T) { // case 28
	w := newWorld(t, Options{})
	failed := w.send("{", body("a", "alice", "neural", 900))
	if !slices.Equal(failed, []string{"0"}) || len(w.runs.known) != 1 {
		t.Fatal(failed, w.runs.known)
	}
}

func TestTheFirstSuccessWins(t *testing.T) { // case 29
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.send(body("a", "alice", "neural", 900), body("b", "alice", "neural", 900))
		a, b := ExecutionName("a", 1), ExecutionName("b", 1)
		for _, tell := range []func() (Result, error){
			func() (Result, error) { return w.done(a, fifteen) },
			func() (Result, error) { return w.event(a, "FAILED") },
			func() (Result, error) { return w.done(b, "") },
			func() (Result, error) { return w.event(b, "FAILED") },
			func() (Result, error) { return w.done(b, fifteen) }, // redriven
			func() (Result, error) { return w.event(b, "FAILED") },
		} {
			if _, err := tell(); err != nil {
				t.Fatal(err)
			}
		}
		w.want("a", Succeeded, Charged, 60, 0)
		w.want("b", Succeeded, Charged, 60, 0)
	})
}

func TestAJobIsFinishedThoughItsLastEventNeverComes(t *testing.T) { // case 31
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.send(body("a", "alice", "neural", 900), body("b", "alice", "neural", 900), body("c", "alice", "neural", 900))
		a, b := ExecutionName("a", 1), ExecutionName("b", 1)
		w.runs.known[a] = Execution{Status: "SUCCEEDED", Input: w.runs.known[a].Input, Output: []byte(`{"result":{"durationSeconds":600}}`)}
		w.runs.known[b] = Execution{Status: "TIMED_OUT", Input: w.runs.known[b].Input}
		if r := w.reconcile(); r.Seen != 0 {
			t.Fatalf("jobs that have just begun: %+v", r)
		}
		w.clock = w.clock.Add(2 * time.Hour)
		if r := w.reconcile(); r != (Reconciliation{Seen: 3, Finished: 2, Running: 1}) {
			t.Fatalf("%+v", r)
		}
		if r := w.reconcile(); r != (Reconciliation{Seen: 1, Running: 1}) {
			t.Fatalf("the second time: %+v", r)
		}
		held := int64(0)
		if opts.Hold > 0 {
			held = 30
		}
		w.want("a", Succeeded, Charged, 20, held)
		w.want("b", Failed, "", 20, held)
		w.want("c", Running, "", 20, held)
	})
}

func TestTheSameEventFourTimesChargesOnce(t *testing.T) { // case 32
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.send(body("a", "alice", "neural", 900))
		for i := range 4 {
			r, err := w.done(ExecutionName("a", 1), fifteen)
			if err != nil || r.Decision != "admitted" || r.Replay != (i > 0) || r.Week != "2026-W23" {
				t.Fatal(r, err)
			}
		}
		w.want("a", Succeeded, Charged, 30, 0)
	})
}

func TestAMessageThatComesAgainRefusesNoJobThatRan(t *testing.T) { // case 44
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.spend("alice", 180)
		message := body("a", "alice", "neural", 600)
		// The consumer dies after the start: nothing follows on it.
		w.send(message)
		if opts.Hold == 0 {
			w.spend("alice", 20) // another job was faster
			w.send(message)
			w.want("a", Running, "", 200, 0)
		}
		if _, err := w.done(ExecutionName("a", 1), `{"durationSeconds":600}`); err != nil {
			t.Fatal(err)
		}
		w.send(message)
		used, held := w.used("alice")
		w.want("a", Succeeded, Charged, used, held)
		if len(w.runs.known) != 1 {
			t.Fatal(w.runs.known)
		}
	})
}

func TestJobIDsAreKeptApart(t *testing.T) { // case 45
	w := newWorld(t, Options{})
	if failed := w.send(body("a/b", "alice", "neural", 900), body("a:b", "alice", "neural", 900)); failed != nil || len(w.runs.known) != 2 {
		t.Fatal(failed, w.runs.known)
	}
	// Another user's job of the same id is a conflict, and changes nothing.
	if failed := w.send(body("a/b", "bob", "neural", 900)); !slices.Equal(failed, []string{"0"}) {
		t.Fatal(failed)
	}
	w.want("a/b", Running, "", 0, 0)
	w.wantUsed("bob", 0, 0)
}

func TestTwoUsersOfOneJobIDLeaveNoHold(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	w.send(body("a", "alice", "neural", 900))
	w.send(body("a", "bob", "neural", 900))
	w.wantUsed("alice", 0, 30)
	w.wantUsed("bob", 0, 0)
}

func TestAFailedJobIsSentAgainOnPurpose(t *testing.T) { // case 45
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.send(body("a", "alice", "neural", 900))
		again, err := Send("a", "alice", "neural", 900, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		if failed := w.send(string(again)); failed == nil {
			t.Fatal("a second attempt was taken while the first runs")
		}
		w.ends(ExecutionName("a", 1), "")
		w.want("a", Failed, "", 0, 0)
		// A plain repeat of the message is none.
		w.send(body("a", "alice", "neural", 900))
		w.want("a", Failed, "", 0, 0)
		for range 2 {
			if failed := w.send(string(again)); failed != nil {
				t.Fatal(failed)
			}
		}
		// The late failure of the first attempt says nothing about the second.
		w.changes(ExecutionName("a", 1), "ABORTED")
		if len(w.runs.known) != 2 {
			t.Fatal(w.runs.known)
		}
		w.ends(ExecutionName("a", 2), fifteen)
		w.want("a", Succeeded, Charged, 30, 0)
		// Nor does its success charge again: the first success has won.
		w.ends(ExecutionName("a", 1), fifteen)
		w.want("a", Succeeded, Charged, 30, 0)
	})
}

func TestARedrivenAttemptWinsOverARerun(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.send(body("a", "alice", "neural", 900))
		w.ends(ExecutionName("a", 1), "")
		again, _ := Send("a", "alice", "neural", 900, 2, nil)
		w.send(string(again))
		w.ends(ExecutionName("a", 1), `{"durationSeconds":600}`)
		w.ends(ExecutionName("a", 2), fifteen)
		w.want("a", Succeeded, Charged, 20, 0)
	})
}

func TestAPendingChargeIsMadeByReconcile(t *testing.T) { // case 46
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.send(body("a", "alice", "neural", 900))
		_, held := w.used("alice")
		w.wire.fail = headroom.Errorf(headroom.Throttled, nil, "too many requests")
		for range 3 {
			if _, err := w.done(ExecutionName("a", 1), fifteen); err == nil {
				t.Fatal("a charge that was not made was reported as made")
			}
		}
		w.want("a", Succeeded, ChargePending, 0, held)
		// The execution fails of it, which the status-change event tells: the work has succeeded
		// all the same.
		w.stops(ExecutionName("a", 1), "FAILED", "Lambda.Unknown", "", "")
		if _, err := w.event(ExecutionName("a", 1), "FAILED"); err != nil {
			t.Fatal(err)
		}
		w.clock = w.clock.Add(2 * time.Hour)
		if r := w.reconcile(); r.Failed != 1 {
			t.Fatalf("%+v", r)
		}
		w.wire.fail = nil
		for range 2 {
			w.reconcile()
		}
		w.want("a", Succeeded, Charged, 30, 0)
	})
}

func TestAUserOverTheQuotaIsRefusedBeforeTheWork(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		w := newWorld(t, opts)
		w.spend("alice", 180)
		for range 2 {
			if failed := w.send(body("a", "alice", "neural", 900), body("b", "alice", "neural", 600)); failed != nil {
				t.Fatal(failed)
			}
		}
		used, held := w.used("alice")
		w.want("a", OverQuota, "", used, held)
		w.want("b", Running, "", 180, held)
		j, _, _ := w.jobs.Get(context.Background(), "a")
		if j.Reason != "30 units asked, 20 of 200 remain in 2026-W23 (plan free); more from 2026-06-08 00:00 UTC" {
			t.Error(j.Reason)
		}
		// It is final: a rerun asks in vain.
		again, _ := Send("a", "alice", "neural", 60, 2, nil)
		if failed := w.send(string(again)); failed != nil {
			t.Fatal(failed)
		}
		w.want("a", OverQuota, "", used, held)
	})
}

func TestWorkThatNoLongerFits(t *testing.T) {
	for name, c := range map[string]struct {
		opts   Options
		status Status
		charge Charge
		used   int64
		over   string
	}{
		"record":              {Options{}, Succeeded, Charged, 210, "recorded"},
		"refuse":              {Options{Refuse: true}, Unpaid, "", 190, "over_limit"},
		"record after a hold": {Options{Hold: time.Hour}, Succeeded, Charged, 210, "recorded"},
		"refuse after a hold": {Options{Hold: time.Hour, Refuse: true}, Unpaid, "", 190, "over_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.opts)
			w.spend("alice", 190)
			w.send(body("a", "alice", "neural", 300)) // 10 slots asked, 20 used
			for range 2 {
				r, err := w.done(ExecutionName("a", 1), `{"durationSeconds":600}`)
				if err != nil || r.Decision != c.over {
					t.Fatal(r, err)
				}
			}
			w.want("a", c.status, c.charge, c.used, 0)
			if j := w.record("a"); (j.Status == Unpaid) != strings.HasPrefix(j.Reason, "20 units asked, ") {
				t.Errorf("the reason in its record: %q", j.Reason)
			}
		})
	}
}

func TestABurstUnderHoldsGetsNothingForFree(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	for i := range 20 {
		w.send(body(string(rune('a'+i)), "alice", "neural", 900))
	}
	if used, held := w.used("alice"); used != 0 || held != 180 || len(w.runs.known) != 6 {
		t.Fatal(used, held, len(w.runs.known))
	}
	for name := range w.runs.known {
		w.ends(name, fifteen)
	}
	w.wantUsed("alice", 180, 0)
}

func TestAJobThatTurnsTheWeek(t *testing.T) {
	for name, c := range map[string]struct {
		opts Options
		used int64 // in the new week
	}{
		"preflight": {Options{}, 30},
		// The hold belongs to the week in which it was made.
		"hold": {Options{Hold: 3 * time.Hour}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.opts)
			w.clock = time.Date(2026, 5, 31, 23, 59, 59, 0, time.UTC)
			w.send(body("a", "alice", "neural", 900))
			w.clock = time.Date(2026, 6, 1, 0, 0, 1, 0, time.UTC)
			for range 2 {
				w.ends(ExecutionName("a", 1), fifteen)
			}
			w.want("a", Succeeded, Charged, c.used, 0)
		})
	}
}

func TestWhatCannotBePriced(t *testing.T) {
	for _, c := range []struct{ body, reason string }{
		{body("a", "alice", "velvet", 900), "unknown class"},
		{body("a", "alice", strings.Repeat("velvet", 20000), 900), "unknown class"},
		{body("a", "alice", "neural", -1), "durationSeconds is -1: want 0 to 86400"},
		{body("a", "alice", "neural", 1e300), "durationSeconds is 1e+300: want 0 to 86400"},
		{`{"jobId":"a","userId":"alice","voiceQuality":"neural"}`, "durationSeconds is missing"},
		{`{"jobId":"a","userId":"alice","voiceQuality":7,"durationSeconds":60}`, "voiceQuality is a number"},
		{strings.Replace(body("a", "alice", "neural", 60), "tides", strings.Repeat("x", MaxInput), 1), "the execution's input would have"},
	} {
		w := newWorld(t, Options{Hold: time.Hour})
		if failed := w.send(c.body, body("b", "alice", "neural", 900)); failed != nil {
			t.Fatal(failed)
		}
		w.want("a", Failed, "", 0, 30)
		if j, _, _ := w.jobs.Get(context.Background(), "a"); !strings.HasPrefix(j.Reason, c.reason) || len(j.Reason)+len(j.Class) > 3000 {
			t.Errorf("%+v", j)
		}
	}
}

func TestWhatCannotBeIdentifiedGoesToTheDeadLetters(t *testing.T) {
	for _, bad := range []string{
		``, `[]`, `null`, `"a"`, `{"jobId":"a"}`, `{"userId":"alice"}`, `{"jobId":"","userId":"alice"}`, `{"jobId":7,"userId":"alice"}`,
		`{"jobId":"a\u0000b","userId":"alice"}`, `{"jobId":"a\nb","userId":"alice"}`, "{\"jobId\":\"\xff\",\"userId\":\"alice\"}",
		`{"jobId":"` + strings.Repeat("x", 500) + `","userId":"alice"}`, `{"jobId":"a","userId":"alice","attempt":0}`, `{"jobId":"a","userId":"alice","attempt":1.5}`,
		`{"jobId":"a","userId":"alice","headroom":{"held":true}}`,
	} {
		w := newWorld(t, Options{Hold: time.Hour})
		if failed := w.send(bad, body("b", "alice", "neural", 900)); !slices.Equal(failed, []string{"0"}) {
			t.Errorf("%q: failed %v", bad, failed)
		}
		w.wantUsed("alice", 0, 30)
		if len(w.runs.known) != 1 {
			t.Errorf("%q: %v", bad, w.runs.known)
		}
	}
}

func TestMoreJobsThanHoldsWaitInTheQueue(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	var bodies []string
	for i := range mostHolds + 1 {
		bodies = append(bodies, body(fmt.Sprint("job-", i), "alice", "standard", 60))
	}
	if failed := w.send(bodies...); !slices.Equal(failed, []string{fmt.Sprint(mostHolds)}) {
		t.Fatal(failed)
	}
	w.ends(ExecutionName("job-0", 1), `{}`)
	if failed := w.send(bodies...); failed != nil {
		t.Fatal(failed)
	}
	w.wantUsed("alice", 1, int64(mostHolds))
}

func TestPreflightReadsTheUserOnceAndTakesThePlanFromIt(t *testing.T) {
	catalog, err := headroom.NewCatalog("free", []headroom.Plan{
		{Name: "free", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 10}}},
		{Name: "studio", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 2000}}},
	}, map[string]headroom.Prices{"slots": {Step: 60, Rates: map[string]int64{"neural": 2}}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, Options{})
	loads := &countingStore{Store: memstoreAt(&w.clock)}
	engine, err := headroom.New(loads, catalog, headroom.Options{Clock: func() time.Time { return w.clock }})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.SetPlan(context.Background(), "alice", "studio"); err != nil {
		t.Fatal(err)
	}
	if w.p, err = New(engine, catalog, w.jobs, w.runs, w.p.opts); err != nil {
		t.Fatal(err)
	}
	w.send(body("a", "alice", "neural", 900))
	if loads.loads != 1 || loads.commits != 0 {
		t.Errorf("a preflight made %d loads and %d writes", loads.loads, loads.commits)
	}
	var input struct{ Headroom stamp }
	if err := json.Unmarshal(w.runs.known[ExecutionName("a", 1)].Input, &input); err != nil || input.Headroom.Plan != "studio" {
		t.Errorf("%+v, %v", input, err)
	}
	// A charge that is the first of its week takes a second request.
	if _, err := engine.Deduct(context.Background(), headroom.Request{Subject: "alice", Meter: "slots", Operation: "earlier", Cost: 1}); err != nil {
		t.Fatal(err)
	}
	loads.loads, loads.commits = 0, 0
	if _, err := w.done(ExecutionName("a", 1), fifteen); err != nil {
		t.Fatal(err)
	}
	if loads.loads != 0 || loads.commits != 1 {
		t.Errorf("with the plan known a charge made %d loads and %d writes, want one write", loads.loads, loads.commits)
	}
}
