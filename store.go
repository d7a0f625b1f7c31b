package headroom

import (
	"context"
	"time"
)

// Store keeps the state of subjects. A store moves data and checks guards; it never decides.
// Package storetest is the suite that each must pass.
//
// Each method may be called from many goroutines at once, honours ctx, and fails with an *Error. A
// store that can remove a subject for good is a Forgetter too.
type Store interface {
	// Load returns what is stored for q.Key: the state at one moment, the records remembered for
	// q.IDs, and the time. A key that nobody has written has the zero State, and is no error.
	Load(ctx context.Context, q Query) (View, error)

	// Commit applies c in one atomic step if the guard of c holds for what is stored: see
	// Change.Unmet. It returns the view after it, and true.
	//
	// If the guard does not hold, it writes nothing. It returns the view that the guard was checked
	// against, and false. The view is Unsure if an attempt of this call may take effect all the
	// same, as over a network.
	//
	// After an error other than OutcomeUnknown nothing was written. A Commit that returned true
	// survives a crash, and so does all that a returned view shows.
	Commit(ctx context.Context, c Change) (View, bool, error)

	// SetPlan stores the subject's plan, for all its meters. An empty name removes it.
	SetPlan(ctx context.Context, subject, plan string) error

	// Owing lists keys that may have debts, at most limit of them on a page. It lists every key
	// with a debt that was there when the first page was asked for, and perhaps keys without one.
	//
	// Pages come in an order of the store's own. after is empty for the first page, and then the
	// next of the page before. The last page has an empty next. A page may be empty and not be the
	// last.
	Owing(ctx context.Context, after string, limit int) (keys []Key, next string, err error)

	// Close releases what the store holds. No other call may be under way.
	Close() error
}

// Forgetter is a Store that can remove a subject for good.
type Forgetter interface {
	// Forget removes all that is stored about a subject, under the given meters and under others
	// that the store finds: its plan, counts, history, holds, grants, debts and what is remembered
	// of ids. What belongs to other subjects stays as it is, and so do attributes of somebody
	// else's beside them.
	//
	// Forget is a series of steps, and may be cut off after any of them. Called again, it finishes.
	// What others write about the subject meanwhile may stay. A subject about which nothing is
	// stored is no error.
	//
	// It returns how many rows it removed: an item of a table counts as one, and so does what
	// stands for one elsewhere. progress, unless it is nil, is told after each step how many there
	// are so far.
	Forget(ctx context.Context, subject string, meters []string, progress func(rows int)) (rows int, err error)
}

// Joiner is a Store that can commit changes of several keys in one step. A request of several
// meters needs it.
type Joiner interface {
	// Joins returns nil if the keys can be loaded at one moment and changed in one step. Else its
	// error says why not, and what to do. limits is how many counters the keys have together.
	Joins(keys []Key, limits int) error

	// LoadAll is Load of several keys, which differ, at one moment. It returns one view for each
	// query, in their order.
	LoadAll(ctx context.Context, queries []Query) ([]View, error)

	// CommitAll is Commit of several changes, whose keys differ: it applies all of them in one
	// atomic step if the guard of each holds, and else none. It returns one view for each change,
	// in their order, all of the same moment.
	CommitAll(ctx context.Context, changes []Change) ([]View, bool, error)
}

// Query says what to load.
type Query struct {
	Key Key
	IDs []string // ids whose records are asked for
	// Now takes the place of the store's clock. Zero: the clock holds.
	Now time.Time
	// History asks for all HistoryWindows totals, not only for those at hand.
	History bool
	// Weak says that a view that is a little old will do, if that is cheaper.
	Weak bool
}

// View is what a store knows about a key at one moment.
type View struct {
	State State
	// Records are what is remembered about the ids that were asked for, or that a change names.
	// Holds in State.OldHolds are among them.
	Records map[string]Record
	// Now is the time to decide by: the caller's if there is one, or else that of the clock that
	// the store trusts.
	Now time.Time
	// Memo is the store's own. An engine hands it back in Change.Memo with a change that it makes
	// from this view, so that the store knows what it has seen. It may be nil.
	Memo any
	// Older says that older programs read the key, which know neither debts nor Record.Within. Then
	// the store writes neither for it, and leaves them out of a Change.
	Older bool
	// Unsure says that a Commit whose guard did not hold has lost an attempt to write the change on
	// its way. That attempt may yet arrive when the guard holds.
	Unsure bool
}
