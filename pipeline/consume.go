package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/lumcast/headroom"
)

// accept handles one delivery: it decides about the job and starts it, or finds nothing left to do.
func (p *Pipeline) accept(ctx context.Context, d Delivery) (sighting, error) {
	m, err := parseMessage(unwrap([]byte(d.Body)))
	if err != nil {
		return m.sighting(d), err
	}
	for range swapTries {
		seen, done, err := p.take(ctx, d, m)
		if err != nil || done {
			return seen, err
		}
	}
	return m.sighting(d), headroom.Errorf(headroom.Contended, nil,
		"job %q changed %d times in a row", m.JobID, swapTries)
}

// sighting is what is known of a delivery before its job's record has been read.
func (m message) sighting(d Delivery) sighting {
	return sighting{message: d.MessageID, job: Job{ID: m.JobID, UserID: m.UserID, Attempt: m.Attempt}}
}

// take does what a message asks for, going by the job's record as it is now. It returns false if
// another handler changed the record meanwhile: then it has to be read again.
func (p *Pipeline) take(ctx context.Context, d Delivery, m message) (seen sighting, done bool, err error) {
	seen = m.sighting(d)
	have, found, err := p.jobs.Get(ctx, m.JobID)
	if err != nil {
		return seen, false, err
	}
	if found && have.UserID != m.UserID {
		return seen, false, conflict("job %q is another user's", m.JobID)
	}
	job, due, err := m.due(have, found)
	if err != nil || !due {
		seen.job, seen.decision = job, decisionRepeat
		return seen, true, err
	}
	if job.Status == Running {
		// Nobody knows whether the delivery that wrote this got as far as the start. To start the
		// job again is harmless. To ask for quota again is not: this job may be what used it up.
		covered, err := p.covered(ctx, job)
		if err != nil {
			return seen, false, err
		}
		if covered {
			seen.job, seen.decision, seen.replay = job, decisionStarted, true
			return seen, true, p.start(ctx, m, job)
		}
	}
	if job.RequestedAt.IsZero() {
		job.RequestedAt = p.requested(d)
	}
	return p.decide(ctx, d, m, have, job, found)
}

// decide asks whether a job may start, writes the answer into its record, and starts it. have is
// the record as it was read. It returns false if the record has changed since then.
func (p *Pipeline) decide(
	ctx context.Context, d Delivery, m message, have, job Job, found bool,
) (seen sighting, done bool, err error) {
	seen = m.sighting(d)
	next, answer, err := p.admit(ctx, m, job, found)
	if errors.Is(err, headroom.TooMany) && p.opts.Later != nil {
		seen, err = p.wait(ctx, d, have, job, err)
		return seen, true, err
	}
	if err != nil {
		return seen, false, err
	}
	next.UpdatedAt = p.now()
	swapped, err := p.jobs.Swap(ctx, have, next)
	if err != nil {
		return seen, false, err
	}
	if !swapped {
		// Another delivery was faster. If it refused the job, nobody needs what is held here.
		p.letGo(ctx, next)
		return seen, false, nil
	}
	seen.job, seen.decision, seen.answer = next, next.Decision, answer
	if next.Status == Running {
		return seen, true, p.start(ctx, m, next)
	}
	return seen, true, nil
}

// due says what a message asks of the job as it is recorded. It returns true if there is something
// to do: a queued job waits for a decision, and a running one may still have to be started.
func (m message) due(have Job, found bool) (Job, bool, error) {
	if !found {
		return Job{ID: m.JobID, UserID: m.UserID, Status: Queued, Attempt: m.Attempt}, true, nil
	}
	job := have
	job.Attempt = max(job.Attempt, 1) // a record that an application wrote may have none
	switch {
	case !job.Status.known():
		// If it were taken for done, the message would be lost.
		return job, false, conflict("the record of job %q has the status %q, which is none of a job's: "+
			"give it the status %q, or remove it", m.JobID, job.Status, Queued)
	case m.Attempt == job.Attempt+1 && job.Status == Failed:
		return Job{ID: m.JobID, UserID: m.UserID, Status: Queued, Attempt: m.Attempt}, true, nil
	case m.Attempt > job.Attempt && job.Status != Succeeded && job.Status != OverQuota && job.Status != Unpaid:
		return job, false, conflict(
			"attempt %d of job %q follows on a failure of attempt %d, but that one is %s",
			m.Attempt, m.JobID, m.Attempt-1, job.Status)
	case m.Attempt != job.Attempt:
		return job, false, nil
	case job.Status == Running && !m.asksFor(job.Class, job.Seconds):
		return job, false, conflict("job %q was sent before with another class or duration", m.JobID)
	}
	return job, job.Status == Queued || job.Status == Running, nil
}

