package headroom_test

import (
	"errors"
	"testing"

	"github.com/lumcast/headroom"
)

func TestPeriodTexts(t *testing.T) {
	for text, want := range map[string]string{
		"week":                               "week",
		"hour":                               "hour",
		"day":                                "day",
		"month":                              "month",
		"quarter":                            "quarter",
		"year":                               "year",
		"week in UTC":                        "week",
		"week from monday":                   "week",
		" week  from\tsunday ":               "week from sunday",
		"day in Europe/Berlin":               "day in Europe/Berlin",
		"hour in Etc/UTC":                    "hour in Etc/UTC",
		"week from saturday in Africa/Cairo": "week from saturday in Africa/Cairo",
		"month in America/Argentina/Buenos_Aires":         "month in America/Argentina/Buenos_Aires",
		"day in Etc/GMT+5":                                "day in Etc/GMT+5",
		"every 7 days from 2026-01-05":                    "every 7 days from 2026-01-05",
		"every 1 day from 2026-01-05T00:00":               "every day from 2026-01-05",
		"every days from 2026-01-05T00:00:00":             "every day from 2026-01-05",
		"every 2 week from 2026-01-05":                    "every 2 weeks from 2026-01-05",
		"every month from 2026-01-31T09:00 in Asia/Tokyo": "every month from 2026-01-31T09:00 in Asia/Tokyo",
		"every 18 months from 1969-12-31T23:59:59":        "every 18 months from 1969-12-31T23:59:59",
		"every year from 2024-02-29":                      "every year from 2024-02-29",
		"every 100 years from 0001-01-01":                 "every 100 years from 0001-01-01",
		"every 36500 days from 9999-12-31T23:59":          "every 36500 days from 9999-12-31T23:59",
		"every 5214 weeks from 2026-01-05":                "every 5214 weeks from 2026-01-05",
		"every 1200 months from 2026-01-05":               "every 1200 months from 2026-01-05",
	} {
		p := parse(t, text)
		if got := p.String(); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
		if again := parse(t, want); again != p {
			t.Errorf("%q and %q are not the same", text, want)
		}
	}
	if zero := (headroom.Period{}); zero != parse(t, "week") || zero.String() != "week" {
		t.Errorf("the zero Period is %s", zero)
	}
}

