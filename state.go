package headroom

import (
	"slices"
	"time"
)

// HistoryWindows is how many totals of closed windows stay readable, for each counter.
const HistoryWindows = 52

// MaxGrants is how many grants of one key a store keeps at a time.
const MaxGrants = 20

// MaxDebts is how many debts of one key a store keeps at a time.
const MaxDebts = 16

// Key names one state: what a subject has used of a meter.
type Key struct{ Subject, Meter string }

// State is what a store keeps for one key. The zero State is that of a subject that nobody has
// seen.
type State struct {
	Plan     string             // the subject's stored plan, for all its meters; empty: none
	Counters map[string]Counter // by the name of the limit
	// OldHolds are holds by operation id, which older programs kept here, one by one. An engine turns
	// them into records and buckets before it does anything else.
	OldHolds map[string]Record
	// Grants are by id. They may have expired. There are at most MaxGrants.
	Grants map[string]Grant
	// Debts are by operation id: charges whose organisation may not be settled yet. There are at
	// most MaxDebts.
	Debts map[string]Debt
	// Buckets are what holds reserve, those that end first before the others. Some may be over.
	Buckets []Bucket
	// Series is the Series of buckets that are made now. Swept is the latest end of a bucket of this
	// series that was cleared away; zero: none was. A bucket that ends at Swept or before it is not
	// made again in this series: a hold whose bucket was cleared away would take it for its own. If a
	// clock goes back so far that such a bucket is needed, a new series begins.
	Series int64
	Swept  time.Time
	// Operation ids age in two generations. Epoch is the label of the younger one, and EpochBefore
	// that of the older one. They are zero if there is none. An id is remembered while the label of
	// its generation is one of the two. A store may forget a generation by itself only when two of
	// its horizons have passed since its label.
	Epoch, EpochBefore time.Time
}

// holds returns how many holds the buckets count, with those that are over.
func (s State) holds() (n int64) {
	for _, b := range s.Buckets {
		if b.Limit == "" && b.Grant == "" {
			n += b.Units
		}
	}
	return n
}

// unseen reports whether nothing is stored of the subject. Every write of the engine leaves a label
// of ids, so a state without one comes from another writer, or from none.
func (s State) unseen() bool {
	return s.Plan == "" && s.Epoch.IsZero() && len(s.Counters)+len(s.OldHolds)+len(s.Grants)+len(s.Debts) == 0
}

// Counter counts the units of one limit in one window.
type Counter struct {
	Window  Window
	Count   int64 // units charged and held in Window
	Carried int64 // units that Window may use beside its own: the window before left them over
	// Past are totals of closed windows, the latest first, at most HistoryWindows of them. They
	// include the units that holds made in those windows still hold.
	Past []Total
	// Partial says that more totals may be kept elsewhere. Store.Load brings them if Query.History
	// asks for them. They need not all be older than those in Past, where a corrected total may
	// stay.
	Partial bool
}

// rewound reports whether a writer that keeps no history went back to this window. Then units that
// were counted in a window after it are in no count.
func (c Counter) rewound() bool {
	return slices.ContainsFunc(c.Past, func(t Total) bool { return t.Unknown && t.Start.Equal(c.Window.Start) })
}

// Total is what was charged in a closed window.
type Total struct {
	Start   time.Time // first instant of the window, UTC
	Units   int64
	Unknown bool // a writer that keeps no history closed the window
}

// addTotal returns past with the total t in its place, the latest first. It drops the oldest beyond
// HistoryWindows. A total that past has for the same window is replaced, unless that one is
// unknown. A total of no units is left out.
func addTotal(past []Total, t Total) []Total {
	kept := make([]Total, 0, len(past)+1)
	for _, p := range past {
		if !p.Start.Equal(t.Start) {
			kept = append(kept, p)
		} else if p.Unknown {
			t = p
		}
	}
	if t.Units != 0 || t.Unknown {
		at, _ := slices.BinarySearchFunc(kept, t, func(a, b Total) int { return b.Start.Compare(a.Start) })
		kept = slices.Insert(kept, at, t)
	}
	return kept[:min(len(kept), HistoryWindows)]
}

// totalOf returns the total of the window that starts at start, if it is known.
func totalOf(past []Total, start time.Time) (Total, bool) {
	for _, t := range past {
		if t.Start.Equal(start) && !t.Unknown {
			return t, true
		}
	}
	return Total{}, false
}

// Grant is units that a subject has beside those of its plan.
type Grant struct {
	Units   int64
	Used    int64
	Expires time.Time
}

// live reports whether the grant can still be drawn on.
func (g Grant) live(now time.Time) bool { return g.Expires.After(now) }

// left returns how many units the grant has left. It is negative if more is used than there ever
// was.
func (g Grant) left() int64 { return g.Units - g.Used }
