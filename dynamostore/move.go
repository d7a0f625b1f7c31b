package dynamostore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/lumcast/headroom"
)

// When ids and totals move out of an item, and how many.
const (
	// unitBytes is what one write unit pays for.
	unitBytes = 1024
	// itemBytes is the size of Headroom's attributes past which ids move, so that a write stays at
	// one unit.
	itemBytes = 960
	// stepBytes is by how much the item grows until somebody else tries, if the ids have not moved.
	stepBytes = 256
	// idBytes is the room that ids have at least. If the rest of the item leaves less of the unit,
	// the item may take more units, because it would cost more to move each id at once.
	idBytes = 384
	// idsAtMost is how many ids move at once if many have gathered. An expression has at most 4 KB.
	idsAtMost = 75
	// drainBytes is the size of the ids past which every writer moves some. An earlier release kept
	// so many, or the ledger failed for long.
	drainBytes = 32 * unitBytes

	// pastMost is how many totals stay before the oldest move, and pastKept how many are left then.
	pastMost = 8
	pastKept = 4
	// pastBytes is about what a total takes.
	pastBytes = 16
	// bucketBytes is about what a bucket of holds takes beside its key.
	bucketBytes = 5

	// passedSlack is added to the time to live of a row.
	passedSlack = 24 * time.Hour
)

// move is one write that takes ids and totals out of an item, and the rows of the ledger that they
// become.
type move struct {
	layout  layout
	it      item      // as it was seen, but in the format that the write leaves it in
	expires time.Time // of the rows
	e       expression
	rows    []types.WriteRequest

	// corrected are limits with a total that was corrected. The ledger may have earlier versions of
	// it.
	corrected []string
}

// move begins a move out of an item. It brings the item to the format that Headroom writes.
func (l layout) move(it item, expires time.Time) *move {
	m := &move{layout: l, it: it, expires: expires}
	l.buildFormat(&m.e, it.key.Meter, it)
	m.it.format = l.writes(it)
	return m
}

// tidy moves ids and old totals to the ledger if changes, which are done, made the item large. Ids
// leave the meter that has most of them. If that fails it only logs so. A later writer tries again,
// and a copy that was interrupted anywhere does no harm.
func (s *Store) tidy(ctx context.Context, items []item, now time.Time, changes []headroom.Change) {
	bytes, most := 0, 0
	for i, c := range changes {
		bytes += grown(c)
		if items[i].idsSize > items[most].idsSize {
			most = i
		}
	}
	for i, c := range changes {
		it := items[i]
		s.forgetFolded(ctx, it, c)
		m := s.layout.move(it, it.expires(c.Horizon, now, c.Now))
		for _, step := range c.Steps {
			// The writer that opens a window moves the totals, so that not all writers do at once.
			least := 2 * pastMost
			if step.Opens {
				least = pastMost
			}
			m.totals(step.Limit, least)
		}
		if i == most {
			m.ids(m.it.toMove(bytes))
		}
		if _, err := s.move(ctx, m); err != nil {
			s.opts.Logger.Warn("headroom: could not move remembered operation ids to the ledger; the item grows until that succeeds", "subject", it.key.Subject, "ledger", s.opts.Ledger, "error", err)
		}
	}
}

// move copies the rows to the ledger and takes them out of the item. It reports whether there was
// anything to move. If another writer's move came first, there is nothing left to do.
func (s *Store) move(ctx context.Context, m *move) (moved bool, err error) {
	if len(m.e.removes) == 0 {
		return false, nil
	}
	if err := s.write(ctx, m.rows); err != nil {
		return false, err
	}
	attrs, got, err := s.send(ctx, m.it.key.Subject, &m.e)
	var lost *types.ConditionalCheckFailedException
	if errors.As(err, &lost) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if it, err := s.layout.decode(attrs, m.it.key, got.now); err == nil {
		s.moved.learn(it)
	}
	s.forgetEarlier(ctx, m.it, m.corrected)
	return true, nil
}

// expires returns when the rows of what moves from an item may be deleted. horizon is how long ids
// are remembered. Of the times, the latest counts; some may be zero.
func (it item) expires(horizon time.Duration, times ...time.Time) time.Time {
	latest := it.state.Epoch
	for _, c := range it.state.Counters {
		times = append(times, c.Window.End)
	}
	for _, t := range times {
		if t.After(latest) {
			latest = t
		}
	}
	return latest.Add(2*it.state.Horizon(horizon) + passedSlack)
}