func TestPeriodFaultsSayWhatIsWanted(t *testing.T) {
	const (
		window = `: want hour, day, week, month, quarter or year, "week from sunday", or "every 2 weeks from 2026-01-05"; for another zone than UTC add "in Europe/Berlin"`
		every  = `: want how long it is and when one begins, like "every 7 days from 2026-01-05" or "every month from 2026-01-31T09:00"`
		zone   = " is not in the IANA time zone database of this host: want a name like Europe/Berlin"
		anchor = ": want a day that exists, like 2026-01-31, or with a time of day, 2026-01-31T09:00, by the clock of the zone"
	)
	for text, want := range map[string]string{
		"":                     `unknown window ""` + window,
		"fortnight":            `unknown window "fortnight"` + window,
		"Week":                 `unknown window "Week"` + window,
		"weeks":                `unknown window "weeks"` + window,
		"every":                `unknown window "every"` + window,
		"in UTC":               `unknown window "in UTC"` + window,
		"day Europe/Berlin":    `unknown window "day Europe/Berlin"` + window,
		"day in":               `unknown window "day in"` + window,
		"day from sunday":      `unknown window "day from sunday"` + window,
		"week from 2026-01-05": `unknown window "week from 2026-01-05"` + window,
		"week from Sunday":     `unknown window "week from Sunday"` + window,

		"day in Berlin":               `time zone "Berlin"` + zone,
		"day in europe/nowhere":       `time zone "europe/nowhere"` + zone,
		"day in +02:00":               `time zone "+02:00"` + zone,
		"day in Local":                `time zone "Local"` + zone,
		"day in localtime":            `time zone "localtime"` + zone,
		"day in posixrules":           `time zone "posixrules"` + zone,
		"day in right/Europe/Berlin":  `time zone "right/Europe/Berlin"` + zone,
		"day in posix/Europe/Berlin":  `time zone "posix/Europe/Berlin"` + zone,
		"day in Europe//Berlin":       `time zone "Europe//Berlin"` + zone,
		"day in ./Europe/Berlin":      `time zone "./Europe/Berlin"` + zone,
		"day in Europe/":              `time zone "Europe/"` + zone,
		"day in Europe":               `time zone "Europe"` + zone,
		"day in zone.tab":             `time zone "zone.tab"` + zone,
		"day in ../../etc/localtime":  `time zone "../../etc/localtime"` + zone,
		"day in /etc/localtime":       `time zone "/etc/localtime"` + zone,
		"fortnight in Europe/Nowhere": `time zone "Europe/Nowhere"` + zone,

		"every month":                                     `window "every month"` + every,
		"every 2 months":                                  `window "every 2 months"` + every,
		"every 2 months since 2026-01-01":                 `window "every 2 months since 2026-01-01"` + every,
		"every from 2026-01-01":                           `window "every from 2026-01-01"` + every,
		"every 2 months from 2026-01-01 UTC":              `window "every 2 months from 2026-01-01 UTC"` + every,
		"every 2 quarters from 2026-01-01":                `unknown unit "quarters": want days, weeks, months or years`,
		"every 5 hours from 2026-01-01":                   `unknown unit "hours": want days, weeks, months or years`,
		"every 0 days from 2026-01-01":                    "every 0 days: want a whole number from 1 to 36500",
		"every -1 days from 2026-01-01":                   "every -1 days: want a whole number from 1 to 36500",
		"every +1 day from 2026-01-01":                    "every +1 days: want a whole number from 1 to 36500",
		"every 07 days from 2026-01-01":                   "every 07 days: want a whole number from 1 to 36500",
		"every 1.5 days from 2026-01-01":                  "every 1.5 days: want a whole number from 1 to 36500",
		"every 36501 days from 2026-01-01":                "every 36501 days: want a whole number from 1 to 36500",
		"every 5215 weeks from 2026-01-01":                "every 5215 weeks: want a whole number from 1 to 5214",
		"every 1201 months from 2026-01-01":               "every 1201 months: want a whole number from 1 to 1200",
		"every 101 years from 2026-01-01":                 "every 101 years: want a whole number from 1 to 100",
		"every 99999999999999999999 days from 2026-01-01": "every 99999999999999999999 days: want a whole number from 1 to 36500",

		"every month from 2026-02-30":               `anchor "2026-02-30"` + anchor,
		"every month from 2026-02-29":               `anchor "2026-02-29"` + anchor,
		"every month from 2026-13-01":               `anchor "2026-13-01"` + anchor,
		"every month from 0000-01-01":               `anchor "0000-01-01"` + anchor,
		"every month from 10000-01-01":              `anchor "10000-01-01"` + anchor,
		"every month from 2026-1-5":                 `anchor "2026-1-5"` + anchor,
		"every month from monday":                   `anchor "monday"` + anchor,
		"every month from 2026-01-31T24:00":         `anchor "2026-01-31T24:00"` + anchor,
		"every month from 2026-01-31T9:00":          `anchor "2026-01-31T9:00"` + anchor,
		"every month from 2026-01-31T09:00Z":        `anchor "2026-01-31T09:00Z"` + anchor,
		"every month from 2026-01-31T09:00+01:00":   `anchor "2026-01-31T09:00+01:00"` + anchor,
		"every month from 2026-01-31T09:00:60":      `anchor "2026-01-31T09:00:60"` + anchor,
		"every month from 2026-01-31T09:00:00.5":    `anchor "2026-01-31T09:00:00.5"` + anchor,
		"every month from 2026-01-31T09:00:00,5":    `anchor "2026-01-31T09:00:00,5"` + anchor,
		"every month from 2026-01-31T09:00:00.0000": `anchor "2026-01-31T09:00:00.0000"` + anchor,
	} {
		p, err := headroom.ParsePeriod(text)
		if err == nil || err.Error() != want || !errors.Is(err, headroom.Invalid) {
			t.Errorf("%q:\n got %s, %v\nwant %s", text, p, err, want)
		}
		if p != (headroom.Period{}) {
			t.Errorf("%q gives a period beside its error", text)
		}
	}
}

// Different periods are not ==, even where some of their windows are the same.
func TestPeriodsAreComparable(t *testing.T) {
	seen := map[headroom.Period]string{}
	for _, text := range []string{
		"week", "day", "week from sunday", "week in Europe/Berlin", "week in Europe/Vienna", "week in Etc/UTC", "day in Europe/Berlin",
		"every week from 2026-01-05", "every 7 days from 2026-01-05", "every 7 days from 2026-01-12", "every 7 days from 2026-01-05T00:01",
		"every month from 2026-01-01", "every month from 2026-01-31", "month", "every year from 2026-01-01", "every 12 months from 2026-01-01",
	} {
		p := parse(t, text)
		if other, ok := seen[p]; ok {
			t.Errorf("%q is the same as %q", text, other)
		}
		seen[p] = text
	}
}
