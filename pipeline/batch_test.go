package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumcast/headroom"
)

const (
	queueARN = "arn:aws:sqs:eu-central-1:123456789012:jobs"
	fifoARN  = queueARN + ".fifo"
)

// consume hands an event to the consumer as Lambda does.
func (w *world) consume(event string) ([]string, error) {
	w.t.Helper()
	var b Batch
	if err := json.Unmarshal([]byte(event), &b); err != nil {
		w.t.Fatal(err)
	}
	out, err := w.p.Consume(w.t.Context(), b)
	ids := []string{}
	for _, f := range out.Items {
		ids = append(ids, f.MessageID)
	}
	return ids, err
}

// record is one message of an event. group is "" of one without.
func record(id, queue, group, body string) string {
	attributes := map[string]string{}
	if group != "" {
		attributes["MessageGroupId"] = group
	}
	text, err := json.Marshal(map[string]any{"messageId": id, "eventSourceARN": queue, "attributes": attributes, "body": body})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func records(all ...string) string { return `{"Records":[` + strings.Join(all, ",") + `]}` }

// TestWhatIsNoBatchIsAnErrorOfTheFunction is case 66: an empty answer would delete messages that
// nobody has looked at.
func TestWhatIsNoBatchIsAnErrorOfTheFunction(t *testing.T) {
	good := record("good", queueARN, "", body("a", "alice", "neural", 60))
	for name, event := range map[string]string{
		"no records":                `{}`,
		"records are null":          `{"Records":null}`,
		"an event of another kind":  `{"source":"aws.states","detail":{}}`,
		"a record without an id":    records(good, record("", queueARN, "", "not JSON")),
		"an id that is null":        records(good, `{"messageId":null,"body":"x"}`),
		"a record that is null":     records(`null`, good),
		"a good one without an id":  records(record("", queueARN, "", body("b", "alice", "neural", 60))),
		"the last one has no id":    records(good, good, `{"body":"x"}`),
		"a record of another event": records(`{"Sns":{"Message":"x"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{})
			ids, err := w.consume(event)
			if !errors.Is(err, headroom.Invalid) || len(ids) > 0 {
				t.Errorf("%q, %v, want an error", ids, err)
			}
			if n := len(w.runs.starts); n > 0 {
				t.Errorf("%d jobs were started", n)
			}
		})
	}
	if ids, err := newWorld(t, Options{}).consume(`{"Records":[]}`); err != nil || len(ids) > 0 {
		t.Error("an empty batch:", ids, err)
	}
}

// TestAFailureIsListedOnce is case 66: SQS takes an answer with an empty or doubled identifier for
// a failure of the whole batch.
func TestAFailureIsListedOnce(t *testing.T) {
	w := newWorld(t, Options{})
	ids, err := w.consume(records(
		record("m1", queueARN, "", "not JSON"), record("m2", queueARN, "", body("a", "alice", "neural", 60)),
		record("m1", queueARN, "", "not JSON"), record("m3", queueARN, "", "{}"), record("m2", queueARN, "", body("a", "alice", "neural", 60)),
	))
	if want := []string{"m1", "m3"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%q, %v, want %q", ids, err, want)
	}
	w.want("a", Running, "", 0, 0)
}

// TestAGroupKeepsItsOrder is case 66: of a FIFO queue the second of three is broken.
func TestAGroupKeepsItsOrder(t *testing.T) {
	three := func(queue string) string {
		return records(
			record("1", queue, "alice", body("a1", "alice", "neural", 60)), record("2", queue, "alice", "not JSON"), record("other", queue, "bob", body("b1", "bob", "neural", 60)),
			record("3", queue, "alice", body("a3", "alice", "neural", 60)),
		)
	}
	for _, c := range []struct {
		name, queue string
		want        []string
		third       bool // was handled
	}{
		{"FIFO", fifoARN, []string{"2", "3"}, false},
		{"a standard queue with fair groups", queueARN, []string{"2"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			w := newWorld(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			ids, err := w.consume(three(c.queue))
			if err != nil || !slices.Equal(ids, c.want) {
				t.Errorf("%q, %v, want %q", ids, err, c.want)
			}
			w.want("a1", Running, "", 0, 0)
			w.want("b1", Running, "", 0, 0)
			if _, found, _ := w.jobs.Get(t.Context(), "a3"); found != c.third {
				t.Errorf("the third was handled: %t, want %t", found, c.third)
			}
			if told := strings.Contains(log.String(), "message=3 ") && strings.Contains(log.String(), "decision=behind"); told == c.third {
				t.Errorf("the log says\n%s", &log)
			}
			// When it comes again after the broken one is gone, it runs.
			if ids, err := w.consume(records(record("3", c.queue, "alice", body("a3", "alice", "neural", 60)))); err != nil || len(ids) > 0 {
				t.Error(ids, err)
			}
			w.want("a3", Running, "", 0, 0)
		})
	}
}

// TestAMessageMayComeWrapped sends jobs through SNS and EventBridge.
func TestAMessageMayComeWrapped(t *testing.T) {
	plain := body("a", "alice", "neural", 60)
	quote := func(text string) string {
		b, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	sns := func(inner string) string {
		return `{"Type":"Notification","MessageId":"n","TopicArn":"arn:aws:sns:eu-central-1:123456789012:jobs","Message":` + quote(inner) + `,"Timestamp":"2026-06-01T12:00:00.000Z"}`
	}
	bus := func(inner string) string {
		return `{"version":"0","id":"e","detail-type":"job","source":"studio","time":"2026-06-01T12:00:00Z","detail":` + inner + `}`
	}
	for name, c := range map[string]struct {
		body string
		runs bool
	}{
		"as it is, or SNS delivers raw": {plain, true},
		"SNS":                           {sns(plain), true},
		"EventBridge":                   {bus(plain), true},
		"EventBridge to SNS":            {sns(bus(plain)), true},
		"SNS that is no notification":   {strings.Replace(sns(plain), "Notification", "SubscriptionConfirmation", 1), false},
		"SNS without a topic":           {`{"Type":"Notification","Message":` + quote(plain) + `}`, false},
		"SNS with a broken message":     {sns("not JSON"), false},
		"an event without detail":       {`{"detail-type":"job","source":"studio"}`, false},
		"a job with fields of the name": {`{"Type":"Notification","TopicArn":"t","Message":"hello","source":"s","detail-type":"d","detail":{},` + plain[1:], true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{})
			ids, err := w.consume(records(record("m", queueARN, "", c.body)))
			if err != nil || (len(ids) == 0) != c.runs {
				t.Errorf("%q, %v, want it to run: %t", ids, err, c.runs)
			}
			if c.runs {
				w.want("a", Running, "", 0, 0)
				var input map[string]any
				if err := json.Unmarshal(w.runs.known[ExecutionName("a", 1)].Input, &input); err != nil || input["topic"] != "tides" {
					t.Error(input, err)
				}
			}
		})
	}
}

// hungJobs never answers about some jobs, until its caller gives up.
type hungJobs struct {
	Jobs
	hangs func(id string) bool
	asked int
}

func (j *hungJobs) Get(ctx context.Context, id string) (Job, bool, error) {
	j.asked++
	if j.hangs(id) {
		<-ctx.Done()
		return Job{}, false, headroom.Errorf(headroom.Unavailable, ctx.Err(), "no answer")
	}
	time.Sleep(20 * time.Millisecond)
	return j.Jobs.Get(ctx, id)
}

// TestACallThatHangsCostsItsOwnMessage gives the consumer Lambda's 30 seconds and lets calls hang.
func TestACallThatHangsCostsItsOwnMessage(t *testing.T) {
	for _, c := range []struct {
		name string
		hang []int
	}{{"the first", []int{0}}, {"the last", []int{9}}, {"three", []int{0, 4, 5}}, {"all", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, {"none", nil}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				hung := &hungJobs{Jobs: w.jobs, hangs: func(id string) bool {
					return slices.ContainsFunc(c.hang, func(i int) bool { return id == fmt.Sprint("job-", i) })
				}}
				w.p.jobs = hung
				var all []string
				for i := range 10 {
					all = append(all, record(fmt.Sprint(i), queueARN, "", body(fmt.Sprint("job-", i), "alice", "standard", 60)))
				}
				var b Batch
				if err := json.Unmarshal([]byte(records(all...)), &b); err != nil {
					t.Fatal(err)
				}
				const limit = 30 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				began := time.Now()
				out, err := w.p.Consume(ctx, b)
				if took := time.Since(began); err != nil || took >= limit {
					t.Errorf("answered after %s, %v", took, err)
				}
				var failed []int
				for _, f := range out.Items {
					var i int
					_, _ = fmt.Sscan(f.MessageID, &i)
					failed = append(failed, i)
				}
				if !slices.Equal(failed, c.hang) || hung.asked < 10 {
					t.Errorf("failed %v, want %v; %d questions", failed, c.hang, hung.asked)
				}
			})
		})
	}
}

// watchedJobs notes the context of each call.
type watchedJobs struct {
	Jobs
	mu   sync.Mutex
	seen []context.Context
}

func (j *watchedJobs) note(ctx context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, ctx)
}

func (j *watchedJobs) Get(ctx context.Context, id string) (Job, bool, error) {
	j.note(ctx)
	return j.Jobs.Get(ctx, id)
}

func (j *watchedJobs) Swap(ctx context.Context, was, is Job) (bool, error) {
	j.note(ctx)
	return j.Jobs.Swap(ctx, was, is)
}

func (j *watchedJobs) Bookmark(ctx context.Context) (Opened, error) {
	j.note(ctx)
	return j.Jobs.Bookmark(ctx)
}

func (j *watchedJobs) SetBookmark(ctx context.Context, at Opened) error {
	j.note(ctx)
	return j.Jobs.SetBookmark(ctx, at)
}

// wantOver fails if a context that was made for a call is still open: its timer would be left
// behind in a function that lives on. The caller's own is another matter.
func (j *watchedJobs) wantOver(t *testing.T, callers context.Context) {
	t.Helper()
	if len(j.seen) == 0 {
		t.Error("no call was made")
	}
	for i, ctx := range j.seen {
		if ctx != callers && ctx.Err() == nil {
			t.Errorf("the context of call %d is left open", i)
		}
	}
}

// TestEachMessageHasItsShareOfTheTime that is left for those that are left, with a tenth of it, or
// a second, kept for the answer; and at most what one message may take.
func TestEachMessageHasItsShareOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[time.Duration][]time.Duration{
			5 * time.Second:  {1125 * time.Millisecond, 1500 * time.Millisecond, 2250 * time.Millisecond, 4500 * time.Millisecond},
			30 * time.Second: {7250 * time.Millisecond, 29 * time.Second / 3, 10 * time.Second, 10 * time.Second},
		} {
			w := newWorld(t, Options{})
			jobs := &watchedJobs{Jobs: w.jobs}
			w.p.jobs = jobs
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			var b Batch
			for i := range want {
				b.Records = append(b.Records, Delivery{MessageID: fmt.Sprint(i), Body: body("of another user", fmt.Sprint("user-", i), "neural", 60)})
			}
			w.put(Job{ID: "of another user", UserID: "bob"})
			if out, err := w.p.Consume(ctx, b); err != nil || len(out.Items) != len(want) || len(jobs.seen) != len(want) {
				t.Fatalf("%+v, %v, %d looks", out, err, len(jobs.seen))
			}
			for i, ctx := range jobs.seen {
				if end, ok := ctx.Deadline(); !ok || time.Until(end) != want[i] {
					t.Errorf("of %s message %d has %s, want %s", limit, i, time.Until(end), want[i])
				}
			}
			jobs.wantOver(t, ctx)
		}
	})
}

// TestAMessageHasABoundOfItsOwn holds where the caller sets no deadline.
func TestAMessageHasABoundOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{PerMessage: 3 * time.Second})
		w.p.jobs = &hungJobs{Jobs: w.jobs, hangs: func(string) bool { return true }}
		began := time.Now()
		ids, err := w.consume(records(record("a", queueARN, "", body("a", "alice", "neural", 60)), record("b", queueARN, "", body("b", "alice", "neural", 60))))
		if took := time.Since(began); err != nil || len(ids) != 2 || took != 6*time.Second {
			t.Errorf("%q, %v after %s, want both failed after 6s", ids, err, took)
		}
	})
}
