package pipeline

import "context"

// reconcile finishes one open job. In a dry run it only says what it would do.
func (p *Pipeline) reconcile(ctx context.Context, j Job, dry bool) (seen sighting, ended bool, err error) {
	seen = sighting{job: j}
	switch {
	case j.Status == Succeeded:
		if dry {
			seen.decision = "charge"
			return seen, true, nil
		}
		seen, err = p.charge(ctx, j, seen)
		return seen, true, err
	case !j.mayRun():
		return seen, false, nil
	}
	x, found, err := p.executions.Describe(ctx, j.execution())
	if err != nil {
		return seen, false, err
	}
	if !found && j.Status == Queued {
		return seen, false, nil
	}
	if !found {
		// The consumer was cut off before the start, and the message has not come back yet. When it
		// does, the job runs.
		if dry {
			seen.job.Status, seen.decision = Queued, decisionQueued
			return seen, false, nil
		}
		seen, err = p.putBack(ctx, j)
		return seen, false, err
	}
	o, ended, err := p.ended(ctx, j.execution(), x)
	if err != nil || !ended {
		return seen, false, err
	}
	if o.JobID != j.ID {
		return seen, false, conflict("execution %q is of job %q, not of %q", j.execution(), o.JobID, j.ID)
	}
	if dry {
		seen.decision = x.Status
		return seen, true, nil
	}
	seen, err = p.finish(ctx, o)
	return seen, true, err
}
