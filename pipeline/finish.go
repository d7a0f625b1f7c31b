package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/lumcast/headroom"
)

// Result is what the callback answers the state machine.
type Result struct {
	JobID    string `json:"jobId"`
	Status   Status `json:"status"`
	Charge   Charge `json:"charge,omitempty"`
	Decision string `json:"decision"`
	Cost     int64  `json:"cost"`
	Week     string `json:"week,omitempty"`
	Replay   bool   `json:"replay,omitempty"`
}

// finish brings a job to its end. The first success wins: a failure that comes after it changes nothing, a success after a failure (a redrive) counts.
func (p *Pipeline) finish(ctx context.Context, o outcome) (sighting, error) {
	seen := sighting{job: Job{ID: o.JobID, UserID: o.UserID, Attempt: o.Attempt}}
	for range swapTries {
		have, found, err := p.jobs.Get(ctx, o.JobID)
		if err != nil {
			return seen, err
		}
		if found && have.UserID != o.UserID {
			return seen, conflict("job %q is another user's", o.JobID)
		}
		next := have
		if !found {
			// Started by something else than the consumer, or the record was lost.
			next = Job{ID: o.JobID, UserID: o.UserID, Attempt: o.Attempt, Class: o.Class, Seconds: o.Seconds, Plan: o.Plan, Held: o.Held, RequestedAt: o.RequestedAt}
		}
		next.Attempt = max(next.Attempt, 1)
		var changes bool
		if o.Succeeded {
			changes = p.succeed(&next, o)
		} else {
			changes = fail(&next, o)
		}
		if changes {
			next.UpdatedAt, next.FinishedAt = p.now(), p.now()
			if !found && !o.Ended.IsZero() {
				// Of a job without a record only the execution tells since when it may have been charged.
				next.FinishedAt = o.Ended.UTC()
			}
			swapped, err := p.jobs.Swap(ctx, have, next)
			if err != nil {
				return seen, err
			}
			if !swapped {
				continue
			}
		}
		seen.job, seen.decision, seen.replay = next, next.Decision, !changes
		return p.afterwards(ctx, o, seen)
	}
	return seen, headroom.Errorf(headroom.CodeContended, nil, "job %q changed %d times in a row", o.JobID, swapTries)
}

// succeed marks that the work is done and is to be charged. It reports whether that is new.
func (p *Pipeline) succeed(j *Job, o outcome) bool {
	switch j.Status {
	case Succeeded, OverQuota, Unpaid:
		return false
	}
	p.price(j, o)
	j.Operation = operation(j.ID, o.Attempt)
	if o.Attempt != j.Attempt || !j.Held {
		j.Held = o.Held // of the attempt that did the work
	}
	if j.Plan == "" {
		j.Plan = o.Plan
	}
	if j.RequestedAt.IsZero() {
		j.RequestedAt = o.RequestedAt
	}
	j.Attempt = max(j.Attempt, o.Attempt)
	return true
}

// price says what a job costs whose work is done. Where the result is strange, that is what was
// asked for, and the record says why. Where nothing says what was asked for, the job is owed, and
// its record says that: it must be neither free nor lost.
func (p *Pipeline) price(j *Job, o outcome) {
	j.Status, j.Charge, j.Reason, j.Decision = Succeeded, ChargePending, "", ""
	strange := o.Strange
	if strange == "" {
		cost, err := p.cost(o.Class, o.Seconds)
		if err == nil {
			j.Class, j.Seconds, j.Cost = o.Class, o.Seconds, cost
			return
		}
		strange = err.Error()
	}
	asked, err := p.asked(o.Asked)
	switch {
	case o.Estimate > 0:
		j.Cost = o.Estimate
	case err == nil:
		j.Cost = asked
	case j.Cost == 0:
		j.Status, j.Charge, j.Decision = Unpaid, "", string(headroom.CodeInvalid)
		j.Reason = clip("owed: neither the result nor the message says what the work costs: " + strange)
		return
	}
	if err == nil {
		j.Class, j.Seconds = o.Asked.Class, o.Asked.Seconds
	}
	j.Reason = clip("charged as asked for: " + strange)
}

// putBack gives a job back to the queue whose execution was never started. What it may hold stays
// until it expires: its message may be here at this moment, and start it by that.
func (p *Pipeline) putBack(ctx context.Context, j Job) (sighting, error) {
	next := j
	next.Status, next.Returns, next.StartedAt, next.UpdatedAt = Queued, j.Returns+1, time.Time{}, p.now()
	next.Decision, next.Reason = decisionQueued, "its execution was never started: its message starts it, from the queue or from the dead letters"
	swapped, err := p.jobs.Swap(ctx, j, next)
	if err != nil || !swapped {
		return sighting{job: j}, err
	}
	return sighting{job: next, decision: decisionQueued}, nil
}

// fail marks that the work failed. It reports whether that is new: a failure of an attempt that is not the present one tells nothing.
func fail(j *Job, o outcome) bool {
	switch j.Status {
	case Succeeded, OverQuota, Unpaid, Failed:
		return false
	}
	if o.Attempt != j.Attempt {
		return false
	}
	j.Status, j.Decision, j.Reason = Failed, decisionFailed, o.Cause
	return true
}

// afterwards does what follows on the record, also when the record is not new: the handler that wrote it may have come no further.
func (p *Pipeline) afterwards(ctx context.Context, o outcome, seen sighting) (sighting, error) {
	j := seen.job
	mine := operation(j.ID, o.Attempt)
	switch {
	case j.Status == Succeeded && j.Charge == ChargePending && o.Succeeded:
		return p.charge(ctx, j, seen)
	case j.Status == Succeeded && j.Operation == mine:
		// Charged; or to be charged, which a failure does not hinder.
		return seen, nil
	case j.Status == Queued || j.Status == Running:
		return seen, nil // an older attempt's event
	case o.Held || j.Held && j.Attempt == o.Attempt:
		// This attempt's units are not needed any more.
		return seen, p.release(ctx, j, mine)
	}
	return seen, nil
}

// release gives back what is held. What is not held, or was charged, is left as it is.
func (p *Pipeline) release(ctx context.Context, j Job, id string) error {
	r := p.request(j, id)
	r.AnyPlan = true // what comes back does so under every plan
	_, err := p.engine.Release(ctx, r)
	if errors.Is(err, headroom.ErrNotFound) || errors.Is(err, headroom.ErrExpired) || errors.Is(err, headroom.ErrConflict) {
		return nil
	}
	return err
}

// sighting is what a handler found and did, for its answer and for the log.
type sighting struct {
	message  string // id of the delivery, where there is one
	job      Job
	decision string
	replay   bool
	answer   headroom.Decision
	took     time.Duration
}

func (s sighting) result() Result {
	return Result{JobID: s.job.ID, Status: s.job.Status, Charge: s.job.Charge, Decision: s.decision, Cost: s.job.Cost, Week: s.job.Week, Replay: s.replay}
}
