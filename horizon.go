package headroom

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// DefaultHorizon is how long operation ids are remembered at least, unless a horizon is configured: longer
// than a queue keeps a message and than a state machine can be redriven, both 14 days on AWS.
const DefaultHorizon = 15 * day

// MaxHorizon is the longest time that operation ids can be remembered: ten years.
const MaxHorizon = 10 * 366 * day

const day = 24 * time.Hour

// Memory is how a meter remembers operation ids. The zero value is a good one.
type Memory struct {
	// Horizon is how long at least, in whole minutes, from one to MaxHorizon. Zero: what holds for all meters.
	Horizon time.Duration
	// None admits a Deduct without an operation id, for callers that have none. Nothing is remembered of it:
	// a repeat is another charge, and there is no refund. What has an id is remembered as ever.
	None bool
}

// WithMemory returns the catalog with how its meters remember operation ids. all is the horizon of the meters
// that have none of their own. Where that is zero, a meter remembers them for its longest hard window and a
// day, at least DefaultHorizon and at most MaxHorizon: so within a window nothing is charged twice, and
// a charge can be refunded.
func (c *Catalog) WithMemory(all time.Duration, meters map[string]Memory) (*Catalog, error) {
	if err := checkHorizon(all); err != nil {
		return nil, err
	}
	for _, meter := range slices.Sorted(maps.Keys(meters)) {
		if _, ok := c.counters[meter]; !ok {
			return nil, invalid("unknown meter %q: no plan limits it", meter)
		}
		if err := checkHorizon(meters[meter].Horizon); err != nil {
			return nil, invalid("meter %q: %s", meter, err.Message)
		}
	}
	with := *c
	with.horizon, with.memory = all, maps.Clone(meters)
	with.remember()
	return &with, nil
}

// remember works out the horizon of each meter once: each decision asks for it.
func (c *Catalog) remember() {
	c.horizons = make(map[string]time.Duration, len(c.counters))
	for meter := range c.counters {
		c.horizons[meter] = cmp.Or(c.memory[meter].Horizon, c.horizon, min(c.needed(meter), MaxHorizon))
	}
}

func checkHorizon(h time.Duration) *Error {
	if h != 0 && (h < time.Minute || h > MaxHorizon || h%time.Minute != 0) {
		return invalid("horizon %s: want whole minutes, from 1 to those of %d days", h, MaxHorizon/day)
	}
	return nil
}

// Meters returns the names of all meters that some plan limits, sorted.
func (c *Catalog) Meters() []string { return slices.Sorted(maps.Keys(c.counters)) }

// Horizon returns how long at least the operation ids of a meter are remembered.
func (c *Catalog) Horizon(meter string) time.Duration {
	return cmp.Or(c.horizons[meter], c.horizon, DefaultHorizon)
}

// NeedsID reports whether a charge of the meter must have an operation id.
func (c *Catalog) NeedsID(meter string) bool { return !c.memory[meter].None }

// needed is the longest hard window of a meter and a day, at least DefaultHorizon.
func (c *Catalog) needed(meter string) time.Duration {
	longest, _ := c.longestHard(meter)
	return max(DefaultHorizon, longest+day)
}

// longestHard returns the length of the longest window of a meter that refuses anything, and its limit's name.
func (c *Catalog) longestHard(meter string) (longest time.Duration, name string) {
	for _, l := range c.counters[meter] {
		if of := l.Period.longest(); c.hard[[2]string{meter, l.Name}] && of > longest {
			longest, name = of, l.Name
		}
	}
	return longest, name
}

// Warnings says in one sentence each what of the catalog is legal but most likely not meant. It is empty if nothing is.
func (c *Catalog) Warnings() (all []string) {
	for _, meter := range c.Meters() {
		horizon, needed := c.Horizon(meter), c.needed(meter)
		if horizon >= needed {
			continue
		}
		longest, limit := c.longestHard(meter)
		why := "a queue may bring a message again, or an execution be started again, up to 14 days later"
		if longest > horizon {
			why = fmt.Sprintf("a window of its limit %q lasts %s: late in it a repeat is charged again, and a refund finds no charge", limit, inDays(longest))
		}
		if longest+day > MaxHorizon {
			why += fmt.Sprintf(" (%s is the most that can be remembered)", inDays(MaxHorizon))
		} else {
			why += "; want at least " + inDays(needed)
		}
		all = append(all, fmt.Sprintf("meter %q remembers operation ids for %s, but %s", meter, inDays(horizon), why))
	}
	return all
}

// inDays writes a time as people do, if it is whole days.
func inDays(d time.Duration) string {
	switch {
	case d == day:
		return "1 day"
	case d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}

// longest is the greatest length of the period's windows. In a zone it is a day more than that of the
// calendar, which is the most that a clock was ever set back.
func (p Period) longest() (longest time.Duration) {
	if p.kind == byHour {
		return time.Hour // it is cut where the clock is set back
	}
	_, months, days := p.cycle()
	longest = time.Duration(days) * day
	for n := 0; months > 0 && n < 48; n++ { // four years of months, one of them a leap year, in windows of any length
		longest = max(longest, p.begin(n+1).Sub(p.begin(n)))
	}
	if p.zone.location != nil {
		longest += day
	}
	return longest
}

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

// turn returns the label with which a new generation begins at t, if it is time. Then the older one is forgotten:
// its ids are from before the younger one began, and its promise must be kept.
func (s State) turn(t time.Time, h time.Duration) (label time.Time, due bool) {
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
