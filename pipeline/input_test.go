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
		input := func(w *world) int { // without the name of the plan, which is not known when it is looked at
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
		w.jobs.Swap(t.Context(), Job{}, Job{ID: jobA, UserID: "alice", Status: Running, Attempt: 1, Class: "neural", Seconds: askedA, RequestedAt: late})
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
	} {
		w := newWorld(t, Options{})
		w.send(messageOf(1))
		_, err := w.p.Callback(t.Context(), []byte(`{"status":"SUCCEEDED","input":`+w.inputOf(1)+`,"result":{},`+field+`}`))
		if !errors.Is(err, headroom.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		w.want(jobA, Running, "", 0, 0)
	}
}
