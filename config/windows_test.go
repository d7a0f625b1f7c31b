package config_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	_ "time/tzdata" // for a host without the database

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

func TestWindowsOfLimits(t *testing.T) {
	c, err := config.Parse("headroom.yaml", []byte(`
default_plan: free
plans:
  free:
    limits:
      - {meter: slots, name: none, units: 1}
      - {meter: slots, name: week, units: 1, window: week}
      - {meter: slots, name: day, units: 1, window: day in Europe/Berlin}
      - {meter: slots, name: sunday, units: 1, window: week from sunday in America/New_York}
      - {meter: slots, name: bill, units: 1, window: every month from 2026-01-31T09:00 in Asia/Tokyo}
      - meter: slots
        name: fortnight
        units: 1
        window: every 14 days from 2026-01-05   # the payroll's
      - meter: slots
        name: quoted
        units: 1
        window: "every year from 2024-02-29T06:30:15"
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"week", "week", "day in Europe/Berlin", "week from sunday in America/New_York", "every month from 2026-01-31T09:00 in Asia/Tokyo", "every 14 days from 2026-01-05",
		"every year from 2024-02-29T06:30:15",
	} {
		if got := c.Catalog.Plans()[0].Limits[i]; got.Period.String() != want {
			t.Errorf("limit %s is by %s, want %s", got.Name, got.Period, want)
		}
	}
}

func TestWindowFaultsNameLineAndColumn(t *testing.T) {
	const plan = "default_plan: free\nplans:\n  free:\n    limits:\n      - meter: slots\n        units: 1\n        window: "
	for text, want := range map[string]string{
		"week in Europe/Atlantis":            `7:17: time zone "Europe/Atlantis" is not in the IANA time zone database of this host: want a name like Europe/Berlin`,
		"day in Local":                       `7:17: time zone "Local" is not in the IANA time zone database of this host: want a name like Europe/Berlin`,
		"week from Sunday":                   `7:17: unknown window "week from Sunday": want hour, day, week, month, quarter or year, "week from sunday", or "every 2 weeks from 2026-01-05"; for another zone than UTC add "in Europe/Berlin"`,
		"every 0 days from 2026-01-05":       "7:17: every 0 days: want a whole number from 1 to 36500",
		"every month from 2026-02-30":        `7:17: anchor "2026-02-30": want a day that exists, like 2026-01-31, or with a time of day, 2026-01-31T09:00, by the clock of the zone`,
		"every month":                        `7:17: window "every month": want how long it is and when one begins, like "every 7 days from 2026-01-05" or "every month from 2026-01-31T09:00"`,
		"every 5 hours from 2026-01-05":      `7:17: unknown unit "hours": want days, weeks, months or years`,
		"7":                                  `7:17: unknown window "7": want hour, day, week, month, quarter or year, "week from sunday", or "every 2 weeks from 2026-01-05"; for another zone than UTC add "in Europe/Berlin"`,
		"":                                   "7:17: want a text, not nothing",
		"{every: 1 month, from: 2026-01-31}": "7:17: want a text, not keys and values",
		"[day]":                              "7:17: want a text, not a list",
		"day\n        zone: Europe/Berlin":   `8:9: unknown key "zone": want carry_over, max_holds, meter, mode, name, thresholds, units, window`,
		"day\n  pro:\n    limits: [{meter: slots, units: 1, window: month}]": `9:14: limit "week" of meter "slots" is by day in one plan and by month in another: give one of them another name`,
	} {
		_, err := config.Parse("c.yaml", []byte(plan+text+"\n"))
		if err == nil || err.Error() != "c.yaml:"+want || !errors.Is(err, headroom.Invalid) {
			t.Errorf("%q:\n got %v\nwant c.yaml:%s", text, err, want)
		}
	}
}

func TestLimitsPageParses(t *testing.T) {
	page, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```yaml\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the page has no configuration")
	}
	for _, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		if _, err := config.Parse("limits.md", []byte(text)); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
	_, windows, _ := strings.Cut(string(page), "| `window` |")
	windows, _, _ = strings.Cut(windows, "\n\n")
	rows := strings.Split(windows, "\n| `")[1:]
	if len(rows) == 0 {
		t.Fatal("the page has no table of windows")
	}
	for _, row := range rows {
		window, _, _ := strings.Cut(row, "`")
		if _, err := headroom.ParsePeriod(window); err != nil {
			t.Error(err)
		}
	}
}
