package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lumcast/headroom"
)

// TestAnyHistoryEndsWithEachFinishedJobChargedOnce plays long random histories: messages that come
// twice, late or again; work that succeeds, fails, times out or is stopped; last steps and events
// that are lost, late or repeated; redrives, reruns and reconciliations at any time; and all the
// while calls that fail before or after they take effect, handlers that die, and handlers that
// meet. A plain model says what was done. When the faults stop, each job whose work was done is
// charged once at its true cost, no other is charged, and no message is lost.
func TestAnyHistoryEndsWithEachFinishedJobChargedOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { newPlay(t, r).run() })
}

// play is one history.
type play struct {
	*rapid.T
	w     *world
	queue []letter
	dead  []letter
	calls []call // of the callback that are on their way
	last  map[string]Job
	works map[string]*work // by execution
	spent map[string]int64 // otherwise than by jobs, by user
	sent  map[string]bool  // ids of jobs
	raced bool             // handlers meet in the middle of one another
	n     int
}

// letter is a message in the queue.
type letter struct {
	Delivery
	tries int
}

// work is what the model knows of an execution.
type work struct {
	job     string
	attempt int
	done    bool
	cost    int64
	failed  bool // it has ended once without the work done
}

// call is one of the callback.
type call struct {
	execution string
	lastStep  bool
	event     []byte
}

// asks are the jobs: class and seconds as asked, and as done.
var asks = map[string]struct {
	class         string
	seconds, true float64
}{"a": {"neural", 900, 840}, "b": {"generative", 900, 1200}, "c": {"standard", 60, 0}, "d": {"generative", 1500, 1500}, "e": {"velvet", 60, 60}}

var jobIDs = slices.Sorted(maps.Keys(asks))

func newPlay(t *testing.T, r *rapid.T) *play {
	opts := Options{Refuse: rapid.Bool().Draw(r, "refuse")}
	if rapid.Bool().Draw(r, "hold") {
		opts.Hold = 6 * time.Hour
	}
	w := newWorld(t, opts)
	return &play{T: r, w: w, last: map[string]Job{}, works: map[string]*work{}, spent: map[string]int64{}, sent: map[string]bool{}, raced: rapid.Bool().Draw(r, "raced")}
}

// odds draws true once in so many times. Rapid's own ranges favour the ends.
func (p *play) odds(label string, of int) bool { return p.dice(label)%of == of-1 }

func (p *play) dice(label string) (n int) {
	for range 6 {
		n *= 2
		if rapid.Bool().Draw(p.T, label) {
			n++
		}
	}
	return n
}

func pick[T any](p *play, label string, of []T) (int, bool) {
	if len(of) == 0 {
		return 0, false
	}
	return p.dice(label) % len(of), true
}

// handle runs a handler among faults. It reports false of one that died.
func (p *play) handle(faults bool, handler func()) (lived bool) {
	p.w.wire.trouble, p.w.wire.cut = nil, 0
	if faults {
		if p.odds("dies", 6) {
			p.w.wire.cut = p.w.wire.writes + 1 + p.dice("after")%4
		}
		p.w.wire.trouble = func(string) fault {
			if p.raced && p.odds("meets", 20) {
				p.meet()
			}
			switch {
			case !p.odds("fault", 12):
				return fault{}
			case p.odds("late", 2):
				return fault{after: headroom.Errorf(headroom.OutcomeUnknown, nil, "no answer")}
			}
			return fault{before: throttled}
		}
	}
	defer func() {
		p.w.wire.trouble, p.w.wire.cut = nil, 0
		if r := recover(); r != nil {
			if _, cut := r.(crash); !cut {
				panic(r)
			}
			lived = false
		}
	}()
	handler()
	return true
}

