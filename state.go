package headroom

import (
	"slices"
	"time"
)

// HistoryWindows is how many closed windows' totals of each counter stay readable.
const HistoryWindows = 52

// MaxHolds is how many holds of one key a store keeps at a time.
const MaxHolds = 100

// MaxGrants is how many grants of one key a store keeps at a time.
const MaxGrants = 20

// MaxDebts is how many debts of one key a store keeps at a time.
const MaxDebts = 16

// Key names one state: what a subject has used of a meter.
type Key struct{ Subject, Meter string }

// State is what a store keeps for one key. The zero State is that of a subject nobody has seen.
type State struct {
	Plan     string             // the subject's stored plan, shared by its meters; empty if it has none
	Counters map[string]Counter // by the name of the limit
	Holds    map[string]Record  // by operation id: holds that were neither settled nor released; they may have expired. At most MaxHolds
	Grants   map[string]Grant   // by id; they may have expired. At most MaxGrants
	Debts    map[string]Debt    // by operation id: charges of which an organisation may not be settled yet. At most MaxDebts
	// Operation ids age in two generations: Epoch is the label of the younger, EpochBefore of the older; zero if there is none. An id is remembered
	// while its label is one of the two, at least until two of its horizons after its label. Later than that a store may forget it by itself.
	Epoch, EpochBefore time.Time
}

// Counter counts one limit's units in the window that it stands in.
type Counter struct {
	Window  Window
	Count   int64 // units charged and held in Window
	Carried int64 // units that the window before left over and that this one may use beside its own
	// Past holds totals of closed windows, the latest first, at most HistoryWindows. They include what holds of those windows still hold.
	Past []Total
	// Partial says that other totals may be kept elsewhere: Store.Load brings them when Query.History asks. They need not all be older than those in Past, where a corrected total may stay.
	Partial bool
}

// rewound reports whether a writer that keeps no history went back to the window: what counted in windows after it is in no count.
func (c Counter) rewound() bool {
	return slices.ContainsFunc(c.Past, func(t Total) bool { return t.Unknown && t.Start.Equal(c.Window.Start) })
}

// Total is what was charged in a closed window.
type Total struct {
	Start   time.Time // first instant of the window, UTC
	Units   int64
	Unknown bool // a writer that does not keep history closed the window
}

// AddTotal returns past with the total t in its place, latest first, the oldest beyond HistoryWindows dropped. A total that past already has for the same window is replaced, unless it is unknown, and one of nothing is left out.
func AddTotal(past []Total, t Total) []Total {
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

// totalOf returns the known total of the window that starts at start.
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

// same reports whether g and o are one grant, however much of it is used.
func (g Grant) same(o Grant) bool { return g.Units == o.Units && g.Expires.Equal(o.Expires) }

// left is what the grant has left. It is negative where more is used than there ever was.
func (g Grant) left() int64 { return g.Units - g.Used }
