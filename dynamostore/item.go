package dynamostore

import (
	"strings"
	"time"

	"github.com/lumcast/headroom"
)

// longestWindow is more than any window lasts: they have up to 100 years.
const longestWindow = 101 * 366 * 24 * time.Hour

// item is a subject's item as far as one meter goes.
type item struct {
	key   headroom.Key
	state headroom.State

	guessed   bool  // nobody has seen the item: this is how it is most often
	formatted bool  // Headroom has written this meter before
	format    int64 // in which format. 0: in none
	older     bool  // it is written for programs that know no debts
	noDebts   bool  // it has no map of debts yet
	noBuckets bool  // it has no map of buckets yet

	ops, before map[string]string // records of the two generations by idName, with their marks
	holds       map[string]string // old holds by id, with their marks
	grantTexts  map[string]string // grants in the form of format 1, by id

	gen   int64     // how often ids were moved to the ledger
	spilt time.Time // the label of the young generation when that last happened

	turned    map[string]turn // counters whose window another writer turned, by limit
	uncounted map[string]bool // counters in a window that have no attribute for the count: it is 0
	past      map[string]past // totals that the item itself holds, by limit

	fromLedger map[string]string          // records found in the ledger by idName, with their marks
	looked     map[string]bool            // idNames that the ledger was asked for and does not have
	movedPast  map[string]map[int64]int64 // versions of totals found in the ledger, by limit and start

	size    int // about how many bytes Headroom's attributes take
	idsSize int // about how many of them are of this meter's ids that can move
}

// turn is what a writer that knows only window and count did when it began a window.
type turn struct {
	known headroom.Window // the window that Headroom's attributes still know. Zero: none
	lost  []time.Time     // starts of the windows whose totals the writer did not keep
}

// decode reads what an item holds of a meter. attrs is nil if there is no item, now is the engine's
// time.
func (l layout) decode(attrs attributes, key headroom.Key, now time.Time) (item, error) {
	r := reader{attrs: attrs, subject: key.Subject}
	field := func(name string) string { return l.field(key.Meter, name) }
	it := item{key: key, turned: map[string]turn{}, uncounted: map[string]bool{}, past: map[string]past{}}
	it.state.Counters = map[string]headroom.Counter{}
	it.state.Plan = r.str(l.names.Plan)
	if f, ok := r.num(field("Format")); ok {
		switch {
		case f > NewestFormat:
			return it, headroom.Errorf(headroom.Unreadable, nil, "the item of %q has format %d, this program knows %d: a newer version of Headroom wrote it; update this one", key.Subject, f, NewestFormat)
		case f < formatOne:
			r.bad(field("Format"), "is no format")
		}
		it.formatted, it.format = true, f
	}
	it.ops = r.charges(field("Ops"))
	it.before = r.charges(field("OpsBefore"))
	it.state.Epoch = r.time(field("Epoch"))
	it.state.EpochBefore = r.time(field("EpochBefore"))
	it.spilt = r.time(field("Spilt"))
	it.gen = r.natural(field("Gen"))
	it.holds = r.charges(field("Holds"))
	it.state.OldHolds = r.holds(field("Holds"))
	it.state.Buckets, it.noBuckets = r.buckets(field("Held")), attrs[field("Held")] == nil
	it.state.Swept, it.state.Series = r.time(field("Swept")), r.natural(field("Series"))
	it.state.Grants, it.grantTexts = r.grants(field("Grants"))
	it.state.Debts = r.debts(field("Debts"))
	it.noDebts, it.older = attrs[field("Debts")] == nil, l.writes(it) < formatDebts
	l.whole(&r, it)
	for _, limit := range l.limits(attrs, key.Meter) {
		l.decodeCounter(&r, &it, limit, now)
	}
	it.measure(l, attrs)
	return it, r.err
}

