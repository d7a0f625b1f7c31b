package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

const episode = "episode-17"

// batch reads the SQS event of the fixtures.
func batch(t *testing.T) Batch {
	t.Helper()
	var b Batch
	if err := json.Unmarshal(fixture(t, "sqs-batch.json"), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAnEventOfTheQueue(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	out, err := w.p.Consume(context.Background(), batch(t))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := json.Marshal(out)
	if want := `{"batchItemFailures":[{"itemIdentifier":"2e1424d4-f796-459a-8184-9c92662be6da"}]}`; err != nil || string(answer) != want {
		t.Errorf("answer %s, %v, want %s", answer, err, want)
	}
	// What is not known passes untouched: a number beyond a float64, and characters that JSON in
	// HTML would escape.
	const want = `{"durationSeconds":900,"headroom":{"attempt":1,"voiceQuality":"neural","durationSeconds":900,"plan":"free","cost":30,"held":true,"requestedAt":"2026-06-01T12:00:00Z"},` +
		`"jobId":"episode-17","series":{"id":12345678901234567890,"title":"Ebb & <flow>"},"userId":"alice","voiceQuality":"neural"}`
	if got := string(w.runs.known[ExecutionName(episode, 1)].Input); got != want {
		t.Errorf("input\n%s\nwant\n%s", got, want)
	}
	if out, err = w.p.Consume(context.Background(), Batch{Records: []Delivery{}}); err != nil || out.Items == nil {
		t.Errorf("an empty batch is answered with %+v, %v: the queue reads null as a failure of all", out, err)
	}
}

func TestTheTimeOfTheRequestIsThatOfTheMessage(t *testing.T) {
	w := newWorld(t, Options{})
	w.p.opts.Clock = nil
	if _, err := w.p.Consume(context.Background(), batch(t)); err != nil {
		t.Fatal(err)
	}
	if j, _, _ := w.jobs.Get(context.Background(), episode); !j.RequestedAt.Equal(time.UnixMilli(1780315200000)) {
		t.Error(j.RequestedAt)
	}
}

func TestEventsOfTheStateMachine(t *testing.T) {
	for _, c := range []struct {
		file   string
		status Status
		charge Charge
		used   int64
		held   int64
		reason string
	}{
		{"last-step-succeeded.json", Succeeded, Charged, 28, 0, ""},
		{"last-step-of-the-seed.json", Succeeded, Charged, 30, 0, ""},
		{"last-step-failed.json", Failed, "", 0, 0, "NoVoice: no such voice"},
		{"status-succeeded.json", Succeeded, Charged, 28, 0, ""},
		{"status-failed.json", Failed, "", 0, 0, "Synthesis.Throttled: the voice service refused"},
		{"status-timed-out.json", Failed, "", 0, 0, "TIMED_OUT"},
		{"status-aborted.json", Failed, "", 0, 0, "Operator: stopped by hand"},
		{"status-without-input.json", Failed, "", 0, 0, "TIMED_OUT"},
		{"status-running.json", Running, "", 0, 30, ""},
	} {
		t.Run(c.file, func(t *testing.T) {
			w := newWorld(t, Options{Hold: time.Hour})
			if _, err := w.p.Consume(context.Background(), batch(t)); err != nil {
				t.Fatal(err)
			}
			name := ExecutionName(episode, 1)
			x := w.runs.known[name]
			x.Status = "TIMED_OUT"
			w.runs.known[name] = x
			for range 2 {
				if _, err := w.p.Callback(context.Background(), fixture(t, c.file)); err != nil {
					t.Fatal(err)
				}
			}
			w.want(episode, c.status, c.charge, c.used, c.held)
			if j, _, _ := w.jobs.Get(context.Background(), episode); j.Reason != c.reason {
				t.Errorf("reason %q, want %q", j.Reason, c.reason)
			}
		})
	}
}

// TestAJobThatOtherCodeStarted is a change-over: the seed's own consumer starts the execution and
// writes no record.
func TestAJobThatOtherCodeStarted(t *testing.T) {
	w := newWorld(t, Options{})
	for range 2 {
		if _, err := w.p.Callback(context.Background(), fixture(t, "last-step-of-the-seed.json")); err != nil {
			t.Fatal(err)
		}
	}
	w.want(episode, Succeeded, Charged, 30, 0)
}

// TestARecordThatAnApplicationWrote is taken as it is: the consumer adds to it.
func TestARecordThatAnApplicationWrote(t *testing.T) {
	w := newWorld(t, Options{})
	if done, err := w.jobs.Swap(context.Background(), Job{}, Job{ID: "a", UserID: "alice", Status: Queued}); err != nil || !done {
		t.Fatal(done, err)
	}
	w.send(body("a", "alice", "neural", 900))
	w.ends(ExecutionName("a", 1), fifteen)
	w.want("a", Succeeded, Charged, 30, 0)
}

func TestEventsThatCannotBeRead(t *testing.T) {
	for _, event := range []string{
		``, `null`, `[]`, `{}`, `"x"`, `{"status":"DONE","input":{}}`, `{"status":"SUCCEEDED","input":"x"}`, `{"status":"SUCCEEDED"}`,
		`{"source":"aws.s3","detail":{}}`, `{"source":"aws.states","detail":{"status":"FAILED"}}`,
		`{"source":"aws.states","detail":{"status":"FAILED","name":"n","input":"not JSON"}}`,
		`{"source":"aws.states","detail":{"status":"FAILED","name":"nobody","input":null}}`,
		`{"status":"FAILED","input":{"jobId":"a"}}`, `{"status":"FAILED","input":{"jobId":"a","userId":"b","headroom":7}}`,
	} {
		w := newWorld(t, Options{})
		if r, err := w.p.Callback(context.Background(), []byte(event)); err == nil {
			t.Errorf("%s was taken: %+v", event, r)
		}
		if len(w.jobs.jobs) != 0 {
			t.Errorf("%s left %v", event, w.jobs.jobs)
		}
	}
}

func TestAnEventOfAnotherUserChangesNothing(t *testing.T) {
	w := newWorld(t, Options{Hold: time.Hour})
	w.send(body(episode, "bob", "neural", 900))
	for _, file := range []string{"last-step-succeeded.json", "status-failed.json"} {
		if _, err := w.p.Callback(context.Background(), fixture(t, file)); !errors.Is(err, headroom.Conflict) {
			t.Errorf("%s: %v", file, err)
		}
	}
	w.want(episode, Running, "", 0, 30)
	w.wantUsed("alice", 0, 0)
}

// longestName is how many characters Step Functions takes for the name of an execution.
const longestName = 80

func TestExecutionNames(t *testing.T) {
	long := strings.Repeat("x", MaxJobID)
	seen := map[string]string{}
	for _, id := range []string{"a/b", "a:b", "a-b", "a", "A", "a-1", "日本", "日曜", "e\u0301", "\u00e9", long, long[1:] + "y", long[1:]} {
		for attempt := 1; attempt <= 11; attempt++ {
			name := ExecutionName(id, attempt)
			if other, taken := seen[name]; taken {
				t.Errorf("%q and %q share %s", id, other, name)
			}
			seen[name] = id
			if name != ExecutionName(id, attempt) || len(name) > longestName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
				t.Errorf("%q: name %q", id, name)
			}
		}
	}
	if name := ExecutionName(strings.Repeat("ü", 120), 9999); len(name) > longestName {
		t.Error(name)
	}
	if name := ExecutionName("episode-17", 1); !strings.HasPrefix(name, "episode-17-") {
		t.Errorf("%s is not readable", name)
	}
}

func TestOperationsOfAttemptsAreKeptApart(t *testing.T) {
	if operation("a", 1) != "a" || operation("a", 2) == operation("a", 3) {
		t.Error(operation("a", 2))
	}
	// No job id can be the operation of another job's attempt.
	if _, err := parseMessage([]byte(`{"userId":"u","jobId":` + string(must(json.Marshal(operation("a", 2)))) + `}`)); err == nil {
		t.Error("a job id with a line break was taken")
	}
	if n := len(operation(strings.Repeat("x", MaxJobID), 9999)); n > headroom.MaxOperation {
		t.Error(n)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestALogLineIsItsMetrics reads what a handler logs as CloudWatch does.
func TestALogLineIsItsMetrics(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, Options{Namespace: "Headroom", Logger: slog.New(slog.NewJSONHandler(&out, nil))})
	w.send(body("a", "alice", "neural", 900))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"job": "a", "user": "alice", "week": "2026-W23", "cost": 30., "decision": "admitted", "handler": "consumer", "Admitted": 1., "Refused": 0.} {
		if line[name] != want {
			t.Errorf("%s is %v, want %v", name, line[name], want)
		}
	}
	var emf struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
	}
	if err := json.Unmarshal(out.Bytes(), &emf); err != nil {
		t.Fatal(err)
	}
	m := emf.AWS.CloudWatchMetrics
	if emf.AWS.Timestamp == 0 || len(m) != 1 || m[0].Namespace != "Headroom" || len(m[0].Metrics) != 7 {
		t.Fatalf("%s", out.Bytes())
	}
	// Each name that the directive gives is a member of the line.
	for _, name := range m[0].Dimensions[0] {
		if _, is := line[name].(string); !is {
			t.Errorf("dimension %s is missing", name)
		}
	}
	for _, metric := range m[0].Metrics {
		if _, is := line[metric.Name].(float64); !is {
			t.Errorf("metric %s is missing", metric.Name)
		}
	}
}

