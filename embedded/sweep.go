package embedded

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// What a generation must have behind it before it is swept. A lookup never depends on it: it goes by the labels of its state.
const (
	sweepHorizons = 3 // so many times the longest horizon must have passed since its label, and
	sweepYounger  = 3 // so many generations must have begun after it, since one wrong clock begins only one
)

// sweep removes the operations of generations that no horizon reaches any more. Time is the lesser of what the clock says and of what it had said when the store was written last, so that a clock that is wrong today forgets nothing.
func (s *Store) sweep() error {
	present := s.clock.now()
	if s.clock.kept.Before(present) {
		present = s.clock.kept
	}
	if s.clock.horizon == 0 || s.clock.kept.IsZero() {
		return nil // nothing was ever written by the clock
	}
	oldest := present.Add(-sweepHorizons * s.clock.horizon)
	labels, err := s.labels()
	if err != nil {
		return err
	}
	end := len(labels) - sweepYounger
	for end > 0 && !labels[end-1].Before(oldest) {
		end--
	}
	if end <= 0 {
		return nil
	}
	from, to := []byte{tableOps, byClock}, opsPrefix(generation{kind: byClock, label: labels[end]})
	return s.db.DeleteRange(from, to, pebble.Sync)
}

// labels returns the labels of the generations that the clock began and that have operations, the oldest first.
func (s *Store) labels() ([]time.Time, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableOps, byClock}, UpperBound: []byte{tableOps, byClock + 1}})
	if err != nil {
		return nil, err
	}
	var labels []time.Time
	for ok := it.First(); ok; {
		label, err := opsLabel(it.Key())
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		labels = append(labels, label)
		ok = it.SeekGE(opsPrefix(generation{kind: byClock, label: label.Add(1)}))
	}
	return labels, errors.Join(it.Error(), it.Close())
}
