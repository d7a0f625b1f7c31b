package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/lumcast/headroom"
)

// accept handles one delivery.
func (p *Pipeline) accept(ctx context.Context, d Delivery) (sighting, error) {
	m, err := parseMessage(unwrap([]byte(d.Body)))
	seen := sighting{message: d.MessageID, job: Job{ID: m.JobID, UserID: m.UserID, Attempt: m.Attempt}}
	if err != nil {
		return seen, err
	}
	for range swapTries {
		have, found, err := p.jobs.Get(ctx, m.JobID)
		if err != nil {
			return seen, err
		}
		if found && have.UserID != m.UserID {
			return seen, conflict("job %q is another user's", m.JobID)
		}
		job, due, err := m.due(have, found)
		if err != nil || !due {
			seen.job, seen.decision = job, decisionRepeat
			return seen, err
		}
		if job.Status == Running {
			// Nobody knows whether the delivery that wrote this came as far as the start. To start again is harmless, to ask for quota again is not: the job may be what used it up.
			again, err := p.covered(ctx, job)
			if err != nil {
				return seen, err
			}
			if again {
				seen.job, seen.decision, seen.replay = job, decisionStarted, true
				return seen, p.start(ctx, m, job)
			}
		}
		if job.RequestedAt.IsZero() {
			job.RequestedAt = p.requested(d)
		}
		next, answer, err := p.admit(ctx, m, job, found)
		if errors.Is(err, headroom.ErrTooMany) && p.opts.Later != nil {
			return p.wait(ctx, d, have, job, err)
		}
		if err != nil {
			return seen, err
		}
		next.UpdatedAt = p.now()
		swapped, err := p.jobs.Swap(ctx, have, next)
		if err != nil {
			return seen, err
		}
		if !swapped {
			// Another delivery was faster. If it took the job elsewhere, what is held here would only expire.
			p.letGo(ctx, next)
			continue
		}
		seen.job, seen.decision, seen.answer = next, next.Decision, answer
		if next.Status == Running {
			return seen, p.start(ctx, m, next)
		}
		return seen, nil
	}
	return seen, headroom.Errorf(headroom.CodeContended, nil, "job %q changed %d times in a row", m.JobID, swapTries)
}

// due says what a message asks of the job that is recorded: to be decided (queued), to be started (running), or nothing.
func (m message) due(have Job, found bool) (Job, bool, error) {
	if !found {
		return Job{ID: m.JobID, UserID: m.UserID, Status: Queued, Attempt: m.Attempt}, true, nil
	}
	job := have
	job.Attempt = max(job.Attempt, 1) // a record that an application wrote may have none
	switch {
	case !job.Status.known():
		// To take it for done would lose the message.
		return job, false, conflict("the record of job %q has the status %q, which is none of a job's: "+
			"give it the status %q, or remove it", m.JobID, job.Status, Queued)
	case m.Attempt == job.Attempt+1 && job.Status == Failed:
		return Job{ID: m.JobID, UserID: m.UserID, Status: Queued, Attempt: m.Attempt}, true, nil
	case m.Attempt > job.Attempt && job.Status != Succeeded && job.Status != OverQuota && job.Status != Unpaid:
		return job, false, conflict("attempt %d of job %q follows on a failure of attempt %d, but that one is %s", m.Attempt, m.JobID, m.Attempt-1, job.Status)
	case m.Attempt != job.Attempt:
		return job, false, nil
	case job.Status == Running && (cmp.Or(m.noClass, m.noSeconds) != "" || job.Class != m.Class || job.Seconds != m.Seconds):
		return job, false, conflict("job %q was sent before with another class or duration", m.JobID)
	}
	return job, job.Status == Queued || job.Status == Running, nil
}

// requested is when a job was asked for: when its message was sent.
func (p *Pipeline) requested(d Delivery) time.Time {
	ms, err := strconv.ParseInt(d.Attributes["SentTimestamp"], 10, 64)
	if err != nil || p.opts.Clock != nil {
		return p.now().Truncate(time.Millisecond)
	}
	return time.UnixMilli(ms).UTC()
}

// covered reports whether a running job may be started, perhaps for the second time. One that runs
// by a hold may while that lives, and it then lives on from now. Where the hold is over, only an
// execution tells whether the job began in time: if there is none, the job has to ask anew.
func (p *Pipeline) covered(ctx context.Context, j Job) (bool, error) {
	if !j.Held || !p.holds() {
		return true, nil
	}
	r := p.request(j, operation(j.ID, j.Attempt))
	r.AnyPlan = true // it was admitted under another
	_, err := p.engine.Extend(ctx, r, p.opts.Hold)
	if !errors.Is(err, headroom.ErrExpired) && !errors.Is(err, headroom.ErrNotFound) && !errors.Is(err, headroom.ErrConflict) {
		return err == nil, err
	}
	_, started, err := p.executions.Describe(ctx, j.execution())
	return started, err
}

