package headroom

import (
	"cmp"
	"context"
)

// Forget removes a subject for good, of each meter, and returns how many rows of the store that took. After an error,
// or where it was cut off, it is called again. See that no work of the subject is under way.
//
// First it finishes what the subject owes to organisations. Where it cannot, it removes nothing and fails with the
// code of that: say, the organisation's item cannot be written now, or the catalog no longer has the meter.
//
// A subject that was forgotten is one that nobody has seen: it has all its units, and a repeat of an operation from
// before is charged anew. A store that cannot forget is Invalid.
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

// settleOf finishes all debts of a subject, also those of meters that the catalog does not know.
func (e *Engine) settleOf(ctx context.Context, subject string) error {
	for after := ""; ; {
		keys, next, err := e.store.Owing(ctx, after, sweepPage)
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
