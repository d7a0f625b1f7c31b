package interleave

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/memdynamo"
)

// books are what tables say about each subject. They are read from the raw items by the layout as
// it is documented, and not by the code that writes it.
type books map[string]*book

type book struct {
	meter         string
	plan          string
	counters      map[string]counter // by limit
	records       map[string]record  // by id
	buckets       map[bucketKey]bucket
	holding       int64 // how many holds the item says that there are
	swept, series int64
	grants        map[string]grant
	debts         map[string]headroom.Debt
	listed        map[string]bool // operations that the ledger's list of debts names
	epoch, before int64
	gen           int64
}

type counter struct {
	key            string
	start, end     int64
	count, carried int64
	past           map[int64]int64 // by start; of closed windows only
	moves          int64           // of totals, to the ledger,
	movedPast      map[int64]bool  // and which of past are from there
}

// bucketKey says what a bucket is of: units of a limit, units of a grant or, without both, holds.
type bucketKey struct {
	limit, grant           string
	start, expires, series int64
}

type bucket struct{ units, in int64 }

type grant struct{ units, used, expires int64 }

type record struct {
	headroom.Record
	text   string
	old    bool // a hold as format 2 kept it
	swept  bool // a hold whose buckets were cleared away: its units have come back
	oldest bool // of the generation that is forgotten next
	moved  bool // it stands in the ledger
}

func (x *explorer) read(tables int32) books {
	if b, ok := x.books[tables]; ok {
		return *b
	}
	b := readBooks(x.values[tables])
	x.books[tables] = &b
	return b
}

func readBooks(t memdynamo.Tables) books {
	all := books{}
	for _, item := range t.Items("users") {
		subject := str(item["userId"])
		all[subject] = readItem(item)
		all[subject].meter = "slots"
		if tokens := ofTokens(item); len(tokens) > 0 {
			all[tokensOf(subject)] = readItem(tokens)
			all[tokensOf(subject)].meter = "tokens"
		}
	}
	for _, row := range t.Items(ledger) {
		if b := all[str(row["subject"])]; strings.HasPrefix(str(row["key"]), "owes#") && b != nil {
			b.listed[str(row["operation"])] = true
		}
		// The key is the length of the meter's name, "#", the name, the subject.
		b := all[strings.TrimPrefix(str(row["key"]), "5#slots")]
		if subject, of := strings.CutPrefix(str(row["key"]), "6#tokens"); of {
			b = all[tokensOf(subject)]
		}
		if b == nil {
			continue
		}
		// The rows of one thing come in the order of their versions. Each hides those before it,
		// and the item hides them all.
		kind, name, _ := strings.Cut(str(row["row"]), "#")
		name, _, _ = strings.Cut(name, "\x00")
		switch kind {
		case "op":
			at, there := b.records[name]
			if label := num(row["epoch"]); (!there || at.moved) && (label == b.epoch || label == b.before) {
				b.add(name, str(row["charge"]), label != b.epoch)
				at = b.records[name]
				at.moved = true
				b.records[name] = at
			}
		case "past":
			limit, at, _ := strings.Cut(name, "#")
			start, err := time.Parse(time.RFC3339, at)
			if err != nil {
				panic(err)
			}
			if c, ok := b.counters[limit]; ok && start.Unix() < c.start {
				if _, there := c.past[start.Unix()]; !there || c.movedPast[start.Unix()] {
					c.past[start.Unix()], c.movedPast[start.Unix()] = num(row["total"]), true
				}
			}
		}
	}
	for _, b := range all {
		b.findHolds()
	}
	return all
}

// findHolds tells where the units of holds count by now.
func (b *book) findHolds() {
	for id, r := range b.records {
		if r.Kind != headroom.KindHold || r.old {
			continue
		}
		_, there := b.buckets[bucketKey{expires: r.Expires.Unix(), series: r.Series}]
		r.swept = !there
		r.Windows, r.Grants = slices.Clone(r.Windows), slices.Clone(r.Grants)
		for i := range r.Windows {
			w := &r.Windows[i]
			if in := b.buckets[bucketKey{w.Limit, "", w.Start.Unix(), r.Expires.Unix(), r.Series}].in; in != 0 {
				w.Start = time.Unix(in, 0).UTC()
			}
			if r.swept {
				w.Units = 0
			}
		}
		if r.swept {
			r.Grants = nil
		}
		b.records[id] = r
	}
}

