package dynamostore

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// The layout of a subject's item, for the main meter and its main limit:
//
//	userId           S  the subject
//	plan             S  its plan, if it has one
//	quotaWeek        S  key of the window, "2026-W22"
//	quotaCount       N  units charged and held in it
//	quotaSpan        S  the same window as Headroom knows it, "2026-W22/1779667200/1780272000": key, start, end in Unix seconds.
//	                    Where it does not agree with quotaWeek, a writer that knows only quotaWeek and quotaCount has turned the window.
//	quotaPast        M  of the last closed windows, by start in Unix seconds, the total; by "?" and the start, that it is not known; by "~" and the start, how often it was corrected; by "!" and the start, that format 1 corrected it; under "more" how often older ones were moved to the ledger
//	quotaCarried     N  what the window may use beside its own units; missing if nothing
//	quotaHolds       M  holds that were neither settled nor released: the headroom.Record and mark by the full id. quotaCount has them in it
//	quotaGrants      M  grants by the id, each {units N, used N, expires N}, the last in Unix seconds; as format 1 wrote it, S "units/used/expires"
//	quotaDebts       M  charges of which an organisation may not be settled yet: the headroom.Debt by the full id. It never moves; from format 2 on, and missing until the first
//	quotaOps         M  the young generation of operation ids: the headroom.Record and mark by idName
//	quotaOpsBefore   M  the old generation
//	quotaEpoch       N  label of the young generation, Unix seconds
//	quotaEpochBefore N  label of the old one
//	quotaGen         N  how often ids were moved to the ledger; 0 if it holds none that is remembered
//	quotaSpilt       N  label of the young generation when that last happened
//	quotaFormat      N  the version of this layout
//
// Of these quotaEpochBefore is missing until the ids age for the first time, quotaSpilt until some move; without quotaFormat there are none but the first four.
// Another limit of the meter has quotaSpan:NAME, quotaCount:NAME, quotaPast:NAME and quotaCarried:NAME. Another meter has all names with quota/METER/ in place of quota, and its limits are all written like the others.
// NAME holds no slash or colon, so that no two of these names fall together.
//
// The mark of a record that took the place of another is " ~" and its version: how often the record
// of the id was rewritten. A record without one has version 0. Version and name make the sort key in
// the ledger, so that a copy of an earlier version that comes late hides no later one.
// In format 1 the mark is " ~" alone, and what has it does not move. That is version 1 here: the
// ledger has none but version 0 of it.
//
// A program reads every format up to its newest. It writes an item in the newer of the item's own and Options.Format, and an older item becomes a newer one in the same write.
const (
	formatOne    = 1 // as the first release wrote it
	NewestFormat = 2
)

var fields = []string{"Ops", "OpsBefore", "Epoch", "EpochBefore", "Gen", "Spilt", "Format", "Span", "Past", "Holds", "Grants", "Carried", "Debts"}

const (
	unknownPast = "?"
	oncePast    = "!" // of format 1
	versionPast = "~"
	morePast    = "more"
	versionMark = " ~"
)

// writes is the format in which an item is written next.
func (o Options) writes(it item) int64 { return max(it.format, o.newItems()) }

// newItems is the format of an item that nobody has written yet.
func (o Options) newItems() int64 { return cmp.Or(int64(o.Format), NewestFormat) }

// moves reports whether a record that stands in the item so may go to the ledger.
func (it item) moves(text string) bool {
	return it.format != formatOne || !strings.HasSuffix(text, versionMark)
}

// unmarked returns the text of a record without its mark, and its version.
func unmarked(text string) (record string, version int64) {
	record, mark, found := strings.Cut(text, versionMark)
	if !found {
		return text, 0
	}
	if mark == "" {
		return record, 1 // of format 1
	}
	version, err := strconv.ParseInt(mark, 10, 64)
	if err != nil || version < 1 || version > mostVersion {
		return text, 0 // which reads as no record
	}
	return record, version
}

// marked returns the text of a record with the mark of its version.
func marked(record string, version int64) string {
	if version == 0 {
		return record
	}
	return record + versionMark + strconv.FormatInt(version, 10)
}

