package embedded

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// What is on disk, format 1.
//
// A key begins with a letter for its table. A name inside a key is preceded by its length, unless
// it comes last. So no two names make one key, whatever bytes they hold.
//
//	f                                           the format's number
//	c                                           the clock: time, then the longest horizon in nanoseconds
//	p subject                                   name of the subject's plan
//	s len subject meter                         state: three generations, the third with the time at
//	                                            which it is over, flags (1 byte each: has old holds,
//	                                            has grants, has debts, has buckets), number of
//	                                            counters, counters sorted by name
//	h len subject len meter counter             history of a counter: number of totals, totals, the
//	                                            latest first
//	l len subject meter                         holds of older programs, if there are any: number of
//	                                            them, each the id and the text of headroom.Record
//	b len subject meter                         buckets of holds, if there were any: series, swept
//	                                            (time), number of them, each the limit, the grant,
//	                                            start (time), expiry (time), series, units, in (time)
//	g len subject meter                         grants, if there are any: number of them, each the
//	                                            id, units, used, expiry (time)
//	d len subject meter                         debts, if there are any: number of them, each the id
//	                                            and the text of headroom.Debt. These rows are the
//	                                            list of who owes
//	o kind label len subject len meter id       a remembered id: the text of headroom.Record
//
//	generation  kind (1 byte), label (time); nothing after kind 0, which is no generation
//	counter     len name, flags (1 byte: 1 has history), len window key, start (time), end (time), count,
//	            carried over
//	total       start (time), units, flags (1 byte: 1 unknown)
//	time        Unix seconds, nanoseconds
//	label       in a key: Unix seconds with the sign bit flipped (8 bytes, big end first), nanoseconds
//	            (4 bytes), so that keys sort by time
//
// Lengths, numbers and nanoseconds are unsigned varints. Seconds, counts and units are signed ones
// (encoding/binary). The rows f, c, s, h, l, b, g and d begin with a byte of their own, rowVersion
// or stateVersion, so that a later format can change one kind of row and still read those written
// before.
const (
	storeFormat = 1
	rowVersion  = 1
	// of the rows s. In 1 they had two generations, up to 2 no debts, up to 3 no buckets
	stateVersion = 4
	withoutDebts = 2 // the version that the first release of the store writes
	noBuckets    = 3 // the version that the second one writes
)

// Tables.
const (
	tableFormat  = 'f'
	tableClock   = 'c'
	tablePlan    = 'p'
	tableState   = 's'
	tableHistory = 'h'
	tableHolds   = 'l'
	tableBuckets = 'b'
	tableGrants  = 'g'
	tableDebts   = 'd'
	tableOps     = 'o'
)

// Kinds of a generation of operation ids, by whose time it was begun. Only what the clock began is
// ever swept. Nobody can say when a log that is replayed at its own time will be replayed again.
const (
	noGeneration byte = iota
	byClock
	byCaller
)

// generation names a set of operation ids that are forgotten together.
type generation struct {
	kind  byte
	label time.Time
}

// entry is what is stored for one key: its state, without the subject's plan. A counter is Partial
// if its history is stored but was not read.
type entry struct {
	state      headroom.State
	young, old generation // the labels are those of the state
	older      generation // what was forgotten last, and
	over       time.Time  // until when that was too early: by a clock that ran ahead

	oldHolds, grants bool // there are some
	debts            bool // too, in which case the row is of version 3
	buckets          bool // or were, in which case the row is of version 4
}

var errDamaged = errors.New("damaged row")

func appendName(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTime(b []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, t.Unix()), uint64(t.Nanosecond()))
}

func planKey(subject string) []byte { return append([]byte{tablePlan}, subject...) }

func stateKey(k headroom.Key) []byte {
	return append(appendName([]byte{tableState}, k.Subject), k.Meter...)
}

func holdsKey(k headroom.Key) []byte {
	return append(appendName([]byte{tableHolds}, k.Subject), k.Meter...)
}

func grantsKey(k headroom.Key) []byte {
	return append(appendName([]byte{tableGrants}, k.Subject), k.Meter...)
}

func bucketsKey(k headroom.Key) []byte {
	return append(appendName([]byte{tableBuckets}, k.Subject), k.Meter...)
}

func debtsKey(k headroom.Key) []byte {
	return append(appendName([]byte{tableDebts}, k.Subject), k.Meter...)
}

