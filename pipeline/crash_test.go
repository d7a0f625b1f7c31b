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
		for mode, opts := range map[string]Options{
			"preflight": {}, "hold": {Hold: 3 * time.Hour},
			"preflight, refuse": {Refuse: true}, "hold, refuse": {Hold: 3 * time.Hour, Refuse: true},
		} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				want, writes := tell(t, opts, story, 0, 0)
				for n := range 4 * writes {
					first, second := 1+n/4, n%4
					if got, _ := tell(t, opts, story, first, second); got != want {
						t.Fatalf("cut off after write %d of %d, and again %d writes later:\n%s\nwant\n%s", first, writes, second, got, want)
					}
				}
			})
		}
	}
}

// tell plays a story whose handlers are cut off after the first of so many writes, and a second
// time so many writes later. 0 is not at all. It returns what is left, and the number of writes.
func tell(t *testing.T, opts Options, story []step, first, second int) (state string, writes int) {
	w := newWorld(t, opts)
	w.wire.cut = first
	for _, s := range story {
		s.do(w)
		if first > 0 && w.wire.writes >= first && w.wire.cut == first {
			w.wire.cut = w.wire.writes + second
		}
	}
	if w.runs.differ > 0 {
		t.Errorf("an execution was started again with another input: to Step Functions that is another one")
	}
	return w.state(), w.wire.writes
}

// TestAnyMixOfDeliveries sends the same few jobs and their ends in any order, doubled, lost, cut
// off and reconciled, and compares with a plain model: a job that ran and succeeded is charged once
// at its true cost, any other not at all, and nothing stays held.
func TestAnyMixOfDeliveries(t *testing.T) {
	for seed := range uint64(100) {
		for _, opts := range []Options{{}, {Hold: 12 * time.Hour}, {Refuse: true}, {Hold: 12 * time.Hour, Refuse: true}} {
			m := &mix{world: newWorld(t, opts), random: rand.New(rand.NewPCG(seed, 0)), succeeded: map[string]bool{}}
			for range 40 {
				m.step()
			}
			if m.end(); t.Failed() {
				t.Fatalf("seed %d %+v\n%s", seed, opts, m.state())
			}
		}
	}
}

// mix is a world in which anything happens to a few jobs, in any order.
type mix struct {
	*world
	random    *rand.Rand
	succeeded map[string]bool
}

// mixed are the jobs, and how many seconds of work each of them becomes.
var mixed = map[string]int64{"a": 600, "b": 900, "c": 1500, "d": 60, "e": 1800}

// step lets one thing happen to one of the jobs. In half of all cases the handler is cut off.
func (m *mix) step() {
	job := []string{"a", "b", "c", "d", "e"}[m.random.IntN(len(mixed))]
	name := ExecutionName(job, 1)
	m.wire.cut = 0
	if m.random.IntN(2) == 0 {
		m.wire.cut = m.wire.writes + 1 + m.random.IntN(4)
	}
	_, ran := m.runs.known[name]
	switch action := m.random.IntN(6); {
	case action < 2:
		m.send(body(job, "alice", "generative", 900)) // 60 slots: a fourth is one too many
	case !ran:
	case action == 2 || action == 3 && m.random.IntN(3) > 0:
		m.succeeded[job] = true
		m.ends(name, fmt.Sprintf(`{"durationSeconds":%d}`, mixed[job]))
	case action == 3 && !m.succeeded[job]:
		m.ends(name, "")
	case action == 4:
		if status := m.runs.known[name].Status; status != "RUNNING" {
			m.changes(name, status)
		}
		if m.random.IntN(2) == 0 {
			m.changes(name, "FAILED")
		}
	default:
		reconciled.do(m.world)
	}
}

// end lets what still runs fail, reconciles, and compares with the model.
func (m *mix) end() {
	m.wire.cut = 0
	for job := range mixed {
		if _, ran := m.runs.known[ExecutionName(job, 1)]; ran && !m.succeeded[job] {
			m.ends(ExecutionName(job, 1), "")
		}
	}
	reconciled.do(m.world)
	var used int64
	for job, seconds := range mixed {
		j, found, _ := m.jobs.Get(context.Background(), job)
		cost := 4 * ((seconds + 59) / 60)
		done := m.succeeded[job]
		switch {
		case !found:
		case done && j.Status == Succeeded && j.Charge == Charged && j.Cost == cost:
			used += cost
		case done && m.p.opts.Refuse && j.Status == Unpaid:
		case !done && (j.Status == Failed || j.Status == OverQuota):
		default:
			m.t.Errorf("job %s succeeded %v, its record is %+v", job, done, j)
		}
	}
	m.wantUsed("alice", used, 0)
	if m.p.opts.Refuse && used > 200 {
		m.t.Errorf("%d used", used)
	}
}
