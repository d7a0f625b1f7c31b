package headroom_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
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
		if got, err := headroom.NewCatalog(c.fallback, c.plans, c.prices); !errors.Is(err, headroom.Invalid) || got != nil {
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

// TestACatalogIsItsOwn: what a caller does with the slices that it gave, or was given, changes no
// catalog.
func TestACatalogIsItsOwn(t *testing.T) {
	thresholds := []int{80}
	limits := []headroom.Limit{{Meter: "slots", Name: "week", Units: 100, Thresholds: thresholds}}
	plans := []headroom.Plan{{Name: "free", Limits: limits}}
	c, err := headroom.NewCatalog("free", plans, nil)
	if err != nil {
		t.Fatal(err)
	}
	thresholds[0], limits[0].Units, plans[0].Name = 1, 1, "other"
	shown := c.Plans()
	shown[0].Limits[0].Thresholds[0], shown[0].Limits[0].Units = 1, 1
	e, err := headroom.New(memstore.New(func() time.Time { return time.Unix(1<<31, 0) }), c, headroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Deduct(t.Context(), headroom.Request{Subject: "a", Meter: "slots", Operation: "1", Cost: 2})
	if err != nil || !d.Allowed || d.Limit != 100 || len(d.Crossed) != 0 {
		t.Errorf("%+v, %v", d, err)
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
	if _, err := c.WithUnits("slots", -1); !errors.Is(err, headroom.Invalid) {
		t.Errorf("less than nothing: %v, want an error", err)
	}
	if same, err := c.WithUnits("tokens", 7); err != nil || same.Plans()[0].Limits[0].Units != 200 {
		t.Errorf("another meter's units: %v", err)
	}
	if _, err := c.Prices("tokens"); !errors.Is(err, headroom.Invalid) {
		t.Errorf("prices of a meter that has none: %v, want an error", err)
	}
}

func TestPlansCutACounterAlike(t *testing.T) {
	plan := func(name, text string) headroom.Plan {
		return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: "slots", Name: "day", Period: parse(t, text), Units: 1}}}
	}
	if _, err := headroom.NewCatalog("a", []headroom.Plan{plan("a", "day in Europe/Berlin"), plan("b", "day in Europe/Berlin")}, nil); err != nil {
		t.Error(err)
	}
	_, err := headroom.NewCatalog("a", []headroom.Plan{plan("a", "day in Europe/Berlin"), plan("b", "day in Europe/Paris")}, nil)
	if want := `limit "day" of meter "slots" is by day in Europe/Berlin in one plan and by day in Europe/Paris in another: give one of them another name`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLumcastHoldsWhereNothingIsConfigured(t *testing.T) {
	c := headroom.DefaultCatalog()
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

// BenchmarkCatalog makes catalogs of plans that each have a limit of their own: the time for each
// plan is to stay the same.
func BenchmarkCatalog(b *testing.B) {
	for _, n := range []int{500, 5000} {
		var plans []headroom.Plan
		for i := range n {
			plans = append(plans, headroom.Plan{Name: fmt.Sprint("plan-", n-i), Limits: []headroom.Limit{{Meter: "slots", Name: fmt.Sprint("limit-", n-i), Units: 1}}})
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := headroom.NewCatalog("plan-1", plans, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/plan")
		})
	}
}