// FuzzWhatComesFromOutside feeds messages and events of any form to the handlers: nothing but a
// job's own user is ever charged, and never more than once.
func FuzzWhatComesFromOutside(f *testing.F) {
	for _, name := range []string{"sqs-batch.json", "status-failed.json", "status-succeeded.json", "status-without-input.json", "last-step-succeeded.json", "last-step-failed.json"} {
		f.Add(fixture(f, name))
	}
	f.Add([]byte(body("a", "alice", "neural", 900)))
	f.Fuzz(func(t *testing.T, text []byte) {
		w := newWorld(t, Options{Hold: time.Hour})
		w.send(body(episode, "alice", "neural", 900))
		for range 2 {
			_, _ = w.p.Consume(context.Background(), Batch{Records: []Delivery{{MessageID: "m", Body: string(text)}}})
			_, _ = w.p.Callback(context.Background(), text)
		}
		users := map[string]int64{}
		for _, j := range w.jobs.jobs {
			if j.Charge == ChargePending {
				t.Errorf("%+v is left to be charged", j)
			}
			users[j.UserID] += 0
			if j.Charge == Charged {
				users[j.UserID] += j.Cost
			}
		}
		for user, want := range users {
			if used, _ := w.used(user); used != want {
				t.Errorf("%q has used %d, want %d", user, used, want)
			}
		}
	})
}

