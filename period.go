package headroom

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Period says how time is cut into windows. Its zero value is the ISO 8601 week in UTC. ParsePeriod
// makes every other one. Two Periods are the same if they are ==.
//
// The keys of its windows are by the clock of the period's zone. They have the forms of ISO 8601,
// except for the quarter, about which ISO 8601 says nothing:
//
//	hour                      2026-06-01T13+02:00    with the offset from UTC
//	day                       2026-06-01
//	week                      2026-W22               30 December 2024 is in 2025-W01
//	week from sunday          2026-05-31--P1W        no ISO week: its first day, its length
//	month                     2026-06
//	quarter                   2026-Q2
//	year                      2026
//	every 2 weeks from ...    2026-01-05--P2W        when it begins, how long the period is
//	every month from ...      2026-02-28T09:00--P1M  with the time of day, unless midnight
//
// The double hyphen stands for the solidus of an ISO interval (ISO 8601:2004, 4.4.2, note).
type Period struct {
	kind  periodKind
	first int8  // of a week: how many days after Monday it starts
	every int32 // of an anchored period: its length in units
	// anchor is the reading of the zone's clock at which a window of an anchored period begins, in
	// seconds since the clock showed 1970-01-01T00:00:00.
	anchor int64
	zone   zone
}

// periodKind is a kind of period. The week is the first, so that it is that of the zero Period.
type periodKind byte

const (
	byWeek periodKind = iota
	byHour
	byDay
	byMonth
	byQuarter
	byYear
	everyDay // the anchored kinds, from here on
	everyWeek
	everyMonth
	everyYear
)

// calendar says what a configuration calls each kind, or the unit of an anchored kind. It says how
// long a window or a unit is: so many months or, if that is 0, so many days.
var calendar = [...]struct {
	name         string
	months, days int
	designator   string // the letter for the unit in an interval of ISO 8601
}{
	byWeek:    {name: "week", days: 7},
	byHour:    {name: "hour"},
	byDay:     {name: "day", days: 1},
	byMonth:   {name: "month", months: 1},
	byQuarter: {name: "quarter", months: 3},
	byYear:    {name: "year", months: 12},

	everyDay:   {name: "day", days: 1, designator: "D"},
	everyWeek:  {name: "week", days: 7, designator: "W"},
	everyMonth: {name: "month", months: 1, designator: "M"},
	everyYear:  {name: "year", months: 12, designator: "Y"},
}

// weekdays are in the order that Period.first counts.
var weekdays = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

func (p Period) anchored() bool { return p.kind >= everyDay }

// Location returns the time zone by whose clock the windows are cut.
func (p Period) Location() *time.Location {
	if p.zone.location == nil {
		return time.UTC
	}
	return p.zone.location
}

// ParsePeriod reads a period as a configuration writes it. A fault is Invalid.
//
//	hour | day | week | month | quarter | year
//	week from WEEKDAY          a week that does not start on Monday: week from sunday
//	every N UNIT from ANCHOR   every 7 days from 2026-01-05, every month from 2026-01-31T09:00
//
// UNIT is days, weeks, months or years. N may be left out if it is 1, and N units are at most 100
// years. ANCHOR is a date, or a date and a time of day, by the clock of the zone. A window begins
// there, and windows go on to both sides of it. A month without the anchor's day begins its window
// on its last day.
//
// "in ZONE" may follow, with a name of the IANA time zone database: day in Europe/Berlin. Without
// it the zone is UTC.
func ParsePeriod(text string) (Period, error) {
	var p Period
	words := strings.Fields(text)
	if n := len(words); n >= 2 && words[n-2] == "in" {
		zone, err := zoneNamed(words[n-1])
		if err != nil {
			return Period{}, err
		}
		p.zone, words = zone, words[:n-2]
	}
	var ok bool
	var err error
	switch {
	case len(words) == 1:
		p.kind, ok = kindNamed(words[0], byWeek, byYear)
	case len(words) == 3 && words[0] == "week" && words[1] == "from":
		first := slices.Index(weekdays, words[2])
		p.first, ok = int8(first), first >= 0
	case len(words) > 1 && words[0] == "every":
		ok, err = true, p.parseEvery(words[1:])
	}
	if err != nil {
		return Period{}, err
	}
	if !ok {
		return Period{}, invalid(
			`unknown window %q: want hour, day, week, month, quarter or year, "week from sunday", or `+
				`"every 2 weeks from 2026-01-05"; for another zone than UTC add "in Europe/Berlin"`, text)
	}
	return p, nil
}

// parseEvery reads what follows the word "every".
func (p *Period) parseEvery(words []string) error {
	n, rest := "1", words
	if len(words) == 4 {
		n, rest = words[0], words[1:]
	}
	if len(rest) != 3 || rest[1] != "from" {
		return invalid(
			`window "every %s": want how long it is and when one begins, like "every 7 days from `+
				`2026-01-05" or "every month from 2026-01-31T09:00"`, strings.Join(words, " "))
	}
	var ok bool
	if p.kind, ok = kindNamed(strings.TrimSuffix(rest[0], "s"), everyDay, everyYear); !ok {
		return invalid("unknown unit %q: want days, weeks, months or years", rest[0])
	}
	c := calendar[p.kind]
	most := 1200 / max(1, c.months)
	if c.days > 0 {
		most = 36500 / c.days
	}
	every, err := strconv.Atoi(n)
	if err != nil || every < 1 || every > most || strconv.Itoa(every) != n {
		return invalid("every %s %ss: want a whole number from 1 to %d", n, c.name, most)
	}
	anchor, err := parseReading(rest[2])
	if err != nil {
		return err
	}
	p.every, p.anchor = int32(every), anchor.Unix()
	return nil
}

// kindNamed finds a kind by its name, or by that of its unit, among those from least to most.
func kindNamed(name string, least, most periodKind) (periodKind, bool) {
	for k := least; k <= most; k++ {
		if calendar[k].name == name {
			return k, true
		}
	}
	return 0, false
}

// String returns the text that ParsePeriod reads, in its shortest form.
func (p Period) String() string {
	text := calendar[p.kind].name
	switch {
	case p.anchored() && p.every == 1:
		text = "every " + text
	case p.anchored():
		text = fmt.Sprintf("every %d %ss", p.every, text)
	case p.first != 0:
		text += " from " + weekdays[p.first]
	}
	if p.anchored() {
		text += " from " + readingText(time.Unix(p.anchor, 0).UTC())
	}
	if p.zone.location != nil {
		text += " in " + p.zone.location.String()
	}
	return text
}

// How a reading is written.
const (
	dateForm   = "2006-01-02"
	minuteForm = "2006-01-02T15:04"
	secondForm = "2006-01-02T15:04:05"
)

// readingText writes a reading in its shortest form.
func readingText(reading time.Time) string {
	hour, minute, second := reading.Clock()
	switch {
	case second != 0:
		return reading.Format(secondForm)
	case hour != 0 || minute != 0:
		return reading.Format(minuteForm)
	}
	return reading.Format(dateForm)
}

func parseReading(text string) (time.Time, error) {
	for _, form := range []string{dateForm, minuteForm, secondForm} {
		// time.Parse also takes an hour of one digit, and fractions of a second. We do not.
		if t, err := time.Parse(form, text); err == nil && t.Format(form) == text && t.Year() >= 1 {
			return t, nil
		}
	}
	return time.Time{}, invalid(
		`anchor %q: want a day that exists, like 2026-01-31, or with a time of day, 2026-01-31T09:00, by `+
			`the clock of the zone`, text)
}
