package embedded

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/lumcast/headroom"
)

var _ headroom.Forgetter = (*Store)(nil)

// Forget implements headroom.Forgetter, in one write. It fails as Commit does. Then it has the
// files written anew that held the rows, which may take a while; cut off there, it is called again.
func (s *Store) Forget(ctx context.Context, subject string, _ []string, progress func(rows int)) (int, error) {
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	b := s.db.NewBatch()
	st := s.stripe(subject)
	st.mu.Lock()
	ranges, rows, err := s.rowsOf(subject)
	for _, r := range ranges {
		err = errors.Join(err, b.DeleteRange(r.from, r.to, nil))
	}
	if err == nil {
		err = b.Delete(planKey(subject), nil)
	}
	if err != nil {
		st.mu.Unlock()
		_ = b.Close()
		return 0, s.unread(headroom.Key{Subject: subject}, err)
	}
	err = s.write(b)
	on := make(pending)
	st.last = on
	st.mu.Unlock()
	if err := s.sync(b, on, err); err != nil {
		return 0, err
	}
	progress(rows)
	// A deleted row stays in the files until they are written anew.
	if err := s.db.Flush(); err != nil {
		return rows, headroom.Errorf(headroom.Unavailable, err, "subject %q is forgotten, but its rows are still in files of the store in %s: forget it again", subject, s.dir)
	}
	for _, r := range append(ranges, span{planKey(subject), append(planKey(subject), 0)}) {
		if err := s.db.Compact(ctx, r.from, r.to, false); err != nil {
			return rows, headroom.Errorf(headroom.Unavailable, err, "subject %q is forgotten, but its rows are still in files of the store in %s: forget it again", subject, s.dir)
		}
	}
	return rows, nil
}

// span is the keys from one up to another.
type span struct{ from, to []byte }

// within is the span of the keys that begin with prefix.
func within(prefix []byte) span {
	to := append([]byte{}, prefix...)
	for i := len(to) - 1; i >= 0; i-- {
		if to[i]++; to[i] != 0 {
			return span{prefix, to[:i+1]}
		}
	}
	return span{prefix, []byte{0xff, 0xff}}
}

// rowsOf returns where the rows of a subject lie, except its plan, and how many there are, with its
// plan.
func (s *Store) rowsOf(subject string) (ranges []span, rows int, err error) {
	for _, table := range []byte{tableState, tableHistory, tableHolds, tableBuckets, tableGrants, tableDebts} {
		ranges = append(ranges, within(appendName([]byte{table}, subject)))
	}
	for _, kind := range []byte{byClock, byCaller} {
		labels, err := s.labels(kind)
		if err != nil {
			return nil, 0, err
		}
		for _, label := range labels {
			ranges = append(ranges, within(appendName(opsPrefix(generation{kind: kind, label: label}), subject)))
		}
	}
	kept := ranges[:0]
	for _, r := range ranges {
		n, err := s.count(r)
		if err != nil {
			return nil, 0, err
		}
		rows += n
		if n > 0 || r.from[0] != tableOps {
			kept = append(kept, r)
		}
	}
	planned, err := s.get(planKey(subject), func([]byte) error { return nil })
	if planned {
		rows++
	}
	return kept, rows, err
}

func (s *Store) count(r span) (n int, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: r.from, UpperBound: r.to})
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n, errors.Join(it.Error(), it.Close())
}