// FuzzMessage holds that a message of any form is refused or identifies a job; that every field
// that is not known here reaches the execution as it came; and that what the execution was given
// names the same job again.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(body(episode, "alice", "neural", 900)))
	f.Add([]byte(`{"jobId":"a","userId":"b","voiceQuality":7,"durationSeconds":"x","attempt":2,"more":{"n":1e400,"s":"<\u2028>","deep":[[{}]]}," jobId":null,"JobID":"c"}`))
	f.Add([]byte(`{"jobId":"a","userId":"b","attempt":2e0,"headroom":{}}`))
	f.Add([]byte(`{"jobId":"a","userId":"b","jobId":"c","n":123456789012345678901234567890.10}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMessage(text)
		if err != nil {
			if !errors.Is(err, headroom.Invalid) {
				t.Fatal(err)
			}
			return
		}
		if m.JobID == "" || m.UserID == "" || m.Attempt < 1 || len(m.JobID) > MaxJobID || len(m.UserID) > headroom.MaxSubject || len(operation(m.JobID, m.Attempt)) > headroom.MaxOperation {
			t.Fatalf("%+v", m)
		}
		stamped := Job{ID: m.JobID, UserID: m.UserID, Attempt: m.Attempt, Plan: "free", Cost: 7}
		input, err := m.input(stamped)
		if err != nil {
			if !errors.Is(err, headroom.Invalid) || len(text) < MaxInput/8 {
				t.Fatal(err)
			}
			return
		}
		var was, is map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal(text, &was), json.Unmarshal(input, &is)); err != nil {
			t.Fatal(err)
		}
		for name, raw := range was {
			var want bytes.Buffer
			if err := json.Compact(&want, raw); err != nil {
				t.Fatal(err)
			}
			if got := is[name]; !bytes.Equal(got, want.Bytes()) {
				t.Fatalf("field %q is %s, was %s", name, got, raw)
			}
		}
		if len(is) != len(was)+1 {
			t.Fatalf("%s became %s", text, input)
		}
		o, err := readInput("x", Execution{Input: input})
		if err != nil || o.JobID != m.JobID || o.UserID != m.UserID || o.Attempt != m.Attempt || o.Plan != "free" || o.Class != m.Class || o.Seconds != m.Seconds {
			t.Fatalf("%s is read as %+v, %v", input, o, err)
		}
	})
}
