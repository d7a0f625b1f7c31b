package headroom

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The text of a State and of a Change is one fact a line. It is made for stores that keep or send
// text, and for people who read it. It is plain ASCII without NUL: names stand in quotes, with the
// escapes of a Go string. A time is in UTC as in RFC 3339, or "none", so that no store has to
// choose a number for it. Of equal values the text is the same. The first line names the version:
//
//	headroom state 1
//	plan "free"
//	ids 2026-05-22T00:00:00Z before 2026-05-07T00:00:00Z
//	counter "week" 171 in "2026-W22" 2026-05-25T00:00:00Z 2026-06-01T00:00:00Z
//	past "week" 2026-05-18T00:00:00Z 150
//	hold "job-7" "h30@week:1779667200 x1779897600"
//	swept 2026-05-27T15:55:00Z in series 0
//	bucket of limit "week" 2026-05-25T00:00:00Z until 2026-05-27T16:00:00Z series 0 units 30
//	bucket of holds until 2026-05-27T16:00:00Z series 0 units 1
//	grant "gift" 50 used 20 until 2026-07-01T00:00:00Z
//	debt "job-8" "30 @1779667200 <acme"
//
// The text of a Change says after each name what must be there ("was", "in" or "from", "count 0 to
// 170"), and then what the change does to it:
//
//	headroom change 1
//	key "ada" "slots"
//	plan "free" or none
//	ids 2026-05-22T00:00:00Z
//	horizon 360h0m0s
//	record "job-9" was none is "d30@week:1779667200"
//	step "week" in "2026-W22" 2026-05-25T00:00:00Z 2026-06-01T00:00:00Z count 0 to 170 add 30
//
// Records and debts are written as Record.String and Debt.String write them. The transcripts in
// testdata/transcripts show every kind of line.

const (
	stateText  = "headroom state 1"
	changeText = "headroom change 1"
)

// MarshalText writes s in a form that UnmarshalText reads, with every field. It never fails.
func (s State) MarshalText() ([]byte, error) {
	var w textWriter
	w.line(stateText)
	if s.Plan != "" {
		w.line("plan", quoted(s.Plan))
	}
	if !s.Epoch.IsZero() || !s.EpochBefore.IsZero() {
		w.line("ids", stamp(s.Epoch), "before", stamp(s.EpochBefore))
	}
	for _, limit := range slices.Sorted(maps.Keys(s.Counters)) {
		c := s.Counters[limit]
		w.line("counter", quoted(limit), number(c.Count), "in", c.Window.marshal(),
			given("carried", c.Carried), flag("partial", c.Partial))
		w.totals("past", limit, c.Past)
	}
	for _, id := range slices.Sorted(maps.Keys(s.OldHolds)) {
		w.line("hold", quoted(id), quoted(s.OldHolds[id].String()))
	}
	if s.Series != 0 || !s.Swept.IsZero() {
		w.line("swept", stamp(s.Swept), "in series", number(s.Series))
	}
	for _, b := range s.Buckets {
		w.line("bucket", b.marshal(), "units", number(b.Units), startIn(b.In))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Grants)) {
		w.line("grant", quoted(id), s.Grants[id].marshal())
	}
	for _, id := range slices.Sorted(maps.Keys(s.Debts)) {
		w.line("debt", quoted(id), quoted(s.Debts[id].String()))
	}
	return []byte(w.String()), nil
}

