// Package e2e deploys deploy/aws/template.yaml to an emulator of AWS as a person would, lets the
// real functions run in it, and compares what is left with a plain model.
//
// What the emulator cannot do the test does itself: it has no timeout of a whole execution, so the
// test sends the event TIMED_OUT that AWS would send. The timeout of a step, the events FAILED and
// ABORTED, retries, the queue's redelivery and its dead letters are the emulator's own.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/pipeline"
)

var (
	sunday = time.Date(2026, 5, 31, 23, 59, 0, 0, time.UTC)
	monday = time.Date(2026, 6, 1, 0, 1, 0, 0, time.UTC)
	later  = time.Date(2026, 6, 1, 2, 0, 0, 0, time.UTC)
)

const limit = 200 // slots a week, of the plan "free"

// job is what the model knows of a job before it is sent.
type job struct {
	id, user string
	minutes  float64
	class    string
	work     map[string]any
	succeeds bool
	actual   float64 // minutes that the work comes to
	bad      bool    // cannot be priced
}

func (j job) body() string {
	b, err := json.Marshal(map[string]any{"jobId": j.id, "userId": j.user, "voiceQuality": j.class, "durationSeconds": j.minutes * 60, "work": j.work, "topic": "tides & <moons>"})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func cost(class string, minutes float64) int64 {
	// no work is free for its duration
	return map[string]int64{"standard": 1, "neural": 2, "generative": 4}[class] * int64(max(1, math.Ceil(minutes)))
}

// week is the jobs of one week: users 0-9 stay below their limit whatever happens, 10-15 send a
// burst of more than they have, 16-19 send work that fails.
func week(name string) []job {
	var all []job
	add := func(j job) {
		j.id = fmt.Sprintf("%s/%s-%d", name, j.user, len(all))
		if j.work == nil {
			j.work = map[string]any{}
		}
		if j.succeeds && j.actual == 0 {
			j.actual = j.minutes
		}
		if j.succeeds && j.actual != j.minutes {
			j.work["durationSeconds"] = j.actual * 60
		}
		all = append(all, j)
	}
	user := func(n int) string { return fmt.Sprintf("user-%02d", n) }
	for n := range 10 {
		add(job{user: user(n), minutes: 10, class: "neural", succeeds: true})
		add(job{user: user(n), minutes: 10, class: "neural", succeeds: true, actual: 8.5})
		add(job{user: user(n), minutes: 10, class: "neural", succeeds: true, actual: 12})
		add(job{user: user(n), minutes: 7.5, class: "standard", succeeds: true, work: map[string]any{"failTimes": 1 + n%2}})
		add(job{user: user(n), minutes: 5, class: "generative", work: map[string]any{"fail": "NoVoice"}})
		add(job{user: user(n), minutes: 1, class: "generative", succeeds: true, work: map[string]any{"seconds": 0.5}})
		add(job{user: user(n), minutes: 0, class: "neural", succeeds: true})
		switch n {
		case 0, 1:
			// longer than the step's timeout
			add(job{user: user(n), minutes: 1, class: "standard", work: map[string]any{"seconds": 25}})
		case 2:
			add(job{user: user(n), minutes: 1, class: "velvet", bad: true})
		case 3:
			add(job{user: user(n), minutes: -1, class: "neural", bad: true})
		case 4:
			add(job{user: user(n), minutes: 1e9, class: "neural", bad: true})
		}
	}
	for n := 10; n < 16; n++ {
		for range 14 {
			add(job{user: user(n), minutes: 15, class: "neural", succeeds: true}) // 30 slots: six fit
		}
	}
	for n := 16; n < 20; n++ {
		for range 11 {
			add(job{user: user(n), minutes: 20, class: "neural", work: map[string]any{"fail": "NoVoice"}})
		}
	}
	return all
}

var malformed = []string{
	"not JSON", "{", "[]", `{"jobId":"a"}`, `{"userId":"user-00","voiceQuality":"neural","durationSeconds":60}`, `{"jobId":"","userId":"user-00"}`,
	`{"jobId":"` + strings.Repeat("x", 500) + `","userId":"user-00","voiceQuality":"neural","durationSeconds":60}`,
	`{"jobId":"a\u0000b","userId":"user-00","voiceQuality":"neural","durationSeconds":60}`,
}

func TestThePipelineOnAWS(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	build(t, root)
	headroomProgram := filepath.Join(t.TempDir(), "headroom")
	if out, err := exec.Command("go", "build", "-o", headroomProgram, filepath.Join(root, "cmd/headroom")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	endpoint := enginetest.MiniStack(t, region, "0.1")
	for _, mode := range []string{"preflight", "hold"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s := &stack{t: t, name: mode, endpoint: endpoint, params: []string{"Mode=" + mode}}
			s.deploy(root, sunday)
			t.Logf("deployed in %.1f s", time.Since(began).Seconds())
			// As deployed, a message that fails is looked at again after three minutes, five times.
			if _, err := s.queue.SetQueueAttributes(context.Background(), &sqs.SetQueueAttributesInput{QueueUrl: s.url("QueueUrl"), Attributes: map[string]string{"VisibilityTimeout": "8"}}); err != nil {
				t.Fatal(err)
			}
			m := model{hold: mode == "hold", jobs: map[string]job{}}
			sent := m.run(s, week("sunday"))
			sent += len(malformed)
			s.send(malformed)

			m.stopped(s)
			sent += m.byHand(s, headroomProgram)
			sent += m.overTheTurn(s, root)
			sent += m.run(s, week("monday"))
			sent += m.outage(s)

			// Whatever has been told is told again.
			for _, j := range m.jobs {
				if j.succeeds && strings.Contains(j.id, "user-00") {
					s.invoke(name(s.outputs["CallbackArn"]), lastStep(j))
				}
			}
			s.until("the queue is empty, and the malformed are among the dead letters", func() (bool, string) {
				left, dead := s.depth("QueueUrl"), s.depth("DeadLettersUrl")
				return left == 0 && dead == len(malformed), fmt.Sprintf("%d left, %d dead letters, want %d", left, dead, len(malformed))
			})
			if dead := s.deadLetters(); !slices.Equal(dead, slices.Sorted(slices.Values(malformed))) {
				t.Errorf("dead letters %q", dead)
			}
			m.forgotten(s, root)
			m.outageIsOver(s)
			m.check(s)
			t.Logf("%s: %d messages in %.0f s\n%s", mode, sent, time.Since(began).Seconds(), m.table(s))
		})
	}
}