// version returns the version of what stands in an item or the ledger for an id.
func version(text string) int64 {
	record, version := unmarked(text)
	if version == 0 {
		if r, err := headroom.ParseRecord(record); err == nil && r.Kind == headroom.KindHold && r.Held != 0 {
			return 1 // taken again after a release, in format 1
		}
	}
	return version
}

// longestWindow is more than any window lasts: they have up to 100 years.
const longestWindow = 101 * 366 * 24 * time.Hour

// field returns the name of an attribute that a meter has once.
func (o Options) field(meter, field string) string {
	if meter == o.Meter {
		return o.Names.Prefix + field
	}
	return o.Names.Prefix + "/" + meter + "/" + field
}

// counterNames are the attributes of one counter. window is empty for all but the main one.
type counterNames struct{ window, count, span, past, carried string }

func (o Options) counter(meter, limit string) counterNames {
	if meter == o.Meter && limit == o.Limit {
		return counterNames{o.Names.Window, o.Names.Count, o.field(meter, "Span"), o.field(meter, "Past"), o.field(meter, "Carried")}
	}
	return counterNames{"", o.field(meter, "Count:") + limit, o.field(meter, "Span:") + limit, o.field(meter, "Past:") + limit, o.field(meter, "Carried:") + limit}
}

// idName is the name under which an operation id stands in a map or in the ledger: the id itself if it is short, else 96 bits of its SHA-256 in 17 characters, which no short id has.
func idName(id string) string {
	if len(id) <= 16 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "~" + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// spanText is what quotaSpan holds for a window.
func spanText(w headroom.Window) string {
	return w.Key + "/" + unix(w.Start) + "/" + unix(w.End)
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func fromUnix(s string) (time.Time, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(n, 0).UTC(), err == nil
}

func parseSpan(s string) (headroom.Window, bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 || parts[0] == "" {
		return headroom.Window{}, false
	}
	start, ok1 := fromUnix(parts[1])
	end, ok2 := fromUnix(parts[2])
	return headroom.Window{Key: parts[0], Start: start, End: end}, ok1 && ok2 && start.Before(end)
}

// item is a subject's item as far as one meter goes.
type item struct {
	key         headroom.Key
	state       headroom.State
	formatted   bool              // Headroom has written this meter before,
	format      int64             // in this format; 0: in none
	ops, before map[string]string // charges by idName, with their marks,
	holds       map[string]string // and holds by id
	gen         int64
	spilt       time.Time
	turned      map[string]turn            // counters whose window another writer turned
	uncounted   map[string]bool            // counters that stand in a window without an attribute for the count: it is 0
	past        map[string]past            // totals that the item itself holds, by limit
	grantTexts  map[string]string          // grants in the form of format 1, by id
	fromLedger  map[string]string          // charges found in the ledger, by idName, with marks
	movedPast   map[string]map[int64]int64 // versions of the totals found in the ledger, by limit and start
	looked      map[string]bool            // idNames that the ledger was looked at for, and does not have
	noDebts     bool                       // there is no map of debts yet
	older       bool                       // the item is written for programs that know no debts
	size        int                        // about how many bytes Headroom's attributes take,
	idsSize     int                        // and how many of them the ids of this meter that can move
}

// turn is what a writer that knows only window and count did when it began a window.
type turn struct {
	known headroom.Window // that Headroom's attributes still know; zero: none
	lost  []time.Time     // starts of the windows whose totals it did not keep
}

// decode reads what an item holds of a meter. attrs is nil if there is no item; now is the engine's time.
func (o Options) decode(attrs map[string]types.AttributeValue, key headroom.Key, now time.Time) (item, error) {
	r := reader{attrs: attrs, subject: key.Subject}
	it := item{key: key, turned: map[string]turn{}, uncounted: map[string]bool{}, past: map[string]past{}}
	it.state.Counters = map[string]headroom.Counter{}
	it.state.Plan = r.str(o.Names.Plan)
	if f, ok := r.num(o.field(key.Meter, "Format")); ok {
		switch {
		case f > NewestFormat:
			return it, headroom.Errorf(headroom.CodeFormat, nil, "the item of %q has format %d, this program knows %d: a newer version of Headroom wrote it; update this one", key.Subject, f, NewestFormat)
		case f < formatOne:
			r.bad(o.field(key.Meter, "Format"), "is no format")
		}
		it.formatted, it.format = true, f
	}
	it.ops = r.charges(o.field(key.Meter, "Ops"))
	it.before = r.charges(o.field(key.Meter, "OpsBefore"))
	it.state.Epoch = r.time(o.field(key.Meter, "Epoch"))
	it.state.EpochBefore = r.time(o.field(key.Meter, "EpochBefore"))
	it.spilt = r.time(o.field(key.Meter, "Spilt"))
	it.gen = r.natural(o.field(key.Meter, "Gen"))
	it.holds = r.charges(o.field(key.Meter, "Holds"))
	it.state.Holds = r.holds(o.field(key.Meter, "Holds"))
	it.state.Grants, it.grantTexts = r.grants(o.field(key.Meter, "Grants"))
	it.state.Debts = r.debts(o.field(key.Meter, "Debts"))
	it.noDebts, it.older = attrs[o.field(key.Meter, "Debts")] == nil, o.writes(it) < formatDebts
	o.whole(&r, it)

	limits := []string{}
	if key.Meter == o.Meter {
		limits = append(limits, o.Limit)
	}
	for name := range attrs {
		// Behind another slash or colon it belongs to a meter whose own name has one.
		if limit, ok := strings.CutPrefix(name, o.field(key.Meter, "Span:")); ok && !strings.ContainsAny(limit, "/:") {
			limits = append(limits, limit)
		}
	}
	for _, limit := range limits {
		o.decodeCounter(&r, &it, limit, now)
	}
	it.size = len(o.Names.Subject) + len(key.Subject)
	for name, v := range attrs {
		if strings.HasPrefix(name, o.Names.Prefix) || name == o.Names.Window || name == o.Names.Count {
			it.size += len(name) + size(v)
		}
	}
	for _, ids := range []map[string]string{it.ops, it.before} {
		for name, charge := range ids {
			if it.moves(charge) {
				it.idsSize += len(name) + len(charge) + 1
			}
		}
	}
	return it, r.err
}

// whole checks that what belongs together is there together: to go on without it would be to forget operation ids.
func (o Options) whole(r *reader, it item) {
	if !it.formatted {
		for _, field := range fields {
			if name := o.field(it.key.Meter, field); r.attrs[name] != nil {
				r.bad(name, "is there without "+o.field(it.key.Meter, "Format"))
			}
		}
		return
	}
	needed := []string{"Ops", "OpsBefore", "Holds", "Grants", "Epoch", "Gen"}
	if it.gen != 0 {
		needed = append(needed, "Spilt")
	}
	for _, field := range needed {
		if name := o.field(it.key.Meter, field); r.attrs[name] == nil {
			r.bad(name, "is missing")
		}
	}
}

func (o Options) decodeCounter(r *reader, it *item, limit string, now time.Time) {
	names := o.counter(it.key.Meter, limit)
	var c headroom.Counter
	spanText := r.str(names.span)
	if spanText != "" {
		var ok bool
		if c.Window, ok = parseSpan(spanText); !ok || c.Window.End.Sub(c.Window.Start) > longestWindow || c.Window.End.After(now.Add(longestWindow)) {
			r.bad(names.span, "is no window")
		}
		if r.attrs[names.past] == nil {
			r.bad(names.past, "is missing")
		}
	}
	it.past[limit] = r.past(names.past)
	if names.window != "" {
		key := r.str(names.window)
		if key == "" {
			o.changedByHand(r, names, names.window, c.Window, now)
			return // nobody has counted
		}
		if key != c.Window.Key {
			week, err := headroom.ParseISOWeek(key)
			if err != nil {
				r.bad(names.window, "is no ISO week")
			}
			if it.formatted {
				t := turn{known: c.Window, lost: lost(c.Window, week, now)}
				for _, start := range t.lost {
					it.past[limit].lost(start)
				}
				it.turned[limit] = t
			}
			c.Window = week
		}
	} else if spanText == "" {
		return
	}
	c.Count, it.uncounted[limit] = r.natural(names.count), r.attrs[names.count] == nil
	if _, turned := it.turned[limit]; it.uncounted[limit] && !turned {
		o.changedByHand(r, names, names.count, c.Window, now)
	}
	c.Past, c.Partial = it.past[limit].before(nil, c.Window.Start), it.past[limit].moved > 0
	c.Carried = r.natural(names.carried)
	it.state.Counters[limit] = c
}

// changedByHand refuses an item that lacks what Headroom and the seed's own code write together, while
// Headroom knows of a window that is not over: to go on would be to give its units once more.
func (o Options) changedByHand(r *reader, names counterNames, gone string, known headroom.Window, now time.Time) {
	if r.attrs[names.span] == nil || !known.End.After(now) {
		return
	}
	put := names.count + " to the units used in it"
	if names.window != "" {
		put = names.window + ` to "` + known.Key + `" and ` + put
	}
	r.bad(gone, "is gone, while "+names.span+" names the running window "+known.Key+": somebody has changed the item by hand. Set "+put+
		"; to give units, use `headroom grant` or `headroom refund`")
}

// lost returns the starts of the weeks whose totals are not known since a writer that keeps none turned the window from known to week:
// the known one, and those after it that came and went; if it turned the window back, the one that is counted for a second time.
func lost(known, week headroom.Window, now time.Time) []time.Time {
	if known.IsZero() {
		return nil
	}
	starts := []time.Time{known.Start}
	if week.Start.Before(known.Start) {
		return append(starts, week.Start)
	}
	end := headroom.ISOWeek(now).Start // a wrong clock may have turned it to a week that has yet to come
	if week.Start.Before(end) {
		end = week.Start
	}
	w := headroom.ISOWeek(known.End)
	if earliest := headroom.ISOWeek(end.AddDate(0, 0, -7*headroom.HistoryWindows)); w.Start.Before(earliest.Start) {
		w = earliest
	}
	for ; w.Start.Before(end); w = headroom.ISOWeek(w.End) {
		starts = append(starts, w.Start)
	}
	return starts
}

// past is what an item holds of closed windows.
type past struct {
	attrs   map[string]types.AttributeValue // as it stands there
	totals  map[int64]headroom.Total        // by start; not all may be true of the window now stored
	version map[int64]int64                 // how often a total was corrected, by start
	moved   int64                           // how often older ones were moved to the ledger
}

// lost marks a total as unknown.
func (p past) lost(start time.Time) {
	p.totals[start.Unix()] = headroom.Total{Start: start, Unknown: true}
}

// before returns, latest first, the totals of windows that start before t, and whether that of t itself is known to be incomplete. Others are left from a window that a wrong clock opened, and count no more.
// older are totals from the ledger: one in the item is younger than one there of the same window.
func (p past) before(older []headroom.Total, t time.Time) []headroom.Total {
	all := []headroom.Total{}
	add := func(p headroom.Total) {
		if p.Start.Before(t) || p.Start.Equal(t) && p.Unknown {
			all = headroom.AddTotal(all, p)
		}
	}
	for _, o := range older {
		add(o)
	}
	for _, o := range p.totals {
		add(o)
	}
	return all
}

// view is what the item tells the engine.
func (it item) view(ids []string, now time.Time) (headroom.View, error) {
	v := headroom.View{State: it.state, Records: map[string]headroom.Record{}, Now: now, Older: it.older}
	for _, id := range ids {
		if hold, ok := it.state.Holds[id]; ok {
			v.Records[id] = hold
			continue
		}
		for _, known := range []map[string]string{it.fromLedger, it.before, it.ops} {
			if text, ok := known[idName(id)]; ok {
				text, _ = unmarked(text)
				record, err := headroom.ParseRecord(text)
				if err == nil && record.Kind == headroom.KindHold {
					err = headroom.Errorf(headroom.CodeFormat, nil, "the item of %q remembers %q as a hold, and does not have it among its holds", it.key.Subject, id)
				}
				if err != nil {
					return v, err
				}
				v.Records[id] = record
			}
		}
	}
	return v, nil
}
