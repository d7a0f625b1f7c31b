package headroom

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"time"
)

// zone is a time zone. Its zero value is UTC, and zoneNamed makes every other one. Two zones of one
// name are ==.
//
// A reading is what a zone's clock shows. It is kept as the time in UTC at which a clock in UTC
// shows the same.
type zone struct{ location *time.Location }

// locations holds the location for each name that was asked for. Without it, two zones of one name
// would not be ==: time.LoadLocation returns a new pointer each time. It holds no more than the
// zones that there are.
var locations sync.Map

// zoneNamed returns the zone of a name of the IANA time zone database.
func zoneNamed(name string) (zone, error) {
	if name == "UTC" {
		return zone{}, nil
	}
	if known, ok := locations.Load(name); ok {
		return zone{known.(*time.Location)}, nil
	}
	loaded, err := time.LoadLocation(name)
	if err != nil || !isZoneName(name) {
		return zone{}, invalid(
			"time zone %q is not in the IANA time zone database of this host: want a name like Europe/Berlin",
			name)
	}
	known, _ := locations.LoadOrStore(name, loaded)
	return zone{known.(*time.Location)}, nil
}

// isZoneName rules out names that time.LoadLocation takes but that are none of the database: zones
// that mean something else on the next host, zones that count leap seconds, and other spellings of
// the path of a file.
func isZoneName(name string) bool {
	switch directory, _, _ := strings.Cut(name, "/"); directory {
	case "Local", "localtime", "posixrules", "posix", "right":
		return false
	}
	return path.Clean(name) == name && !strings.Contains(name, `\`)
}

// offset returns how far the zone's clock is ahead of UTC at t. Offsets are in whole seconds, and
// they change at whole seconds.
func (z zone) offset(t time.Time) time.Duration {
	if z.location == nil {
		return 0
	}
	_, seconds := t.In(z.location).Zone()
	return time.Duration(seconds) * time.Second
}

// reading returns what the zone's clock shows at t.
func (z zone) reading(t time.Time) time.Time { return t.UTC().Add(z.offset(t)) }

// first returns the first instant at which the zone's clock shows reading or a later time.
// time.Date will not do: if a reading is skipped or shown twice, it does not promise which instant
// it returns.
func (z zone) first(reading time.Time) time.Time {
	if z.location == nil {
		return reading
	}
	// No offset is wider than this (RFC 9636, 3.2), so here the clock shows an earlier time. From
	// here on, look at each stretch of time that has one offset.
	at := reading.Add(-26 * time.Hour)
	for {
		shows := reading.Add(-z.offset(at))
		if shows.Before(at) {
			shows = at
		}
		end := z.steadyUntil(at)
		if end.IsZero() || shows.Before(end) {
			return shows
		}
		at = end
	}
}

// steadyUntil returns an instant after t until which the offset stays that of t, or zero if it
// stays for ever.
func (z zone) steadyUntil(t time.Time) time.Time {
	_, end := t.In(z.location).ZoneBounds()
	if end.IsZero() {
		return end
	}
	if !end.After(t) {
		// After the last change that the zone's file lists, a rule goes on. There ZoneBounds takes
		// every year to end after 365 days (tzset in Go's time/zoneinfo.go). This is the 366th day.
		return t.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	return end.UTC()
}

// changeBetween returns the first instant after from at which the offset is not that of from. It
// must change once, until to. ZoneBounds will not do: it may put the last change that the zone's
// file lists too early.
func (z zone) changeBetween(from, to time.Time) time.Time {
	before := z.offset(from)
	for to.Sub(from) > time.Second {
		middle := from.Add(to.Sub(from) / 2).Truncate(time.Second)
		if z.offset(middle) == before {
			from = middle
		} else {
			to = middle
		}
	}
	return to
}

// offsetText writes an offset as ISO 8601 does, "+02:00". It adds the seconds if there are any:
// "+00:53:28" in Berlin before 1893.
func offsetText(o time.Duration) string {
	sign := '+'
	if o < 0 {
		sign, o = '-', -o
	}
	text := fmt.Sprintf("%c%02d:%02d", sign, o/time.Hour, o%time.Hour/time.Minute)
	if seconds := o % time.Minute / time.Second; seconds != 0 {
		text += fmt.Sprintf(":%02d", seconds)
	}
	return text
}
