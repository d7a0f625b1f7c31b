package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/lumcast/headroom"
)

// charge charges a job whose charge is pending, and notes that in its record. The deduction is the
// last write that matters. If the note is lost, a repeat makes the same deduction again, and is
// told that it was made already.
func (p *Pipeline) charge(ctx context.Context, j Job, seen sighting) (sighting, error) {
	// The record says what to charge, and not the event at hand, so that all repeats ask for the
	// same.
	r := p.request(j, j.Operation)
	// The plan that the user has now decides. The plan at the start is a guess, which saves a
	// request as long as it is right.
	r.Seen = j.Plan
	// Nothing was charged before the work first succeeded, however long ago the job was requested.
	r.Began = j.FinishedAt
	if !p.opts.Refuse {
		r.Over = headroom.RecordOverLimit
	}
	d, err := p.deduct(ctx, r, j.Held)
	if errors.Is(err, headroom.Invalid) {
		d, err = p.chargeByDefault(ctx, j, r, err)
	}
	switch {
	case errors.Is(err, headroom.TooOld):
		// Nobody knows any more whether it was charged, and that must not be guessed.
		j.Status, j.Charge, j.Decision, j.Reason = Unpaid, "", code(err), err.Error()
	case err != nil:
		seen.decision = code(err)
		return seen, err
	case d.Allowed:
		j.Charge, j.Decision, j.Week = Charged, string(d.Reason), d.Window.Key
	default:
		j.Status, j.Charge, j.Decision, j.Week = Unpaid, "", string(d.Reason), d.Window.Key
		j.Reason = refusal(d)
	}
	was := seen.job
	j.UpdatedAt = p.now()
	// If another handler was faster, it has written the same, because there is only one deduction.
	if _, err := p.jobs.Swap(ctx, was, j); err != nil {
		return seen, err
	}
	seen = sighting{job: j, decision: j.Decision, replay: d.Replay, answer: d}
	if j.Status == Unpaid && j.Held {
		return seen, p.release(ctx, j, j.Operation)
	}
	return seen, nil
}

// chargeByDefault charges under the default plan, past the limit if need be. The user's plan may
// have left the configuration, which is why the charge was invalid. The work is done, and must not
// stay uncharged for that. If this fails too, the answer is the first error.
func (p *Pipeline) chargeByDefault(ctx context.Context, j Job, r headroom.Request,
	why error) (headroom.Decision, error) {
	r.AnyPlan, r.Over = true, headroom.RecordOverLimit
	d, err := p.deduct(ctx, r, j.Held)
	if err != nil {
		return d, why
	}
	p.opts.Logger.LogAttrs(ctx, slog.LevelWarn,
		"the plan of the user is not in the configuration: charged under the default plan",
		slog.String("job", j.ID), slog.String("user", j.UserID), slog.String("plan", d.Plan),
		slog.String("error", why.Error()))
	return d, nil
}

// deduct charges a job: by settling its hold if its record says that it has one, or by a plain
// deduction. If the quota knows no such hold, or knows the id for something else, the other way is
// tried. There may be a hold that the record does not tell of, a hold may have been forgotten, and
// an earlier charge may have been made the other way, which is then found as its repeat.
func (p *Pipeline) deduct(ctx context.Context, r headroom.Request, held bool) (headroom.Decision, error) {
	ways := []func(context.Context, headroom.Request) (headroom.Decision, error){
		p.engine.Deduct, p.engine.Settle,
	}
	if held {
		slices.Reverse(ways)
	}
	d, err := ways[0](ctx, r)
	if !errors.Is(err, headroom.NotFound) && !errors.Is(err, headroom.Conflict) {
		return d, err
	}
	other, err := ways[1](ctx, r)
	if !errors.Is(err, headroom.NotFound) && !errors.Is(err, headroom.Conflict) {
		return other, err
	}
	return d, err
}

// refusal says in words why the quota refused.
func refusal(d headroom.Decision) string {
	if d.Reason == headroom.ReasonNeverFits {
		return fmt.Sprintf("%d units do not fit the limit of %d in any window (plan %s)", d.Cost,
			d.Limit, d.Plan)
	}
	return fmt.Sprintf("%d units asked, %d of %d remain in %s (plan %s); more from %s",
		d.Cost, d.Remaining, d.Limit, d.Window.Key, d.Plan, d.Window.End.Format("2006-01-02 15:04 MST"))
}

// code is the code of an error, for records and logs.
func code(err error) string {
	return cmp.Or(string(headroom.CodeOf(err)), "error")
}
