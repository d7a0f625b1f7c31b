// Package headroom decides whether a subject may spend units of a metered thing in the present calendar window, and records what was spent: exactly once and never past the limit, whoever else is writing.
//
// An Engine joins a Store (packages embedded, dynamostore and memstore) with a Catalog of plans and prices. Preflight looks before the work, Deduct charges after it; Hold reserves before and Settle charges after.
//
// The path of a request is the order of the files: window.go, period.go and zone.go cut time; price.go and plan.go hold the configuration; state.go and record.go are what a store keeps; place.go, decide.go, charge.go and
// giveback.go decide, without side effects; store.go is the contract of a store; engine.go joins them, within.go joins two subjects; usage.go shows.
package headroom

import (
	"fmt"
	"time"
)

// Window is one calendar period: it begins at Start and ends just before End.
// Windows are compared by Start, never by Key: the keys of different kinds of period do not order, and the same key names different instants in different zones.
type Window struct {
	Key   string    // readable name, "2026-W22" for an ISO week, see Period; empty means no window
	Start time.Time // first instant, UTC
	End   time.Time // first instant of the next window, UTC
}

// IsZero reports whether w is no window at all.
func (w Window) IsZero() bool { return w.Key == "" }

// same reports whether w and o are one window. Where the kind of period changed, two may begin at the same instant.
func (w Window) same(o Window) bool {
	return w.IsZero() == o.IsZero() && w.Start.Equal(o.Start) && w.End.Equal(o.End)
}

// At returns the window that holds t, for any t in the years 1 to 9999. The windows of a period tile time: every instant lies in one, and each begins where another ends. No two have the same key.
//
// A window begins at the first instant at which the zone's clock shows its beginning or a later time. So a day whose midnight is skipped begins at the jump, a day that the zone leaves out has no window,
// and where the clock is set back over midnight, the day that has begun goes on. An hour is cut where the offset from UTC changes: the hour that the clock shows twice is two windows.
func (p Period) At(t time.Time) Window {
	if p.kind == byHour {
		return p.hour(t)
	}
	n := p.index(p.zone.reading(t))
	end := p.zone.first(p.begin(n + 1))
	for !end.After(t) {
		// The clock shows n, but has shown n+1 before.
		n++
		end = p.zone.first(p.begin(n + 1))
	}
	begin := p.begin(n)
	return Window{Key: p.key(begin), Start: p.zone.first(begin), End: end}
}

func (p Period) hour(t time.Time) Window {
	t = t.UTC().Truncate(time.Second)
	offset := p.zone.offset(t)
	shown := t.Add(offset).Truncate(time.Hour)
	w := Window{Key: shown.Format("2006-01-02T15") + offsetText(offset), Start: shown.Add(-offset), End: shown.Add(time.Hour - offset)}
	if p.zone.offset(w.Start) != offset {
		w.Start = p.zone.turn(w.Start, t)
	}
	if last := w.End.Add(-time.Second); p.zone.offset(last) != offset {
		w.End = p.zone.turn(t, last)
	}
	return w
}

// ISOWeek returns the ISO 8601 week in UTC that holds t.
func ISOWeek(t time.Time) Window { return Period{}.At(t) }

// ParseISOWeek returns the week in UTC that a key of the form "2026-W22" names.
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
