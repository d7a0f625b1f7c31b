package headroom

import (
	"fmt"
	"time"
)

// Window is one calendar period. It begins at Start and ends just before End.
//
// Windows are compared by Start, never by Key. The keys of different kinds of period have no order,
// and in two zones one key names two different times.
type Window struct {
	Key   string    // a readable name, "2026-W22" for an ISO week: see Period. Empty: no window
	Start time.Time // first instant, UTC
	End   time.Time // first instant of the next window, UTC
}

// IsZero reports whether w is no window at all.
func (w Window) IsZero() bool { return w.Key == "" }

// same reports whether w and o are one window. Two windows may begin at the same instant, if the
// kind of period changed.
func (w Window) same(o Window) bool {
	return w.IsZero() == o.IsZero() && w.Start.Equal(o.Start) && w.End.Equal(o.End)
}

// At returns the window that holds t, for any t in the years 1 to 9999. The windows of a period
// tile time: every instant lies in one of them, and each begins where another ends. No two have the
// same key.
//
// A window begins at the first instant at which the zone's clock shows its beginning or a later
// time. So a day whose midnight is skipped begins at the jump, and a day that the zone leaves out
// has no window. If the clock is set back over midnight, the day that has begun goes on.
//
// An hour is cut where the offset from UTC changes: an hour that the clock shows twice is two
// windows.
func (p Period) At(t time.Time) Window {
	if p.kind == byHour {
		return p.hour(t)
	}
	n := p.index(p.zone.reading(t))
	end := p.zone.first(p.begin(n + 1))
	for !end.After(t) {
		// The clock shows the nth window, but it has shown the next one before.
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
		w.Start = p.zone.changeBetween(w.Start, t)
	}
	if last := w.End.Add(-time.Second); p.zone.offset(last) != offset {
		w.End = p.zone.changeBetween(t, last)
	}
	return w
}

// cycle returns a reading at which a window begins, and how long the windows are: so many months
// or, if that is 0, so many days.
func (p Period) cycle() (start time.Time, months, days int) {
	c := calendar[p.kind]
	if p.anchored() {
		return time.Unix(p.anchor, 0).UTC(), c.months * int(p.every), c.days * int(p.every)
	}
	start = time.Unix(0, 0).UTC()
	if p.kind == byWeek {
		start = start.AddDate(0, 0, 4+int(p.first)) // 5 January 1970 is a Monday
	}
	return start, c.months, c.days
}

// begin returns the reading at which the nth window begins, counted from the one of cycle.
func (p Period) begin(n int) time.Time {
	start, months, days := p.cycle()
	if months == 0 {
		return start.AddDate(0, 0, n*days)
	}
	// Each window is counted from the start. So if a month lacks the day, the window begins on the
	// last day of that month, and a later month has the day again.
	first := time.Date(start.Year(), start.Month()+time.Month(n*months), 1, start.Hour(), start.Minute(), start.Second(), 0, time.UTC)
	last := first.AddDate(0, 1, -1)
	return first.AddDate(0, 0, min(start.Day(), last.Day())-1)
}

// index returns the number of the window in which a reading lies, counted from the one of cycle.
func (p Period) index(reading time.Time) int {
	start, months, days := p.cycle()
	if months == 0 {
		return int(floorDiv(reading.Unix()-start.Unix(), int64(days)*24*60*60))
	}
	n := int(floorDiv(int64(reading.Year()-start.Year())*12+int64(reading.Month()-start.Month()), int64(months)))
	if reading.Before(p.begin(n)) {
		n--
	}
	return n
}

const day = 24 * time.Hour

// floorDiv returns a / b, rounded down.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// longest returns the greatest length of a window of the period. In a zone it is a day more than in
// the calendar: no clock was ever set back by more.
func (p Period) longest() (longest time.Duration) {
	if p.kind == byHour {
		return time.Hour // an hour is cut where the clock is set back
	}
	_, months, days := p.cycle()
	longest = time.Duration(days) * day
	// Four years of months, one of them a leap year, in windows of any length.
	for n := 0; months > 0 && n < 48; n++ {
		longest = max(longest, p.begin(n+1).Sub(p.begin(n)))
	}
	if p.zone.location != nil {
		longest += day
	}
	return longest
}

// key names the window that begins at a reading. An hour is not named here: its key needs the
// offset from UTC too.
func (p Period) key(begin time.Time) string {
	switch {
	case p.anchored():
		return fmt.Sprintf("%s--P%d%s", readingText(begin), p.every, calendar[p.kind].designator)
	case p.kind == byDay:
		return begin.Format(dateForm)
	case p.kind == byMonth:
		return begin.Format("2006-01")
	case p.kind == byQuarter:
		return fmt.Sprintf("%04d-Q%d", begin.Year(), (begin.Month()+2)/3)
	case p.kind == byYear:
		return begin.Format("2006")
	case p.first != 0:
		return begin.Format(dateForm) + "--P1W"
	}
	year, week := begin.ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, week)
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
