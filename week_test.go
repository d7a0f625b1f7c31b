package headroom_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// turnsOfYears are dates whose week belongs to another year, or to the last of a long one (case
// 23).
var turnsOfYears = []struct{ date, key string }{
	{"2024-12-30", "2025-W01"}, {"2018-12-31", "2019-W01"}, {"2016-01-01", "2015-W53"}, {"2021-01-03", "2020-W53"},
	{"2027-01-03", "2026-W53"}, {"2005-01-02", "2004-W53"}, {"2008-12-29", "2009-W01"}, {"2012-01-01", "2011-W52"},
}

func date(t *testing.T, s string) time.Time {
	t.Helper()
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWeekBelongsToTheYearOfItsThursday(t *testing.T) {
	for _, c := range turnsOfYears {
		first := date(t, c.date)
		for _, at := range []time.Time{first, first.Add(24*time.Hour - 1)} {
			if w := headroom.ISOWeek(at); w.Key != c.key {
				t.Errorf("ISOWeek(%s) is %s, want %s", at, w.Key, c.key)
			}
		}
	}
}

func TestWeekTurnsOnMondayAtMidnightUTC(t *testing.T) {
	monday := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	last, this := headroom.ISOWeek(monday.Add(-1)), headroom.ISOWeek(monday)
	if last.Key != "2026-W22" || this.Key != "2026-W23" || !last.End.Equal(monday) || !this.Start.Equal(monday) {
		t.Errorf("around %s: %+v, %+v", monday, last, this)
	}
}

// TestWeekIsThatOfTheInstant holds that neither the zone of a time nor that of the host matters
// (case 24).
func TestWeekIsThatOfTheInstant(t *testing.T) {
	sunday := time.Date(2026, time.May, 31, 23, 59, 59, 0, time.UTC)
	for name, hours := range map[string]int{"America/New_York": -4, "Asia/Tokyo": 9, "Pacific/Kiritimati": 14, "Etc/GMT+12": -12} {
		zone := time.FixedZone(name, hours*3600)
		last, this := headroom.ISOWeek(sunday.In(zone)), headroom.ISOWeek(sunday.Add(time.Second).In(zone))
		if last.Key != "2026-W22" || this.Key != "2026-W23" || last.Start.Location() != time.UTC || last.End.Location() != time.UTC {
			t.Errorf("in %s: %+v, %+v", name, last, this)
		}
	}
	if os.Getenv("HEADROOM_TEST_ZONE") != "" {
		return // this is the process started below
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"America/New_York", "Asia/Tokyo"} {
		again := exec.Command(program, "-test.run=^(TestWeek|TestParseISOWeek|Example)")
		again.Env = append(os.Environ(), "TZ="+zone, "HEADROOM_TEST_ZONE="+zone)
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("on a host in %s: %v\n%s", zone, err, out)
		}
	}
}

func TestWeeksTileTime(t *testing.T) {
	w := headroom.ISOWeek(time.Date(1899, time.December, 30, 0, 0, 0, 0, time.UTC))
	last := map[int]string{} // of each year
	for w.Start.Before(time.Date(2300, time.December, 30, 0, 0, 0, 0, time.UTC)) {
		switch {
		case w.Start.Weekday() != time.Monday || w.End.Sub(w.Start) != 7*24*time.Hour:
			t.Fatalf("%+v is no week from Monday to Monday", w)
		case headroom.ISOWeek(w.Start) != w || headroom.ISOWeek(w.End.Add(-1)) != w || headroom.ISOWeek(w.Start.Add(84*time.Hour)) != w:
			t.Fatalf("%+v does not hold its own instants", w)
		case (headroom.Period{}).At(w.Start) != w:
			t.Fatalf("%+v is not the period's", w)
		}
		if parsed, err := headroom.ParseISOWeek(w.Key); err != nil || parsed != w {
			t.Fatalf("%s is parsed as %+v, %v", w.Key, parsed, err)
		}
		next := headroom.ISOWeek(w.End)
		if !next.Start.Equal(w.End) {
			t.Fatalf("%+v is followed by %+v", w, next)
		}
		// The keys of one kind of window in one zone do order, and no two are the same.
		if next.Key <= w.Key {
			t.Fatalf("%s is followed by %s", w.Key, next.Key)
		}
		last[w.Start.Add(84*time.Hour).Year()] = w.Key
		w = next
	}
	// A year has 53 weeks if it begins on a Thursday, or is a leap year that begins on a Wednesday
	// (ISO 8601-1:2019, 3.1.1.23).
	for year, key := range last {
		begins, leap := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Weekday(), time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC).YearDay() == 366
		long := begins == time.Thursday || leap && begins == time.Wednesday
		if long != strings.HasSuffix(key, "-W53") || !long && !strings.HasSuffix(key, "-W52") {
			t.Errorf("the last week of %d is %s", year, key)
		}
	}
}

func TestWeeksOfTheFirstAndLastYears(t *testing.T) {
	for at, key := range map[time.Time]string{
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC):                 "0001-W01",
		time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC): "9999-W52",
	} {
		if w := headroom.ISOWeek(at); w.Key != key || w.Start.After(at) || !w.End.After(at) {
			t.Errorf("ISOWeek(%s) is %+v, want %s", at, w, key)
		}
	}
}

func TestParseISOWeekRefusesGarbage(t *testing.T) {
	for _, key := range []string{
		"", "2026", "2026-W", "2026-W2", "2026-W00", "2026-W54", "2025-W53", "2027-W53", "2026-W99", "2026-w22", "2026W22", "2026-22", "2026-W22 ", " 2026-W22", "2026-W22x", "2026-W022", "2026-W 2", "2026-W+2",
		"2026-W-1", "26-W22", "02026-W22", "12026-W22", "-026-W22", "+026-W22", "2O26-W22", "2026-W２２", "2026-W22\n", "2026-W22-1", "0000-W10", "W22-2026", "\x00", "9999999999999999999-W01",
	} {
		w, err := headroom.ParseISOWeek(key)
		if !errors.Is(err, headroom.Invalid) || !w.IsZero() {
			t.Errorf("ParseISOWeek(%q) is %+v, %v: want an error", key, w, err)
		}
	}
	for _, c := range turnsOfYears {
		if w, err := headroom.ParseISOWeek(c.key); err != nil || w != headroom.ISOWeek(date(t, c.date)) {
			t.Errorf("ParseISOWeek(%q) is %+v, %v", c.key, w, err)
		}
	}
}

func FuzzParseISOWeek(f *testing.F) {
	for _, s := range []string{"2026-W22", "2026-W53", "2025-W53", "0001-W01", "9999-W52", "0000-W00", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if w, err := headroom.ParseISOWeek(key); err == nil && (w.Key != key || headroom.ISOWeek(w.Start) != w) {
			t.Errorf("%q is parsed as %+v", key, w)
		}
	})
}
