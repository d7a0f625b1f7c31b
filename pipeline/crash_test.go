package pipeline

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A step is one thing that the world does to the pipeline. Each is delivered again if its handler
// is cut off.
type step struct {
	name string
	do   func(w *world)
}

func sent(bodies ...string) step { return step{"send", func(w *world) { w.send(bodies...) }} }
func ended(job, result string) step {
	return step{"end " + job, func(w *world) {
		if _, ran := w.runs.known[ExecutionName(job, 1)]; ran {
			w.ends(ExecutionName(job, 1), result)
		}
	}}
}
func told(job, status string) step {
	return step{status + " " + job, func(w *world) {
		if _, ran := w.runs.known[ExecutionName(job, 1)]; ran {
			w.changes(ExecutionName(job, 1), status)
		}
	}}
}

var reconciled = step{"reconcile", func(w *world) {
	w.clock = w.clock.Add(time.Hour + time.Second)
	w.reconcile()
}}

var stories = map[string][]step{
	"success":           {sent(body("a", "alice", "neural", 900)), ended("a", fifteen)},
	"longer than asked": {sent(body("a", "alice", "neural", 900)), ended("a", `{"durationSeconds":1800}`)},
	"failure":           {sent(body("a", "alice", "neural", 900)), ended("a", ""), told("a", "FAILED")},
	"a batch, one over the quota": {
		sent(body("a", "alice", "generative", 1800), "{", body("b", "alice", "generative", 1800), body("c", "alice", "velvet", 1), body("d", "bob", "standard", 60)),
		ended("a", `{"durationSeconds":1800}`), ended("d", `{}`),
	},
	"failed, redriven, and a stale failure": {sent(body("a", "alice", "neural", 900)), ended("a", ""), ended("a", fifteen), told("a", "FAILED")},
	"rerun":                                 {sent(body("a", "alice", "neural", 900)), ended("a", ""), sent(again("a", "alice")), step{"end 2", func(w *world) { w.ends(ExecutionName("a", 2), fifteen) }}},
	"no event, then reconcile": {sent(body("a", "alice", "neural", 900)), step{"silently", func(w *world) {
		x := w.runs.known[ExecutionName("a", 1)]
		x.Status, x.Output = "SUCCEEDED", []byte(`{"result":`+fifteen+`}`)
		w.runs.known[ExecutionName("a", 1)] = x
	}}, reconciled, reconciled},
	"over a week's turn": {step{"Sunday", func(w *world) { w.clock = time.Date(2026, 5, 31, 23, 59, 0, 0, time.UTC) }},
		sent(body("a", "alice", "neural", 900)), step{"Monday", func(w *world) { w.clock = time.Date(2026, 6, 1, 0, 1, 0, 0, time.UTC) }}, ended("a", `{"durationSeconds":1200}`)},
}

func again(job, user string) string {
	b, err := Send(job, user, "neural", 900, 2, nil)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// state is all that is left of a story, in one text. Times are left out: a repeat happens later.
func (w *world) state() string {
	var b strings.Builder
	users := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(w.jobs.jobs)) {
		j := w.jobs.jobs[id]
		users[j.UserID] = true
		fmt.Fprintf(&b, "%s of %s: %s %s attempt %d, %d units in %s, held %v, operation %q, %s: %s\n", id, j.UserID, j.Status, j.Charge, j.Attempt, j.Cost, j.Week, j.Held, j.Operation, j.Decision, j.Reason)
	}
	for _, user := range slices.Sorted(maps.Keys(users)) {
		used, held := w.used(user)
		fmt.Fprintf(&b, "%s: %d used, %d held\n", user, used, held)
	}
	fmt.Fprintf(&b, "executions: %v\n", slices.Sorted(maps.Keys(w.runs.known)))
	return b.String()
}

