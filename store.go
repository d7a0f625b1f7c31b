package headroom

import (
	"context"
	"math"
	"slices"
	"time"
)

// Store keeps the state of subjects. An implementation moves data and checks guards; it never decides. Package storetest holds the suite that each must pass.
//
// Each method is safe for use by many goroutines, honours ctx, and fails with an *Error.
type Store interface {
	// Load returns what is stored for q.Key: a state as of one moment, the charge remembered for q.Operation, and the time.
	// A key that nobody has written has the zero State; that is not an error.
	Load(ctx context.Context, q Query) (View, error)

	// Commit applies c in one atomic step if c's guard holds for what is stored, and returns the view after it and true.
	// If the guard does not hold nothing is written, and the view returned is the one that the guard was checked against, with false.
	// After an error other than ErrOutcomeUnknown nothing was written.
	// A Commit that returned true survives a crash, and so does everything that a returned view shows.
	Commit(ctx context.Context, c Change) (View, bool, error)

	// SetPlan stores the subject's plan, for all its meters; an empty name removes it.
	SetPlan(ctx context.Context, subject, plan string) error

	// Close releases what the store holds. No other call may be under way.
	Close() error
}

// Query says what to load.
type Query struct {
	Key       Key
	Operation string    // id whose charge is asked for; empty: none
	Now       time.Time // takes the place of the store's clock; zero: the clock holds
	History   bool      // bring all HistoryWindows totals, not only those at hand
	Weak      bool      // what is a little old will do, where that is cheaper
}

// View is what a store knows of a key at one moment.
type View struct {
	State  State
	Charge *Charge   // what the operation asked for was charged; nil if its id is not remembered
	Now    time.Time // the time to decide by: the caller's, else that of the clock the store trusts
}

// Change is one atomic write and its guard. Except for what it names, it is blind: it holds whatever else other writers did.
type Change struct {
	Key       Key
	Now       time.Time // takes the place of the store's clock; zero: the clock holds
	Operation string    // guard: this id is not remembered
	Charge    Charge    // what to remember of it

	Plan       string // guard: the subject's stored plan is this one,
	PlanOrNone bool   // or it has none

	Epoch   time.Time     // guard: the label of the younger generation of ids
	Rotate  time.Time     // the new label, if Epoch is over; the younger generation becomes the older, which is forgotten. Zero: Epoch stays
	Horizon time.Duration // how long ids must at least be remembered: a store that sweeps forgotten ones goes by it

	Steps []Step // one for each counter of the meter, sorted by limit
}

// Step is what a Change does to one counter.
type Step struct {
	Limit string
	From  Window // guard: the window that the counter stands in; zero: there is no such counter
	To    Window // the window after the change

	Min, Max int64 // guard, unless the counter opens a new window: its count lies between, both included
	Add      int64 // added to the count

	// Fold takes back windows that a wrong clock opened or closed: their totals are added to the count and leave the history. Guard: they are as given. Only when To starts before From.
	Fold []Total
}

// Opens reports whether the counter begins a new window: what it counted becomes history, and it starts again at Add.
func (s Step) Opens() bool { return s.From.IsZero() || s.To.Start.After(s.From.Start) }

// Holds reports whether the guard of c holds for v, whose Charge is that of c.Operation.
func (c Change) Holds(v View) bool {
	plan := v.State.Plan == c.Plan || c.PlanOrNone && v.State.Plan == ""
	return plan && v.Charge == nil && v.State.Epoch.Equal(c.Epoch) && !slices.ContainsFunc(c.Steps, func(s Step) bool {
		return !s.holds(v.State.Counters[s.Limit])
	})
}

func (s Step) holds(c Counter) bool {
	if !c.Window.same(s.From) {
		return false
	}
	for _, f := range s.Fold {
		if !slices.ContainsFunc(c.Past, func(t Total) bool { return t.Start.Equal(f.Start) && t.Units == f.Units && t.Unknown == f.Unknown }) {
			return false
		}
	}
	return s.Opens() || s.Min <= c.Count && c.Count <= s.Max
}

// Apply returns the state after c. It does not change the state that it is given.
func (c Change) Apply(s State) State {
	if !c.Rotate.IsZero() {
		s.EpochBefore, s.Epoch = s.Epoch, c.Rotate
	}
	counters := make(map[string]Counter, len(s.Counters)+1)
	for name, counter := range s.Counters {
		counters[name] = counter
	}
	for _, step := range c.Steps {
		counters[step.Limit] = step.apply(counters[step.Limit])
	}
	s.Counters = counters
	return s
}

func (s Step) apply(c Counter) Counter {
	if s.Opens() {
		if !s.From.IsZero() {
			c.Past = AddTotal(c.Past, Total{Start: s.From.Start, Units: c.Count})
		}
		c.Count = 0
	}
	for _, f := range s.Fold {
		c.Count += f.Units
		c.Past = AddTotal(c.Past, Total{Start: f.Start})
	}
	c.Count += s.Add
	c.Window = s.To
	return c
}

// anyCount is the greatest count to which add can still be added.
func anyCount(add int64) int64 { return math.MaxInt64 - add }