// model is what should be left.
type model struct {
	hold bool
	jobs map[string]job
	open []string // jobs whose work was done while the callback was out
}

// run sends the jobs of a week, some of them twice, in parts that the machine can carry, and waits
// for their ends.
func (m *model) run(s *stack, jobs []job) (sent int) {
	const part = 60
	for from := 0; from < len(jobs); from += part {
		var bodies, ids []string
		for i, j := range jobs[from:min(from+part, len(jobs))] {
			m.jobs[j.id] = j
			bodies, ids = append(bodies, j.body()), append(ids, j.id)
			if i%5 == 0 {
				bodies = append(bodies, j.body())
			}
		}
		sent += len(bodies)
		s.send(bodies)
		s.settled(ids)
	}
	return sent
}

// stopped starts two executions that end without their last step: one is stopped by hand, of which
// the emulator tells, and one runs out of the state machine's time, of which the test tells.
func (m *model) stopped(s *stack) {
	s.t.Helper()
	for i, how := range []string{"ABORTED", "TIMED_OUT"} {
		j := job{id: "stopped-" + how, user: fmt.Sprintf("user-%02d", i), minutes: 5, class: "neural", work: map[string]any{"seconds": 14, "fail": "NoVoice"}}
		m.jobs[j.id] = j
		s.send([]string{j.body()})
		s.until("it runs", func() (bool, string) {
			out, err := s.runs.DescribeExecution(context.Background(), &sfn.DescribeExecutionInput{ExecutionArn: s.execution(j.id)})
			return err == nil && out.Status == "RUNNING", fmt.Sprint(err)
		})
		if how == "ABORTED" {
			if _, err := s.runs.StopExecution(context.Background(), &sfn.StopExecutionInput{ExecutionArn: s.execution(j.id), Error: aws.String("Operator")}); err != nil {
				s.t.Fatal(err)
			}
		} else {
			s.invoke(name(s.outputs["CallbackArn"]), timedOut(j, m.hold))
		}
		s.settled([]string{j.id})
	}
}