// meet lets something happen in the middle of a handler.
func (p *play) meet() {
	trouble, cut := p.w.wire.trouble, p.w.wire.cut
	p.w.wire.trouble, p.w.wire.cut = nil, 0
	switch p.dice("what") % 3 {
	case 0:
		if i, ok := pick(p, "its message", p.queue); ok {
			_, _ = p.w.p.Consume(context.Background(), Batch{Records: []Delivery{p.queue[i].Delivery}})
		}
	case 1:
		if i, ok := pick(p, "its call", p.calls); ok {
			_, _ = p.w.p.Callback(context.Background(), p.calls[i].event)
		}
	case 2:
		_, _ = p.w.p.Reconcile(context.Background(), ReconcileOptions{Workers: 1})
	}
	if p.w.wire.trouble, p.w.wire.cut = trouble, cut; cut > 0 {
		p.w.wire.cut = max(cut, p.w.wire.writes+1)
	}
}

func (p *play) post(user, id string, attempt int) {
	p.n++
	body, err := Send(id, user, asks[id].class, asks[id].seconds, attempt, nil)
	if err != nil {
		p.Fatal(err)
	}
	p.queue = append(p.queue, letter{Delivery: Delivery{MessageID: fmt.Sprint("m", p.n), Body: string(body)}})
	p.sent[id] = true
}

// deliver hands some messages over. What was not handled comes again, and then is a dead letter.
func (p *play) deliver(faults bool, batch []letter) {
	var b Batch
	for _, l := range batch {
		b.Records = append(b.Records, l.Delivery)
	}
	var out BatchFailures
	var err error
	lived := p.handle(faults, func() { out, err = p.w.p.Consume(context.Background(), b) })
	if err != nil {
		p.Fatal(err)
	}
	for _, l := range batch {
		failed := !lived || slices.Contains(out.Items, BatchFailure{l.MessageID})
		if !failed {
			p.taken(l)
			if faults && p.odds("twice", 4) {
				p.queue = append(p.queue, l)
			}
			continue
		}
		if l.tries++; l.tries > 3 {
			p.dead = append(p.dead, l)
		} else {
			p.queue = append(p.queue, l)
		}
	}
}

// taken holds that a message which the queue deletes has done what it can do.
func (p *play) taken(l letter) {
	m, err := parseMessage([]byte(l.Body))
	if err != nil {
		p.Fatal(err)
	}
	j, found := p.w.jobs.jobs[m.JobID]
	_, runs := p.w.runs.known[j.execution()]
	if !found || j.Attempt == m.Attempt && !runs && (j.Status == Queued || j.Status == Running) {
		p.Fatalf("the message of %s is deleted, and its job never starts: %+v", m.JobID, j)
	}
}

// redrive sends a dead letter again as an operator does.
func (p *play) redrive(i int) {
	l, err := ReadLetter(context.Background(), p.w.jobs, []byte(p.dead[i].Body))
	if err != nil {
		p.Fatal(err)
	}
	p.dead = slices.Delete(p.dead, i, i+1)
	if l.Body != nil {
		p.n++
		p.queue = append(p.queue, letter{Delivery: Delivery{MessageID: fmt.Sprint("m", p.n), Body: string(l.Body)}})
	}
}

