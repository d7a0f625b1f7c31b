package headroom

import (
	"math"
	"slices"
	"time"
)

// Change is one atomic write and its guard. It is blind except for what it names: it holds whatever
// else other writers did. Unmet checks the guard, and Apply applies the change.
//
// The fields whose comment says "guard" are conditions. The others say what to write.
type Change struct {
	Key Key
	// Now takes the place of the store's clock. Zero: the clock holds.
	Now time.Time

	Plan       string // guard: the subject's stored plan is this one,
	PlanOrNone bool   // or it has none

	Epoch time.Time // guard: the label of the younger generation of ids
	// Rotate begins a new generation of ids with this label. The younger one becomes the older one,
	// which is forgotten. Zero: the generations stay.
	Rotate time.Time
	// Horizon is how long ids must be remembered at least. A store may forget the ids of idle
	// subjects by itself. Then it keeps a generation until two of the longest horizons after its
	// label, by a clock that is right.
	Horizon time.Duration

	Records []RecordStep
	Steps   []Step      // for counters of the meter, sorted by limit
	Grants  []GrantStep // at most one for each grant
	// AllGrants is a guard: there are no grants but those that Grants says were there.
	AllGrants bool
	Debts     []DebtStep // at most one for each debt
}

// RecordStep is what a Change does to what is remembered about one id. A record of KindHold is kept
// in State.Holds. Every other kind belongs to the younger generation of ids from then on. It is a
// guard that there are at most MaxHolds holds after the change.
type RecordStep struct {
	ID  string
	Was *Record // guard: this is remembered; nil: nothing is
	Is  *Record // what is remembered afterwards; nil: nothing
}

// GrantStep is what a Change does to one grant: it draws on it, gives units back to it, adds it or
// removes it. It is a guard that there are at most MaxGrants grants after the change.
type GrantStep struct {
	ID string
	// Was is a guard: the grant has these Units and ends at this time; nil: there is no such grant.
	// Its Used is no guard. It is what was used when the change was made, for a store that cannot
	// add blindly.
	Was *Grant

	// Min and Max are a guard: how much of the grant is used, both included.
	Min, Max int64
	Add      int64 // added to what is used; may be negative

	Is   *Grant // a new grant, which takes the place of the one that was there; nil: none
	Ends bool   // the grant that was there goes
}

// DebtStep is what a Change does to one debt. It is a guard that there are at most MaxDebts debts
// after the change.
type DebtStep struct {
	ID  string // of the operation
	Was *Debt  // guard: this is the debt; nil: there is none
	Is  *Debt  // the debt afterwards; nil: none
}

// Step is what a Change does to one counter.
type Step struct {
	Limit string
	From  Window // guard: the window that the counter counts; zero: there is no such counter
	To    Window // the window that it counts afterwards

	Min, Max int64 // guard: the count, both included
	// Add is added to the count. It may be negative; Min then keeps the count from falling below 0.
	Add int64
	// Opens begins a new window: what was counted becomes history, and the count starts again at
	// Add.
	Opens bool
	// Carried is what the new window may use beside its own units. If the window stays the same, it
	// is a guard: this is what the window may use. It is no guard if the step Corrects.
	Carried int64

	// Fold brings closed windows back that a wrong clock had opened or closed. Their totals are
	// added to the count, and leave the history. Guard: the totals are as given here.
	Fold []Total
	// Past adds Units, which may be negative, to totals of closed windows. Guard: the history has a
	// known total for each, and none falls below 0.
	Past []Total
}

// Repeatable reports whether c can be applied twice by mistake and still takes effect once, since
// its guard does not hold the second time. That is so if it changes what is remembered about an id,
// or a debt, or opens a window. Any other change must be sent once, and not again while its outcome
// is unknown.
func (c Change) Repeatable() bool {
	return len(c.Records)+len(c.Debts) > 0 || slices.ContainsFunc(c.Steps, func(s Step) bool { return !s.From.same(s.To) })
}

// IDs returns the ids about which c changes what is remembered.
func (c Change) IDs() []string {
	ids := make([]string, len(c.Records))
	for i, r := range c.Records {
		ids[i] = r.ID
	}
	return ids
}

// Grows returns by how many c changes the number of holds, grants and debts of the key. If one of
// these is above 0, it is a guard that there are at most MaxHolds, MaxGrants or MaxDebts after the
// change.
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

// grantsBefore returns how many grants there were, as Grants says.
func (c Change) grantsBefore() (n int) {
	for _, g := range c.Grants {
		if g.Was != nil {
			n++
		}
	}
	return n
}

// WithoutDebts returns c as a store writes it for older programs, which know neither debts nor
// Record.Within.
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

// Corrects reports whether s only corrects totals of closed windows. Then it depends neither on the
// count nor on what was carried over.
func (s Step) Corrects() bool {
	return len(s.Past) > 0 && s.From.same(s.To) && s.Add == 0 && len(s.Fold) == 0
}

// anyCount returns the greatest count, or use of a grant, to which add can be added within int64.
func anyCount(add int64) int64 { return math.MaxInt64 - max(0, add) }
