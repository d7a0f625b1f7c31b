package headroom

import (
	"fmt"
	"time"
)

// Window is one calendar period: it begins at Start and ends just before End.
// Windows are compared by Start, never by Key: the keys of different kinds of period do not order, and the same key names different instants in different zones.
type Window struct {
	Key   string    // readable name, "2026-W22" for an ISO week; empty means no window
	Start time.Time // first instant, UTC
	End   time.Time // first instant of the next window, UTC
}

// IsZero reports whether w is no window at all.
func (w Window) IsZero() bool { return w.Key == "" }

// same reports whether w and o are one window.
func (w Window) same(o Window) bool {
	return w.IsZero() == o.IsZero() && w.Start.Equal(o.Start)
}

// Period says how time is cut into windows. Its zero value is the ISO 8601 week in UTC.
type Period struct{}

// At returns the window that holds t.
func (Period) At(t time.Time) Window { return ISOWeek(t) }

// String returns the period's name as it stands in a configuration.
func (Period) String() string { return "week" }

// ParsePeriod reads the name that a configuration gives to a period. Only "week" is known.
func ParsePeriod(name string) (Period, error) {
	if name != "week" {
		return Period{}, invalid("unknown window %q: use \"week\"", name)
	}
	return Period{}, nil
}

// ISOWeek returns the ISO 8601 week in UTC that holds t. Its key has the form "2026-W22", the year being the week's own (ISO 8601-1:2019, 5.2.3): 30 December 2024 lies in 2025-W01.
func ISOWeek(t time.Time) Window {
	t = t.UTC()
	year, week := t.ISOWeek()
	sinceMonday := (int(t.Weekday()) + 6) % 7
	start := time.Date(t.Year(), t.Month(), t.Day()-sinceMonday, 0, 0, 0, 0, time.UTC)
	return Window{
		Key:   fmt.Sprintf("%04d-W%02d", year, week),
		Start: start,
		End:   start.AddDate(0, 0, 7),
	}
}

// ParseISOWeek returns the week that a key of the form "2026-W22" names.
func ParseISOWeek(key string) (Window, error) {
	var year, week int
	if n, err := fmt.Sscanf(key, "%4d-W%2d", &year, &week); n == 2 && err == nil && year > 0 {
		// 4 January always lies in week 1.
		w := ISOWeek(time.Date(year, time.January, 4+7*(week-1), 0, 0, 0, 0, time.UTC))
		if w.Key == key {
			return w, nil
		}
	}
	return Window{}, invalid("%q is no ISO week: want a key like 2026-W22", key)
}