// UnmarshalText reads what MarshalText wrote. What it cannot read is Unreadable, and s is not
// changed.
func (s *State) UnmarshalText(text []byte) error {
	var is State
	err := readText(string(text), stateText, func(what string, r *textReader) {
		switch what {
		case "plan":
			is.Plan = r.quoted()
		case "ids":
			is.Epoch = r.time()
			r.want("before")
			is.EpochBefore = r.time()
		case "counter":
			limit, c := r.quoted(), Counter{Count: r.number()}
			r.want("in")
			c.Window = r.window()
			c.Carried, c.Partial = r.given("carried"), r.flag("partial")
			put(&is.Counters, limit, c)
		case "past":
			limit := r.quoted()
			c := is.Counters[limit]
			c.Past = append(c.Past, r.total())
			put(&is.Counters, limit, c)
		case "hold":
			put(&is.OldHolds, r.quoted(), *r.record())
		case "swept":
			is.Swept = r.time()
			r.want("in series")
			is.Series = r.number()
		case "bucket":
			b := Bucket{BucketKey: r.bucketKey()}
			r.want("units")
			b.Units, b.In = r.number(), r.startIn()
			is.Buckets = append(is.Buckets, b)
		case "grant":
			put(&is.Grants, r.quoted(), *r.grant())
		case "debt":
			put(&is.Debts, r.quoted(), *r.debt())
		default:
			r.ok = false
		}
	})
	if err == nil {
		*s = is
	}
	return err
}

// MarshalText writes c in a form that UnmarshalText reads, with every field. It never fails.
func (c Change) MarshalText() ([]byte, error) {
	var w textWriter
	w.line(changeText)
	w.line("key", quoted(c.Key.Subject), quoted(c.Key.Meter))
	if !c.Now.IsZero() {
		w.line("now", stamp(c.Now))
	}
	w.line("plan", quoted(c.Plan), flag("or none", c.PlanOrNone))
	w.line("ids", stamp(c.Epoch))
	if !c.Rotate.IsZero() {
		w.line("rotate", stamp(c.Rotate))
	}
	w.line("horizon", c.Horizon.String())
	for _, r := range c.Records {
		w.line("record", quoted(r.ID), flag("old", r.Old), "was", quotedOr(r.Was), "is", quotedOr(r.Is))
	}
	for _, s := range c.Steps {
		w.line("step", quoted(s.Limit), s.moves(), "count", bounds(s.Min, s.Max, s.Add), "add", number(s.Add), given("carried", s.Carried), flag("opens", s.Opens))
		w.totals("fold", s.Limit, s.Fold)
		w.totals("correct", s.Limit, s.Past)
	}
	for _, g := range c.Grants {
		w.line("grant", quoted(g.ID), "was", marshalOr(g.Was), "use", bounds(g.Min, g.Max, g.Add), "add", number(g.Add),
			"is", marshalOr(g.Is), flag("ends", g.Ends))
	}
	if c.AllGrants {
		w.line("no other grants")
	}
	if c.GuardsSeries() || c.Series != 0 {
		w.line("series", number(c.Series), flag("ends", c.NewSeries))
	}
	if !c.Sweep.IsZero() || !c.Swept.IsZero() {
		w.line("swept", stamp(c.Swept), "is", stamp(c.Sweep))
	}
	for _, b := range c.Buckets {
		w.line("bucket", b.marshal(), b.guard(), "add", number(b.Add), flag("ends", b.Ends), startIn(b.In))
	}
	if c.MostHolds != 0 {
		w.line("holds", "at most", number(c.MostHolds))
	}
	for _, d := range c.Debts {
		w.line("debt", quoted(d.ID), "was", quotedOr(d.Was), "is", quotedOr(d.Is))
	}
	return []byte(w.String()), nil
}

