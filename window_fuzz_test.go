package headroom_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// FuzzWindowsTile holds that any instant lies in one window of any period, that windows abut, and
// that neighbours have keys of their own.
func FuzzWindowsTile(f *testing.F) {
	// kind, zone, length, anchor and instant in Unix seconds
	f.Add(uint8(0), uint8(0), uint16(0), int64(0), int64(1779667200), uint32(0))
	// Lord_Howe set back
	f.Add(uint8(1), uint8(27), uint16(0), int64(0), int64(1775314800), uint32(0))
	// Sao_Paulo without a midnight
	f.Add(uint8(2), uint8(9), uint16(0), int64(0), int64(1541300400), uint32(999999999))
	// Apia without a day
	f.Add(uint8(2), uint8(34), uint16(0), int64(0), int64(1325239200), uint32(0))
	// Juneau, one day longer
	f.Add(uint8(2), uint8(7), uint16(0), int64(0), int64(-3225223728), uint32(0))
	// a billing cycle in Berlin
	f.Add(uint8(8), uint8(29), uint16(0), int64(1769850000), int64(1772269200), uint32(1))
	// the ends of time
	f.Add(uint8(9), uint8(12), uint16(99), int64(-62135596800), int64(253402300799), uint32(1e9-1))
	f.Add(uint8(6), uint8(8), uint16(36499), int64(253402300799), int64(-62135596800), uint32(0))
	// 31 December of a leap year in Adelaide
	f.Add(uint8(1), uint8(26), uint16(0), int64(0), int64(1988149500), uint32(0))
	f.Add(uint8(3), uint8(8), uint16(0), int64(0), int64(1988150400), uint32(0))
	f.Fuzz(func(t *testing.T, kind, zone uint8, every uint16, anchor, seconds int64, nanos uint32) {
		begin := inRange(anchor).Format("2006-01-02T15:04:05")
		n := func(most uint16) uint16 { return every%most + 1 }
		text := []string{
			"week", "hour", "day", "month", "quarter", "year",
			fmt.Sprintf("every %d days from %s", n(36500), begin),
			fmt.Sprintf("every %d weeks from %s", n(5214), begin),
			fmt.Sprintf("every %d months from %s", n(1200), begin),
			fmt.Sprintf("every %d years from %s", n(100), begin),
			"week from sunday", "week from friday",
		}[kind%12]
		p, err := headroom.ParsePeriod(text + " in " + hardZones[int(zone)%len(hardZones)])
		if err != nil {
			t.Fatal(err)
		}
		checkTiles(t, p, inRange(seconds).Add(time.Duration(nanos%1e9)))
	})
}

// allZones are the names of the IANA time zone database, links among them, as testdata/zones.txt
// lists them.
func allZones(tb testing.TB) []string {
	tb.Helper()
	names, err := os.ReadFile("testdata/zones.txt")
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Fields(string(names))
}

// FuzzWindowsOfAYear skips a zone that the host's database lacks, which may be that of another
// year. Those must be few.
func TestTheHostHasTheZones(t *testing.T) {
	var missing []string
	for _, name := range allZones(t) {
		if _, err := headroom.ParsePeriod("day in " + name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 10 {
		t.Errorf("%d zones do not load, so that nothing is held of them: %s", len(missing), strings.Join(missing, ", "))
	}
}

// FuzzWindowsOfAYear holds for every zone of the IANA database that the windows of a year, or the
// first 400 of them, tile time in both directions and have keys of their own, and that an ISO week
// in UTC is that of the time package.
func FuzzWindowsOfAYear(f *testing.F) {
	zones := allZones(f)
	for i := range zones { // each with its first rules, and with those that hold now
		f.Add(uint16(i), uint8(i), int64(-5e9)+int64(i)*5e6)
		f.Add(uint16(i), uint8(i+1), int64(1_767_225_600)+int64(i)*86400)
	}
	periods := []string{"hour", "day", "week", "month", "week from sunday", "every day from 2026-01-01T02:30", "every 10 days from 2026-03-29T23:59:59", "every month from 2026-01-31"}
	f.Fuzz(func(t *testing.T, zone uint16, kind uint8, seconds int64) {
		text := periods[int(kind)%len(periods)] + " in " + zones[int(zone)%len(zones)]
		p, err := headroom.ParsePeriod(text)
		if err != nil {
			t.Skip(err) // see TestTheHostHasTheZones
		}
		at := inRange(seconds)
		first := p.At(at)
		if first.Start.After(at) || !first.End.After(at) {
			t.Fatalf("%s: %s lies outside of its window %v", p, at, first)
		}
		if year, week := at.ISOWeek(); text == "week in UTC" && first.Key != fmt.Sprintf("%04d-W%02d", year, week) {
			t.Fatalf("%s lies in %v", at, first)
		}
		windows, keys := []headroom.Window{first}, map[string]bool{first.Key: true}
		for last := first; last.Start.Before(at.AddDate(1, 0, 0)) && len(windows) < 400; {
			next := p.At(last.End)
			if next.Start != last.End || !next.End.After(next.Start) || p.At(next.End.Add(-1)) != next {
				t.Fatalf("%s: %v is followed by %v", p, last, next)
			}
			if keys[next.Key] {
				t.Fatalf("%s: two windows of a year have the key %s", p, next.Key)
			}
			keys[next.Key] = true
			windows, last = append(windows, next), next
		}
		for i := len(windows) - 1; i > 0; i-- {
			if before := p.At(windows[i].Start.Add(-1)); before != windows[i-1] {
				t.Fatalf("%s: %v is preceded by %v, which is followed by %v", p, windows[i], before, windows[i-1])
			}
		}
	})
}

// inRange maps seconds to an instant in the years 1 to 9999, and those years to themselves.
func inRange(seconds int64) time.Time {
	const first, past = -62135596800, 253402300800
	seconds = (seconds - first) % (past - first)
	if seconds < 0 {
		seconds += past - first
	}
	return time.Unix(seconds+first, 0).UTC()
}

// FuzzParsePeriod holds that every text gives a period, whose own text gives it again, or an error.
func FuzzParsePeriod(f *testing.F) {
	for _, text := range []string{
		"week", "week from sunday", "day in Europe/Berlin", "every month from 2026-01-31T09:00 in Asia/Tokyo", "every 7 days from 2026-01-05", "every 0 days from 2026-02-30",
		"day in ../x", "day in Europe//Berlin", "every in UTC", "week\u00a0from sunday",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := headroom.ParsePeriod(text)
		if err != nil {
			return
		}
		if again, err := headroom.ParsePeriod(p.String()); err != nil || again != p {
			t.Errorf("%q is %q, which is %v, %v", text, p, again, err)
		}
		checkTiles(t, p, time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC))
	})
}