// totals moves the oldest totals of a limit, if there are more than so many.
func (m *move) totals(limit string, least int) {
	past, counter := m.it.past[limit], m.it.state.Counters[limit]
	m.forgetTotals(limit)
	starts := slices.DeleteFunc(slices.Sorted(maps.Keys(past.totals)), func(start int64) bool {
		return m.it.format == formatOne && past.version[start] > 0 || !past.totals[start].Start.Before(counter.Window.Start)
	})
	if len(past.totals) > headroom.HistoryWindows+pastMost {
		return // once those are gone
	}
	take := starts[:max(0, min(len(starts)-pastKept, rowsAtOnce-len(m.rows)))]
	if len(starts) <= least || len(take) == 0 {
		return
	}
	if slices.ContainsFunc(take, func(start int64) bool { return past.version[start] > 0 }) {
		m.corrected = append(m.corrected, limit)
	}
	kept := m.expires.Add((headroom.HistoryWindows + 1) * counter.Window.End.Sub(counter.Window.Start))
	for _, start := range take {
		m.takeTotal(limit, past.totals[start])
		row := pastRow(limit, past.totals[start].Start, past.version[start])
		m.rows = append(m.rows, ledgerRow(m.it.key, row, kept, attributes{"total": totalValue(past.totals[start])}))
	}
	more := m.e.name(m.layout.counter(m.it.key.Meter, limit).past, morePast)
	m.e.setTo(more, "if_not_exists("+more+", "+m.e.value(num(0))+") + "+m.e.value(num(1)))
}

// takeTotal takes a total out of the item, if it is still as it was copied.
func (m *move) takeTotal(limit string, t headroom.Total) {
	past, attrs := m.layout.counter(m.it.key.Meter, limit).past, m.it.past[limit].attrs
	for _, key := range []string{unix(t.Start), unknownPast + unix(t.Start), versionPast + unix(t.Start)} {
		at := m.e.name(past, key)
		if v := attrs[key]; v != nil {
			m.e.equal(at, v)
			m.e.remove(at)
		} else if strings.HasPrefix(key, versionPast) {
			m.e.absent(at) // the same total may be another version
		}
	}
	if once := oncePast + unix(t.Start); attrs[once] != nil {
		m.e.remove(m.e.name(past, once))
	}
}

// forgetTotals takes totals out of the item that are so old that nobody is shown them. They are
// there only because they were corrected.
func (m *move) forgetTotals(limit string) {
	past := m.it.past[limit]
	starts := slices.Sorted(maps.Keys(past.totals))
	if len(starts) <= headroom.HistoryWindows+pastMost {
		return
	}
	for _, start := range starts[:len(starts)-headroom.HistoryWindows] {
		at := strconv.FormatInt(start, 10)
		for _, key := range []string{at, unknownPast + at, oncePast + at, versionPast + at} {
			if past.attrs[key] != nil {
				m.e.remove(m.e.name(m.layout.counter(m.it.key.Meter, limit).past, key))
			}
		}
	}
}

// ids moves ids, until the move has so many rows. It takes an id only as it was copied. One that is
// refunded or settled meanwhile moves another time.
func (m *move) ids(most int) {
	field := func(name string) string { return m.layout.field(m.it.key.Meter, name) }
	took := false
	for _, from := range []struct {
		field   string
		records map[string]string
		epoch   time.Time
	}{{"OpsBefore", m.it.before, m.it.state.EpochBefore}, {"Ops", m.it.ops, m.it.state.Epoch}} {
		for _, name := range slices.Sorted(maps.Keys(from.records)) {
			text := from.records[name]
			if len(m.rows) >= most || !m.it.moves(text) {
				continue
			}
			took = true
			at := m.e.name(field(from.field), name)
			m.e.equal(at, str(text))
			m.e.remove(at)
			record, version := unmarked(text)
			m.rows = append(m.rows, ledgerRow(m.it.key, opRow(name, version), m.expires, attributes{"charge": str(record), "epoch": num(from.epoch.Unix())}))
		}
	}
	if !took {
		return
	}
	gen := m.e.name(field("Gen"))
	m.e.equal(gen, num(m.it.gen))
	m.e.equal(m.e.name(field("Epoch")), num(m.it.state.Epoch.Unix()))
	m.e.set(gen, num(m.it.gen+1))
	m.e.set(m.e.name(field("Spilt")), num(m.it.state.Epoch.Unix()))
}