// TestAHandlerCutOffBetweenAnyTwoWrites (case 30, and 16 for jobs) lets each handler die after each
// of its writes, once and twice in a row, and delivers again. The end is that of an undisturbed
// run.
func TestAHandlerCutOffBetweenAnyTwoWrites(t *testing.T) {
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			for mode, opts := range map[string]Options{
				"preflight": {}, "hold": {Hold: 3 * time.Hour}, "preflight, refuse": {Refuse: true}, "hold, refuse": {Hold: 3 * time.Hour, Refuse: true},
			} {
				t.Run(mode, func(t *testing.T) {
					run := func(cuts ...int) (string, int) {
						w := newWorld(t, opts)
						if len(cuts) > 0 {
							w.wire.cut = cuts[0]
						}
						for _, s := range story {
							s.do(w)
							if len(cuts) > 1 && w.wire.writes >= cuts[0] && w.wire.cut == cuts[0] {
								w.wire.cut = w.wire.writes + cuts[1]
							}
						}
						if w.runs.differ > 0 {
							t.Errorf("an execution was started again with another input: to Step Functions that is another one")
						}
						return w.state(), w.wire.writes
					}
					want, writes := run()
					for cut := 1; cut <= writes; cut++ {
						for second := range 4 {
							if got, _ := run(cut, second); got != want {
								t.Fatalf("cut off after write %d of %d, and again %d writes later:\n%s\nwant\n%s", cut, writes, second, got, want)
							}
						}
					}
				})
			}
		})
	}
}

// TestAnyMixOfDeliveries sends the same few jobs and their ends in any order, doubled, lost, cut
// off and reconciled, and compares with a plain model: a job that ran and succeeded is charged once
// at its true cost, any other not at all, and nothing stays held.
func TestAnyMixOfDeliveries(t *testing.T) {
	for seed := range uint64(100) {
		for _, opts := range []Options{{}, {Hold: 12 * time.Hour}, {Refuse: true}, {Hold: 12 * time.Hour, Refuse: true}} {
			random := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(t, opts)
			jobs := []string{"a", "b", "c", "d", "e"}
			true_ := map[string]int64{"a": 600, "b": 900, "c": 1500, "d": 60, "e": 1800} // seconds
			succeeded := map[string]bool{}
			for range 40 {
				job := jobs[random.IntN(len(jobs))]
				name := ExecutionName(job, 1)
				w.wire.cut = 0
				if random.IntN(2) == 0 {
					w.wire.cut = w.wire.writes + 1 + random.IntN(4)
				}
				_, ran := w.runs.known[name]
				switch action := random.IntN(6); {
				case action < 2:
					w.send(body(job, "alice", "generative", 900)) // 60 slots: a fourth is one too many
				case !ran:
				case action == 2 || action == 3 && random.IntN(3) > 0:
					succeeded[job] = true
					w.ends(name, fmt.Sprintf(`{"durationSeconds":%d}`, true_[job]))
				case action == 3 && !succeeded[job]:
					w.ends(name, "")
				case action == 4:
					if status := w.runs.known[name].Status; status != "RUNNING" {
						w.changes(name, status)
					}
					if random.IntN(2) == 0 {
						w.changes(name, "FAILED")
					}
				default:
					reconciled.do(w)
				}
			}
			w.wire.cut = 0
			for _, job := range jobs {
				if _, ran := w.runs.known[ExecutionName(job, 1)]; ran && !succeeded[job] {
					w.ends(ExecutionName(job, 1), "")
				}
			}
			reconciled.do(w)
			var used int64
			for _, job := range jobs {
				j, found, _ := w.jobs.Get(context.Background(), job)
				cost := 4 * ((true_[job] + 59) / 60)
				switch {
				case !found:
				case succeeded[job] && j.Status == Succeeded && j.Charge == Charged && j.Cost == cost:
					used += cost
				case succeeded[job] && opts.Refuse && j.Status == Unpaid:
				case !succeeded[job] && (j.Status == Failed || j.Status == OverQuota):
				default:
					t.Fatalf("seed %d %+v: job %s succeeded %v, its record is %+v", seed, opts, job, succeeded[job], j)
				}
			}
			w.wantUsed("alice", used, 0)
			if opts.Refuse && used > 200 {
				t.Errorf("seed %d: %d used", seed, used)
			}
			if t.Failed() {
				t.Fatalf("seed %d %+v\n%s", seed, opts, w.state())
			}
		}
	}
}
