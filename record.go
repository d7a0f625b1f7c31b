package headroom

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind says what an id stands for.
type Kind byte

const (
	KindDeduct Kind = 'd' // a charge
	KindHold   Kind = 'h' // a hold, whose units lie in State.Buckets while it is live
	// KindSettled is a charge that was held before.
	KindSettled Kind = 's'
	// KindReleased is a hold that was released. If Expires is set, it expired instead: older programs
	// remembered it so when they cleared it away.
	KindReleased Kind = 'x'
	KindRefund   Kind = 'r' // a refund
	KindGrant    Kind = 'g' // a grant
)

const kinds = "dhsxrg"

// Record is what a store remembers about an id.
type Record struct {
	Kind Kind
	// Cost is the units that were asked for: by the deduction, the refund or the grant. For a hold
	// it is the estimate, and the true cost once that is settled.
	Cost int64
	// Asked and AtLeast are what was asked for, if fewer units than that could be admitted: see
	// Request.AtLeast. Then Cost is what was admitted. Zero: Cost was asked for.
	Asked, AtLeast int64
	Held           int64     // of KindSettled: the estimate that was held
	Refunded       int64     // units that refunds have given back in all
	Recorded       bool      // charged past the limit under the policy RecordOverLimit
	Expires        time.Time // when a hold or a grant ends
	Series         int64     // of KindHold: of the buckets in which its units lie
	Of             string    // of KindRefund: the id of the operation that it undoes
	// Within names the organisation that pays too, for KindDeduct. Empty: the subject pays alone.
	// See View.Older.
	Within string
	// Also are the other meters that the same request is about, sorted. Each of them has a record
	// under the same id.
	Also []string

	// Windows say what is counted where, without what was refunded. They are sorted by limit, then
	// by start.
	Windows []ChargedWindow
	// Grants say what was drawn from grants, in the order in which it was drawn, without what was
	// refunded.
	Grants  []GrantUse
	Crossed []Crossing // thresholds that the decision crossed
}

// ChargedWindow is what a record counts in one window of one limit.
type ChargedWindow struct {
	Limit string
	Start time.Time
	Units int64
}

// GrantUse is what a record draws from one grant.
type GrantUse struct {
	ID    string
	Units int64
}

// Crossing is a threshold that a decision crossed.
type Crossing struct {
	Limit   string
	Percent int
	Start   time.Time // of the window in which it was crossed
}

// String encodes the record in one line, "d30@week:1779667200". The parts are separated by spaces:
//
//	d30@week:1779667200,day:1779926400*12
//	             the kind, the cost, and for each window the limit, the start in Unix seconds and,
//	             if it is not the cost, the units
//	!            recorded past the limit
//	h75          the estimate that was held
//	?1000:100    what was asked for, and the least that would do, if fewer could be admitted
//	-12          refunded
//	x1779670000  the expiry, in Unix seconds
//	#2           the series of the buckets in which a hold lies, unless it is 0
//	g5:ID        units drawn from a grant; ID is percent-encoded
//	>ID          the operation that a refund undoes, percent-encoded
//	<ORG         the organisation that pays too, percent-encoded
//	&METER       another meter that the request is about, percent-encoded
//	^week:80:1779667200
//	             a threshold that was crossed, in percent, and the start of its window
//
// Stores keep this text. ParseRecord reads it.
func (r Record) String() string {
	var b strings.Builder
	b.WriteByte(byte(r.Kind))
	b.WriteString(strconv.FormatInt(r.Cost, 10))
	for i, w := range r.Windows {
		b.WriteByte("@,"[min(i, 1)])
		b.WriteString(w.Limit + ":" + strconv.FormatInt(w.Start.Unix(), 10))
		if w.Units != r.Cost {
			b.WriteString("*" + strconv.FormatInt(w.Units, 10))
		}
	}
	if r.Recorded {
		b.WriteString(" !")
	}
	if r.AtLeast != 0 {
		b.WriteString(" ?" + strconv.FormatInt(r.Asked, 10) + ":" + strconv.FormatInt(r.AtLeast, 10))
	}
	if r.Held != 0 {
		b.WriteString(" h" + strconv.FormatInt(r.Held, 10))
	}
	if r.Refunded != 0 {
		b.WriteString(" -" + strconv.FormatInt(r.Refunded, 10))
	}
	if !r.Expires.IsZero() {
		b.WriteString(" x" + strconv.FormatInt(r.Expires.Unix(), 10))
	}
	if r.Series != 0 {
		b.WriteString(" #" + strconv.FormatInt(r.Series, 10))
	}
	for _, g := range r.Grants {
		b.WriteString(" g" + strconv.FormatInt(g.Units, 10) + ":" + url.QueryEscape(g.ID))
	}
	if r.Of != "" {
		b.WriteString(" >" + url.QueryEscape(r.Of))
	}
	if r.Within != "" {
		b.WriteString(" <" + url.QueryEscape(r.Within))
	}
	for _, meter := range r.Also {
		b.WriteString(" &" + url.QueryEscape(meter))
	}
	for _, c := range r.Crossed {
		b.WriteString(" ^" + c.Limit + ":" + strconv.Itoa(c.Percent) + ":" + strconv.FormatInt(c.Start.Unix(), 10))
	}
	return b.String()
}

// ParseRecord reads what Record.String wrote. What it cannot read is Unreadable.
func ParseRecord(s string) (Record, error) {
	head, rest, more := strings.Cut(s, " ")
	p := recordParser{ok: head != "" && strings.IndexByte(kinds, head[0]) >= 0}
	if p.ok {
		p.head(head)
	}
	for p.ok && more {
		var part string
		part, rest, more = strings.Cut(rest, " ")
		p.part(part)
	}
	if !p.ok {
		return Record{}, Errorf(Unreadable, nil,
			"stored record %q is not of a known form: a newer version of Headroom may have written it", s)
	}
	return p.r, nil
}

