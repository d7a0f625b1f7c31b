package headroom

import (
	"context"
	"maps"
	"math"
	"slices"
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
	// After an error other than ErrOutcomeUnknown nothing was written.
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

// Change is one atomic write and its guard. Except for what it names, it is blind: it holds whatever else other writers did.
type Change struct {
	Key Key
	Now time.Time // takes the place of the store's clock; zero: the clock holds

	Plan       string // guard: the subject's stored plan is this one,
	PlanOrNone bool   // or it has none

	Epoch   time.Time     // guard: the label of the younger generation of ids
	Rotate  time.Time     // the new label, if Epoch is over; the younger generation becomes the older, which is forgotten. Zero: Epoch stays
	Horizon time.Duration // how long ids must at least be remembered. A store that forgets ids of idle subjects by itself keeps a generation until two of the longest horizons after its label, by a clock that is right

	Records []RecordStep
	Steps   []Step      // for counters of the meter, sorted by limit
	Grants  []GrantStep // at most one of each
	// AllGrants is a guard: there are no grants but those that Grants says were there.
	AllGrants bool
	Debts     []DebtStep // at most one of each
}

// RecordStep is what a Change does to what is remembered of one id.
// A record of KindHold lies in State.Holds, at most MaxHolds at a time, which is a guard too; every other kind belongs to the younger generation of remembered ids from then on.
type RecordStep struct {
	ID  string
	Was *Record // guard: this is remembered; nil: nothing is
	Is  *Record // what is remembered after; nil: nothing
}

// GrantStep is what a Change does to one grant: it draws on it, gives units back to it, adds it or ends it.
// At most MaxGrants are there at a time, which is a guard too.
type GrantStep struct {
	ID string
	// Was is a guard: the grant has these Units and ends at this time; nil: there is none. Its Used is no
	// guard. It is what was used when the change was made, for a store that cannot add blindly.
	Was *Grant

	Min, Max int64 // guard, of a grant that was there: what is used of it lies between, both included
	Add      int64 // added to what is used; may be negative

	Is   *Grant // a new grant, also in the place of the one that was there. Nil: none
	Ends bool   // the grant that was there goes
}

// DebtStep is what a Change does to one debt. At most MaxDebts are there at a time, which is a guard too.
type DebtStep struct {
	ID  string // of the operation
	Was *Debt  // guard: the debt is this; nil: there is none
	Is  *Debt  // nil: the debt is gone
}

// Step is what a Change does to one counter.
type Step struct {
	Limit string
	From  Window // guard: the window that the counter stands in; zero: there is no such counter
	To    Window // the window after the change

	Min, Max int64 // guard: the count lies between, both included
	Add      int64 // added to the count; may be negative, the count then stays at least 0 by Min
	Opens    bool  // the counter begins a new window: what it counted becomes history, and it starts again at Add
	Carried  int64 // where From and To are two windows: what that may use beside its own units. Else a guard, unless s.Corrects: this is what it may

	// Fold takes back windows that a wrong clock opened or closed: their totals are added to the count and leave the history. Guard: they are as given.
	Fold []Total
	// Past corrects totals of closed windows by Units, which may be negative. Guard: the history has a known total of each.
	Past []Total
}

// Repeatable reports whether c, applied twice by mistake, changes something only once, since its guard does not hold
// the second time: it changes what is remembered of an id, or a debt, or opens a window. Another must be sent once,
// and not again while its outcome is unknown.
func (c Change) Repeatable() bool {
	return len(c.Records)+len(c.Debts) > 0 || slices.ContainsFunc(c.Steps, func(s Step) bool { return !s.From.same(s.To) })
}

// IDs returns the ids of which c changes what is remembered.
func (c Change) IDs() []string {
	ids := make([]string, len(c.Records))
	for i, r := range c.Records {
		ids[i] = r.ID
	}
	return ids
}

// Holds reports whether the guard of c holds for v, whose Records are those of the ids in c.
func (c Change) Holds(v View) bool {
	if v.State.Plan != c.Plan && !(c.PlanOrNone && v.State.Plan == "") || !v.State.Epoch.Equal(c.Epoch) {
		return false
	}
	for _, r := range c.Records {
		have, remembered := v.Records[r.ID]
		if remembered != (r.Was != nil) || remembered && have.String() != r.Was.String() {
			return false
		}
	}
	for _, g := range c.Grants {
		have, there := v.State.Grants[g.ID]
		if there != (g.Was != nil) || there && !g.holds(have) {
			return false
		}
	}
	if c.AllGrants && len(v.State.Grants) != c.GrantsBefore() {
		return false
	}
	for _, d := range c.Debts {
		have, there := v.State.Debts[d.ID]
		if there != (d.Was != nil) || there && have.String() != d.Was.String() {
			return false
		}
	}
	room := func(have, more, most int) bool { return more <= 0 || have+more <= most }
	return room(len(v.State.Holds), c.MoreHolds(), MaxHolds) && room(len(v.State.Grants), c.MoreGrants(), MaxGrants) && room(len(v.State.Debts), c.MoreDebts(), MaxDebts) &&
		!slices.ContainsFunc(c.Steps, func(s Step) bool { return !s.holds(v.State.Counters[s.Limit]) })
}

// MoreHolds is by how many c changes the number of holds. If it is above 0, MaxHolds is a guard.
func (c Change) MoreHolds() (n int) {
	for _, r := range c.Records {
		if r.Is != nil && r.Is.Kind == KindHold {
			n++
		}
		if r.Was != nil && r.Was.Kind == KindHold {
			n--
		}
	}
	return n
}

// MoreGrants is by how many c changes the number of grants. If it is above 0, MaxGrants is a guard.
func (c Change) MoreGrants() (n int) {
	for _, g := range c.Grants {
		if g.Is != nil {
			n++
		}
		if g.Was != nil && (g.Is != nil || g.Ends) {
			n--
		}
	}
	return n
}

// MoreDebts is by how many c changes the number of debts. If it is above 0, MaxDebts is a guard.
func (c Change) MoreDebts() (n int) {
	for _, d := range c.Debts {
		if d.Is != nil {
			n++
		}
		if d.Was != nil {
			n--
		}
	}
	return n
}

// WithoutDebts is c as a store writes it for programs that know neither debts nor Record.Within.
func (c Change) WithoutDebts() Change {
	c.Debts, c.Records = nil, slices.Clone(c.Records)
	for i, r := range c.Records {
		if r.Is != nil && r.Is.Within != "" {
			is := *r.Is
			is.Within = ""
			c.Records[i].Is = &is
		}
	}
	return c
}

// GrantsBefore is how many grants Grants says were there.
func (c Change) GrantsBefore() (n int) {
	for _, g := range c.Grants {
		if g.Was != nil {
			n++
		}
	}
	return n
}

// holds reports whether the guard of g holds for the grant that is there.
func (g GrantStep) holds(have Grant) bool {
	return have.same(*g.Was) && g.Min <= have.Used && have.Used <= g.Max
}

// Corrects reports whether s only corrects totals of closed windows. It depends on no count then, nor on what was carried over.
func (s Step) Corrects() bool {
	return len(s.Past) > 0 && s.From.same(s.To) && s.Add == 0 && len(s.Fold) == 0
}

func (s Step) holds(c Counter) bool {
	if !c.Window.same(s.From) || s.From.same(s.To) && !s.Corrects() && c.Carried != s.Carried {
		return false
	}
	for _, f := range s.Fold {
		if t, ok := totalOf(c.Past, f.Start); !ok || t.Units != f.Units {
			return false
		}
	}
	for _, p := range s.Past {
		if t, ok := totalOf(c.Past, p.Start); !ok || t.Units+p.Units < 0 {
			return false
		}
	}
	return s.From.IsZero() || s.Min <= c.Count && c.Count <= s.Max
}

// Apply returns the state after c. It does not change the state that it is given.
func (c Change) Apply(s State) State {
	if !c.Rotate.IsZero() {
		s.EpochBefore, s.Epoch = s.Epoch, c.Rotate
	}
	s.Counters, s.Holds, s.Grants = clone(s.Counters), clone(s.Holds), clone(s.Grants)
	for _, step := range c.Steps {
		s.Counters[step.Limit] = step.apply(s.Counters[step.Limit])
	}
	for _, r := range c.Records {
		delete(s.Holds, r.ID)
		if r.Is != nil && r.Is.Kind == KindHold {
			s.Holds[r.ID] = *r.Is
		}
	}
	for _, g := range c.Grants {
		switch is := s.Grants[g.ID]; {
		case g.Is != nil:
			s.Grants[g.ID] = *g.Is
		case g.Ends:
			delete(s.Grants, g.ID)
		default:
			is.Used += g.Add
			s.Grants[g.ID] = is
		}
	}
	if len(c.Debts) > 0 { // most have none
		s.Debts = clone(s.Debts)
	}
	for _, d := range c.Debts {
		delete(s.Debts, d.ID)
		if d.Is != nil {
			s.Debts[d.ID] = *d.Is
		}
	}
	return s
}

// clone copies a map; of a nil map it makes an empty one.
func clone[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

func (s Step) apply(c Counter) Counter {
	if s.Opens {
		if !s.From.IsZero() {
			c.Past = AddTotal(c.Past, Total{Start: s.From.Start, Units: c.Count})
		}
		c.Count = 0
	}
	for _, f := range s.Fold {
		c.Count += f.Units
		c.Past = AddTotal(c.Past, Total{Start: f.Start})
	}
	for _, p := range s.Past {
		t, _ := totalOf(c.Past, p.Start)
		c.Past = AddTotal(c.Past, Total{Start: p.Start, Units: t.Units + p.Units})
	}
	c.Count += s.Add
	if c.Window = s.To; !s.From.same(s.To) {
		c.Carried = s.Carried
	}
	return c
}

// anyCount is the greatest count, or use of a grant, to which add can still be added.
func anyCount(add int64) int64 { return math.MaxInt64 - max(0, add) }
