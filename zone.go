package headroom

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"time"
)

// zone is a time zone. Its zero value is UTC; zoneNamed makes every other. Two zones of one name are ==.
//
// A reading of a zone's clock is kept as the time in UTC that looks the same.
type zone struct{ location *time.Location }

// locations holds the location for each name that was asked for: time.LoadLocation gives a new pointer each time, and == needs one. It only remembers, and no more than the zones that there are.
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
		return zone{}, invalid("time zone %q is not in the IANA time zone database of this host: want a name like Europe/Berlin", name)
	}
	known, _ := locations.LoadOrStore(name, loaded)
	return zone{known.(*time.Location)}, nil
}

// isZoneName rules out what else time.LoadLocation takes: zones that are others on the next host, zones that count leap seconds, and other spellings of a file's path.
func isZoneName(name string) bool {
	switch directory, _, _ := strings.Cut(name, "/"); directory {
	case "Local", "localtime", "posixrules", "posix", "right":
		return false
	}
	return path.Clean(name) == name && !strings.Contains(name, `\`)
}

// offset is how far the zone's clock is ahead of UTC at t. It is in whole seconds, and so are the instants at which it changes.
func (z zone) offset(t time.Time) time.Duration {
	if z.location == nil {
		return 0
	}
	_, seconds := t.In(z.location).Zone()
	return time.Duration(seconds) * time.Second
}

// reading is what the zone's clock shows at t.
func (z zone) reading(t time.Time) time.Time { return t.UTC().Add(z.offset(t)) }

// first returns the first instant at which the zone's clock shows reading or a later time. time.Date does not do: of a reading that is skipped or shown twice it does not promise which instant it takes.
func (z zone) first(reading time.Time) time.Time {
	if z.location == nil {
		return reading
	}
	// No offset is wider (RFC 9636, 3.2), so here the clock shows an earlier time. From here on, look at each stretch of time that has one offset.
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

// steadyUntil returns an instant after t until which the offset stays that of t; zero if it does for ever.
func (z zone) steadyUntil(t time.Time) time.Time {
	_, end := t.In(z.location).ZoneBounds()
	if end.IsZero() {
		return end
	}
	if !end.After(t) {
		// Where a rule goes on after the changes that the zone's file lists, ZoneBounds takes each year to end after 365 days (tzset in Go's time/zoneinfo.go): this is the 366th.
		return t.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	return end.UTC()
}

// changeBetween returns the first instant after from at which the offset is not that of from. It must change once, until to.
// ZoneBounds does not do: it may put the last change that the zone's file lists too early.
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

// offsetText writes an offset as ISO 8601 does, "+02:00", and with its seconds if it has any ("+00:53:28", Berlin before 1893).
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
