package headroom

import (
	"context"
	"time"
)

// Store keeps the state of subjects. An implementation moves data and checks guards; it never decides. Package storetest holds the suite that each must pass.
//
// Each method is safe for use by many goroutines, honours ctx, and fails with an *Error.
//
// A store that can remove a subject for good is a Forgetter too.
type Store interface {
	// Load returns what is stored for q.Key: a state as of one moment, the records remembered for q.IDs, and the time.
	// A key that nobody has written has the zero State; that is not an error.
	Load(ctx context.Context, q Query) (View, error)

	// Commit applies c in one atomic step if c's guard holds for what is stored, and returns the view after it and true.
	// If the guard does not hold nothing is written, and the view returned is the one that the guard was checked against, with false. Where an attempt of this call may yet take effect all the same, as over a network, the view is Unsure.
	// After an error other than OutcomeUnknown nothing was written.
	// A Commit that returned true survives a crash, and so does everything that a returned view shows.
	Commit(ctx context.Context, c Change) (View, bool, error)

	// SetPlan stores the subject's plan, for all its meters; an empty name removes it.
	SetPlan(ctx context.Context, subject, plan string) error

	// Owing lists keys that may have debts, at most limit of them: every key that has one which was
	// there when the first page was asked for, and perhaps keys that have none. Pages come in an
	// order of the store's own: after is empty for the first, then the next of the page before.
	// The last page has an empty next. A page may be empty and not be the last.
	Owing(ctx context.Context, after string, limit int) (keys []Key, next string, err error)

	// Close releases what the store holds. No other call may be under way.
	Close() error
}

// Forgetter is what a Store can do beside: remove a subject for good.
type Forgetter interface {
	// Forget removes all that is stored of a subject under the given meters, and under others that the store
	// finds: its plan, counts, history, holds, grants, debts and what is remembered of ids. Whatever belongs to
	// other subjects, or to somebody else's attributes beside them, stays as it is.
	//
	// It is a series of steps and may be cut off after any: called again, it finishes. What others write of the
	// subject meanwhile may stay. progress, unless it is nil, hears after each step how many rows are removed so far.
	// An item of a table, a row and what stands for either count as one. A subject of which there is nothing is no error.
	Forget(ctx context.Context, subject string, meters []string, progress func(rows int)) (rows int, err error)
}

// Query says what to load.
type Query struct {
	Key     Key
	IDs     []string  // ids whose records are asked for
	Now     time.Time // takes the place of the store's clock; zero: the clock holds
	History bool      // bring all HistoryWindows totals, not only those at hand
	Weak    bool      // what is a little old will do, where that is cheaper
}

// View is what a store knows of a key at one moment.
type View struct {
	State   State
	Records map[string]Record // of the ids asked for, or that a change names, those that are remembered; of a hold in State.Holds too
	Now     time.Time         // the time to decide by: the caller's, else that of the clock the store trusts
	// Older says that programs read the key which know neither debts nor Record.Within. The store
	// then writes neither for it, and leaves them out of a Change.
	Older  bool
	Unsure bool // of a Commit whose guard did not hold: an attempt to write the change was lost on its way, and may yet come to where the guard holds
}
