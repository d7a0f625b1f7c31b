package headroom

import (
	"slices"
	"time"
)

// Operation ids age in two generations. New ids go to the younger one. When it is time, the older
// one is forgotten, the younger one becomes the older, and a new one begins.
//
// Each generation has a label, a time at or before its beginning. The label is a whole multiple of
// the horizon, plus some seconds. Since a horizon is in whole minutes, those seconds are free to
// tell which horizon it was. So ids live as long as was promised for them, even if another horizon
// is configured later.

// horizonOf says which horizon so many seconds of a label tell. 0 seconds tell DefaultHorizon. Any
// other number tells a range: horizons up to the one here and longer than the one before it, which
// is at most a quarter shorter.
var horizonOf = func() (all [60]time.Duration) {
	all[0], all[1] = DefaultHorizon, time.Hour
	for s := 2; s < len(all); s++ {
		all[s] = all[s-1] + (all[s-1] / 4).Truncate(time.Minute)
	}
	return all
}()

// horizonSeconds returns the seconds that tell a horizon.
func horizonSeconds(h time.Duration) int64 {
	if h == DefaultHorizon {
		return 0
	}
	s, _ := slices.BinarySearch(horizonOf[1:], h)
	return int64(s) + 1
}

// epoch returns the label of the generation that is young at t, if the horizon was always h.
func epoch(t time.Time, h time.Duration) time.Time {
	seconds, mark := int64(h/time.Second), horizonSeconds(h)
	return time.Unix(floorDiv(t.Unix()-mark, seconds)*seconds+mark, 0).UTC()
}

// promised returns how long the ids of the generation with a label are to be remembered. h is the
// horizon now.
func promised(label time.Time, h time.Duration) time.Duration {
	mark := label.Unix() - floorDiv(label.Unix(), 60)*60
	if label.IsZero() || mark == horizonSeconds(h) {
		return h
	}
	return max(h, horizonOf[mark])
}

// rotation returns the label of a new generation, and whether it is time at t for it to begin. It
// is time when the promise of the older generation is kept: its ids are from before the younger one
// began.
func (s State) rotation(t time.Time, h time.Duration) (label time.Time, due bool) {
	label = epoch(t, h)
	if s.Epoch.IsZero() {
		return label, true
	}
	kept := s.Epoch.Add(promised(s.EpochBefore, h))
	first := epoch(kept, h)
	if first.Before(kept) {
		first = first.Add(h)
	}
	return label, !t.Before(first)
}

// Horizon returns how long the ids of both generations must be remembered at least. h is the
// horizon now. The answer is longer than h if some ids were promised more.
func (s State) Horizon(h time.Duration) time.Duration {
	return max(promised(s.Epoch, h), promised(s.EpochBefore, h))
}