// toMove returns how many ids a writer moves at most, if its change made the item grow by so many
// bytes. It moves none unless that filled the item. If every writer that finds the item full moved
// ids, many would pay for copying the same ones.
func (it item) toMove(grown int) int {
	most := itemBytes
	for most-(it.size-it.idsSize) < idBytes {
		most += unitBytes
	}
	// marks is how many sizes an item of this size has passed at which somebody is to move ids.
	// These are most, the end of the unit, and each step from there.
	marks := func(size int) int {
		switch end := most + unitBytes - itemBytes; {
		case size <= most:
			return 0
		case size <= end:
			return 1
		default:
			return 2 + (size-end-1)/stepBytes
		}
	}
	switch {
	case it.idsSize > drainBytes:
		return idsAtMost // every write pays for all ids: that costs more than copying some twice
	case it.idsSize == 0 || marks(it.size) == marks(it.size-grown):
		return 0
	case it.idsSize > 2*unitBytes:
		return idsAtMost
	}
	return rowsAtOnce
}

// grown is about how many bytes a change adds to an item, and rather more than fewer.
func grown(c headroom.Change) (bytes int) {
	for _, r := range c.Records {
		if r.Is == nil {
			continue
		}
		bytes += len(r.Is.String()) + len(versionMark) + 3 + len(idName(r.ID))
	}
	for _, b := range c.Buckets {
		if !b.There {
			bytes += len(bucketName(b.BucketKey, b.In)) + bucketBytes
		}
	}
	for _, d := range c.Debts {
		if d.Is != nil {
			bytes += len(d.ID) + len(d.Is.String()) + 1
		}
	}
	for _, step := range c.Steps {
		if step.Opens {
			bytes += pastBytes
		}
	}
	return bytes
}

// roomTries bounds how often room is made for one write. One move makes more than enough, but
// others may take it first.
const roomTries = 4

// tooLarge reports whether a write is refused because the item would have more than 400 KB.
func tooLarge(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == "ValidationException" &&
		strings.Contains(api.ErrorMessage(), "Item size") && strings.Contains(api.ErrorMessage(), "exceeded")
}

// makeRoom moves ids and totals out of an item that is as large as DynamoDB lets one be. Such an
// item takes no write that would make it larger, not even the turn of its ids. If the item has
// several meters, makeRoom takes the one from which most can move.
//
// If nothing can move, full says why. It need not be so: another writer may have made room
// meanwhile, which one more try tells.
func (s *Store) makeRoom(ctx context.Context, subject string, refused error) (full, err error) {
	attrs, now, err := s.attributes(ctx, subject, true)
	if err != nil {
		return nil, err
	}
	best, why := &move{}, "Headroom has nothing in it that can move to the ledger"
	for _, meter := range s.layout.meters(attrs) {
		it, err := s.layout.decode(attrs, headroom.Key{Subject: subject, Meter: meter}, now)
		if err != nil || !it.formatted {
			continue // what does not read stays
		}
		// The label of a generation tells every horizon but the default one.
		m := s.layout.move(it, it.expires(headroom.DefaultHorizon, now))
		for _, limit := range slices.Sorted(maps.Keys(it.state.Counters)) {
			m.totals(limit, pastKept)
		}
		m.ids(idsAtMost)
		if len(m.rows) > len(best.rows) {
			best = m
		}
		if m.it.format == formatOne {
			why = "in format 1 what was refunded, or settled late, cannot move to the ledger: let Headroom write the newest format"
		}
	}
	moved, err := s.move(ctx, best)
	switch {
	case errors.Is(err, headroom.OutcomeUnknown):
		return nil, headroom.Errorf(headroom.Unavailable, err, "the item of %q is full, and whether ids were moved out of it is not known; nothing else was written", subject)
	case err != nil || moved:
		return nil, err
	}
	return headroom.Errorf(headroom.Rejected, refused, "the item of %q is as large as DynamoDB lets one be, and %s", subject, why), nil
}
