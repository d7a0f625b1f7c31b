package headroom_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"
	"time"
	_ "time/tzdata" // for a host without the database

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/proof/report"
)

func parse(t *testing.T, text string) headroom.Period {
	t.Helper()
	p, err := headroom.ParsePeriod(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// checkTiles holds that at lies in one window, that the windows on both sides abut on it, and that
// neighbours do not share a key.
func checkTiles(t *testing.T, p headroom.Period, at time.Time) {
	t.Helper()
	w := p.At(at)
	if at.Before(w.Start) || !at.Before(w.End) {
		t.Fatalf("%s: %s lies outside of its window %v", p, at, w)
	}
	for _, inside := range []time.Time{w.Start, w.Start.Add(w.End.Sub(w.Start) / 2), w.End.Add(-1)} {
		if again := p.At(inside); again != w {
			t.Fatalf("%s: %s lies in %v, not in %v as %s does", p, inside, again, w, at)
		}
	}
	seen := map[string]time.Time{w.Key: w.Start}
	add := func(n headroom.Window) {
		t.Helper()
		if start, ok := seen[n.Key]; ok {
			t.Fatalf("%s: the windows from %s and from %s have the key %s", p, start, n.Start, n.Key)
		}
		seen[n.Key] = n.Start
	}
	for next, i := w, 0; i < 3; i++ {
		after := p.At(next.End)
		if after.Start != next.End {
			t.Fatalf("%s: %v is followed by %v", p, next, after)
		}
		next = after
		add(next)
	}
	before := p.At(w.Start.Add(-1))
	if before.End != w.Start {
		t.Fatalf("%s: %v is preceded by %v", p, w, before)
	}
	add(before)
}

func TestWindows(t *testing.T) {
	for _, c := range []struct{ period, at, key, start, end string }{
		// Each kind.
		{"week", "2026-06-01T13:30:00Z", "2026-W23", "2026-06-01T00:00:00Z", "2026-06-08T00:00:00Z"},
		{"hour", "2026-06-01T13:30:00Z", "2026-06-01T13+00:00", "2026-06-01T13:00:00Z", "2026-06-01T14:00:00Z"},
		{"day", "2026-06-01T13:30:00Z", "2026-06-01", "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"},
		{"month", "2026-06-01T13:30:00Z", "2026-06", "2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"},
		{"quarter", "2026-06-01T13:30:00Z", "2026-Q2", "2026-04-01T00:00:00Z", "2026-07-01T00:00:00Z"},
		{"year", "2026-06-01T13:30:00Z", "2026", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"week from sunday", "2026-06-01T13:30:00Z", "2026-05-31--P1W", "2026-05-31T00:00:00Z", "2026-06-07T00:00:00Z"},
		{"week from tuesday", "2026-06-01T13:30:00Z", "2026-05-26--P1W", "2026-05-26T00:00:00Z", "2026-06-02T00:00:00Z"},
		{"every 7 days from 2026-01-05", "2026-06-01T13:30:00Z", "2026-06-01--P7D", "2026-06-01T00:00:00Z", "2026-06-08T00:00:00Z"},
		{"every 2 weeks from 2026-01-05T06:30", "2026-06-01T13:30:00Z", "2026-05-25T06:30--P2W", "2026-05-25T06:30:00Z", "2026-06-08T06:30:00Z"},
		{"every day from 2000-01-01T17:00:05", "2026-06-01T13:30:00Z", "2026-05-31T17:00:05--P1D", "2026-05-31T17:00:05Z", "2026-06-01T17:00:05Z"},
		{"every 18 months from 2026-01-31", "2029-02-01T00:00:00Z", "2029-01-31--P18M", "2029-01-31T00:00:00Z", "2030-07-31T00:00:00Z"},

		// Zones.
		{"hour in Europe/Berlin", "2026-06-01T11:30:00Z", "2026-06-01T13+02:00", "2026-06-01T13:00:00+02:00", "2026-06-01T14:00:00+02:00"},
		{"week in Asia/Tokyo", "2026-05-31T15:00:00Z", "2026-W23", "2026-06-01T00:00:00+09:00", "2026-06-08T00:00:00+09:00"},
		{"quarter in America/New_York", "2026-07-01T03:59:59Z", "2026-Q2", "2026-04-01T00:00:00-04:00", "2026-07-01T00:00:00-04:00"},
		{"year in Asia/Kathmandu", "2026-12-31T18:15:00Z", "2027", "2027-01-01T00:00:00+05:45", "2028-01-01T00:00:00+05:45"},
		{"hour in Asia/Kathmandu", "2026-06-01T13:30:00Z", "2026-06-01T19+05:45", "2026-06-01T19:00:00+05:45", "2026-06-01T20:00:00+05:45"},
		{"hour in Africa/Monrovia", "1971-06-01T12:00:00Z", "1971-06-01T11-00:44:30", "1971-06-01T11:44:30Z", "1971-06-01T12:44:30Z"},
		{"day in Europe/Berlin", "1892-06-01T12:00:00Z", "1892-06-01", "1892-05-31T23:06:32Z", "1892-06-01T23:06:32Z"},
		{"week in Europe/Berlin", "0001-01-01T00:00:00Z", "0001-W01", "0000-12-31T23:06:32Z", "0001-01-07T23:06:32Z"},
		{"month in Asia/Tokyo", "9999-12-31T23:59:59Z", "10000-01", "9999-12-31T15:00:00Z", "10000-01-31T15:00:00Z"},

		// Days of 23 and 25 hours, and an hour that the clock shows twice.
		{"day in Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"day in Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-25", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"month in Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10", "2026-10-01T00:00:00+02:00", "2026-11-01T00:00:00+01:00"},
		{"hour in Europe/Berlin", "2026-10-25T00:59:59Z", "2026-10-25T02+02:00", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"hour in Europe/Berlin", "2026-10-25T01:00:00Z", "2026-10-25T02+01:00", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		{"hour in Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T03+02:00", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},

		// Summer time of half an hour cuts hours in half.
		{"hour in Australia/Lord_Howe", "2026-04-04T14:59:59Z", "2026-04-05T01+11:00", "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"},
		{"hour in Australia/Lord_Howe", "2026-04-04T15:00:00Z", "2026-04-05T01+10:30", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z"},
		{"hour in Australia/Lord_Howe", "2026-04-04T15:30:00Z", "2026-04-05T02+10:30", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"},
		{"hour in Australia/Lord_Howe", "2026-10-03T15:45:00Z", "2026-10-04T02+11:00", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"},

		// A midnight that does not exist, and one that comes twice.
		{"day in America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"day in America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03", "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"day in America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"day in Asia/Beirut", "2026-10-24T21:30:00Z", "2026-10-24", "2026-10-24T00:00:00+03:00", "2026-10-25T00:00:00+02:00"},

		// Set back at 00:01 to 23:01 of the day before: the day that has begun goes on.
		{"day in America/St_Johns", "2010-11-07T02:30:59Z", "2010-11-07", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"day in America/St_Johns", "2010-11-07T02:31:00Z", "2010-11-07", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"day in America/St_Johns", "2010-11-07T02:29:59Z", "2010-11-06", "2010-11-06T00:00:00-02:30", "2010-11-07T00:00:00-02:30"},

		// Days that do not exist.
		{"day in Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"day in Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"every day from 2011-12-01T12:00 in Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T12:00--P1D", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"},
		{"week in Pacific/Apia", "2011-12-30T10:00:00Z", "2011-W52", "2011-12-26T00:00:00-10:00", "2012-01-02T00:00:00+14:00"},
		{"day in Pacific/Kiritimati", "1994-12-31T10:00:00Z", "1995-01-01", "1995-01-01T00:00:00+14:00", "1995-01-02T00:00:00+14:00"},
		// A day of 47 hours: at its end the clock was set back 23 hours.
		{"day in Pacific/Kwajalein", "1969-09-30T13:00:00Z", "1969-09-30", "1969-09-30T00:00:00+11:00", "1969-10-01T00:00:00-12:00"},

		// Anchors that a clock skips or shows twice.
		{"every day from 2026-01-01T02:30 in Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29T02:30--P1D", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		{"every day from 2026-01-01T02:30 in Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-25T02:30--P1D", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},

		// 31 December of leap years to come, where a zone's rule takes the place of its table.
		{"day in America/New_York", "2032-12-31T12:00:00Z", "2032-12-31", "2032-12-31T00:00:00-05:00", "2033-01-01T00:00:00-05:00"},
		{"hour in Australia/Adelaide", "2032-12-31T23:45:00Z", "2033-01-01T10+10:30", "2032-12-31T23:30:00Z", "2033-01-01T00:30:00Z"},
	} {
		p := parse(t, c.period)
		at := instant(t, c.at)
		w := p.At(at)
		want := headroom.Window{Key: c.key, Start: longInstant(t, c.start), End: longInstant(t, c.end)}
		if w != want {
			t.Errorf("%s at %s:\n got %v\nwant %v", c.period, c.at, w, want)
		}
		checkTiles(t, p, at)
	}
}

// longInstant also reads the year 10000, in UTC.
func longInstant(t *testing.T, text string) time.Time {
	t.Helper()
	if rest, ok := cutYear10000(text); ok {
		return instant(t, "9996"+rest).AddDate(4, 0, 0)
	}
	return instant(t, text).UTC()
}

func cutYear10000(text string) (string, bool) {
	if len(text) > 5 && text[:5] == "10000" {
		return text[5:], true
	}
	return "", false
}

func TestISOWeeksOfYearEnds(t *testing.T) {
	for day, key := range map[string]string{
		"2024-12-30": "2025-W01", "2018-12-31": "2019-W01", "2016-01-01": "2015-W53", "2021-01-03": "2020-W53",
		"2027-01-03": "2026-W53", "2005-01-02": "2004-W53", "2008-12-29": "2009-W01", "2012-01-01": "2011-W52",
	} {
		for _, hour := range []string{"T00:00:00Z", "T23:59:59.999999999Z"} {
			if w := headroom.ISOWeek(instant(t, day+hour)); w.Key != key {
				t.Errorf("%s%s lies in %s, want %s", day, hour, w.Key, key)
			}
		}
		if w, err := headroom.ParseISOWeek(key); err != nil || w != headroom.ISOWeek(instant(t, day+"T12:00:00Z")) {
			t.Errorf("%s is read as %v, %v", key, w, err)
		}
	}
	for _, key := range []string{"", "2026", "2026-W00", "2026-W54", "2025-W53", "2026-w22", "2026-W22 ", "2026-W2", "2026-05-31--P1W"} {
		if _, err := headroom.ParseISOWeek(key); err == nil {
			t.Errorf("%q is taken for a week", key)
		}
	}
}

// The digest is of what date.isocalendar of Python says of each day that it knows, those of the
// years 1 to 9999. It is what this prints:
//
//	python3 -c 'import datetime as d,hashlib; print(hashlib.sha256("".join("%04d-W%02d\n" % d.date.fromordinal(n).isocalendar()[:2] for n in range(1, d.date.max.toordinal()+1)).encode()).hexdigest())'
func TestISOWeekOfEveryDay(t *testing.T) {
	const want = "03f8b9dbc8087df287bb6c93bf382994c4dda85ae93341427524c2f06e37d04e"
	began, days, sum := time.Now(), int64(0), sha256.New()
	for at := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 10000; {
		w := headroom.ISOWeek(at)
		for ; at.Before(w.End) && at.Year() < 10000; at = at.AddDate(0, 0, 1) {
			io.WriteString(sum, w.Key+"\n")
			days++
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	report.Add(t, report.Row{Part: "all days", Name: "ISO week of every day", Count: days, Unit: "days", Note: "years 1 to 9999, by the digest of Python's isocalendar", Took: time.Since(began)})
}

// TestWindowTurnsAtItsInstant: case 25, and the turns of other periods and zones.
func TestWindowTurnsAtItsInstant(t *testing.T) {
	for _, c := range []struct{ period, before, after, key, next string }{
		{"week", "2026-05-31T23:59:59Z", "2026-06-01T00:00:01Z", "2026-W22", "2026-W23"},
		{"month in Asia/Tokyo", "2026-07-31T14:59:59.999999999Z", "2026-07-31T15:00:00Z", "2026-07", "2026-08"},
		{"month", "2026-01-31T23:59:59.999Z", "2026-02-01T00:00:00Z", "2026-01", "2026-02"},
		{"month", "2024-02-29T23:59:59.999Z", "2024-03-01T00:00:00Z", "2024-02", "2024-03"},
		{"month", "2026-02-28T23:59:59.999Z", "2026-03-01T00:00:00Z", "2026-02", "2026-03"},
		{"year in Pacific/Apia", "2011-12-31T09:59:59.999999999Z", "2011-12-31T10:00:00Z", "2011", "2012"},
	} {
		p := parse(t, c.period)
		w, next := p.At(instant(t, c.before)), p.At(instant(t, c.after))
		if w.Key != c.key || next.Key != c.next || w.End != next.Start {
			t.Errorf("%s: %v, then %v; want %s, then %s", c.period, w, next, c.key, c.next)
		}
	}
}

func TestHostZoneDoesNotMatter(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	at := instant(t, "2026-06-01T01:30:00Z")
	for _, text := range []string{"week", "hour", "day", "month", "week from sunday", "every month from 2026-01-31T09:00", "day in Europe/Berlin", "hour in Europe/Berlin"} {
		p := parse(t, text)
		want := p.At(at)
		for _, host := range []string{"America/New_York", "Asia/Tokyo"} {
			zone, err := time.LoadLocation(host)
			if err != nil {
				t.Fatal(err)
			}
			time.Local = zone
			if got := p.At(at.Local()); got != want {
				t.Errorf("%s on a host in %s: %v, want %v", text, host, got, want)
			}
		}
	}
}

func TestAnchoredMonthsReturnToTheirDay(t *testing.T) {
	for text, want := range map[string][]string{
		"every month from 2026-01-31T09:00":                    {"2025-12-31T09:00--P1M", "2026-01-31T09:00--P1M", "2026-02-28T09:00--P1M", "2026-03-31T09:00--P1M", "2026-04-30T09:00--P1M", "2026-05-31T09:00--P1M"},
		"every month from 2023-12-30":                          {"2025-12-30--P1M", "2026-01-30--P1M", "2026-02-28--P1M", "2026-03-30--P1M"},
		"every year from 2024-02-29 in Europe/Berlin":          {"2025-02-28--P1Y", "2026-02-28--P1Y", "2027-02-28--P1Y", "2028-02-29--P1Y", "2029-02-28--P1Y"},
		"every 3 months from 2030-11-30T23:59:59 in Etc/GMT+5": {"2025-11-30T23:59:59--P3M", "2026-02-28T23:59:59--P3M", "2026-05-30T23:59:59--P3M"},
		"every 100 years from 1999-12-31":                      {"1999-12-31--P100Y", "2099-12-31--P100Y"},
		"every 36500 days from 2026-01-01":                     {"2026-01-01--P36500D"},
	} {
		p := parse(t, text)
		w := p.At(instant(t, "2026-01-01T12:00:00Z"))
		for i, key := range want {
			if w.Key != key {
				t.Errorf("%s: window %d is %s, want %s", text, i, w.Key, key)
			}
			w = p.At(w.End)
		}
	}
}

// hardZones are those whose clocks did something that others do not.
var hardZones = []string{
	"Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Caracas", "America/Godthab", "America/Goose_Bay", "America/Havana", "America/Juneau", "America/New_York",
	"America/Sao_Paulo", "America/Santiago", "America/Scoresbysund", "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu",
	"Asia/Kolkata", "Asia/Manila", "Asia/Pyongyang", "Asia/Riyadh", "Asia/Tehran", "Asia/Tokyo", "Atlantic/Azores", "Australia/Adelaide", "Australia/Lord_Howe", "Europe/Amsterdam", "Europe/Berlin", "Europe/Dublin",
	"Europe/Lisbon", "Europe/London", "Europe/Warsaw", "Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Fakaofo", "Pacific/Guam", "Pacific/Kiritimati", "Pacific/Kwajalein", "UTC",
}

// changes returns the instants in the years 1840 to 2040 at which the zone's offset changes.
func changes(zone *time.Location) []time.Time {
	var all []time.Time
	offset := func(t time.Time) int { _, o := t.In(zone).Zone(); return o }
	for at := time.Date(1840, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2041; {
		_, next := at.In(zone).ZoneBounds()
		if next.IsZero() {
			break
		}
		if !next.After(at) {
			next = at.AddDate(0, 0, 1) // see zone.steadyUntil
		}
		if offset(next) != offset(at) {
			all = append(all, next)
		}
		at = next.UTC()
	}
	return all
}

// TestWindowsTileOverEveryChangeOfClocks: case 26. A day's window is that of the latest date that
// the clock has shown so far: this is said here in another way than At does it.
func TestWindowsTileOverEveryChangeOfClocks(t *testing.T) {
	for _, name := range hardZones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			var periods []headroom.Period
			for _, text := range []string{"hour", "week", "month", "every 2 days from 2026-01-31T02:30", "every month from 2026-01-31T00:30"} {
				periods = append(periods, parse(t, text+" in "+name))
			}
			day := parse(t, "day in "+name)
			all := changes(zone)
			for i, change := range all {
				for _, off := range []time.Duration{-25 * time.Hour, -30 * time.Minute, -1, 0, time.Minute, 45 * time.Minute, 23 * time.Hour} {
					at := change.Add(off)
					for _, p := range periods {
						checkTiles(t, p, at)
					}
					checkTiles(t, day, at)
					latest := at.In(zone).Format("2006-01-02")
					for _, earlier := range all[max(0, i-3):min(len(all), i+2)] {
						if !earlier.After(at) {
							latest = max(latest, earlier.Add(-1).In(zone).Format("2006-01-02"))
						}
					}
					if key := day.At(at).Key; key != latest {
						t.Errorf("%s lies in the day %s, want %s", at.In(zone), key, latest)
					}
				}
			}
		})
	}
}
