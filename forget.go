package headroom

import (
	"cmp"
	"context"
)

// Forget removes a subject for good, with all its meters, and returns how many rows of the store
// that took. progress, unless it is nil, is told after each step how many rows are removed so far.
// See that no work of the subject is under way. After an error, or if it was cut off, call it
// again.
//
// First it settles what the subject owes to organisations. If it cannot, it removes nothing, and
// fails with the code of that failure: the organisation's item cannot be written now, or the
// catalog no longer has the meter.
//
// A subject that was forgotten is one that nobody has seen. It has all its units, and a repeat of
// an operation from before is charged anew. If the store is no Forgetter, the error is Invalid.
func (e *Engine) Forget(ctx context.Context, subject string, progress func(rows int)) (rows int, err error) {
	if err := checkText("subject", subject, MaxSubject); err != nil {
		return 0, err
	}
	store, ok := e.store.(Forgetter)
	if !ok {
		return 0, invalid("this store cannot forget a subject")
	}
	if err := e.settleOf(ctx, subject); err != nil {
		return 0, Errorf(cmp.Or(CodeOf(err), Unavailable), err, "subject %q may owe units to an organisation, which cannot be charged now; "+
			"nothing was removed, try again later", subject)
	}
	if progress == nil {
		progress = func(int) {}
	}
	return store.Forget(ctx, subject, e.rules.catalog.Meters(), progress)
}

// settleOf settles all debts of a subject, with those of meters that the catalog does not know.
func (e *Engine) settleOf(ctx context.Context, subject string) error {
	for after := ""; ; {
		keys, next, err := e.store.Owing(ctx, after, owingPage)
		for _, key := range keys {
			if key.Subject == subject && err == nil {
				_, err = e.settleAll(ctx, key, &silent{})
			}
		}
		if err != nil || next == "" {
			return err
		}
		after = next
	}
}