// asksFor reports whether a message asks for work of that class and duration.
func (m message) asksFor(class string, seconds float64) bool {
	return m.noClass == "" && m.noSeconds == "" && m.Class == class && m.Seconds == seconds
}

// requested is when a job was asked for, which is when its message was sent.
func (p *Pipeline) requested(d Delivery) time.Time {
	ms, err := strconv.ParseInt(d.Attributes["SentTimestamp"], 10, 64)
	if err != nil || p.opts.Clock != nil {
		return p.now().Truncate(time.Millisecond)
	}
	return time.UnixMilli(ms).UTC()
}

// covered reports whether a running job may be started, perhaps for the second time. A job that has
// a hold may start as long as the hold lives, and the hold is then extended from now on. Once the
// hold is over, only an execution can tell that the job began in time. If there is none, the job
// has to ask again.
func (p *Pipeline) covered(ctx context.Context, j Job) (bool, error) {
	if !j.Held || !p.holds() {
		return true, nil
	}
	r := p.request(j, operation(j.ID, j.Attempt))
	r.AnyPlan = true // the plan may have changed since the job was admitted
	_, err := p.engine.Extend(ctx, r.Held(), p.opts.Hold)
	if !noHold(err) {
		return err == nil, err
	}
	_, started, err := p.executions.Describe(ctx, j.execution())
	return started, err
}

// request is the quota's request about a job, under the id of one of its operations.
func (p *Pipeline) request(j Job, id string) headroom.Request {
	return headroom.Request{
		Subject: j.UserID, Meter: p.opts.Meter, Operation: id, Cost: j.Cost, Plan: p.opts.Plan, Now: p.decideAt(),
	}
}

// hold reserves what a job asks for. The hold lasts its full time from now on, even if an earlier
// delivery took it a while ago.
func (p *Pipeline) hold(ctx context.Context, r headroom.Request) (headroom.Decision, error) {
	r.Renew = true
	d, err := p.engine.Hold(ctx, r, p.opts.Hold)
	if err == nil && d.Reason == headroom.ReasonTooManyHolds {
		return d, headroom.Errorf(headroom.TooMany, nil,
			"user %q has as many jobs under way as plan %q permits at a time", r.Subject, d.Plan)
	}
	if err != nil || !d.Replay || !d.Live {
		// It was taken now, or refused. Or it is a replay of a charge, which holds nothing.
		return d, err
	}
	if _, err = p.engine.Extend(ctx, r.Held(), p.opts.Hold); errors.Is(err, headroom.Expired) {
		return p.engine.Hold(ctx, r, p.opts.Hold) // the old one ended between the two calls
	}
	return d, err
}

// The shortest and the longest time that a message waits for a hold of its user to end. A queue
// delays a message by 15 minutes at most.
const (
	shortestWait = 15 * time.Second
	longestWait  = 15 * time.Minute
)

// wait sends the message of a job again, to come back later, because its user has as many holds as
// there can be at once. The delay is a quarter of the time that the job has waited so far. So a
// job starts soon after it could, and a message that waits for long costs few deliveries.
func (p *Pipeline) wait(ctx context.Context, d Delivery, have, job Job, why error) (sighting, error) {
	now := p.now()
	seen := sighting{message: d.MessageID, job: job, decision: decisionWaits}
	if have.Status != job.Status || have.Attempt != job.Attempt {
		// The record says once that the job waits, and since when.
		job.Reason, job.UpdatedAt = clip(why.Error()), now
		if _, err := p.jobs.Swap(ctx, have, job); err != nil {
			return seen, err
		}
	}
	after := min(max(now.Sub(job.RequestedAt)/4, shortestWait), longestWait)
	return seen, p.opts.Later(ctx, d, after.Truncate(time.Second))
}

