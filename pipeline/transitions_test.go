package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// job is the one job of these tests: of 30 units by its message, and of 28 by its result.
const (
	jobA   = "a"
	askedA = 900
	doneA  = `{"durationSeconds":840}`
)

var throttled = headroom.Errorf(headroom.Throttled, nil, "throttled")

// messageOf is the message of an attempt of the job.
func messageOf(attempt int) string {
	b, err := Send(jobA, "alice", "neural", askedA, attempt, nil)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// inputOf is the input of its execution, as the consumer makes it.
func (w *world) inputOf(attempt int) string {
	return fmt.Sprintf(`{"jobId":"a","userId":"alice","headroom":{"attempt":%d,"voiceQuality":"neural","durationSeconds":%d,"plan":"free","cost":30,"held":%t,"requestedAt":"2026-06-01T12:00:00Z"}}`,
		attempt, askedA, w.p.opts.Hold > 0)
}

// A stand is where a job can stand, and how it comes there.
type stand struct {
	name  string
	reach func(w *world)
}

func refused(w *world, deliver func()) {
	w.runs.refuses = throttled
	deliver()
	w.runs.refuses = nil
}

var stands = []stand{
	{"no record", func(*world) {}},
	{"queued", func(w *world) {
		refused(w, func() { w.send(messageOf(1)) })
		w.clock = w.clock.Add(-4 * time.Hour)
		j := w.record(jobA)
		w.clock = w.clock.Add(4 * time.Hour)
		_, _ = w.p.putBack(context.Background(), j)
	}},
	{"to be started", func(w *world) { refused(w, func() { w.send(messageOf(1)) }) }},
	{"running", func(w *world) { w.send(messageOf(1)) }},
	{"failed", func(w *world) { w.send(messageOf(1)); w.hears("FAILED", 1) }},
	{"running again", func(w *world) { w.send(messageOf(1)); w.hears("FAILED", 1); w.send(messageOf(2)) }},
	{"to be charged", func(w *world) {
		w.send(messageOf(1))
		w.wire.fail = throttled
		w.hears("SUCCEEDED", 1)
		w.wire.fail = nil
	}},
	{"charged", func(w *world) { w.send(messageOf(1)); w.hears("SUCCEEDED", 1) }},
	{"charged for the second attempt", func(w *world) {
		w.send(messageOf(1))
		w.hears("FAILED", 1)
		w.send(messageOf(2))
		w.hears("SUCCEEDED", 2)
	}},
	{"over quota", func(w *world) { w.spend("alice", 171); w.send(messageOf(1)) }},
	{"unpaid", func(w *world) {
		w.send(messageOf(1))
		w.wire.fail = throttled
		w.hears("SUCCEEDED", 1)
		w.wire.fail = nil
		_, _ = w.p.Close(context.Background(), jobA, "goodwill")
	}},
}

// tellEnd is what the last step of an attempt tells.
func (w *world) tellEnd(status string, attempt int) error {
	more := `"result":` + doneA
	if status == "FAILED" {
		more = `"error":{"Error":"Synthesis"}`
	}
	_, err := w.p.Callback(context.Background(), fmt.Appendf(nil, `{"execution":%q,"status":%q,"input":%s,%s}`, ExecutionName(jobA, attempt), status, w.inputOf(attempt), more))
	return err
}

// hears is tellEnd where what becomes of the job is looked at, and not the answer.
func (w *world) hears(status string, attempt int) { _ = w.tellEnd(status, attempt) }

// tellChange is an event of the status of an attempt's execution.
func (w *world) tellChange(source, status, why string, attempt int) error {
	_, err := w.p.Callback(context.Background(), fmt.Appendf(nil, `{"source":%q,"detail":{"name":%q,"status":%q,"input":%q,"output":"{\"result\":{\"durationSeconds\":840}}","error":%q}}`,
		source, ExecutionName(jobA, attempt), status, w.inputOf(attempt), why))
	return err
}

// deliver gives the consumer the message of an attempt.
func (w *world) deliver(attempt int) error {
	if failed := w.send(messageOf(attempt)); failed != nil {
		return throttled
	}
	return nil
}

// look reconciles.
func (w *world) look() error {
	_, err := w.p.Reconcile(context.Background(), ReconcileOptions{OlderThan: time.Hour, Workers: 1})
	return err
}

// A happening is one thing that can come to the pipeline about the job.
type happening struct {
	name   string
	do     func(w *world) error
	stands string // of its present execution, which a reconciliation asks about. "": as it is
}

var happenings = []happening{
	{"its message", func(w *world) error { return w.deliver(1) }, ""},
	{"message of attempt 2", func(w *world) error { return w.deliver(2) }, ""},
	{"message of attempt 3", func(w *world) error { return w.deliver(3) }, ""},
	{"success", func(w *world) error { return w.tellEnd("SUCCEEDED", 1) }, ""},
	{"success of attempt 2", func(w *world) error { return w.tellEnd("SUCCEEDED", 2) }, ""},
	{"failure", func(w *world) error { return w.tellEnd("FAILED", 1) }, ""},
	{"failure of attempt 2", func(w *world) error { return w.tellEnd("FAILED", 2) }, ""},
	{"event of an abort", func(w *world) error { return w.tellChange("aws.states", "ABORTED", "", 1) }, ""},
	{"event of done, not charged", func(w *world) error { return w.tellChange("aws.states", "FAILED", DoneNotCharged, 1) }, ""},
	{"event that it runs", func(w *world) error { return w.tellChange("aws.states", "RUNNING", "", 1) }, ""},
	{"event of a pending redrive", func(w *world) error { return w.tellChange("aws.states", "PENDING_REDRIVE", "Synthesis", 1) }, ""},
	{"foreign event", func(w *world) error { return w.tellChange("studio", "FAILED", "Synthesis", 1) }, ""},
	{"reconcile: it runs", (*world).look, "RUNNING"},
	{"reconcile: pending redrive", (*world).look, "PENDING_REDRIVE"},
	{"reconcile: it succeeded", (*world).look, "SUCCEEDED"},
	{"reconcile: it failed", (*world).look, "FAILED"},
	{"reconcile: there is none", (*world).look, "none"},
	{"close", func(w *world) error { _, err := w.p.Close(context.Background(), jobA, "ticket"); return err }, ""},
}

// cell is how the job stands in a few words: its state, its attempt, what its user has used and
// holds, and which attempts have executions.
func (w *world) cell() string {
	w.wire.trouble = nil
	used, held := w.used("alice")
	j, found, _ := w.jobs.Get(context.Background(), jobA)
	if !found {
		return fmt.Sprintf("none, %d+%d", used, held)
	}
	text := string(j.Status)
	if j.Charge != "" {
		text = string(j.Charge)
	}
	return fmt.Sprintf("%s %d, %d+%d", text, j.Attempt, used, held)
}

// traces are what else must be the same after a repeat.
func (w *world) traces() string {
	j, _, _ := w.jobs.Get(context.Background(), jobA)
	return fmt.Sprintf("%d units by %q, attempts %v", j.Cost, j.Operation, slices.Sorted(maps.Keys(w.runs.known)))
}

// outlasts is what does not end by itself. What is held for an attempt that was overtaken does.
func (w *world) outlasts() string {
	cell := w.cell()
	return cell[:strings.LastIndex(cell, "+")] + ", " + w.traces()
}

// stoodAt makes a world in which the job stands somewhere since two hours ago.
func stoodAt(t *testing.T, opts Options, s stand, all ...happening) *world {
	w := newWorld(t, opts)
	s.reach(w)
	w.clock = w.clock.Add(2 * time.Hour)
	j, found, _ := w.jobs.Get(context.Background(), jobA)
	for _, h := range all {
		if name := j.execution(); found && h.stands != "" {
			x := Execution{Status: h.stands, Input: []byte(w.inputOf(j.Attempt))}
			switch h.stands {
			case "SUCCEEDED":
				x.Output = []byte(`{"result":` + doneA + `}`)
			case "FAILED", "PENDING_REDRIVE":
				x.Error = "Synthesis"
			}
			if w.runs.known[name] = x; h.stands == "none" {
				delete(w.runs.known, name)
			}
		}
	}
	return w
}

// transitions are what becomes of a job under holds: where it stands, and then what happens and
// where it stands after that. What is not named changes nothing. The units are used+held.
var transitions = map[string]map[string]string{
	"no record": {
		"": "none, 0+0", "its message": "running 1, 0+30", "message of attempt 2": "running 2, 0+30", "message of attempt 3": "running 3, 0+30",
		// Other code has started it, or its record was lost.
		"success": "charged 1, 28+0", "success of attempt 2": "charged 2, 28+0", "event of done, not charged": "charged 1, 30+0",
		"failure": "failed 1, 0+0", "failure of attempt 2": "failed 2, 0+0", "event of an abort": "failed 1, 0+0", "close": "= error",
	},
	"queued": {
		"": "queued 1, 0+30", "its message": "running 1, 0+30", "message of attempt 2": "= error", "message of attempt 3": "= error",
		// It runs after all. What another attempt holds goes when that attempt ends, or expires.
		"success": "charged 1, 28+0", "success of attempt 2": "charged 2, 28+30", "event of done, not charged": "charged 1, 30+0",
		"failure": "failed 1, 0+0", "event of an abort": "failed 1, 0+0", "close": "failed 1, 0+0",
		"reconcile: it succeeded": "charged 1, 28+0", "reconcile: it failed": "failed 1, 0+0",
	},
	"to be started": {
		"": "running 1, 0+30", "message of attempt 2": "= error", "message of attempt 3": "= error",
		"success": "charged 1, 28+0", "success of attempt 2": "charged 2, 28+30", "event of done, not charged": "charged 1, 30+0",
		"failure": "failed 1, 0+0", "event of an abort": "failed 1, 0+0", "close": "failed 1, 0+0",
		"reconcile: it succeeded": "charged 1, 28+0", "reconcile: it failed": "failed 1, 0+0", "reconcile: there is none": "queued 1, 0+30",
	},
	"running": {
		"": "running 1, 0+30", "message of attempt 2": "= error", "message of attempt 3": "= error",
		"success": "charged 1, 28+0", "success of attempt 2": "charged 2, 28+30", "event of done, not charged": "charged 1, 30+0",
		"failure": "failed 1, 0+0", "event of an abort": "failed 1, 0+0", "close": "failed 1, 0+0",
		"reconcile: it succeeded": "charged 1, 28+0", "reconcile: it failed": "failed 1, 0+0", "reconcile: there is none": "queued 1, 0+30",
	},
	"failed": {
		"": "failed 1, 0+0", "message of attempt 2": "running 2, 0+30", "message of attempt 3": "= error",
		"success": "charged 1, 28+0", "success of attempt 2": "charged 2, 28+0", "event of done, not charged": "charged 1, 30+0", "close": "= error",
	},
	"running again": {
		"": "running 2, 0+30", "message of attempt 3": "= error",
		// The first attempt wins, and the second still holds until it ends.
		"success": "charged 2, 28+30", "success of attempt 2": "charged 2, 28+0", "event of done, not charged": "charged 2, 30+30",
		"failure of attempt 2": "failed 2, 0+0", "close": "failed 2, 0+0",
		"reconcile: it succeeded": "charged 2, 28+0", "reconcile: it failed": "failed 2, 0+0", "reconcile: there is none": "queued 2, 0+30",
	},
	"to be charged": {
		"": "pending 1, 0+30", "success": "charged 1, 28+0", "success of attempt 2": "charged 1, 28+0", "event of done, not charged": "charged 1, 28+0", "close": "unpaid 1, 0+0",
		"reconcile: it runs": "charged 1, 28+0", "reconcile: pending redrive": "charged 1, 28+0", "reconcile: it succeeded": "charged 1, 28+0",
		"reconcile: it failed": "charged 1, 28+0", "reconcile: there is none": "charged 1, 28+0",
	},
	"charged":                        {"": "charged 1, 28+0", "close": "= error"},
	"charged for the second attempt": {"": "charged 2, 28+0", "close": "= error"},
	"over quota":                     {"": "over_quota 1, 171+0", "close": "= error"},
	"unpaid":                         {"": "unpaid 1, 0+0"}, // it was closed before
}

// becomes is what the table says of a job that stands somewhere, and whether the handler fails.
func becomes(opts Options, s stand, h happening) (cell string, fails bool) {
	row := transitions[s.name]
	cell, fails = strings.CutSuffix(row[h.name], " error")
	if fails = fails || h.name == "foreign event"; cell == "" || cell == "=" {
		cell = row[""]
	}
	if opts.Hold == 0 {
		cell = cell[:strings.LastIndex(cell, "+")] + "+0"
	}
	return cell, fails
}

// transit calls test for each way of asking, place where a job can stand, and happening.
func transit(t *testing.T, test func(t *testing.T, opts Options, s stand, h happening)) {
	modes(t, func(t *testing.T, opts Options) {
		if opts.Hold > 0 {
			opts.Hold = 48 * time.Hour // longer than all that happens here
		}
		for _, s := range stands {
			for _, h := range happenings {
				t.Run(s.name+"/"+h.name, func(t *testing.T) { test(t, opts, s, h) })
			}
		}
	})
}

// TestEachTransition lets everything happen to a job wherever it stands, once and twice in a row.
func TestEachTransition(t *testing.T) {
	transit(t, func(t *testing.T, opts Options, s stand, h happening) {
		w := stoodAt(t, opts, s, h)
		want, fails := becomes(opts, s, h)
		if err := h.do(w); (err != nil) != fails {
			t.Errorf("answers %v", err)
		}
		if got := w.cell(); got != want {
			t.Errorf("is %q, want %q", got, want)
		}
		if h.name == "close" && s.name == "unpaid" || strings.HasPrefix(want, "running") && strings.HasPrefix(h.name, "message") {
			return
		}
		traces := w.traces()
		_ = h.do(w)
		if got := w.cell(); got != want || w.traces() != traces {
			t.Errorf("the second time it is %q, %s, want %q, %s", got, w.traces(), want, traces)
		}
	})
}

// TestEachCallOfATransitionFails fails each call that a handler makes, before and after it takes
// effect. Either the handler says so, and what happened comes again, or nothing is missing.
func TestEachCallOfATransitionFails(t *testing.T) {
	calls := 0
	transit(t, func(t *testing.T, opts Options, s stand, h happening) {
		w := stoodAt(t, opts, s, h)
		_ = h.do(w)
		want := w.cell() + ", " + w.traces()
		for n := 0; ; n++ {
			before := failCall(t, opts, s, h, n, fault{before: throttled}, want)
			after := failCall(t, opts, s, h, n, fault{after: headroom.Errorf(headroom.OutcomeUnknown, nil, "no answer")}, want)
			if !before || !after {
				break
			}
			calls += 2
		}
	})
	t.Logf("%d calls failed", calls)
}

// failCall fails the nth call of what happens, which then comes again. It returns false if there
// are fewer calls.
func failCall(t *testing.T, opts Options, s stand, h happening, n int, broken fault, want string) bool {
	t.Helper()
	w := stoodAt(t, opts, s, h)
	made, what := 0, ""
	w.wire.trouble = func(call string) (f fault) {
		if made == n {
			f, what = broken, call
		}
		made++
		return f
	}
	err := h.do(w)
	if made <= n {
		return false
	}
	why := cmp.Or(broken.before, broken.after)
	if err == nil && broken.before != nil {
		t.Errorf("nobody hears that %s (call %d) failed", what, n)
	}
	if got := w.cell() + ", " + w.traces(); err == nil && got != want {
		t.Errorf("%s (call %d) fails with %v, which nobody hears of: it is %q, want %q", what, n, why, got, want)
	}
	for range 2 {
		w.clock = w.clock.Add(2 * time.Hour)
		_ = h.do(w)
	}
	got := w.cell() + ", " + w.traces()
	if strings.HasPrefix(got, "failed") && strings.HasPrefix(h.name, "reconcile") {
		// What could not be released expires: nobody looks at the job again.
		got = strings.Replace(got, "+30", "+0", 1)
	}
	if got != want {
		t.Errorf("%s (call %d) fails with %v, and then it comes again: it is %q, want %q", what, n, why, got, want)
	}
	if w.runs.differ > 0 {
		t.Error("an execution was started again with another input")
	}
	return true
}

// TestTwoHappenAtOnce lets one thing happen in the middle of another, before each call that the
// other makes: the job comes to where it comes to when one happens after the other.
func TestTwoHappenAtOnce(t *testing.T) {
	pairs := 0
	transit(t, func(t *testing.T, opts Options, s stand, h happening) {
		if testing.Short() && opts.Hold == 0 {
			return // there is more that can go wrong under holds
		}
		for _, other := range happenings {
			if h.stands != "" && other.stands != "" && h.stands != other.stands {
				continue // it stands in one way at a time
			}
			want := []string{inOrder(t, opts, s, h, other), inOrder(t, opts, s, other, h)}
			n := 0
			for inTheMiddle(t, opts, s, h, other, n, want) {
				n++
			}
			pairs += n
		}
	})
	t.Logf("%d pairs", pairs)
}

// inOrder is what becomes of a job to which one thing happens after the other.
func inOrder(t *testing.T, opts Options, s stand, first, second happening) string {
	w := stoodAt(t, opts, s, first, second)
	_ = first.do(w)
	_ = second.do(w)
	return w.outlasts()
}

// inTheMiddle lets another thing happen before the nth call of what happens. It returns false if
// there are fewer calls.
func inTheMiddle(t *testing.T, opts Options, s stand, h, other happening, n int, want []string) bool {
	t.Helper()
	w := stoodAt(t, opts, s, h, other)
	made := 0
	w.wire.trouble = func(string) fault {
		if made++; made == n+1 {
			w.wire.trouble = nil
			_ = other.do(w)
		}
		return fault{}
	}
	err := h.do(w)
	if made <= n {
		return false
	}
	if err != nil {
		_ = h.do(w) // the queue, or who sent it, does it again
	}
	got := w.outlasts()
	if h.stands+other.stands == "none" && !slices.Contains(want, got) {
		// It may be taken for one that never started while it starts. A later run asks again.
		got = strings.Replace(got, "queued", "running", 1)
	}
	if strings.HasPrefix(got, "unpaid") && (h.name == "close" || other.name == "close") {
		return true // the charge was made and is not noted, which is what a person asked for
	}
	if !slices.Contains(want, got) {
		t.Errorf("%s before call %d:\n%s, want\n%s", other.name, n, got, strings.Join(want, " or\n"))
	}
	return true
}
