package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestTheGreatestInputIsTakenToTheByte in both modes: a hold makes it a little longer.
func TestTheGreatestInputIsTakenToTheByte(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		text := func(n int) string {
			b, err := Send(jobA, "alice", "neural", askedA, 1, map[string]json.RawMessage{"text": fmt.Appendf(nil, "%q", strings.Repeat("x", n))})
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		// without the name of the plan, which is not known when it is looked at
		input := func(w *world) int {
			return len(w.runs.known[ExecutionName(jobA, 1)].Input) - len(`"plan":"free",`)
		}
		w := newWorld(t, opts)
		w.send(text(0))
		n := MaxInput - input(w)
		w = newWorld(t, opts)
		if w.send(text(n)); w.record(jobA).Status != Running || input(w) != MaxInput {
			t.Errorf("an input of %d bytes: %+v", MaxInput, w.record(jobA))
		}
		w = newWorld(t, opts)
		if w.send(text(n + 1)); w.record(jobA).Status != Failed || len(w.runs.known) > 0 {
			t.Errorf("an input of %d bytes: %+v", MaxInput+1, w.record(jobA))
		}
	})
}

// TestAnInputThatCannotBeWrittenStartsNothing: JSON has no time after the year 9999. The message
// comes back, and nothing says that the job runs.
func TestAnInputThatCannotBeWrittenStartsNothing(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		late := time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)
		w := newWorld(t, opts)
		w.p.opts.Clock = nil // the time of the message counts
		d := Delivery{MessageID: "m", Body: messageOf(1), Attributes: map[string]string{"SentTimestamp": fmt.Sprint(late.UnixMilli())}}
		if out, err := w.p.Consume(t.Context(), Batch{Records: []Delivery{d}}); err != nil || len(out.Items) != 1 || len(w.jobs.jobs) > 0 {
			t.Errorf("%+v, %v, %+v", out, err, w.jobs.jobs)
		}
		w.wantUsed("alice", 0, 0)
		// And where a record says that it runs, which an application wrote.
		w.put(Job{ID: jobA, UserID: "alice", Status: Running, Attempt: 1, Class: "neural", Seconds: askedA, RequestedAt: late})
		n := w.calls()
		if failed := w.send(messageOf(1)); failed == nil || n["Start"] > 0 {
			t.Errorf("failed %v, calls %v", failed, n)
		}
	})
}

// TestALastStepWithAStrangeFieldIsNoEnd: a field of another type was not written by our machine.
func TestALastStepWithAStrangeFieldIsNoEnd(t *testing.T) {
	for name, field := range map[string]string{
		"a time in words": `"entered":"at noon"`, "a number for a name": `"execution":7`, "an error in words": `"error":"NoVoice"`,
		"a number for a source": `"source":7`,
	} {
		w := newWorld(t, Options{})
		w.send(messageOf(1))
		_, err := w.p.Callback(t.Context(), []byte(`{"status":"SUCCEEDED","input":`+w.inputOf(1)+`,"result":{},`+field+`}`))
		if !errors.Is(err, headroom.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		w.want(jobA, Running, "", 0, 0)
	}
}

// TestAnExecutionWhoseInputCannotBeReadIsToldOf, wherever its end is heard of: to take it for the
// end of no job, or for no end, would lose it.
func TestAnExecutionWhoseInputCannotBeReadIsToldOf(t *testing.T) {
	for _, input := range []string{`[]`, `not JSON`, `{}`, `{"jobId":7,"userId":"alice"}`, `{"jobId":"a","userId":"alice","headroom":7}`} {
		for _, status := range []string{"SUCCEEDED", "FAILED", "ABORTED"} {
			w := newWorld(t, Options{})
			w.send(messageOf(1))
			event := fmt.Appendf(nil, `{"source":"aws.states","detail":{"name":%q,"status":%q,"input":%q,"output":"{}","error":"Synthesis"}}`,
				ExecutionName(jobA, 1), status, input)
			if _, err := w.p.Callback(t.Context(), event); !errors.Is(err, headroom.Invalid) {
				t.Errorf("%s with the input %s: %v", status, input, err)
			}
			w.runs.known[ExecutionName(jobA, 1)] = Execution{Status: status, Input: []byte(input), Output: []byte("{}"), Error: "Synthesis"}
			w.clock = w.clock.Add(2 * time.Hour)
			if r, err := w.p.Reconcile(t.Context(), ReconcileOptions{OlderThan: time.Hour}); !errors.Is(err, headroom.Invalid) || r != (Reconciliation{Seen: 1, Failed: 1}) {
				t.Errorf("%s with the input %s: %+v, %v", status, input, r, err)
			}
			if j := w.record(jobA); len(w.jobs.jobs) != 1 || j.Status != Running {
				t.Errorf("%s with the input %s: %+v", status, input, w.jobs.jobs)
			}
		}
	}
}

// TestTheNumbersAreThoseOfTheDocs: to change one is to change the docs, and the template, as well.
func TestTheNumbersAreThoseOfTheDocs(t *testing.T) {
	for name, n := range map[string][2]int{
		"bytes of a job id": {MaxJobID, 240}, "bytes of an input": {MaxInput, 225_280},
		"characters that a name shows of an id": {namePrefix, 40},
		"seconds of a job":                      {DefaultMaxSeconds, 86_400}, "seconds of a message": {int(DefaultPerMessage / time.Second), 10},
		"workers": {DefaultWorkers, 16}, "questions a second": {DefaultDescribes, 10},
	} {
		if n[0] != n[1] {
			t.Errorf("%s: %d, want %d", name, n[0], n[1])
		}
	}
}
