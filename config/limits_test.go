package config_test

import (
	"slices"
	"testing"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

func TestALimitsSettings(t *testing.T) {
	c, err := config.Parse("headroom.yaml", []byte(`
plans:
  free:
    limits:
      - {meter: slots, units: 200}
      - {meter: slots, name: day, window: day, units: 60, mode: soft, carry_over: 20, thresholds: [50, 90, 150]}
      - {meter: slots, name: trial, units: 100, mode: shadow, thresholds: []}
      - {meter: exports, name: month, window: month, units: 9, mode: hard}
`))
	if err != nil {
		t.Fatal(err)
	}
	limits := c.Catalog.Plans()[0].Limits
	for i, want := range []struct {
		meter      string
		mode       headroom.Mode
		carryOver  int64
		thresholds []int
	}{
		{"slots", headroom.Hard, 0, []int{80, 100}},
		{"slots", headroom.Soft, 20, []int{50, 90, 150}},
		{"slots", headroom.Shadow, 0, nil},
		{"exports", headroom.Hard, 0, []int{80, 100}},
	} {
		if l := limits[i]; l.Meter != want.meter || l.Mode != want.mode || l.CarryOver != want.carryOver || !slices.Equal(l.Thresholds, want.thresholds) {
			t.Errorf("limit %d is %+v, want %+v", i, l, want)
		}
	}
}

// What a file leaves out is as in the built-in catalog, so a file that repeats it changes nothing.
func TestThresholdsLeftOutAreThoseOfLumcast(t *testing.T) {
	c, err := config.Parse("headroom.yaml", []byte("plans: {free: {limits: [{meter: slots, units: 200}]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := c.Catalog.Plans()[0].Limits[0], headroom.DefaultCatalog().Plans()[0].Limits[0]
	if !slices.Equal(got.Thresholds, want.Thresholds) {
		t.Errorf("thresholds %v, want %v", got.Thresholds, want.Thresholds)
	}
}

func TestFaultsOfALimitsSettings(t *testing.T) {
	const limit = "plans:\n  free:\n    limits:\n      - meter: slots\n        units: 1\n        "
	for text, want := range map[string]string{
		"mode: gentle\n":                    `6:15: unknown mode "gentle": want hard (refuse what goes past the limit), soft (admit it and say so) or shadow (count and report only)`,
		"mode: Hard\n":                      `6:15: unknown mode "Hard": want hard (refuse what goes past the limit), soft (admit it and say so) or shadow (count and report only)`,
		"mode:\n":                           "6:14: want a text, not nothing",
		"max_holds: 0\n":                    "6:20: 0: want at least 1",
		"carry_over: -1\n":                  "6:21: -1: want at least 0",
		"carry_over: half\n":                `6:21: want a whole number, not the text "half"`,
		"carry_over: 9223372036854775808\n": "6:21: 9223372036854775808: want at most 9223372036854775807",
		"thresholds: 80\n":                  "6:21: want a list, not 80",
		"thresholds: [80, 80.5]\n":          "6:26: 80.5: want a whole number in plain digits",
		"thresholds: [100, 80]\n":           "6:27: 80 after 100: want rising percents",
		"thresholds: [80, 80]\n":            "6:26: 80 after 80: want rising percents",
		"thresholds: [0]\n":                 "6:22: 0: want at least 1",
		"thresholds:\n          - 80\n          - 1001\n": "8:13: 1001: want at most 1000 percent",
		"threshold: [80]\n": `6:9: unknown key "threshold": want carry_over, max_holds, meter, mode, name, thresholds, units, window`,
	} {
		if _, err := config.Parse("c.yaml", []byte(limit+text)); err == nil || err.Error() != "c.yaml:"+want {
			t.Errorf("%q:\n got %v\nwant c.yaml:%s", text, err, want)
		}
	}
}