// outage takes the callback away for ten minutes of the state machine's time. The jobs of the first
// half of it use up their tries meanwhile, and their executions end as done, not charged; those of
// the second half are still trying.
func (m *model) outage(s *stack) int {
	s.t.Helper()
	const tenMinutes = 10 * time.Minute / 10 // waits are scaled
	callback := name(s.outputs["CallbackArn"])
	was := s.configure(callback, map[string]string{"HEADROOM_JOBS": "away"})
	began := time.Now()
	for half := range 2 {
		var bodies []string
		for n := range 20 {
			j := job{id: fmt.Sprintf("outage-%d-%02d", half, n), user: fmt.Sprintf("user-%02d", n%10), minutes: 2, actual: 3, class: "standard", succeeds: true, work: map[string]any{"durationSeconds": 180}}
			if n >= 18 {
				j.succeeds, j.actual, j.work = false, 0, map[string]any{"fail": "NoVoice"}
			}
			m.jobs[j.id] = j
			m.open = append(m.open, j.id)
			bodies = append(bodies, j.body())
		}
		s.send(bodies)
		time.Sleep(time.Until(began.Add(time.Duration(half+1) * tenMinutes / 2)))
	}
	all := s.all()
	for _, id := range m.open {
		if all[id].Status != pipeline.Running {
			s.t.Errorf("with the callback out job %s is %s", id, all[id].Status)
		}
	}
	s.configure(callback, was)
	var exhausted, charged int
	s.until("each execution comes to its end", func() (bool, string) {
		exhausted, charged = 0, 0
		for _, id := range m.open {
			out, err := s.runs.DescribeExecution(context.Background(), &sfn.DescribeExecutionInput{ExecutionArn: s.execution(id)})
			switch {
			case err != nil:
				return false, err.Error()
			case out.Status == "RUNNING":
				return false, id
			case aws.ToString(out.Error) == pipeline.DoneNotCharged:
				exhausted++
			case out.Status == "SUCCEEDED":
				charged++
			}
		}
		return true, ""
	})
	if exhausted == 0 || charged == 0 || exhausted+charged != 36 {
		s.t.Errorf("of 36 executions whose work was done %d ended as not charged and %d as charged, want some of each", exhausted, charged)
	}
	s.t.Logf("%s: after an outage of %.0f s: %d of 36 executions charged by their own tries, %d ended as done, not charged", s.name, time.Since(began).Seconds(), charged, exhausted)
	return len(m.open)
}

// outageIsOver expects that a reconciliation has charged what the events of the outage have not.
func (m *model) outageIsOver(s *stack) {
	s.t.Helper()
	s.settled(m.open)
}

// byHand sends jobs, looks at one and reconciles as a person at a terminal does.
func (m *model) byHand(s *stack, program string) int {
	s.t.Helper()
	headroom := func(want string, args ...string) {
		s.t.Helper()
		cmd := exec.Command(program, append(args, "--region", region, "--endpoint", s.endpoint)...)
		cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION="+region, "HEADROOM_QUEUE="+*s.url("QueueUrl"), "HEADROOM_JOBS="+s.outputs["JobsTable"],
			"HEADROOM_STATE_MACHINE="+s.outputs["Machine"], "HEADROOM_STORE=dynamodb:"+s.outputs["UsersTableName"]+"?region="+region+"&ledger="+s.outputs["LedgerTable"]+"&endpoint="+s.endpoint)
		cmd.Stdin = strings.NewReader("jobId,userId,voiceQuality,durationSeconds,title\nhand-2,user-06,standard,60,\"Tides, again\"\nhand-3,user-07,standard,61,\n")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			s.t.Errorf("headroom %q: %v, want %q in\n%s", args, err, want, out)
		}
	}
	for id, j := range map[string]job{"hand-1": {user: "user-05", minutes: 2}, "hand-2": {user: "user-06", minutes: 1}, "hand-3": {user: "user-07", minutes: 61.0 / 60}} {
		j.id, j.class, j.succeeds, j.actual = id, "standard", true, j.minutes
		m.jobs[id] = j
	}
	headroom("sent: 1 job\n", "send", "hand-1", "user-05", "standard", "120")
	headroom("sent: 2 jobs\n", "send", "--csv", "-")
	s.settled([]string{"hand-1", "hand-2", "hand-3"})
	headroom("succeeded, charged", "jobs", "show", "hand-3")
	headroom("hand-2", "jobs", "list", "--user", "user-06")
	headroom("0 jobs open for more than", "reconcile")
	return 3
}

