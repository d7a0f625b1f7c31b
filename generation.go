package headroom

import (
	"slices"
	"time"
)

// Operation ids age in generations. The label of one is the time at which it begins, at the earliest: a whole
// multiple of the horizon, and some seconds. Since a horizon has no seconds, those tell it, so that ids live as
// long as they were promised to when another one is configured: 0 is DefaultHorizon, and each that follows stands
// for all that are longer than what the one before it stands for, by at most a quarter.

// told are the longest horizons that so many seconds tell.
var told = func() (all [60]time.Duration) {
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
	s, _ := slices.BinarySearch(told[1:], h)
	return int64(s) + 1
}

// epoch returns the label of the generation of ids that is young at t, if the horizon was always h.
func epoch(t time.Time, h time.Duration) time.Time {
	seconds, mark := int64(h/time.Second), horizonSeconds(h)
	return time.Unix(floorDiv(t.Unix()-mark, seconds)*seconds+mark, 0).UTC()
}

// promised returns for how long the ids of a generation are to be remembered, where the horizon is h now.
func promised(label time.Time, h time.Duration) time.Duration {
	mark := label.Unix() - floorDiv(label.Unix(), 60)*60
	if label.IsZero() || mark == horizonSeconds(h) {
		return h
	}
	return max(h, told[mark])
}

// rotation returns the label with which a new generation begins at t, if it is time. Then the older one is forgotten:
// its ids are from before the younger one began, and its promise must be kept.
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

// Horizon returns how long at least the ids of both generations must be remembered, where the horizon is h now.
// It is longer than h while ids are remembered that were promised more.
func (s State) Horizon(h time.Duration) time.Duration {
	return max(promised(s.Epoch, h), promised(s.EpochBefore, h))
}