// measure finds how large the item is.
func (it *item) measure(l layout, attrs attributes) {
	it.size = len(l.names.Subject) + len(it.key.Subject)
	for name, v := range attrs {
		if strings.HasPrefix(name, l.names.Prefix) || name == l.names.Window || name == l.names.Count {
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
}

// whole checks that what belongs together is there together. To go on without a part of it could
// mean to forget operation ids.
func (l layout) whole(r *reader, it item) {
	if !it.formatted {
		for _, field := range fields {
			if name := l.field(it.key.Meter, field); r.attrs[name] != nil {
				r.bad(name, "is there without "+l.field(it.key.Meter, "Format"))
			}
		}
		return
	}
	needed := []string{"Ops", "OpsBefore", "Holds", "Grants", "Epoch", "Gen"}
	if it.gen != 0 {
		needed = append(needed, "Spilt")
	}
	for _, field := range needed {
		if name := l.field(it.key.Meter, field); r.attrs[name] == nil {
			r.bad(name, "is missing")
		}
	}
}

func (l layout) decodeCounter(r *reader, it *item, limit string, now time.Time) {
	names := l.counter(it.key.Meter, limit)
	known := l.decodeSpan(r, names, now)
	it.past[limit] = r.past(names.past)
	if known.IsZero() && names.window == "" {
		return // nobody has counted
	}
	c := headroom.Counter{Window: known}
	if names.window != "" {
		key := r.str(names.window)
		if key == "" {
			l.changedByHand(r, names, names.window, known, now)
			return // nobody has counted
		}
		if key != known.Key {
			c.Window = l.decodeTurn(r, it, limit, key, known, now)
		}
	}
	c.Count, it.uncounted[limit] = r.natural(names.count), r.attrs[names.count] == nil
	if _, turned := it.turned[limit]; it.uncounted[limit] && !turned {
		l.changedByHand(r, names, names.count, c.Window, now)
	}
	c.Past, c.Partial = it.past[limit].before(nil, c.Window.Start), it.past[limit].moved > 0
	c.Carried = r.natural(names.carried)
	it.state.Counters[limit] = c
}

// decodeSpan reads the window that Headroom knows of a counter.
func (l layout) decodeSpan(r *reader, names counterNames, now time.Time) headroom.Window {
	text := r.str(names.span)
	if text == "" {
		return headroom.Window{}
	}
	w, ok := parseSpan(text)
	if !ok || w.End.Sub(w.Start) > longestWindow || w.End.After(now.Add(longestWindow)) {
		r.bad(names.span, "is no window")
	}
	if r.attrs[names.past] == nil {
		r.bad(names.past, "is missing")
	}
	return w
}

// decodeTurn reads the week that a writer has begun which knows only window and count.
func (l layout) decodeTurn(r *reader, it *item, limit, key string, known headroom.Window, now time.Time) headroom.Window {
	week, err := headroom.ParseISOWeek(key)
	if err != nil {
		r.bad(l.counter(it.key.Meter, limit).window, "is no ISO week")
	}
	if it.formatted {
		t := turn{known: known, lost: lost(known, week, now)}
		for _, start := range t.lost {
			it.past[limit].lost(start)
		}
		it.turned[limit] = t
	}
	return week
}

// changedByHand refuses an item that lacks what every writer writes together with the rest, while
// Headroom knows a window that is not over. To go on would give that window's units once more.
func (l layout) changedByHand(r *reader, names counterNames, gone string, known headroom.Window, now time.Time) {
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

// lost returns the starts of the weeks whose totals are not known because a writer that keeps none
// turned the window from known to week. These are the known week and those after it that came and
// went. If it turned the window back, they are the known week and the one that is counted a second
// time.
func lost(known, week headroom.Window, now time.Time) []time.Time {
	if known.IsZero() {
		return nil
	}
	starts := []time.Time{known.Start}
	if week.Start.Before(known.Start) {
		return append(starts, week.Start)
	}
	// a wrong clock may have turned it to a week that has yet to come
	end := headroom.ISOWeek(now).Start
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

// view is what the item tells the engine.
func (it item) view(ids []string, now time.Time) (headroom.View, error) {
	v := headroom.View{State: it.state, Records: map[string]headroom.Record{}, Now: now, Older: it.older, Memo: it}
	for _, id := range ids {
		if hold, ok := it.state.OldHolds[id]; ok {
			v.Records[id] = hold
			continue
		}
		for _, known := range []map[string]string{it.fromLedger, it.before, it.ops} {
			if text, ok := known[idName(id)]; ok {
				text, _ = unmarked(text)
				record, err := headroom.ParseRecord(text)
				if err != nil {
					return v, err
				}
				v.Records[id] = record
			}
		}
	}
	return v, nil
}