// admit asks whether a queued job may start, and returns the record that says so. found tells
// whether the job had a record before.
func (p *Pipeline) admit(ctx context.Context, m message, j Job, found bool) (Job, headroom.Decision, error) {
	j.Class, j.Seconds = m.Class, m.Seconds
	var d headroom.Decision
	var err error
	if j.Cost, err = p.asked(m); err == nil {
		err = m.fits(j, p.holds())
	}
	if err == nil {
		d, err = p.ask(ctx, j, found)
	}
	switch {
	case errors.Is(err, headroom.Invalid), errors.Is(err, headroom.TooOld):
		// The message names the job, and no repeat will do better. So the record says what is
		// wrong.
		j.Status, j.Decision, j.Reason, j.FinishedAt = Failed, code(err), clip(err.Error()), p.now()
		j.Class = clip(j.Class) // it may be as long as a message
		return j, d, nil
	case err != nil:
		return j, d, err
	}
	j.Plan, j.Week, j.Decision = d.Plan, d.Window.Key, string(d.Reason)
	if d.Allowed {
		j.Status, j.Held, j.StartedAt, j.Reason = Running, p.holds(), p.now(), ""
		return j, d, nil
	}
	if j.Returns > 0 {
		// It went back to the queue because it had no execution. If it has one by now, it runs, and
		// must not be refused.
		if _, started, err := p.executions.Describe(ctx, j.execution()); err != nil || started {
			j.Status, j.Reason = Running, ""
			return j, d, err
		}
	}
	j.Status, j.Reason, j.FinishedAt = OverQuota, refusal(d), p.now()
	return j, d, nil
}

// ask asks the quota for what a job needs: by a hold, or by a preflight, which reserves nothing.
func (p *Pipeline) ask(ctx context.Context, j Job, found bool) (headroom.Decision, error) {
	r := p.request(j, operation(j.ID, j.Attempt))
	if !found {
		// Without a record only the age of the request tells that the job was not charged before.
		r.Began = j.RequestedAt
	}
	if p.holds() {
		return p.hold(ctx, r)
	}
	// Nothing is remembered about a job that is only queued. To leave its id out saves a look at
	// the ids that have left the user's item.
	r.Operation = ""
	return p.engine.Preflight(ctx, r)
}

// start starts the execution of a job, unless it has one.
func (p *Pipeline) start(ctx context.Context, m message, j Job) error {
	input, err := m.input(j)
	if err != nil {
		return err
	}
	return p.executions.Start(ctx, j.execution(), input)
}

// letGo releases what a delivery holds for a job that another delivery has decided about, unless
// the job runs by that same hold. If this cannot be known, or fails, the hold ends by itself.
func (p *Pipeline) letGo(ctx context.Context, mine Job) {
	if !mine.Held {
		return
	}
	now, found, err := p.jobs.Get(ctx, mine.ID)
	if err != nil || !found ||
		now.UserID == mine.UserID && (now.Attempt != mine.Attempt || now.Status != OverQuota) {
		return
	}
	_ = p.release(ctx, mine, operation(mine.ID, mine.Attempt))
}

// Send makes the body of a message, for those who queue jobs: the fields that the consumer reads,
// and more fields of the caller's own. It fails with headroom.Invalid if the consumer could not
// read it.
func Send(
	jobID, userID, class string, seconds float64, attempt int, more map[string]json.RawMessage,
) ([]byte, error) {
	fields := map[string]any{}
	for name, raw := range more {
		fields[name] = raw
	}
	fields["jobId"], fields["userId"], fields["voiceQuality"], fields["durationSeconds"] = jobID, userID, class, seconds
	if attempt != 1 {
		fields["attempt"] = attempt
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, invalid("the message cannot be written: %v", err)
	}
	_, err = parseMessage(body)
	return body, err
}
