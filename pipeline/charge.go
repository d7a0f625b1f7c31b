package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/lumcast/headroom"
)

// charge makes the charge of a job that is marked for it, and notes that. The deduction is the last write that matters: if the note is lost, a repeat makes the same deduction again and is told that it was made.
func (p *Pipeline) charge(ctx context.Context, j Job, seen sighting) (sighting, error) {
	// What is charged stands in the record, not in the event at hand: all repeats ask for the same.
	r := headroom.Request{
		Subject: j.UserID, Meter: p.opts.Meter, Operation: j.Operation, Cost: j.Cost,
		Plan: j.Plan, Began: j.RequestedAt, Now: p.decideAt(),
	}
	if !p.opts.Refuse {
		r.Over = headroom.OverRecord
	}
	d, err := p.deduct(ctx, r, j.Held)
	switch {
	case errors.Is(err, headroom.ErrTooOld):
		// Whether it was charged cannot be known any more, and must not be guessed.
		j.Status, j.Charge, j.Decision, j.Reason = Unpaid, "", code(err), err.Error()
	case err != nil:
		seen.decision = code(err)
		return seen, err
	case d.Allowed:
		j.Charge, j.Decision, j.Week = Charged, string(d.Reason), d.Window.Key
	default:
		j.Status, j.Charge, j.Decision, j.Reason, j.Week = Unpaid, "", string(d.Reason), refusal(d), d.Window.Key
	}
	was := seen.job
	j.UpdatedAt = p.now()
	// If another has written it before, it has written the same: the deduction was one.
	if _, err := p.jobs.Swap(ctx, was, j); err != nil {
		return seen, err
	}
	seen = sighting{job: j, decision: j.Decision, replay: d.Replay, answer: d}
	if j.Status == Unpaid && j.Held {
		return seen, p.release(ctx, j, j.Operation)
	}
	return seen, nil
}

// deduct charges what was held, or else what was not.
func (p *Pipeline) deduct(ctx context.Context, r headroom.Request, held bool) (headroom.Decision, error) {
	if held {
		d, err := p.engine.Settle(ctx, r)
		if !errors.Is(err, headroom.ErrNotFound) {
			return d, err
		}
		// Held in another table, or longer ago than ids are remembered, which the request's time tells.
	}
	return p.engine.Deduct(ctx, r)
}

// refusal says to a person why a decision fell.
func refusal(d headroom.Decision) string {
	if d.Reason == headroom.ReasonNeverFits {
		return fmt.Sprintf("%d units do not fit the limit of %d in any window (plan %s)", d.Cost, d.Limit, d.Plan)
	}
	return fmt.Sprintf("%d units asked, %d of %d remain in %s (plan %s); more from %s", d.Cost, d.Remaining, d.Limit, d.Window.Key, d.Plan, d.Window.End.Format("2006-01-02 15:04 MST"))
}

func code(err error) string {
	var failure *headroom.Error
	if errors.As(err, &failure) {
		return string(failure.Code)
	}
	return "error"
}