// debtor reads what debtsKey wrote.
func debtor(row []byte) (headroom.Key, error) {
	d := &decoder{rest: row[1:]}
	k := headroom.Key{Subject: d.name(), Meter: string(d.rest)}
	if d.bad {
		return k, errDamaged
	}
	return k, nil
}

func historyKey(k headroom.Key, counter string) []byte {
	return append(appendName(appendName([]byte{tableHistory}, k.Subject), k.Meter), counter...)
}

// opsPrefix is what the keys of all operations of a generation begin with.
func opsPrefix(g generation) []byte {
	b := binary.BigEndian.AppendUint64([]byte{tableOps, g.kind}, uint64(g.label.Unix())^(1<<63))
	return binary.BigEndian.AppendUint32(b, uint32(g.label.Nanosecond()))
}

const opsPrefixLen = 1 + 1 + 8 + 4

func opKey(g generation, k headroom.Key, operation string) []byte {
	return append(appendName(appendName(opsPrefix(g), k.Subject), k.Meter), operation...)
}

// opsLabel reads the label of the generation that a key of the table of operations belongs to.
func opsLabel(key []byte) (time.Time, error) {
	if len(key) < opsPrefixLen {
		return time.Time{}, errDamaged
	}
	seconds := int64(binary.BigEndian.Uint64(key[2:10]) ^ (1 << 63))
	return time.Unix(seconds, int64(binary.BigEndian.Uint32(key[10:14]))).UTC(), nil
}

