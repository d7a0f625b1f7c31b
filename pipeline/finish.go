package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/lumcast/headroom"
)

// Result is what the callback answers to the state machine.
type Result struct {
	JobID    string `json:"jobId"`
	Status   Status `json:"status"`
	Charge   Charge `json:"charge,omitempty"`
	Decision string `json:"decision"`
	Cost     int64  `json:"cost"`
	Week     string `json:"week,omitempty"`
	Replay   bool   `json:"replay,omitempty"`
}

// finish brings a job to its end. The first success wins: a failure that comes later changes
// nothing. A success that follows a failure counts, because the execution may have been redriven.
func (p *Pipeline) finish(ctx context.Context, o outcome) (sighting, error) {
	for range swapTries {
		seen, marked, err := p.mark(ctx, o)
		if err != nil {
			return o.sighting(), err
		}
		if marked {
			return p.afterwards(ctx, o, seen)
		}
	}
	return o.sighting(), headroom.Errorf(headroom.Contended, nil,
		"job %q changed %d times in a row", o.JobID, swapTries)
}

// sighting is what is known of an outcome before its job's record has been read.
func (o outcome) sighting() sighting {
	return sighting{job: Job{ID: o.JobID, UserID: o.UserID, Attempt: o.Attempt}}
}

// mark writes an outcome into the record of its job, unless the record has it already. It returns
// false if another handler changed the record meanwhile: then it has to be read again.
func (p *Pipeline) mark(ctx context.Context, o outcome) (seen sighting, marked bool, err error) {
	have, found, err := p.jobs.Get(ctx, o.JobID)
	if err != nil {
		return seen, false, err
	}
	if found && have.UserID != o.UserID {
		return seen, false, conflict("job %q is another user's", o.JobID)
	}
	next := have
	if !found {
		// Something other than the consumer started the execution, or the record was lost.
		next = Job{
			ID: o.JobID, UserID: o.UserID, Attempt: o.Attempt, Class: o.Class, Seconds: o.Seconds,
			Plan: o.Plan, Held: o.Held, RequestedAt: o.RequestedAt,
		}
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
			// Without a record only the execution tells since when the job may have been charged.
			next.FinishedAt = o.Ended.UTC()
		}
		if swapped, err := p.jobs.Swap(ctx, have, next); err != nil || !swapped {
			return seen, false, err
		}
	}
	return sighting{job: next, decision: next.Decision, replay: !changes}, true, nil
}

// succeed marks a job as done and to be charged. It reports whether that is new.
func (p *Pipeline) succeed(j *Job, o outcome) bool {
	switch j.Status {
	case Succeeded, OverQuota, Unpaid:
		return false
	}
	p.price(j, o)
	j.Operation = operation(j.ID, o.Attempt)
	if o.Attempt != j.Attempt || !j.Held {
		j.Held = o.Held // what the attempt that did the work holds
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

// price sets what a finished job costs. If the result cannot be read, that is what was asked for,
// and the record says why. If nothing tells what was asked for either, the job is unpaid and its
// record says that it is owed: it must be neither free nor lost.
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
		j.Status, j.Charge, j.Decision = Unpaid, "", string(headroom.Invalid)
		j.Reason = clip("owed: neither the result nor the message says what the work costs: " + strange)
		return
	}
	if err == nil {
		j.Class, j.Seconds = o.Asked.Class, o.Asked.Seconds
	}
	j.Reason = clip("charged as asked for: " + strange)
}

// putBack marks a job as queued again whose execution was never started. What the job holds stays
// until it expires, because a delivery of its message may be starting it at this moment.
func (p *Pipeline) putBack(ctx context.Context, j Job) (sighting, error) {
	next := j
	next.Status, next.Returns, next.StartedAt, next.UpdatedAt = Queued, j.Returns+1, time.Time{}, p.now()
	next.Decision = decisionQueued
	next.Reason = "its execution was never started: its message starts it, from the queue or from the dead letters"
	swapped, err := p.jobs.Swap(ctx, j, next)
	if err != nil || !swapped {
		return sighting{job: j}, err
	}
	return sighting{job: next, decision: decisionQueued}, nil
}

// fail marks a job as failed. It reports whether that is new. The failure of an attempt that is not
// the present one says nothing about the job.
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

// afterwards does what follows from the record. It does so even if the record is not new, because
// the handler that wrote it may have been cut off right after.
func (p *Pipeline) afterwards(ctx context.Context, o outcome, seen sighting) (sighting, error) {
	j := seen.job
	mine := operation(j.ID, o.Attempt)
	switch {
	case j.Status == Succeeded && j.Charge == ChargePending && o.Succeeded:
		return p.charge(ctx, j, seen)
	case j.Status == Succeeded && j.Operation == mine:
		return seen, nil // it is charged, or will be: a failure does not stop that
	case j.Status == Queued || j.Status == Running:
		return seen, nil // this is the event of an older attempt
	case o.Held || j.Held && j.Attempt == o.Attempt:
		// Nobody needs what this attempt holds any more.
		return seen, p.release(ctx, j, mine)
	}
	return seen, nil
}

// release gives back what is held under an id. If nothing is held, or it was charged, it does
// nothing.
func (p *Pipeline) release(ctx context.Context, j Job, id string) error {
	r := p.request(j, id)
	r.AnyPlan = true // units come back under every plan
	_, err := p.engine.Release(ctx, r.Held())
	if noHold(err) {
		return nil
	}
	return err
}

// noHold reports whether err says that an id holds nothing: it never did, the hold is over, or the
// id stands for a charge.
func noHold(err error) bool {
	return errors.Is(err, headroom.NotFound) || errors.Is(err, headroom.Expired) ||
		errors.Is(err, headroom.Conflict)
}

// sighting is what a handler found and did, for its answer and for the log.
type sighting struct {
	message  string // the id of the delivery, if there is one
	job      Job
	decision string
	replay   bool
	answer   headroom.Decision
	took     time.Duration
}

func (s sighting) result() Result {
	return Result{
		JobID: s.job.ID, Status: s.job.Status, Charge: s.job.Charge, Decision: s.decision,
		Cost: s.job.Cost, Week: s.job.Week, Replay: s.replay,
	}
}
