package headroom

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// HistoryWindows is how many closed windows' totals of each counter stay readable.
const HistoryWindows = 52

// Key names one state: what a subject has used of a meter.
type Key struct{ Subject, Meter string }

// State is what a store keeps for one key. The zero State is that of a subject nobody has seen.
type State struct {
	Plan     string             // the subject's stored plan, shared by its meters; empty if it has none
	Counters map[string]Counter // by the name of the limit
	// Operation ids age in two generations: Epoch is the label of the younger, EpochBefore of the older; zero if there is none. An id is remembered while its label is one of the two.
	Epoch, EpochBefore time.Time
}

// Counter counts one limit's units in the window that it stands in.
type Counter struct {
	Window Window
	Count  int64
	Past   []Total // totals of closed windows, the latest first, at most HistoryWindows
	// Partial says that totals older than those in Past may be kept elsewhere: Store.Load brings them when Query.History asks.
	Partial bool
}

// Total is what was charged in a closed window.
type Total struct {
	Start   time.Time // first instant of the window, UTC
	Units   int64
	Unknown bool // a writer that does not keep history closed the window
}

// Kind says what an operation id was used for.
type Kind byte

// KindDeduct is a deduction.
const KindDeduct Kind = 'd'

// Charge is what a store remembers of an operation id.
type Charge struct {
	Kind     Kind
	Cost     int64
	Recorded bool            // charged past the limit under the policy Record
	Windows  []ChargedWindow // the window of each counter that was charged, sorted by limit
}

// ChargedWindow names the window in which a counter was charged.
type ChargedWindow struct {
	Limit string
	Start time.Time
}

// String encodes the charge in one line, "d30@week:1779667200": the kind, the cost, a "!" if it was recorded past the limit, and for each counter the window's start in Unix seconds.
// Stores keep this text; ParseCharge reads it.
func (c Charge) String() string {
	var b strings.Builder
	b.WriteByte(byte(c.Kind))
	b.WriteString(strconv.FormatInt(c.Cost, 10))
	if c.Recorded {
		b.WriteByte('!')
	}
	for i, w := range c.Windows {
		b.WriteByte("@,"[min(i, 1)])
		b.WriteString(w.Limit)
		b.WriteByte(':')
		b.WriteString(strconv.FormatInt(w.Start.Unix(), 10))
	}
	return b.String()
}

// ParseCharge reads what Charge.String wrote. What it cannot read is an ErrFormat.
func ParseCharge(s string) (Charge, error) {
	bad := func() (Charge, error) {
		return Charge{}, Errorf(CodeFormat, nil, "stored charge %q is not of a known form: a newer version of Headroom may have written it", s)
	}
	if s == "" || s[0] != byte(KindDeduct) {
		return bad()
	}
	head, tail, charged := strings.Cut(s[1:], "@")
	c := Charge{Kind: Kind(s[0])}
	head, c.Recorded = strings.CutSuffix(head, "!")
	var err error
	if c.Cost, err = strconv.ParseInt(head, 10, 64); err != nil || c.Cost < 0 {
		return bad()
	}
	if !charged {
		return c, nil
	}
	for part := range strings.SplitSeq(tail, ",") {
		limit, start, found := strings.Cut(part, ":")
		unix, err := strconv.ParseInt(start, 10, 64)
		if !found || err != nil || !plainName(limit) {
			return bad()
		}
		c.Windows = append(c.Windows, ChargedWindow{Limit: limit, Start: time.Unix(unix, 0).UTC()})
	}
	return c, nil
}

// start returns the start of the window in which the counter of limit was charged.
func (c Charge) start(limit string) (time.Time, bool) {
	for _, w := range c.Windows {
		if w.Limit == limit {
			return w.Start, true
		}
	}
	return time.Time{}, false
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
