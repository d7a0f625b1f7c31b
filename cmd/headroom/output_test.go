package main

import (
	"math"
	"path/filepath"
	"testing"
	"time"
)

func TestWhatAPersonReads(t *testing.T) {
	for got, want := range map[string]string{
		thousands(0):                           "0",
		thousands(999):                         "999",
		thousands(1000):                        "1,000",
		thousands(-1234567):                    "-1,234,567",
		thousands(math.MaxInt64):               "9,223,372,036,854,775,807",
		thousands(math.MinInt64):               "-9,223,372,036,854,775,808",
		percent(1, 3):                          "33.3 %",
		percent(0, 0):                          "",
		span(52*time.Hour + 20*time.Second):    "2d 4h",
		span(48 * time.Hour):                   "2d",
		span(61 * time.Minute):                 "1h 1m",
		span(29 * time.Second):                 "0m",
		printable("smith, jo"):                 "smith, jo",
		printable("\x1b[31mred"):               `"\x1b[31mred"`,
		printable("a\u202eb"):                  `"a\u202eb"`,
		count(1, "row"):                        "1 row",
		count(2000, "row"):                     "2,000 rows",
		bar(0, 200, 4):                         "░░░░",
		bar(0, 0, 4):                           "░░░░",
		bar(1, math.MaxInt64, 4):               "▏░░░",
		bar(100, 200, 4):                       "██░░",
		bar(math.MaxInt64-1, math.MaxInt64, 4): "███▉",
		bar(200, 200, 4):                       "████",
		bar(math.MaxInt64, 200, 4):             "████",
		bar(-1, 200, 1):                        "░",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDataGoesWhereTheSystemKeepsIt(t *testing.T) {
	home, err := filepath.Abs("home")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		system string
		env    map[string]string
		want   string
	}{
		{"linux", map[string]string{"HOME": home}, filepath.Join(home, ".local", "share", "headroom")},
		{"linux", map[string]string{"HOME": home, "XDG_DATA_HOME": filepath.Join(home, "data")}, filepath.Join(home, "data", "headroom")},
		{"linux", map[string]string{"HOME": home, "XDG_DATA_HOME": "data"}, filepath.Join(home, ".local", "share", "headroom")},
		{"darwin", map[string]string{"HOME": home}, filepath.Join(home, "Library", "Application Support", "headroom")},
		{"windows", map[string]string{"LocalAppData": home}, filepath.Join(home, "headroom")},
		{"windows", map[string]string{"HOME": home}, ""},
		{"linux", nil, ""},
		{"linux", map[string]string{"XDG_DATA_HOME": "data"}, ""},
	} {
		got, err := dataDir(c.system, func(name string) string { return c.env[name] })
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %v: %q, %v; want %q", c.system, c.env, got, err, c.want)
		}
	}
}