func (e entry) encode() []byte {
	version := byte(withoutDebts) // most rows, which older programs can read
	switch {
	case e.buckets:
		version = stateVersion
	case e.debts:
		version = noBuckets
	}
	b := []byte{version}
	for _, g := range e.generations() {
		b = append(b, g.kind)
		if g.kind != noGeneration {
			b = appendTime(b, g.label)
		}
	}
	if e.older.kind != noGeneration {
		b = appendTime(b, e.over)
	}
	b = append(b, flag(e.oldHolds), flag(e.grants))
	if version > withoutDebts {
		b = append(b, flag(e.debts))
	}
	if version > noBuckets {
		b = append(b, flag(e.buckets))
	}
	b = binary.AppendUvarint(b, uint64(len(e.state.Counters)))
	for _, name := range slices.Sorted(maps.Keys(e.state.Counters)) {
		c := e.state.Counters[name]
		b = append(appendName(b, name), flag(c.Partial || len(c.Past) > 0))
		b = appendName(b, c.Window.Key)
		b = appendTime(appendTime(b, c.Window.Start), c.Window.End)
		b = binary.AppendVarint(binary.AppendVarint(b, c.Count), c.Carried)
	}
	return b
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

func decodeEntry(row []byte) (entry, error) {
	d := &decoder{rest: row}
	version := d.byte()
	if version > stateVersion {
		return entry{}, headroom.Errorf(headroom.Unreadable, nil, "it was written by a newer program, in version %d of its row, and this one knows %d: use that program", version, stateVersion)
	}
	d.bad = d.bad || version == 0
	e := entry{young: d.generation(), old: d.generation()}
	if version >= 2 {
		if e.older = d.generation(); e.older.kind != noGeneration {
			e.over = d.time()
		}
	}
	e.oldHolds, e.grants = d.flag(), d.flag()
	e.debts = version > withoutDebts && d.flag()
	e.buckets = version > noBuckets && d.flag()
	e.state.Epoch, e.state.EpochBefore = e.young.label, e.old.label
	e.state.Counters = map[string]headroom.Counter{}
	for range d.number() {
		name := d.name()
		c := headroom.Counter{Partial: d.flag()}
		c.Window = headroom.Window{Key: d.name(), Start: d.time(), End: d.time()}
		c.Count, c.Carried = d.natural(), d.natural()
		if d.bad = d.bad || !c.Window.IsZero() && !c.Window.Start.Before(c.Window.End); d.bad {
			break
		}
		e.state.Counters[name] = c
	}
	return e, d.done()
}

func encodeHistory(past []headroom.Total) []byte {
	b := binary.AppendUvarint([]byte{rowVersion}, uint64(len(past)))
	for _, t := range past {
		b = append(binary.AppendVarint(appendTime(b, t.Start), t.Units), flag(t.Unknown))
	}
	return b
}

func encodeHolds(holds map[string]headroom.Record) []byte {
	b := binary.AppendUvarint([]byte{rowVersion}, uint64(len(holds)))
	for _, id := range slices.Sorted(maps.Keys(holds)) {
		b = appendName(appendName(b, id), holds[id].String())
	}
	return b
}

func decodeHolds(row []byte) (map[string]headroom.Record, error) {
	d := newDecoder(row)
	holds := map[string]headroom.Record{}
	for range d.number() {
		id, text := d.name(), d.name()
		if d.bad {
			break
		}
		hold, err := headroom.ParseRecord(text)
		if err == nil && hold.Kind != headroom.KindHold {
			err = errDamaged
		}
		if err != nil {
			return nil, err
		}
		holds[id] = hold
	}
	return holds, d.done()
}

func encodeBuckets(s headroom.State) []byte {
	b := appendTime(binary.AppendVarint([]byte{rowVersion}, s.Series), s.Swept)
	b = binary.AppendUvarint(b, uint64(len(s.Buckets)))
	for _, of := range s.Buckets {
		b = appendName(appendName(b, of.Limit), of.Grant)
		b = appendTime(appendTime(b, of.Start), of.Expires)
		b = appendTime(binary.AppendVarint(binary.AppendVarint(b, of.Series), of.Units), of.In)
	}
	return b
}

// decodeBuckets adds the buckets to a state.
func decodeBuckets(row []byte, s *headroom.State) error {
	d := newDecoder(row)
	s.Series, s.Swept = d.natural(), d.time()
	for range d.number() {
		key := headroom.BucketKey{Limit: d.name(), Grant: d.name(), Start: d.time(), Expires: d.time(), Series: d.natural()}
		b := headroom.Bucket{BucketKey: key, Units: d.natural(), In: d.time()}
		// They are sorted: a key that comes twice would be found once.
		if n := len(s.Buckets); d.bad || n > 0 && s.Buckets[n-1].Compare(key) >= 0 {
			return errDamaged
		}
		s.Buckets = append(s.Buckets, b)
	}
	return d.done()
}

func encodeGrants(grants map[string]headroom.Grant) []byte {
	b := binary.AppendUvarint([]byte{rowVersion}, uint64(len(grants)))
	for _, id := range slices.Sorted(maps.Keys(grants)) {
		g := grants[id]
		b = appendTime(binary.AppendVarint(binary.AppendVarint(appendName(b, id), g.Units), g.Used), g.Expires)
	}
	return b
}

func decodeGrants(row []byte) (map[string]headroom.Grant, error) {
	d := newDecoder(row)
	grants := map[string]headroom.Grant{}
	for range d.number() {
		id := d.name()
		g := headroom.Grant{Units: d.natural(), Used: d.natural(), Expires: d.time()}
		if d.bad {
			break
		}
		grants[id] = g
	}
	return grants, d.done()
}

func encodeDebts(debts map[string]headroom.Debt) []byte {
	b := binary.AppendUvarint([]byte{rowVersion}, uint64(len(debts)))
	for _, id := range slices.Sorted(maps.Keys(debts)) {
		b = appendName(appendName(b, id), debts[id].String())
	}
	return b
}

func decodeDebts(row []byte) (map[string]headroom.Debt, error) {
	d := newDecoder(row)
	debts := map[string]headroom.Debt{}
	for range d.number() {
		id, text := d.name(), d.name()
		if d.bad {
			break
		}
		debt, err := headroom.ParseDebt(text)
		if err != nil {
			return nil, err
		}
		debts[id] = debt
	}
	return debts, d.done()
}

func decodeHistory(row []byte) ([]headroom.Total, error) {
	d := newDecoder(row)
	var past []headroom.Total
	for range d.number() {
		t := headroom.Total{Start: d.time(), Units: d.natural(), Unknown: d.flag()}
		if d.bad {
			break
		}
		past = append(past, t)
	}
	return past, d.done()
}

func encodeClock(mark time.Time, horizon time.Duration) []byte {
	return binary.AppendUvarint(appendTime([]byte{rowVersion}, mark), uint64(horizon))
}

func decodeClock(row []byte) (mark time.Time, horizon time.Duration, err error) {
	d := newDecoder(row)
	mark, horizon = d.time(), time.Duration(d.number())
	if horizon < 0 {
		d.bad = true
	}
	return mark, horizon, d.done()
}

func encodeFormat(number uint64) []byte { return binary.AppendUvarint([]byte{rowVersion}, number) }

// decodeFormat reads no further than the number. What a later format keeps after it is not for this
// program.
func decodeFormat(row []byte) (uint64, error) {
	d := newDecoder(row)
	number := d.number()
	if d.bad {
		return 0, errDamaged
	}
	return number, nil
}