// running are the executions that stand so.
func (p *play) which(status ...string) (names []string) {
	for name, x := range p.w.runs.known {
		if slices.Contains(status, x.Status) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// work is the model's of an execution.
func (p *play) work(name string) *work {
	if p.works[name] == nil {
		var input struct {
			JobID    string
			Headroom stamp
		}
		if err := json.Unmarshal(p.w.runs.known[name].Input, &input); err != nil {
			p.Fatal(err)
		}
		p.works[name] = &work{job: input.JobID, attempt: input.Headroom.Attempt}
	}
	return p.works[name]
}

// goOn lets the work of an execution end, or the charge step of one whose work has ended.
func (p *play) goOn(name string, final bool) {
	w, x := p.work(name), p.w.runs.known[name]
	ask := asks[w.job]
	result := fmt.Sprintf(`{"durationSeconds":%v}`, ask.true)
	if !w.done && (p.odds("fails", 3) || p.odds("stops", 6)) {
		w.failed = true
		x.Status, x.Error, x.Cause = []string{"FAILED", "TIMED_OUT", "ABORTED"}[p.dice("how")%3], "Synthesis", "no voice"
		p.w.runs.known[name] = x
		p.tell(name, x)
		if x.Status == "FAILED" {
			p.call(name, true, fmt.Sprintf(`{"execution":%q,"status":"FAILED","input":%s,"error":{"Error":"Synthesis"}}`, name, x.Input))
		}
		return
	}
	if !w.done {
		var err error
		if w.cost, err = p.w.p.cost(ask.class, ask.true); err != nil {
			p.Fatal(err)
		}
		w.done = true
		x.Output = []byte(result) // of the work: only the history has it
		p.w.runs.known[name] = x
	}
	p.call(name, true, fmt.Sprintf(`{"execution":%q,"status":"SUCCEEDED","input":%s,"result":%s}`, name, x.Input, result))
	if c := p.calls[len(p.calls)-1]; !p.odds("the last step is late", 2) && p.callback(!final, c) == nil {
		x.Status, x.Error, x.Output = "SUCCEEDED", "", []byte(`{"result":`+result+`}`)
	} else {
		// It is out for hours, or the execution is stopped meanwhile.
		switch p.dice("how it ends") % 4 {
		case 0:
			x.Status, x.Error, x.Cause = "FAILED", DoneNotCharged, result
		case 1:
			x.Status, x.Error, x.Cause = "TIMED_OUT", "", ""
		case 2:
			x.Status, x.Error, x.Cause = "ABORTED", "Operator", "by hand"
		case 3:
			x.Status, x.Error, x.Cause = "FAILED", "States.DataLimitExceeded", "too long"
		}
	}
	p.w.runs.known[name] = x
	p.tell(name, x)
}

// tell sends the event of a change of status, if it is not lost.
func (p *play) tell(name string, x Execution) {
	if p.odds("lost", 3) {
		return
	}
	detail := map[string]any{"name": name, "status": x.Status, "error": x.Error, "cause": x.Cause}
	if !p.odds("long", 4) {
		detail["input"] = string(x.Input)
	}
	if x.Status == "SUCCEEDED" {
		detail["output"] = string(x.Output)
	}
	event, err := json.Marshal(map[string]any{"source": "aws.states", "detail": detail})
	if err != nil {
		p.Fatal(err)
	}
	p.call(name, false, string(event))
}

func (p *play) call(name string, lastStep bool, event string) {
	p.calls = append(p.calls, call{name, lastStep, []byte(event)})
}

// callback delivers a call. An error means that it comes again.
func (p *play) callback(faults bool, c call) (err error) {
	if !p.handle(faults, func() { _, err = p.w.p.Callback(context.Background(), c.event) }) {
		return throttled
	}
	return err
}

func (p *play) reconcile(faults bool, age time.Duration) (r Reconciliation, err error) {
	lived := p.handle(faults, func() { r, err = p.w.p.Reconcile(context.Background(), ReconcileOptions{OlderThan: age, Workers: 1}) })
	if lived && r.Seen != r.Finished+r.Running+r.Waiting+r.Failed || r.Failed > 0 && err == nil {
		p.Fatalf("a reconciliation counts %+v, %v", r, err)
	}
	return r, err
}

// step lets one thing happen to one of the jobs, or time pass.
func (p *play) step() {
	id := jobIDs[p.dice("job")%len(jobIDs)]
	switch p.dice("step") % 12 {
	case 0:
		user := "alice"
		if p.odds("another user", 12) {
			user = "bob"
		}
		p.post(user, id, 1)
	case 1:
		if j := p.w.jobs.jobs[id]; j.Status == Failed {
			p.post(j.UserID, id, j.Attempt+1)
		}
	case 2, 3, 4:
		p.deliverSome()
	case 5:
		if i, ok := pick(p, "letter", p.dead); ok {
			p.redrive(i)
		}
	case 6, 7:
		running := p.which("RUNNING")
		if i, ok := pick(p, "execution", running); ok {
			p.goOn(running[i], false)
		}
	case 8:
		if i, ok := pick(p, "call", p.calls); ok {
			c := p.calls[i]
			if p.callback(true, c) == nil && !p.odds("again", 3) {
				p.calls = slices.Delete(p.calls, i, i+1)
			}
		}
	case 9:
		p.redriveSome()
	case 10:
		_, _ = p.reconcile(true, []time.Duration{0, time.Hour}[p.dice("age")%2])
	case 11:
		p.later()
	}
	p.check()
}

// deliverSome takes a few messages from the queue, in any order, and delivers them.
func (p *play) deliverSome() {
	var batch []letter
	for range 1 + p.dice("batch")%3 {
		if i, ok := pick(p, "message", p.queue); ok {
			batch, p.queue = append(batch, p.queue[i]), slices.Delete(p.queue, i, i+1)
		}
	}
	if len(batch) > 0 {
		p.deliver(true, batch)
	}
}

// redriveSome redrives an execution that has ended, and lets some of those begin that wait for it.
func (p *play) redriveSome() {
	ended := p.which("FAILED", "TIMED_OUT", "ABORTED")
	if i, ok := pick(p, "redrive", ended); ok {
		name := ended[i]
		p.call(name, false, fmt.Sprintf(`{"source":"aws.states","detail":{"name":%q,"status":"PENDING_REDRIVE","error":"Synthesis","input":%q}}`, name, p.w.runs.known[name].Input))
		x := p.w.runs.known[name]
		x.Status, x.Error, x.Cause = []string{"RUNNING", "PENDING_REDRIVE"}[p.dice("at once")%2], "", ""
		p.w.runs.known[name] = x
	}
	for _, name := range p.which("PENDING_REDRIVE") {
		if x := p.w.runs.known[name]; p.odds("begins", 2) {
			x.Status = "RUNNING"
			p.w.runs.known[name] = x
		}
	}
}

// later lets time pass, and sometimes units be spent by another way than a job.
func (p *play) later() {
	if left := monday.AddDate(0, 0, 10).Sub(p.w.clock); left > 0 {
		p.w.clock = p.w.clock.Add(min(left, []time.Duration{time.Minute, time.Hour, 5 * time.Hour, 30 * time.Hour}[p.dice("time")%4]))
	}
	if p.odds("spends", 3) {
		p.n++
		r := headroom.Request{Subject: "alice", Meter: "slots", Operation: fmt.Sprint("spend-", p.n), Cost: 20, Now: p.w.clock}
		if d, err := p.w.engine.Deduct(context.Background(), r); err != nil {
			p.Fatal(err)
		} else if d.Allowed {
			p.spent["alice"] += 20
		}
	}
}

// check holds what is so at all times.
func (p *play) check() {
	charged, pending := maps.Clone(p.spent), map[string]int64{}
	for id, j := range p.w.jobs.jobs {
		was := p.last[id]
		p.last[id] = j
		done := p.works[executionOf(j)]
		switch {
		case was.ID != "" && (was.UserID != j.UserID || was.Attempt > j.Attempt || was.Returns > j.Returns && was.Attempt == j.Attempt):
			p.Fatalf("a job went back: %+v, and then %+v", was, j)
		case (was.Status == OverQuota || was.Status == Unpaid || was.Charge == Charged) && was != j && (was.Status != j.Status || was.Charge != j.Charge || was.Cost != j.Cost || was.Operation != j.Operation):
			p.Fatalf("a job had ended: %+v, and then %+v", was, j)
		case was.Status == Succeeded && (j.Status == Failed || j.Operation != was.Operation):
			p.Fatalf("the first success was %+v, and then %+v", was, j)
		case j.Status == Succeeded && (done == nil || !done.done || done.cost != j.Cost):
			p.Fatalf("it is charged as %+v, and its work was %+v", j, done)
		case j.Status == Failed && j.Decision == decisionFailed && (p.works[j.execution()] == nil || !p.works[j.execution()].failed):
			p.Fatalf("it is failed: %+v, and the work of its attempt did not", j)
		case !p.raced && was.Status == Running && j.Status == Queued && was.Attempt == j.Attempt && p.w.runs.known[j.execution()].Status != "":
			p.Fatalf("it went back to the queue and has an execution: %+v", j)
		}
		switch {
		case j.Charge == Charged:
			charged[j.UserID] += j.Cost
		case j.Status == Succeeded:
			pending[j.UserID] += j.Cost
		}
	}
	for _, user := range []string{"alice", "bob"} {
		used, held := p.total(user)
		if used < charged[user] || used > charged[user]+pending[user] {
			p.Fatalf("%s has used %d: jobs were charged with %d, and %d are pending", user, used, charged[user], pending[user])
		}
		if u, _ := p.w.used(user); p.w.p.opts.Refuse && u+held > 200 {
			p.Fatalf("%s has used %d and holds %d of 200", user, u, held)
		}
	}
	if p.w.runs.differ > 0 {
		p.Fatalf("an execution was started again with another input")
	}
}

// executionOf is the name of the execution whose work a job is charged for.
func executionOf(j Job) string {
	if _, attempt, later := strings.Cut(j.Operation, "\n"); later {
		var n int
		_, _ = fmt.Sscan(attempt, &n)
		return ExecutionName(j.ID, n)
	}
	return ExecutionName(j.ID, 1)
}

// total is what a user has used in all windows, and what is held.
func (p *play) total(user string) (used, held int64) {
	u, err := p.w.engine.Usage(context.Background(), headroom.UsageRequest{Subject: user, Meter: "slots", Now: p.w.clock})
	if err != nil {
		p.Fatal(err)
	}
	used, held = u.Limits[0].Used, u.Limits[0].Held
	for _, w := range u.Limits[0].History {
		used += w.Units
	}
	return used, held
}

func (p *play) run() {
	for range 30 + p.dice("length") {
		p.step()
	}
	p.settle()
	for id := range p.sent {
		j, found := p.w.jobs.jobs[id]
		done := slices.ContainsFunc(slices.Collect(maps.Values(p.works)), func(w *work) bool { return w.job == id && w.done && w.attempt == max(1, j.Attempt) })
		switch {
		case !found || j.Open():
			p.Fatalf("job %s is lost: %+v", id, j)
		case done && j.Charge != Charged && !(p.w.p.opts.Refuse && j.Status == Unpaid):
			p.Fatalf("the work of job %s is done, and it is not charged: %+v", id, j)
		}
	}
	p.w.clock = p.w.clock.Add(7 * time.Hour)
	if r, err := p.reconcile(false, 0); err != nil || r != (Reconciliation{}) {
		p.Fatalf("in the end a reconciliation finds %+v, %v", r, err)
	}
	for _, user := range []string{"alice", "bob"} {
		if _, held := p.total(user); held != 0 {
			p.Fatalf("%s holds %d for ever", user, held)
		}
	}
	p.check()
}

// settle lets all that is under way come to its end, without faults.
func (p *play) settle() {
	for round := 0; ; round++ {
		open := slices.ContainsFunc(slices.Collect(maps.Values(p.w.jobs.jobs)), Job.Open)
		if len(p.queue)+len(p.dead)+len(p.calls)+len(p.which("RUNNING", "PENDING_REDRIVE")) == 0 && !open {
			return
		}
		if round == 50 {
			p.Fatalf("it never ends: %d messages, %d dead, %d calls, executions %v, jobs %+v", len(p.queue), len(p.dead), len(p.calls), p.which("RUNNING", "PENDING_REDRIVE"), p.w.jobs.jobs)
		}
		if batch := p.queue; len(batch) > 0 {
			p.queue = nil
			p.deliver(false, batch)
		}
		for len(p.dead) > 0 {
			p.redrive(0)
		}
		calls := p.calls
		p.calls = nil
		for _, c := range calls {
			if err := p.callback(false, c); err != nil {
				p.Fatalf("%s: %v", c.event, err)
			}
		}
		for _, name := range p.which("RUNNING", "PENDING_REDRIVE") {
			p.goOn(name, true)
		}
		p.w.clock = p.w.clock.Add(61 * time.Minute)
		if r, err := p.reconcile(false, time.Hour); err != nil || r.Failed > 0 {
			p.Fatalf("%+v, %v", r, err)
		}
		p.check()
	}
}