// overTheTurn starts work on Sunday that ends on Monday.
func (m *model) overTheTurn(s *stack, root string) int {
	s.t.Helper()
	var bodies, ids []string
	for n := range 4 {
		j := job{id: fmt.Sprintf("turn-%d", n), user: fmt.Sprintf("user-%02d", n), minutes: 10, actual: 10, class: "neural", succeeds: true, work: map[string]any{"seconds": 12}}
		m.jobs[j.id] = j
		bodies, ids = append(bodies, j.body()), append(ids, j.id)
	}
	s.send(bodies)
	s.until("they run", func() (bool, string) {
		all := s.all()
		for _, id := range ids {
			if all[id].Status != pipeline.Running {
				return false, id
			}
		}
		return true, ""
	})
	s.deploy(root, monday)
	s.settled(ids)
	return len(bodies)
}

// forgotten leaves a job behind whose execution was never started, as if the consumer had died,
// lets the scheduled function find it, and sends its message on.
func (m *model) forgotten(s *stack, root string) {
	s.t.Helper()
	lost := pipeline.Job{ID: "lost", UserID: "user-09", Status: pipeline.Running, Attempt: 1, Class: "neural", Seconds: 60, Cost: 2, Held: m.hold, UpdatedAt: s.clock}
	if done, err := s.jobs.Swap(context.Background(), pipeline.Job{}, lost); err != nil || !done {
		s.t.Fatal(done, err)
	}
	j := job{id: "lost", user: "user-09", class: "neural", minutes: 1, actual: 1, succeeds: true}
	m.jobs["lost"] = j
	s.deploy(root, later)
	open := 0
	for _, is := range s.all() {
		if is.Open() && is.ID != "lost" {
			open++
		}
	}
	s.t.Logf("%s: %d jobs are left to the reconciliation", s.name, open)
	for i, want := range []pipeline.Reconciliation{{Seen: open + 1, Finished: open, Waiting: 1}, {}} {
		var got pipeline.Reconciliation
		if err := json.Unmarshal(s.invoke(s.outputs["ReconcileName"], []byte(`{}`)), &got); err != nil || got != want {
			s.t.Errorf("reconciliation %d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	s.send([]string{j.body()})
	s.settled([]string{"lost"})
}

// check compares what is left with the model.
func (m *model) check(s *stack) {
	s.t.Helper()
	all := s.all()
	if len(all) != len(m.jobs) {
		s.t.Errorf("%d jobs have records, want %d", len(all), len(m.jobs))
	}
	charged := map[string]map[string]int64{} // by user and week
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		j, is := m.jobs[id], all[id]
		if charged[j.user] == nil {
			charged[j.user] = map[string]int64{}
		}
		if is.Charge == pipeline.Charged {
			charged[j.user][is.Week] += is.Cost
		}
		m.checkJob(s, j, is)
	}
	for user, weeks := range charged {
		m.checkUser(s, user, weeks)
	}
}

// checkJob compares a job's record and its executions with the model.
func (m *model) checkJob(s *stack, j job, is pipeline.Job) {
	s.t.Helper()
	var right bool
	switch is.Status {
	case pipeline.OverQuota: // only a user who asks for more than there is runs out of units
		right = j.user >= "user-10" && !j.bad
	case pipeline.Succeeded:
		right = j.succeeds && is.Charge == pipeline.Charged && is.Cost == cost(j.class, j.actual) && is.UserID == j.user
	case pipeline.Failed:
		right = !j.succeeds && is.Charge == ""
	}
	if !right {
		s.t.Errorf("job %+v ended as %+v", j, is)
	}
	// A job that ran has exactly one execution, and one that was refused has none.
	_, err := s.runs.DescribeExecution(context.Background(), &sfn.DescribeExecutionInput{ExecutionArn: s.execution(j.id)})
	if ran := err == nil; ran != (is.Status != pipeline.OverQuota && !j.bad) {
		s.t.Errorf("job %s is %s and ran: %v", j.id, is.Status, ran)
	}
}

// checkUser compares what a user has used with what the jobs' records say was charged.
func (m *model) checkUser(s *stack, user string, charged map[string]int64) {
	s.t.Helper()
	u, err := s.engine.Usage(context.Background(), headroom.UsageRequest{Subject: user, Meter: "slots", Now: later})
	if err != nil {
		s.t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, l := range u.Limits {
		counts[l.Window.Key] = l.Used
		for _, past := range l.History {
			counts[past.Window.Key] = past.Units
		}
		if l.Held != 0 {
			s.t.Errorf("%s holds %d", user, l.Held)
		}
	}
	for _, week := range []string{"2026-W22", "2026-W23"} {
		n := charged[week]
		if counts[week] != n {
			s.t.Errorf("%s: %d counted in %s, want %d", user, counts[week], week, n)
		}
		// Six jobs of 30 fit 200: never fewer, and under holds never more.
		bursts := user >= "user-10" && user < "user-16"
		if bursts && (n < 180 || m.hold && n != 180) {
			s.t.Errorf("%s: %d slots in %s of a limit of %d", user, n, week, limit)
		}
	}
}

// table shows what became of the jobs.
func (m *model) table(s *stack) string {
	type line struct {
		jobs, ran, refused, failed int
		most, free                 int64
	}
	lines := map[string]*line{}
	spent := map[string]int64{}
	for id, is := range s.all() {
		j := m.jobs[id]
		kind := map[bool]string{true: "below the limit", false: "a burst past it"}[j.user < "user-10"]
		if j.user >= "user-16" {
			kind = "work that fails"
		}
		if lines[kind] == nil {
			lines[kind] = &line{}
		}
		l := lines[kind]
		l.jobs++
		switch is.Status {
		case pipeline.Succeeded:
			l.ran++
			spent[j.user+" "+is.Week] += is.Cost
			l.most = max(l.most, spent[j.user+" "+is.Week])
		case pipeline.OverQuota:
			l.refused++
		case pipeline.Failed:
			l.failed++
		}
	}
	for key, n := range spent {
		if key >= "user-10" && key < "user-16" {
			lines["a burst past it"].free += max(0, n-limit)
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "users\tjobs\tcharged\tover quota\tfailed\tmost slots of one user and week\tslots past the limit\t")
	for _, kind := range slices.Sorted(maps.Keys(lines)) {
		l := lines[kind]
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", kind, l.jobs, l.ran, l.refused, l.failed, l.most, l.free)
	}
	_ = w.Flush() // a strings.Builder takes all
	return b.String()
}

func (s *stack) execution(id string) *string {
	return aws.String(strings.Replace(s.outputs["Machine"], ":stateMachine:", ":execution:", 1) + ":" + pipeline.ExecutionName(id, 1))
}

// name is the last part of an ARN.
func name(arn string) string { return arn[strings.LastIndexByte(arn, ':')+1:] }

// lastStep is what the state machine's last step sends of a job that succeeded.
func lastStep(j job) []byte {
	b, err := json.Marshal(map[string]any{"execution": pipeline.ExecutionName(j.id, 1), "status": "SUCCEEDED", "input": json.RawMessage(j.body()), "result": map[string]any{"durationSeconds": j.actual * 60}})
	if err != nil {
		panic(err)
	}
	return b
}

// timedOut is the event of an execution that ran out of the state machine's time.
func timedOut(j job, held bool) []byte {
	var input map[string]any
	if err := json.Unmarshal([]byte(j.body()), &input); err != nil {
		panic(err)
	}
	input["headroom"] = map[string]any{"attempt": 1, "plan": "free", "cost": cost(j.class, j.minutes), "held": held}
	text, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	event, err := json.Marshal(map[string]any{
		"source": "aws.states", "detail-type": "Step Functions Execution Status Change",
		"detail": map[string]any{"name": pipeline.ExecutionName(j.id, 1), "status": "TIMED_OUT", "input": string(text), "inputDetails": map[string]bool{"included": true}},
	})
	if err != nil {
		panic(err)
	}
	return event
}