// readBucket reads the key of a bucket, and the start of the window in which it counts, if that is
// said.
func readBucket(key string) (k bucketKey, in int64) {
	base36 := func(s string) int64 {
		n, err := strconv.ParseInt(s, 36, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	parts := strings.Split(key, "/")
	end, counted, moved := strings.Cut(parts[len(parts)-1], ">")
	if moved {
		in = base36(counted)
	}
	end, series, later := strings.Cut(end, ".")
	if later {
		k.series = number(series)
	}
	if k.expires = base36(end); len(parts) == 3 && parts[0] == "" {
		k.grant = parts[1]
	} else if len(parts) == 3 {
		k.limit, k.start = parts[0], base36(parts[1])
	}
	return k, in
}

func readItem(item map[string]types.AttributeValue) *book {
	b := &book{plan: str(item["plan"]), counters: map[string]counter{}, records: map[string]record{}, grants: map[string]grant{}, buckets: map[bucketKey]bucket{},
		debts: map[string]headroom.Debt{}, listed: map[string]bool{}}
	b.epoch, b.before, b.gen = num(item["quotaEpoch"]), num(item["quotaEpochBefore"]), num(item["quotaGen"])
	for name := range item {
		limit, ok := strings.CutPrefix(name, "quotaSpan")
		if !ok {
			continue
		}
		span := strings.Split(str(item[name]), "/")
		count := "quotaCount" + limit
		c := counter{key: span[0], start: number(span[1]), end: number(span[2]), count: num(item[count]), carried: num(item["quotaCarried"+limit]), past: map[int64]int64{}, movedPast: map[int64]bool{}}
		c.moves = num(child(item["quotaPast"+limit])["more"])
		for at, v := range child(item["quotaPast"+limit]) {
			if start, err := strconv.ParseInt(at, 10, 64); err == nil && start < c.start {
				c.past[start] = num(v)
			}
		}
		b.counters[strings.TrimPrefix(limit+":", ":")] = c
	}
	if key := str(item["quotaWeek"]); key != "" && item["quotaSpan"] == nil {
		// As the seed's own code leaves it.
		week, err := headroom.ParseISOWeek(key)
		if err != nil {
			panic(err)
		}
		b.counters[""] = counter{key: key, start: week.Start.Unix(), end: week.End.Unix(), count: num(item["quotaCount"]), past: map[int64]int64{}, movedPast: map[int64]bool{}}
	}
	// The main limit has no name in its attributes.
	fixed := map[string]counter{}
	for name, c := range b.counters {
		if name = strings.TrimSuffix(name, ":"); name == "" {
			name = "week"
		}
		fixed[name] = c
	}
	b.counters = fixed
	for id, v := range child(item["quotaOpsBefore"]) {
		b.add(id, str(v), true)
	}
	for id, v := range child(item["quotaOps"]) {
		b.add(id, str(v), false)
	}
	for id, v := range child(item["quotaHolds"]) {
		b.add(stored(id), str(v), false)
		r := b.records[stored(id)]
		r.old = true
		b.records[stored(id)] = r
	}
	b.holding, b.swept, b.series = num(item["quotaHolding"]), num(item["quotaSwept"]), num(item["quotaSeries"])
	for key, v := range child(item["quotaHeld"]) {
		k, in := readBucket(key)
		b.buckets[k] = bucket{num(v), in}
	}
	for id, v := range child(item["quotaDebts"]) {
		b.debts[id] = must(headroom.ParseDebt(str(v)))
	}
	for id, v := range child(item["quotaGrants"]) {
		part := child(v)
		b.grants[id] = grant{num(part["units"]), num(part["used"]), num(part["expires"])}
	}
	return b
}

// stored is the name under which the store remembers an id: a long one by its hash.
func stored(id string) string {
	if len(id) <= 16 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "~" + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// its is the name under which an organisation remembers what a user charges within it.
func its(user, id string) string { return stored(headroom.OperationWithin(user, id)) }

func (b *book) add(id, text string, oldest bool) {
	charge, _, _ := strings.Cut(text, " ~") // what follows is the version
	r, err := headroom.ParseRecord(charge)
	if err != nil {
		panic(err)
	}
	b.records[id] = record{Record: r, text: text, oldest: oldest}
}

func str(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func num(v types.AttributeValue) int64 {
	if n, ok := v.(*types.AttributeValueMemberN); ok {
		return number(n.Value)
	}
	return 0
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func child(v types.AttributeValue) map[string]types.AttributeValue {
	if m, ok := v.(*types.AttributeValueMemberM); ok {
		return m.Value
	}
	return nil
}

// in is what a record counts in each window of a limit, by start. A window after the counter's own
// was opened by a wrong clock, and its units were added to the counter's.
func (r record) in(limit string, c counter) map[int64]int64 {
	units := map[int64]int64{}
	for _, w := range r.Windows {
		if w.Limit == limit {
			units[min(w.Start.Unix(), c.start)] += w.Units
		}
	}
	return units
}

// own is what a record counts of a limit in all windows.
func (r record) own(limit string) (units int64) {
	for _, w := range r.Windows {
		if w.Limit == limit {
			units += w.Units
		}
	}
	return units
}

func (r record) granted() (units int64) {
	for _, g := range r.Grants {
		units += g.Units
	}
	return units
}

// dead reports whether a record is a hold that counts no more.
func (r record) dead(now int64) bool {
	return r.Kind == headroom.KindHold && (r.swept || r.Expires.Unix() <= now)
}

// of returns the book of a subject: an empty one if nothing is stored.
func (b books) of(subject string) *book {
	if b[subject] != nil {
		return b[subject]
	}
	if strings.HasSuffix(subject, tokensOf("")) {
		return &book{meter: "tokens"}
	}
	return &book{meter: "slots"}
}

// limits are those of the plan in force, for the meter of the book.
func (w *world) limits(b *book) []headroom.Limit {
	name := b.plan
	if name == "" {
		name = w.catalog.Default()
	}
	plans := w.catalog.Plans()
	i := slices.IndexFunc(plans, func(p headroom.Plan) bool { return p.Name == name })
	return slices.DeleteFunc(slices.Clone(plans[i].Limits), func(l headroom.Limit) bool { return l.Meter != b.meter })
}

// planned is how many units of its plan a subject could be charged now.
func (w *world) planned(b *book, now time.Time) int64 {
	room := int64(1 << 62)
	for _, l := range w.limits(b) {
		c, ok := b.counters[l.Name]
		left := l.Units
		if ok && c.end <= now.Unix() {
			left += b.carry(l, c, l.Period.At(now).Start.Unix())
		}
		if ok && c.end > now.Unix() {
			left += c.carried - b.live(l.Name, c, now.Unix())
			if from := l.Period.At(now).Start.Unix(); c.start > now.Add(headroom.ClockTolerance).Unix() {
				for start, units := range c.past {
					if start >= from {
						left -= units
					}
				}
			}
		}
		room = min(room, max(0, left))
	}
	return room
}

// room is how many units a subject could be charged now.
func (w *world) room(b *book, now time.Time) int64 {
	room := w.planned(b, now)
	for id, g := range b.grants {
		if g.expires > now.Unix() {
			room += g.units - g.used
			for _, r := range b.records {
				for _, use := range r.Grants {
					if use.ID == id && r.dead(now.Unix()) {
						room += use.Units
					}
				}
			}
		}
	}
	return room
}

// carry is what the window that starts at next may use of what the one before it left.
func (b *book) carry(l headroom.Limit, c counter, next int64) int64 {
	left := l.Units + c.carried - b.live(l.Name, c, c.end)
	if next > c.end {
		left += l.Units // one at least was not used at all
	}
	return max(0, min(left, l.CarryOver))
}

// live is the count without expired holds.
func (b *book) live(limit string, c counter, now int64) int64 {
	count := c.count
	for _, r := range b.records {
		if r.dead(now) {
			count -= r.in(limit, c)[c.start]
		}
	}
	return count
}

// String is the book in one line, for traces.
func (b *book) String() string {
	var s []string
	if b.plan != "" {
		s = append(s, "plan "+b.plan)
	}
	for _, limit := range slices.Sorted(maps.Keys(b.counters)) {
		c := b.counters[limit]
		line := c.key + " counts " + strconv.FormatInt(c.count, 10)
		for _, start := range slices.Backward(slices.Sorted(maps.Keys(c.past))) {
			line += ", before it " + time.Unix(start, 0).UTC().Format("2 January") + " " + strconv.FormatInt(c.past[start], 10)
		}
		s = append(s, line)
	}
	for _, id := range slices.Sorted(maps.Keys(b.records)) {
		s = append(s, id+": "+b.records[id].text)
	}
	for _, id := range slices.Sorted(maps.Keys(b.debts)) {
		s = append(s, id+" owes "+b.debts[id].String())
	}
	for _, id := range slices.Sorted(maps.Keys(b.grants)) {
		g := b.grants[id]
		s = append(s, "grant "+id+" "+strconv.FormatInt(g.used, 10)+" of "+strconv.FormatInt(g.units, 10))
	}
	return strings.Join(s, "; ")
}
