package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/lumcast/headroom"
)

// Reconciliation is what a reconciliation found and did.
type Reconciliation struct {
	Seen     int `json:"seen"`     // jobs that were open for too long
	Finished int `json:"finished"` // of these, brought to their end
	Running  int `json:"running"`  // their executions still run
	Waiting  int `json:"waiting"`  // queued; their messages wait, or lie in the dead-letter queue
	Failed   int `json:"failed"`   // could not be looked at or charged this time
}

// Reconcile finishes jobs that have been open for longer than olderThan: those whose last event never came, and those whose charge is pending. It asks each execution how it stands, and does what the callback would have done.
// It may run twice at a time, and beside the callback. olderThan must leave the usual way time to finish by itself.
func (p *Pipeline) Reconcile(ctx context.Context, olderThan time.Duration) (Reconciliation, error) {
	var found []Job
	if err := p.jobs.Open(ctx, p.now().Add(-olderThan), func(j Job) bool {
		found = append(found, j)
		return true
	}); err != nil {
		return Reconciliation{}, err
	}
	r := Reconciliation{Seen: len(found)}
	var failures []error
	for _, j := range found {
		began := time.Now()
		seen, ended, err := p.reconcile(ctx, j)
		seen.took = time.Since(began)
		switch {
		case err != nil:
			r.Failed++
			failures = append(failures, err)
		case ended:
			r.Finished++
		case j.Status == Queued:
			r.Waiting++
		default:
			r.Running++
		}
		if ended || err != nil {
			p.report(ctx, atReconcile, seen, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return r, errors.Join(failures...)
}

func (p *Pipeline) reconcile(ctx context.Context, j Job) (seen sighting, ended bool, err error) {
	seen = sighting{job: j}
	switch {
	case j.Status == Succeeded:
		seen, err = p.charge(ctx, j, seen)
		return seen, true, err
	case j.Status != Running:
		return seen, false, nil
	}
	x, found, err := p.executions.Describe(ctx, j.execution())
	if err != nil {
		return seen, false, err
	}
	if !found {
		// The consumer was cut off before the start, and its message has not come back. Should it still do so, the job runs, and its success counts.
		o := outcome{JobID: j.ID, UserID: j.UserID, Attempt: j.Attempt, Held: j.Held, Cause: "its execution was never started: send the job again as a new attempt"}
		seen, err = p.finish(ctx, o)
		return seen, true, err
	}
	o, ended, err := x.outcome(j.execution())
	if err != nil || !ended {
		return seen, false, err
	}
	if o.JobID != j.ID {
		return seen, false, headroom.Errorf(headroom.CodeConflict, nil, "execution %q is of job %q, not of %q", j.execution(), o.JobID, j.ID)
	}
	seen, err = p.finish(ctx, o)
	return seen, true, err
}
