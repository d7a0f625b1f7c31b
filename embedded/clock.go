package embedded

import (
	"context"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/lumcast/headroom"
)

// markStep is how far the high-water mark may run ahead of the one on disk before a commit carries
// it along. It is small against headroom.ClockTolerance.
const markStep = 10 * time.Second

// clock is the host's clock and the memory of what it has shown.
//
// The high-water mark is the highest reading by which something was written, and no lower than the
// start of any window that a reading opened. While readings stay within the tolerance of the mark,
// no stored window can seem to lie in the future, and none is brought back by mistake. When they do
// not, nothing is decided until somebody has looked at the clock (AcceptClock).
type clock struct {
	read func() time.Time

	// held while a batch that carries the values below is applied, so that they are logged in the
	// order in which they grew
	mu      sync.Mutex
	mark    time.Time     // zero: nothing was written by the clock yet
	kept    time.Time     // the mark in the log, at most markStep behind
	horizon time.Duration // the longest horizon that any change asked for, in the log
	// the label of the youngest generation of ids after whose beginning old ones were swept
	newest time.Time
}

// ClockStatus is what a store thinks of its clock.
type ClockStatus struct {
	Now       time.Time // the host's clock, UTC
	HighWater time.Time // the highest reading by which something was written; zero if nothing was
	Trusted   bool      // Now is at most headroom.ClockTolerance behind HighWater: decisions are made
}

// now reads the clock. The monotonic part is left out: it would hide that the clock was set back.
func (c *clock) now() time.Time { return c.read().Round(0).UTC() }

func trusted(now, mark time.Time) bool { return !now.Before(mark.Add(-headroom.ClockTolerance)) }

// present returns the time to decide by: the caller's, else the clock's if it can be trusted.
func (s *Store) present(callers time.Time) (time.Time, error) {
	if !callers.IsZero() {
		return callers, nil
	}
	// The clock is read under the lock of its mark: between the two another's later reading could move
	// the mark, after a host's sleep by hours, and this reading would seem to come from a clock that
	// was set back.
	s.clock.mu.Lock()
	now, mark := s.clock.now(), s.clock.mark
	s.clock.mu.Unlock()
	if !trusted(now, mark) {
		return time.Time{}, headroom.Errorf(headroom.ClockUntrusted, nil,
			"the clock reads %s, but it has read %s before: one of the two is wrong. Nothing was decided. See that the clock is right, then run `headroom clock accept` on %s",
			now.Format(time.RFC3339), mark.Format(time.RFC3339), s.dir)
	}
	return now, nil
}

// apply applies the batch of some changes, without waiting for the disk. The mark moves before
// anything of them can be seen.
func (s *Store) apply(b *pebble.Batch, parts []joinedPart) error {
	k := &s.clock
	k.mu.Lock()
	horizon, carry := k.horizon, false
	for _, p := range parts {
		horizon = max(horizon, p.change.Horizon)
		carry = k.sees(p) || carry
	}
	carry = carry || horizon > k.horizon
	if !carry {
		k.mu.Unlock()
		return s.write(b)
	}
	defer k.mu.Unlock()
	k.kept, k.horizon = k.mark, horizon
	if err := b.Set([]byte{tableClock}, encodeClock(k.kept, k.horizon), nil); err != nil {
		return err
	}
	return s.write(b)
}

// sees moves the mark to where a change takes it, and reports whether the mark on disk must follow.
func (k *clock) sees(p joinedPart) (carry bool) {
	if !p.change.Now.IsZero() {
		return false
	}
	k.mark = later(k.mark, p.now)
	carry = k.mark.After(k.kept.Add(markStep))
	for _, step := range p.change.Steps {
		if step.Opens {
			k.mark = later(k.mark, step.To.Start)
			carry = carry || step.To.Start.After(k.kept)
		}
	}
	return carry
}

// Clock shows the host's clock beside what the store remembers of it.
func (s *Store) Clock(ctx context.Context) (ClockStatus, error) {
	if err := s.usable(ctx); err != nil {
		return ClockStatus{}, err
	}
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	now := s.clock.now()
	return ClockStatus{Now: now, HighWater: s.clock.mark, Trusted: trusted(now, s.clock.mark)}, nil
}

// AcceptClock declares that the host's clock is right now, however far behind an earlier reading.
// The next deduction of each subject then brings back the windows that a wrong clock opened in the
// future.
func (s *Store) AcceptClock(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	k := &s.clock
	k.mu.Lock()
	b := s.db.NewBatch()
	mark := k.now()
	err := b.Set([]byte{tableClock}, encodeClock(mark, k.horizon), nil)
	if err == nil {
		err = s.write(b)
	}
	if err == nil {
		k.mark, k.kept = mark, mark
	}
	k.mu.Unlock()
	return s.sync(b, make(pending), err)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
