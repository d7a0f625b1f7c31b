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

	// Memo is that of the view from which the change was made: see View. It is no part of the change.
	// A store must do without it.
	Memo any

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

	Buckets []BucketStep // sorted by key, at most one for each bucket
	// MostHolds is a guard: after the change there are at most so many holds, with those that are
	// over and were not cleared away. Zero: any number.
	MostHolds int64
	// Swept is a guard if Sweep is set: State.Swept is this, and State.Series is Series.
	Swept time.Time
	Sweep time.Time // what State.Swept is afterwards; zero: it stays
	// Series is a guard if Sweep is set, or if a step of Buckets may make a bucket: State.Series is
	// this. If NewSeries is true, it is one more afterwards, and State.Swept is zero.
	Series    int64
	NewSeries bool
}

// BucketStep is what a Change does to one bucket.
type BucketStep struct {
	BucketKey
	// There is a guard: the bucket is there, and Min and Max are a guard of its units, both
	// included. If There is false, the bucket is made if it is not there. Then it is a guard that no
	// bucket with this end was cleared away in its series: State.Swept is before Expires, unless
	// NewSeries is true.
	There    bool
	Min, Max int64
	Add      int64 // added to the units; may be negative
	Ends     bool  // the bucket goes
	// In is when the window begins in which the units count from now on. Zero: as before.
	In time.Time
}

// RecordStep is what a Change does to what is remembered about one id. The record belongs to the
// younger generation of ids from then on.
type RecordStep struct {
	ID string
	// Old is a guard: Was lies in State.OldHolds. It leaves them.
	Old bool
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

// Grows returns by how many c changes the number of grants and debts of the key. If one of these is
// above 0, it is a guard that there are at most MaxGrants or MaxDebts after the change.
func (c Change) Grows() (grants, debts int) {
	one := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	for _, g := range c.Grants {
		grants += one(g.Is != nil) - one(g.Was != nil && (g.Is != nil || g.Ends))
	}
	for _, d := range c.Debts {
		debts += one(d.Is != nil) - one(d.Was != nil)
	}
	return grants, debts
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

// GuardsSeries reports whether Series is a guard.
func (c Change) GuardsSeries() bool {
	_, makes := c.Makes()
	return c.NewSeries || !c.Sweep.IsZero() || makes
}

// Makes returns the earliest end of the buckets that c may make. It reports false if there are
// none.
func (c Change) Makes() (earliest time.Time, makes bool) {
	for _, b := range c.Buckets {
		if !b.There && (!makes || b.Expires.Before(earliest)) {
			earliest, makes = b.Expires, true
		}
	}
	return earliest, makes
}

// MoreHolds returns by how many c changes the number of holds that buckets count. How many a bucket
// that goes has counted, a step says with its Min.
func (c Change) MoreHolds() (more int64) {
	for _, b := range c.Buckets {
		switch {
		case b.Limit != "" || b.Grant != "":
		case b.Ends:
			more -= b.Min
		default:
			more += b.Add
		}
	}
	return more
}

// Corrects reports whether s only corrects totals of closed windows. Then it depends neither on the
// count nor on what was carried over.
func (s Step) Corrects() bool {
	return len(s.Past) > 0 && s.From.same(s.To) && s.Add == 0 && len(s.Fold) == 0
}

// anyCount returns the greatest count, or use of a grant, to which add can be added within int64.
func anyCount(add int64) int64 { return math.MaxInt64 - max(0, add) }
