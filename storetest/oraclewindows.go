package storetest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// ration is a limit of a plan.
type ration struct {
	name       string
	daily      bool // by day, else by week
	units      int64
	mode       headroom.Mode
	carry      int64
	thresholds []int
}

type standingWindow struct {
	start   time.Time
	carried int64
}

// mondayOf is the start of the week that holds t. Day 0 of Unix time was a Thursday.
func mondayOf(t time.Time) time.Time {
	days := dayOf(t).Unix() / 86400
	since := (days + 3) % 7
	if since < 0 {
		since += 7
	}
	return time.Unix((days-since)*86400, 0).UTC()
}

// dayOf is the start of the day that holds t.
func dayOf(t time.Time) time.Time {
	days := t.Unix() / 86400
	if t.Unix()%86400 < 0 {
		days--
	}
	return time.Unix(days*86400, 0).UTC()
}

// start is the start of the window that holds t.
func (l ration) start(t time.Time) time.Time {
	if l.daily {
		return dayOf(t)
	}
	return mondayOf(t)
}

func (l ration) end(start time.Time) time.Time {
	if l.daily {
		return start.Add(day)
	}
	return start.Add(week)
}

// window is the window that begins at start. A week belongs to the year of its Thursday.
func (l ration) window(start time.Time) headroom.Window {
	w := headroom.Window{Key: start.Format(time.DateOnly), Start: start, End: l.end(start)}
	if !l.daily {
		thursday := start.Add(3 * day)
		w.Key = fmt.Sprintf("%04d-W%02d", thursday.Year(), (thursday.YearDay()-1)/7+1)
	}
	return w
}

// rations returns a limit for every counter of a meter: the plan's, or one without bound.
func (o *oracle) rations(plan, meter string) []ration {
	all := slices.Clone(o.counters[meter])
	for i := range all {
		all[i] = ration{name: all[i].name, daily: all[i].daily, units: math.MaxInt64}
		for _, l := range o.plans[plan][meter] {
			if l.name == all[i].name {
				all[i] = l
			}
		}
	}
	return all
}

// cap is the most that can be carried over.
func (l ration) cap() int64 {
	if l.units > math.MaxInt64/52 {
		return l.carry
	}
	return min(l.carry, 52*l.units)
}
