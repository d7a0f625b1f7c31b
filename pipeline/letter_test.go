package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestADeadLetterTellsWhatCanBeDone reads letters of jobs in every state.
func TestADeadLetterTellsWhatCanBeDone(t *testing.T) {
	attempt := func(n string) string {
		return strings.Replace(body("a", "alice", "neural", 60), "{", `{"attempt":`+n+`,`, 1)
	}
	first := body("a", "alice", "neural", 60)
	job := func(status Status, charge Charge, attempt int) *Job {
		return &Job{ID: "a", UserID: "alice", Status: status, Charge: charge, Attempt: attempt, Class: "neural", Seconds: 60, Reason: "NoVoice"}
	}
	for name, c := range map[string]struct {
		body   string
		job    *Job
		reason string
		next   int
		over   bool
	}{
		"not JSON":                      {"not JSON", nil, "not a JSON object", 0, false},
		"no user":                       {`{"jobId":"a"}`, nil, "userId is missing", 0, false},
		"no record":                     {first, nil, "no delivery came as far", 1, false},
		"a rerun, no record":            {attempt("2"), nil, "without a record", 2, false},
		"a later attempt, no record":    {attempt("3"), nil, "without a record", 3, false},
		"another user's":                {first, &Job{ID: "a", UserID: "bob", Status: Running, Attempt: 1}, "another user's", 0, false},
		"queued":                        {first, job(Queued, "", 0), "could not be started", 1, false},
		"running":                       {first, job(Running, "", 1), "could not be started", 1, false},
		"running with another duration": {body("a", "alice", "neural", 61), job(Running, "", 1), "another class or duration", 0, false},
		"failed":                        {first, job(Failed, "", 1), "failed: NoVoice", 2, false},
		"failed again":                  {first, job(Failed, "", 7), "failed: NoVoice", 8, false},
		"of an attempt too far":         {attempt("4"), job(Failed, "", 1), "failed: NoVoice", 2, false},
		"an attempt ahead":              {attempt("2"), job(Running, "", 1), "follows on a failure", 0, false},
		"an attempt behind":             {first, job(Running, "", 2), "attempt 2 of the job is running", 0, true},
		"charged":                       {first, job(Succeeded, Charged, 1), "has ended: succeeded", 0, true},
		"to be charged":                 {first, job(Succeeded, ChargePending, 1), "has ended: succeeded", 0, true},
		"over quota":                    {first, job(OverQuota, "", 1), "has ended: over_quota", 0, true},
		"unpaid":                        {first, job(Unpaid, "", 1), "has ended: unpaid", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{})
			if c.job != nil {
				if done, err := w.jobs.Swap(t.Context(), Job{}, *c.job); err != nil || !done {
					t.Fatal(done, err)
				}
			}
			l, err := ReadLetter(t.Context(), w.jobs, []byte(c.body))
			if err != nil || !strings.Contains(l.Reason, c.reason) || l.Next != c.next || l.Over != c.over || (l.Body != nil) != (c.next > 0) {
				t.Fatalf("%+v, %v", l, err)
			}
			if l.Body == nil {
				return
			}
			// What is sent on runs the job, and has lost nothing on the way.
			if failed := w.send(string(l.Body)); len(failed) > 0 {
				t.Fatalf("%s is refused", l.Body)
			}
			var input map[string]any
			if err := json.Unmarshal(w.runs.known[ExecutionName("a", c.next)].Input, &input); err != nil || input["topic"] != "tides" {
				t.Errorf("%v, %v", input, err)
			}
			w.want("a", Running, "", 0, 0)
		})
	}
	if _, err := ReadLetter(t.Context(), brokenGet{&Memory{}}, []byte(first)); !errors.Is(err, headroom.Throttled) {
		t.Error(err)
	}
}

type brokenGet struct{ Jobs }

func (brokenGet) Get(context.Context, string) (Job, bool, error) {
	return Job{}, false, headroom.Errorf(headroom.Throttled, nil, "throttled")
}

// TestAPersonMayEndAJob closes jobs in every state, and closes them again.
func TestAPersonMayEndAJob(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	w.send(body("a", "alice", "neural", 900))
	w.want("a", Running, "", 0, 30)
	for range 2 {
		if j, err := w.p.Close(t.Context(), "a", "ticket 4711"); err != nil || j.Reason != "ticket 4711" {
			t.Error(j, err)
		}
		w.want("a", Failed, "", 0, 0)
	}
	// Its work succeeds after all: that counts.
	if r, err := w.done(ExecutionName("a", 1), `{}`); err != nil || r.Charge != Charged {
		t.Error(r, err)
	}
	w.want("a", Succeeded, Charged, 30, 0)
	if _, err := w.p.Close(t.Context(), "a", "again"); !errors.Is(err, headroom.Conflict) {
		t.Error(err)
	}
	// One that is to be charged is charged no more.
	w.send(body("b", "alice", "neural", 900))
	w.wire.fail = headroom.Errorf(headroom.Throttled, nil, "throttled")
	w.ends(ExecutionName("b", 1), `{}`)
	w.wire.fail = nil
	w.want("b", Succeeded, ChargePending, 30, 30)
	if _, err := w.p.Close(t.Context(), "b", "goodwill"); err != nil {
		t.Error(err)
	}
	w.want("b", Unpaid, "", 30, 0)
	if r := w.reconcile(); r.Seen > 0 {
		t.Errorf("a closed job is open: %+v", r)
	}
	if _, err := w.p.Close(t.Context(), "nobody", "x"); !errors.Is(err, headroom.NotFound) {
		t.Error(err)
	}
	if _, err := w.p.Close(t.Context(), "b", ""); !errors.Is(err, headroom.Invalid) {
		t.Error(err)
	}
}

// TestAJobIsClosedThoughTheHandlerIsCutOff cuts it off after each of its writes.
func TestAJobIsClosedThoughTheHandlerIsCutOff(t *testing.T) {
	for cut := 1; cut <= 2; cut++ {
		w := newWorld(t, Options{Hold: time.Hour})
		w.send(body("a", "alice", "neural", 900))
		w.wire.cut = w.wire.writes + cut
		w.again(func() {
			if _, err := w.p.Close(t.Context(), "a", "ticket"); err != nil {
				t.Error(err)
			}
		})
		w.want("a", Failed, "", 0, 0)
	}
}
