package headroom

import (
	"math"
	"slices"
	"time"
)

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

// Grows says by how many c changes the number of holds, grants and debts of the key. If one is above
// 0, it is a guard that no more than MaxHolds, MaxGrants or MaxDebts are there after the change.
func (c Change) Grows() (holds, grants, debts int) {
	one := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	for _, r := range c.Records {
		holds += one(r.Is != nil && r.Is.Kind == KindHold) - one(r.Was != nil && r.Was.Kind == KindHold)
	}
	for _, g := range c.Grants {
		grants += one(g.Is != nil) - one(g.Was != nil && (g.Is != nil || g.Ends))
	}
	for _, d := range c.Debts {
		debts += one(d.Is != nil) - one(d.Was != nil)
	}
	return holds, grants, debts
}

// grantsBefore is how many grants Grants says were there.
func (c Change) grantsBefore() (n int) {
	for _, g := range c.Grants {
		if g.Was != nil {
			n++
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

// Corrects reports whether s only corrects totals of closed windows. It depends on no count then, nor on what was carried over.
func (s Step) Corrects() bool {
	return len(s.Past) > 0 && s.From.same(s.To) && s.Add == 0 && len(s.Fold) == 0
}

// anyCount is the greatest count, or use of a grant, to which add can still be added.
func anyCount(add int64) int64 { return math.MaxInt64 - max(0, add) }
