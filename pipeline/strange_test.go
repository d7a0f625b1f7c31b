package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// record reads a job that must have a record.
func (w *world) record(id string) Job {
	w.t.Helper()
	j, found, err := w.jobs.Get(context.Background(), id)
	if err != nil || !found {
		w.t.Fatalf("job %q: %v, %v", id, found, err)
	}
	return j
}

func message17(class, seconds string) string {
	return `{"jobId":"a","userId":"alice","voiceQuality":` + class + `,"durationSeconds":` + seconds + `}`
}

// TestNoRequestIsFree (case 58): a job whose message is strange never starts, and its record says
// what is wrong, in words. One of no duration asks for a step.
func TestNoRequestIsFree(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		for _, c := range []struct{ class, seconds, reason string }{
			{`"neural"`, `null`, "durationSeconds is null"},
			{`"neural"`, `"600"`, "durationSeconds is a string"},
			{`"neural"`, `true`, "durationSeconds is a boolean"},
			{`"neural"`, `[60]`, "durationSeconds is an array"},
			{`"neural"`, `{}`, "durationSeconds is an object"},
			{`"neural"`, `-1`, "durationSeconds is -1: want 0 to 86400"},
			{`"neural"`, `-1e-9`, "durationSeconds is -1e-09: want 0 to 86400"},
			{`"neural"`, `1e400`, "durationSeconds is 1e400, which is beyond what a number holds"},
			{`"neural"`, `-1e400`, "durationSeconds is -1e400, which is beyond what a number holds"},
			{`"neural"`, `86400.01`, "durationSeconds is 86400.01: want 0 to 86400"},
			{`null`, `60`, "voiceQuality is null"},
			{`7`, `60`, "voiceQuality is a number"},
			{`["neural"]`, `60`, "voiceQuality is an array"},
			{`""`, `60`, `unknown class ""`},
			{`null`, `null`, "voiceQuality is null"},
		} {
			w := newWorld(t, opts)
			if failed := w.send(message17(c.class, c.seconds)); failed != nil {
				t.Fatal(failed)
			}
			w.want("a", Failed, "", 0, 0)
			if j := w.record("a"); !strings.HasPrefix(j.Reason, c.reason) || j.Decision != "invalid" || len(w.runs.starts) != 0 {
				t.Errorf("%s of %s: %+v, started %v, want the reason %q", c.seconds, c.class, j, w.runs.starts, c.reason)
			}
		}
		for seconds, cost := range map[string]int64{"0": 2, "-0": 2, "0.0": 2, "1e-200": 2, "4e-324": 2, "1e-400": 2, "60": 2, "60.000001": 4, "6e1": 2} {
			w := newWorld(t, opts)
			w.spend("alice", 200-cost+1)
			if w.send(message17(`"neural"`, seconds)); w.record("a").Status != OverQuota {
				t.Errorf("%s seconds: %+v, with one unit less than it costs", seconds, w.record("a"))
			}
			w = newWorld(t, opts)
			w.spend("alice", 200-cost)
			w.send(message17(`"neural"`, seconds))
			w.ends(ExecutionName("a", 1), `{}`)
			w.want("a", Succeeded, Charged, 200, 0)
		}
	})
}

// TestNoResultIsFree (case 58): work that is done is neither free nor lost for what its result says
// of itself. It costs what was asked for, and the record says why.
func TestNoResultIsFree(t *testing.T) {
	modes(t, func(t *testing.T, opts Options) {
		for _, c := range []struct {
			result string
			cost   int64
			reason string
		}{
			{`{}`, 30, ""},
			{`null`, 30, ""},
			{`{"url":"s3://x"}`, 30, ""},
			{`{"durationSeconds":840}`, 28, ""},
			{`{"DurationSeconds":840}`, 30, ""}, // another field
			{`{"durationSeconds":0}`, 2, ""},    // a step, as at the request
			{`{"durationSeconds":-0.0}`, 2, ""},
			{`{"durationSeconds":1e-200}`, 2, ""},
			{`{"voiceQuality":"standard"}`, 15, ""},
			{`{"durationSeconds":null}`, 30, "durationSeconds is null in the result"},
			{`{"durationSeconds":"840"}`, 30, "durationSeconds is a string in the result"},
			{`{"durationSeconds":-5}`, 30, "durationSeconds is -5: want 0 to 86400"},
			{`{"durationSeconds":1e400}`, 30, "durationSeconds is 1e400, which is beyond what a number holds in the result"},
			{`{"durationSeconds":1e12}`, 30, "durationSeconds is 1e+12: want 0 to 86400"},
			{`{"voiceQuality":null,"durationSeconds":60}`, 30, "voiceQuality is null in the result"},
			{`{"voiceQuality":7,"durationSeconds":60}`, 30, "voiceQuality is a number in the result"},
			{`{"voiceQuality":"velvet"}`, 30, `unknown class "velvet"`},
			{`"done"`, 30, "the result is a string"},
			{`[]`, 30, "the result is an array"},
			{`7`, 30, "the result is a number"},
		} {
			w := newWorld(t, opts)
			w.send(body("a", "alice", "neural", 900))
			for range 2 {
				if r, err := w.done(ExecutionName("a", 1), c.result); err != nil || r.Cost != c.cost {
					t.Fatalf("%s: %+v, %v, want a cost of %d", c.result, r, err, c.cost)
				}
			}
			w.changes(ExecutionName("a", 1), "FAILED")
			w.want("a", Succeeded, Charged, c.cost, 0)
			want := c.reason
			if want != "" {
				want = "charged as asked for: " + want
			}
			if j := w.record("a"); !strings.HasPrefix(j.Reason, want) || want == "" && j.Reason != "" {
				t.Errorf("%s: the record says %q, want %q", c.result, j.Reason, want)
			}
		}
	})
}