type recordParser struct {
	r  Record
	ok bool
}

func (p *recordParser) head(s string) {
	cost, windows, charged := strings.Cut(s[1:], "@")
	p.r.Kind, p.r.Cost = Kind(s[0]), p.units(cost)
	if !charged {
		return
	}
	for part := range strings.SplitSeq(windows, ",") {
		limit, at, found := strings.Cut(part, ":")
		start, units, own := strings.Cut(at, "*")
		w := ChargedWindow{Limit: limit, Start: p.time(start), Units: p.r.Cost}
		if own {
			w.Units = p.units(units)
		}
		p.ok = p.ok && found && plainName(limit)
		p.r.Windows = append(p.r.Windows, w)
	}
}

func (p *recordParser) part(s string) {
	if s == "" {
		p.ok = false
		return
	}
	switch value := s[1:]; s[0] {
	case '!':
		p.r.Recorded = true
		p.ok = p.ok && value == ""
	case '?':
		asked, least, found := strings.Cut(value, ":")
		p.r.Asked, p.r.AtLeast = p.units(asked), p.units(least)
		p.ok = p.ok && found && p.r.AtLeast > 0
	case 'h':
		p.r.Held = p.units(value)
	case '-':
		p.r.Refunded = p.units(value)
	case 'x':
		p.r.Expires = p.time(value)
	case '#':
		p.r.Series = p.units(value)
	case 'g':
		units, id, _ := strings.Cut(value, ":")
		p.r.Grants = append(p.r.Grants, GrantUse{ID: p.id(id), Units: p.units(units)})
	case '>':
		p.r.Of = p.id(value)
	case '<':
		p.r.Within = p.id(value)
	case '&':
		p.r.Also = append(p.r.Also, p.id(value))
	case '^':
		limit, rest, _ := strings.Cut(value, ":")
		percent, start, _ := strings.Cut(rest, ":")
		n := p.units(percent)
		p.r.Crossed = append(p.r.Crossed, Crossing{Limit: limit, Percent: int(n), Start: p.time(start)})
		p.ok = p.ok && plainName(limit) && n > 0 && n <= MaxThreshold
	default:
		p.ok = false
	}
}

func (p *recordParser) units(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	p.ok = p.ok && err == nil && n >= 0
	return n
}

func (p *recordParser) time(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	p.ok = p.ok && err == nil
	return time.Unix(n, 0).UTC()
}

func (p *recordParser) id(s string) string {
	id, err := url.QueryUnescape(s)
	p.ok = p.ok && err == nil && id != ""
	return id
}

// start returns the start of the last window of limit in which the record counts or counted, or of
// the first one.
func (r Record) start(limit string, first bool) (start time.Time, ok bool) {
	for _, w := range r.Windows {
		if w.Limit == limit && !(ok && first) {
			start, ok = w.Start, true
		}
	}
	return start, ok
}

// expired reports whether a hold or a grant is over at now.
func (r Record) expired(now time.Time) bool { return !r.Expires.After(now) }

// ended returns what is remembered about a hold whose units have come back: where it counted and
// what it crossed, for repeats of it.
func (r Record) ended() Record {
	e := Record{Kind: KindReleased, Cost: r.Cost, Asked: r.Asked, AtLeast: r.AtLeast, Also: r.Also, Windows: slices.Clone(r.Windows), Crossed: r.Crossed}
	for i := range e.Windows {
		e.Windows[i].Units = 0
	}
	return e
}

// take removes units from the windows of each limit, the latest first. It returns the windows with
// what is left, and those with what is taken. It does not change r.
func (r Record) take(units int64) (left []ChargedWindow, taken []ChargedWindow) {
	left = slices.Clone(r.Windows)
	rest := map[string]int64{}
	for _, w := range left {
		rest[w.Limit] = units
	}
	for i := len(left) - 1; i >= 0; i-- {
		n := min(rest[left[i].Limit], left[i].Units)
		rest[left[i].Limit] -= n
		left[i].Units -= n
		taken = append(taken, ChargedWindow{Limit: left[i].Limit, Start: left[i].Start, Units: n})
	}
	return left, taken
}

// addWindow adds a charge to those of a record: to the same window if it is there, or else in its
// place.
func addWindow(windows []ChargedWindow, w ChargedWindow) []ChargedWindow {
	out := make([]ChargedWindow, 0, len(windows)+1)
	placed := false
	for _, have := range windows {
		if !placed && (have.Limit > w.Limit || have.Limit == w.Limit && have.Start.After(w.Start)) {
			out, placed = append(out, w), true
		}
		if !placed && have.Limit == w.Limit && have.Start.Equal(w.Start) {
			have.Units += w.Units
			placed = true
		}
		out = append(out, have)
	}
	if !placed {
		out = append(out, w)
	}
	return out
}

// estimate returns how many units were held, if the record is of a hold.
func (r Record) estimate() (int64, bool) {
	switch r.Kind {
	case KindHold, KindReleased:
		return r.Cost, true
	case KindSettled:
		return r.Held, true
	}
	return 0, false
}

// what says in words what an id stands for.
func (r Record) what() string {
	word := map[Kind]string{
		KindDeduct: "a deduction of", KindHold: "a hold of", KindSettled: "a settled charge of",
		KindReleased: "a hold, now released, of", KindRefund: "a refund of", KindGrant: "a grant of",
	}[r.Kind]
	word += " " + strconv.FormatInt(r.Cost, 10)
	if r.AtLeast > 0 {
		word += " of " + strconv.FormatInt(r.Asked, 10) + " (at least " + strconv.FormatInt(r.AtLeast, 10) + ")"
	}
	return word
}
