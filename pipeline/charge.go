package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/lumcast/headroom"
)

// charge makes the charge of a job that is marked for it, and notes that. The deduction is the last write that matters: if the note is lost, a repeat makes the same deduction again and is told that it was made.
func (p *Pipeline) charge(ctx context.Context, j Job, seen sighting) (sighting, error) {
	// What is charged stands in the record, not in the event at hand: all repeats ask for the same.
	r := p.request(j, j.Operation)
	// The plan that is stored now decides. That of the start is a guess, which saves a request where it is still right.
	r.Seen = j.Plan
	// Nothing was charged before the work first succeeded, however long ago it was asked for.
	r.Began = j.FinishedAt
	if !p.opts.Refuse {
		r.Over = headroom.OverRecord
	}
	d, err := p.deduct(ctx, r, j.Held)
	if errors.Is(err, headroom.ErrInvalid) {
		// The user's plan may have left the configuration. That is no fault of the work, which is done.
		why := err
		r.AnyPlan, r.Over = true, headroom.OverRecord
		if d, err = p.deduct(ctx, r, j.Held); err != nil {
			err = why
		} else {
			p.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "the plan of the user is not in the configuration: charged under the default plan",
				slog.String("job", j.ID), slog.String("user", j.UserID), slog.String("plan", d.Plan), slog.String("error", why.Error()))
		}
	}
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

// deduct charges a job. What its record says of a hold is tried first, and then the other way: a
// hold may lie in another table, or be longer ago than ids are remembered; a charge that was made
// that other way before is found as its repeat; and a hold may be there that the record knows not of.
func (p *Pipeline) deduct(ctx context.Context, r headroom.Request, held bool) (headroom.Decision, error) {
	ways := []func(context.Context, headroom.Request) (headroom.Decision, error){p.engine.Deduct, p.engine.Settle}
	if held {
		slices.Reverse(ways)
	}
	d, err := ways[0](ctx, r)
	if !errors.Is(err, headroom.ErrNotFound) && !errors.Is(err, headroom.ErrConflict) {
		return d, err
	}
	if other, err := ways[1](ctx, r); !errors.Is(err, headroom.ErrNotFound) && !errors.Is(err, headroom.ErrConflict) {
		return other, err
	}
	return d, err
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
