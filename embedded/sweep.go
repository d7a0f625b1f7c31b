package embedded

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// What a generation must have behind it before it is swept. A lookup never depends on it: it goes
// by the labels of its state. A label does not say which horizon its ids have, so the longest
// counts.
const (
	sweepHorizons = 3 // so many times the longest horizon must have passed since its label, and
	// so many generations must have begun after it, each that horizon apart from the others
	sweepYounger = 3
)

// turned sweeps after a generation of ids has begun, the first time that one has this label or a
// later one: so there is one sweep for each turn, whatever the number of subjects. Nobody waits for
// it but the writer that began the generation, whose change is on disk by then.
func (s *Store) turned(label time.Time) {
	s.clock.mu.Lock()
	first := label.After(s.clock.newest)
	s.clock.newest = later(s.clock.newest, label)
	s.clock.mu.Unlock()
	if !first {
		return
	}
	if err := s.sweep(); err != nil {
		engineLog{s.disk}.Errorf("forgetting old ids: %v", err) // the next turn does it
	}
}

// sweep removes the operations of generations that no horizon reaches any more. The time is the
// lesser of what the clock says and what it said when the store was last written. So a clock that
// is wrong today forgets nothing.
func (s *Store) sweep() error {
	s.clock.mu.Lock()
	present, kept, horizon := s.clock.now(), s.clock.kept, s.clock.horizon
	s.clock.mu.Unlock()
	if kept.Before(present) {
		present = kept
	}
	if horizon == 0 || kept.IsZero() {
		return nil // nothing was ever written by the clock
	}
	labels, err := s.labels(byClock)
	if err != nil {
		return err
	}
	end := swept(labels, present, horizon)
	if end == 0 {
		return nil
	}
	from, to := []byte{tableOps, byClock}, opsPrefix(generation{kind: byClock, label: labels[end]})
	return s.db.DeleteRange(from, to, pebble.NoSync) // what a crash brings back goes at the next turn
}

// swept returns how many of the labels, the oldest first, are of generations that can go. Meters
// with different horizons begin generations at different times, but by one wrong reading of the
// clock all their labels lie within the longest horizon before it: so it counts for one, however
// many they are.
func swept(labels []time.Time, present time.Time, horizon time.Duration) int {
	oldest := present.Add(-sweepHorizons * horizon)
	end, younger, last := len(labels), 0, time.Time{}
	for end > 0 && younger < sweepYounger {
		end--
		if younger == 0 || !last.Before(labels[end].Add(horizon)) {
			younger, last = younger+1, labels[end]
		}
	}
	if younger < sweepYounger {
		return 0
	}
	for end > 0 && !labels[end-1].Before(oldest) {
		end--
	}
	return end
}

// labels returns the labels of the generations of a kind that have operations, the oldest first.
func (s *Store) labels(kind byte) ([]time.Time, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableOps, kind}, UpperBound: []byte{tableOps, kind + 1}})
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
		ok = it.SeekGE(opsPrefix(generation{kind: kind, label: label.Add(1)}))
	}
	return labels, errors.Join(it.Error(), it.Close())
}