// TestWhatNothingPricesIsOwed: other code started the work, and neither its message nor its result
// says what it costs.
func TestWhatNothingPricesIsOwed(t *testing.T) {
	for _, c := range []struct{ more, result string }{
		{``, `{}`}, {`,"durationSeconds":null`, `{"voiceQuality":"neural"}`}, {`,"voiceQuality":"neural"`, `{"durationSeconds":"1"}`}, {`,"durationSeconds":60`, `{}`},
	} {
		w := newWorld(t, Options{})
		event := `{"execution":"x","status":"SUCCEEDED","input":{"jobId":"a","userId":"alice"` + c.more + `},"result":` + c.result + `}`
		for range 2 {
			if r, err := w.p.Callback(context.Background(), []byte(event)); err != nil || r.Status != Unpaid || r.Decision != "invalid" {
				t.Fatalf("%s: %+v, %v", event, r, err)
			}
		}
		w.want("a", Unpaid, "", 0, 0)
		if j := w.record("a"); !strings.HasPrefix(j.Reason, "owed: neither the result nor the message says what the work costs: ") {
			t.Errorf("%+v", j)
		}
	}
	// What the result says is enough.
	w := newWorld(t, Options{})
	_, _ = w.p.Callback(context.Background(), []byte(`{"execution":"x","status":"SUCCEEDED","input":{"jobId":"a","userId":"alice"},"result":{"voiceQuality":"neural","durationSeconds":600}}`))
	w.want("a", Succeeded, Charged, 20, 0)
}

// TestFieldsThatNameAJob: what cannot be identified is a dead letter, and the log says why.
func TestFieldsThatNameAJob(t *testing.T) {
	for message, want := range map[string]string{
		`{"userId":"alice"}`:                             "jobId is missing",
		`{"jobId":null,"userId":"alice"}`:                "jobId is null",
		`{"jobId":17,"userId":"alice"}`:                  "jobId is a number",
		`{"jobId":"","userId":"alice"}`:                  "jobId is empty",
		`{"jobId":"a","userId":null}`:                    "userId is null",
		`{"jobId":"a","userId":["alice"]}`:               "userId is an array",
		`{"jobId":"a","userId":"alice","attempt":"2"}`:   "attempt is a string",
		`{"jobId":"a","userId":"alice","attempt":1.5}`:   "attempt is 1.5: want a whole number",
		`{"jobId":"a","userId":"alice","attempt":1e400}`: "attempt is 1e400: want a whole number",
		`{"jobId":"a","userId":"alice","attempt":-1}`:    "attempt -1: want 1 to 9999",
	} {
		if _, err := parseMessage([]byte(message)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", message, err, want)
		}
		w := newWorld(t, Options{})
		if failed := w.send(message); !slices.Equal(failed, []string{"0"}) || len(w.jobs.jobs) != 0 {
			t.Errorf("%s: failed %v, jobs %v", message, failed, w.jobs.jobs)
		}
	}
	// An attempt that is null is the first one.
	if m, err := parseMessage([]byte(`{"jobId":"a","userId":"alice","attempt":null}`)); err != nil || m.Attempt != 1 {
		t.Error(m, err)
	}
}

// TestTheGreatestInputLeavesRoom: of the longest message that is taken, every state of the sample
// has room, with a result or a cause of 32 KiB. The last step is handed no more than it reads.
func TestTheGreatestInputLeavesRoom(t *testing.T) {
	const most = 262144
	start := func(pad int) (*world, int) {
		w := newWorld(t, Options{Hold: time.Hour})
		w.send(strings.Replace(body("a", "alice", "neural", 60), "tides", strings.Repeat("x", pad), 1))
		return w, len(w.runs.known[ExecutionName("a", 1)].Input)
	}
	_, short := start(0)
	short -= len(`"plan":"free",`) // which is looked up after the length
	w, n := start(MaxInput - short)
	if n -= len(`"plan":"free",`); n != MaxInput {
		t.Fatalf("the longest input has %d bytes, want %d: %+v", n, MaxInput, w.record("a"))
	}
	parameters := len(`{"input":,"retries":5}`)
	withError := len(`,"error":{"Error":"","Cause":""}`) + 256 + 32768
	if n+parameters > most || n+withError > most {
		t.Errorf("an input of %d leaves no room for the parameters or for an error", n)
	}
	w, n = start(MaxInput - short + 1)
	if n != 0 {
		t.Errorf("an input of more than %d bytes was started", MaxInput)
	}
	w.want("a", Failed, "", 0, 0)
	if j := w.record("a"); j.Reason != fmt.Sprintf("the execution's input would have %d bytes: at most %d", MaxInput+1, MaxInput) {
		t.Error(j.Reason)
	}
}
