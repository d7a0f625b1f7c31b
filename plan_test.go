package headroom_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/lumcast/headroom"
)

func slots(name string, units int64) headroom.Plan {
	return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: units}}}
}

func TestCatalogIsValidatedOnce(t *testing.T) {
	limit := func(l headroom.Limit) []headroom.Plan {
		return []headroom.Plan{{Name: "free", Limits: []headroom.Limit{l}}}
	}
	prices := func(meter string, p headroom.Prices) map[string]headroom.Prices {
		return map[string]headroom.Prices{meter: p}
	}
	for name, c := range map[string]struct {
		fallback string
		plans    []headroom.Plan
		prices   map[string]headroom.Prices
	}{
		"no plans":                           {"free", nil, nil},
		"a default that is no plan":          {"pro", []headroom.Plan{slots("free", 1)}, nil},
		"no default":                         {"", []headroom.Plan{slots("free", 1)}, nil},
		"a plan without a name":              {"", []headroom.Plan{slots("", 1)}, nil},
		"a plan's name not of UTF-8":         {"\xff", []headroom.Plan{slots("\xff", 1)}, nil},
		"a plan's name of 257 bytes":         {"free", []headroom.Plan{slots("free", 1), slots(strings.Repeat("p", 257), 1)}, nil},
		"a plan given twice":                 {"free", []headroom.Plan{slots("free", 1), slots("free", 1)}, nil},
		"a limit of less than nothing":       {"free", []headroom.Plan{slots("free", -1)}, nil},
		"a limit without a meter":            {"free", limit(headroom.Limit{Name: "week"}), nil},
		"a limit's meter not of UTF-8":       {"free", limit(headroom.Limit{Meter: "\xff", Name: "week"}), nil},
		"a limit's meter of 257 bytes":       {"free", limit(headroom.Limit{Meter: strings.Repeat("m", 257), Name: "week"}), nil},
		"a limit without a name":             {"free", limit(headroom.Limit{Meter: "slots"}), nil},
		"a limit's name of 33 bytes":         {"free", limit(headroom.Limit{Meter: "slots", Name: strings.Repeat("l", 33)}), nil},
		"a limit's name in capitals":         {"free", limit(headroom.Limit{Meter: "slots", Name: "Week"}), nil},
		"a limit's name with a delimiter":    {"free", limit(headroom.Limit{Meter: "slots", Name: "a:b"}), nil},
		"a limit's name of another alphabet": {"free", limit(headroom.Limit{Meter: "slots", Name: "w\u00f6che"}), nil},
		"a limit given twice": {"free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
			{Meter: "slots", Name: "week", Units: 1}, {Meter: "slots", Name: "week", Units: 2}}}}, nil},
		"a step of nothing":           {"free", []headroom.Plan{slots("free", 1)}, prices("slots", headroom.Prices{Rates: map[string]int64{"a": 1}})},
		"a step of less than nothing": {"free", []headroom.Plan{slots("free", 1)}, prices("slots", headroom.Prices{Step: -60, Rates: map[string]int64{"a": 1}})},
		"a step beyond 2^53":          {"free", []headroom.Plan{slots("free", 1)}, prices("slots", headroom.Prices{Step: 1<<53 + 1, Rates: map[string]int64{"a": 1}})},
		"a rate of less than nothing": {"free", []headroom.Plan{slots("free", 1)}, prices("slots", headroom.Prices{Step: 60, Rates: map[string]int64{"a": -1}})},
		"a class without a name":      {"free", []headroom.Plan{slots("free", 1)}, prices("slots", headroom.Prices{Step: 60, Rates: map[string]int64{"": 1}})},
	} {
		if got, err := headroom.NewCatalog(c.fallback, c.plans, c.prices); !errors.Is(err, headroom.ErrInvalid) || got != nil {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
	for name, plans := range map[string][]headroom.Plan{
		"no limits at all":  {{Name: "free"}},
		"a limit of 0":      {slots("free", 0)},
		"the greatest":      {slots("free", math.MaxInt64)},
		"names of any kind": {{Name: "free", Limits: []headroom.Limit{{Meter: "a#b:c/\x00 \u65e5\u672c", Name: "a-b_0", Units: 1}, {Meter: strings.Repeat("m", 256), Name: strings.Repeat("l", 32), Units: 1}}}},
	} {
		if _, err := headroom.NewCatalog("free", plans, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCatalogDoesNotChange(t *testing.T) {
	plans := []headroom.Plan{slots("pro", 300), slots("free", 200)}
	prices := map[string]headroom.Prices{"slots": {Step: 60, Rates: map[string]int64{"standard": 1}}}
	c, err := headroom.NewCatalog("free", plans, prices)
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		all := c.Plans()
		if len(all) != 2 || all[0].Name != "free" || all[1].Name != "pro" || all[0].Limits[0].Units != 200 || all[1].Limits[0].Units != 300 || c.Default() != "free" {
			t.Fatalf("the plans are %+v, by default %q", all, c.Default())
		}
		p, err := c.Prices("slots")
		if err != nil {
			t.Fatal(err)
		}
		if cost, err := p.Cost("standard", 60); err != nil || cost != 1 {
			t.Fatalf("a minute costs %d, %v", cost, err)
		}
		all[0].Limits[0].Units, p.Rates["standard"] = 1, 99
	}
	check()
	check()
	plans[0].Limits[0].Units, prices["slots"].Rates["standard"] = 1, 99
	prices["slots"] = headroom.Prices{}
	check()

	more, err := c.WithUnits("slots", 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range more.Plans() {
		if p.Limits[0].Units != 7 {
			t.Errorf("plan %q has %d units, want 7", p.Name, p.Limits[0].Units)
		}
	}
	check()
	if _, err := c.WithUnits("slots", -1); !errors.Is(err, headroom.ErrInvalid) {
		t.Errorf("less than nothing: %v, want an error", err)
	}
	if same, err := c.WithUnits("tokens", 7); err != nil || same.Plans()[0].Limits[0].Units != 200 {
		t.Errorf("another meter's units: %v", err)
	}
	if _, err := c.Prices("tokens"); !errors.Is(err, headroom.ErrInvalid) {
		t.Errorf("prices of a meter that has none: %v, want an error", err)
	}
}

func TestLumcastHoldsWhereNothingIsConfigured(t *testing.T) {
	c := headroom.Lumcast()
	plans := c.Plans()
	if len(plans) != 1 || plans[0].Name != c.Default() || len(plans[0].Limits) != 1 || !reflect.DeepEqual(plans[0].Limits[0], headroom.Limit{Meter: "slots", Name: "week", Units: 200, Thresholds: []int{80, 100}}) {
		t.Errorf("the plans are %+v, by default %q", plans, c.Default())
	}
	p, err := c.Prices("slots")
	if err != nil {
		t.Fatal(err)
	}
	for class, want := range map[string]int64{"standard": 15, "neural": 30, "generative": 60} {
		if cost, err := p.Cost(class, 15*60); err != nil || cost != want {
			t.Errorf("15 minutes of %s cost %d, %v: want %d", class, cost, err, want)
		}
	}
}

func TestEngineChecksItsSettings(t *testing.T) {
	store := brokenStore{}
	for name, c := range map[string]struct {
		store   headroom.Store
		catalog *headroom.Catalog
		opts    headroom.Options
	}{
		"no store":                  {nil, headroom.Lumcast(), headroom.Options{}},
		"no catalog":                {store, nil, headroom.Options{}},
		"a horizon of a second":     {store, headroom.Lumcast(), headroom.Options{Horizon: 1e9}},
		"a horizon of 90 seconds":   {store, headroom.Lumcast(), headroom.Options{Horizon: 90e9}},
		"a horizon of less than 0":  {store, headroom.Lumcast(), headroom.Options{Horizon: -headroom.DefaultHorizon}},
		"a horizon with a fraction": {store, headroom.Lumcast(), headroom.Options{Horizon: headroom.DefaultHorizon + 1}},
	} {
		if e, err := headroom.New(c.store, c.catalog, c.opts); !errors.Is(err, headroom.ErrInvalid) || e != nil {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
	if _, err := headroom.New(store, headroom.Lumcast(), headroom.Options{}); err != nil {
		t.Errorf("the zero settings: %v", err)
	}
}

// brokenStore is never asked.
type brokenStore struct{ headroom.Store }