// UnmarshalText reads what MarshalText wrote. What it cannot read is Unreadable, and c is not
// changed.
func (c *Change) UnmarshalText(text []byte) error {
	var is Change
	err := readText(string(text), changeText, func(what string, r *textReader) {
		switch what {
		case "key":
			is.Key = Key{Subject: r.quoted(), Meter: r.quoted()}
		case "now":
			is.Now = r.time()
		case "plan":
			is.Plan, is.PlanOrNone = r.quoted(), r.flag("or none")
		case "ids":
			is.Epoch = r.time()
		case "rotate":
			is.Rotate = r.time()
		case "horizon":
			is.Horizon = r.duration()
		case "record":
			is.Records = append(is.Records, r.recordStep())
		case "step":
			is.Steps = append(is.Steps, r.step())
		case "fold", "correct":
			r.windowTotal(what, is.Steps)
		case "grant":
			is.Grants = append(is.Grants, r.grantStep())
		case "series":
			is.Series, is.NewSeries = r.number(), r.flag("ends")
		case "swept":
			is.Swept = r.time()
			r.want("is")
			is.Sweep = r.time()
		case "bucket":
			is.Buckets = append(is.Buckets, r.bucketStep())
		case "holds":
			r.want("at most")
			is.MostHolds = r.number()
		case "no":
			r.want("other grants")
			is.AllGrants = true
		case "debt":
			d := DebtStep{ID: r.quoted()}
			r.want("was")
			d.Was = r.debtOrNone()
			r.want("is")
			d.Is = r.debtOrNone()
			is.Debts = append(is.Debts, d)
		default:
			r.ok = false
		}
	})
	if err == nil {
		*c = is
	}
	return err
}

// put adds to a map, and makes it first if there is none.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// textWriter writes lines of words.
type textWriter struct{ strings.Builder }

// line writes one line. An empty word is left out.
func (w *textWriter) line(words ...string) {
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	w.WriteString(strings.Join(words, " ") + "\n")
}

func (w *textWriter) totals(what, limit string, totals []Total) {
	for _, t := range totals {
		w.line(what, quoted(limit), stamp(t.Start), number(t.Units), flag("unknown", t.Unknown))
	}
}

func quoted(s string) string { return strconv.QuoteToASCII(s) }

func number(n int64) string { return strconv.FormatInt(n, 10) }

func flag(name string, is bool) string {
	if !is {
		return ""
	}
	return name
}

func given(name string, n int64) string {
	if n == 0 {
		return ""
	}
	return name + " " + number(n)
}

// bounds writes what a count must lie between: "0 to 170", "0 to any", or "0 to any that fits",
// which is any to which add can be added.
func bounds(least, most, add int64) string {
	switch most {
	case math.MaxInt64:
		return number(least) + " to any"
	case anyCount(add):
		return number(least) + " to any that fits"
	}
	return number(least) + " to " + number(most)
}

// moves writes the windows of a step. Mostly they are one.
func (s Step) moves() string {
	from, to := s.From.marshal(), s.To.marshal()
	if from == to {
		return "in " + to
	}
	return "from " + from + " to " + to
}

func quotedOr[T fmt.Stringer](is *T) string {
	if is == nil {
		return "none"
	}
	return quoted((*is).String())
}

func marshalOr(g *Grant) string {
	if g == nil {
		return "none"
	}
	return g.marshal()
}

func (k BucketKey) marshal() string {
	of := "of holds"
	switch {
	case k.Limit != "":
		of = "of limit " + quoted(k.Limit) + " " + stamp(k.Start)
	case k.Grant != "":
		of = "of grant " + quoted(k.Grant)
	}
	return of + " until " + stamp(k.Expires) + " series " + number(k.Series)
}

// guard writes what must be there of the bucket.
func (b BucketStep) guard() string {
	if !b.There {
		return "there or not"
	}
	return "there with " + bounds(b.Min, b.Max, b.Add)
}

// startIn writes when the window begins in which units count, if that is said.
func startIn(start time.Time) string {
	if start.IsZero() {
		return ""
	}
	return "in " + stamp(start)
}

func (g Grant) marshal() string {
	return fmt.Sprintf("%d used %d until %s", g.Units, g.Used, stamp(g.Expires))
}

func (w Window) marshal() string {
	if w.IsZero() && w.Start.IsZero() && w.End.IsZero() {
		return "none"
	}
	return quoted(w.Key) + " " + stamp(w.Start) + " " + stamp(w.End)
}