// request asks the quota about a job.
func (p *Pipeline) request(j Job, id string) headroom.Request {
	return headroom.Request{Subject: j.UserID, Meter: p.opts.Meter, Operation: id, Cost: j.Cost, Plan: p.opts.Plan, Now: p.decideAt()}
}

// hold reserves what a job asks for, from now on for as long as a hold lasts: also where an earlier
// delivery took it, however long ago.
func (p *Pipeline) hold(ctx context.Context, r headroom.Request) (headroom.Decision, error) {
	r.Renew = true
	d, err := p.engine.Hold(ctx, r, p.opts.Hold)
	if err != nil || !d.Replay || d.Expires.IsZero() {
		// Taken now, or refused. A replay that holds nothing is of what was charged before.
		return d, err
	}
	if _, err = p.engine.Extend(ctx, r, p.opts.Hold); errors.Is(err, headroom.ErrExpired) {
		return p.engine.Hold(ctx, r, p.opts.Hold) // it ended this moment
	}
	return d, err
}

// The shortest and the longest time that a message waits for a hold of its user to end.
const (
	shortestWait = 15 * time.Second
	longestWait  = 15 * time.Minute // what a queue delays a message at most
)

// wait sends the message of a job again, since its user holds as much as there can be held at once.
// It waits a quarter of what it has waited, so that it starts not much later than it could.
func (p *Pipeline) wait(ctx context.Context, d Delivery, have, job Job, why error) (sighting, error) {
	now := p.now()
	seen := sighting{message: d.MessageID, job: job, decision: decisionWaits}
	if have.Status != job.Status || have.Attempt != job.Attempt {
		// Its record says that it waits, and since when.
		job.Reason, job.UpdatedAt = clip(why.Error()), now
		if _, err := p.jobs.Swap(ctx, have, job); err != nil {
			return seen, err
		}
	}
	after := min(max(now.Sub(job.RequestedAt)/4, shortestWait), longestWait)
	return seen, p.opts.Later(ctx, d, after.Truncate(time.Second))
}

// admit asks whether a queued job may start, and returns the record that says so. found says that
// it had a record before.
func (p *Pipeline) admit(ctx context.Context, m message, j Job, found bool) (Job, headroom.Decision, error) {
	j.Class, j.Seconds = m.Class, m.Seconds
	var d headroom.Decision
	var err error
	if j.Cost, err = p.asked(m); err == nil {
		err = m.fits(j, p.holds())
	}
	if err == nil {
		r := p.request(j, operation(j.ID, j.Attempt))
		if !found {
			// A record says that the job was not charged, however long it has waited.
			r.Began = j.RequestedAt
		}
		if p.holds() {
			d, err = p.hold(ctx, r)
		} else {
			r.Operation = "" // of a job that is only queued nothing is remembered: not to ask saves a look at what left the user's item
			d, err = p.engine.Preflight(ctx, r)
		}
	}
	switch {
	case errors.Is(err, headroom.ErrInvalid), errors.Is(err, headroom.ErrTooOld):
		// The job is known by name, and no repeat will be better: its record says what is wrong.
		j.Status, j.Decision, j.Reason, j.FinishedAt = Failed, code(err), clip(err.Error()), p.now()
		j.Class = clip(j.Class) // it may be as long as a message
		return j, d, nil
	case err != nil:
		return j, d, err
	}
	j.Plan, j.Week, j.Decision = d.Plan, d.Window.Key, string(d.Reason)
	if !d.Allowed {
		if j.Returns > 0 {
			// It went back to the queue because it had no execution. Should it have one by now, it runs, and is not refused.
			if _, started, err := p.executions.Describe(ctx, j.execution()); err != nil || started {
				j.Status, j.Reason = Running, ""
				return j, d, err
			}
		}
		j.Status, j.Reason, j.FinishedAt = OverQuota, refusal(d), p.now()
		return j, d, nil
	}
	j.Status, j.Held, j.StartedAt, j.Reason = Running, p.holds(), p.now(), ""
	return j, d, nil
}

func (p *Pipeline) start(ctx context.Context, m message, j Job) error {
	input, err := m.input(j)
	if err != nil {
		return err
	}
	return p.executions.Start(ctx, j.execution(), input)
}

// letGo releases what a delivery holds for a job that another delivery has decided about: unless that one runs by the same hold.
func (p *Pipeline) letGo(ctx context.Context, mine Job) {
	if !mine.Held {
		return
	}
	now, found, err := p.jobs.Get(ctx, mine.ID)
	if err != nil || !found || now.UserID == mine.UserID && (now.Attempt != mine.Attempt || now.Status != OverQuota) {
		return // in doubt the hold stays, and expires
	}
	p.release(ctx, mine, operation(mine.ID, mine.Attempt))
}

// Send makes the body of a message, for those who queue jobs: what the consumer reads, and fields of the caller's own.
func Send(jobID, userID, class string, seconds float64, attempt int, more map[string]json.RawMessage) ([]byte, error) {
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
