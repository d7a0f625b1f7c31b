package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

const whole = `# all keys
default_plan: free
horizon: 30d
plans:
  free:
    limits:
      - {meter: slots, name: week, window: week, units: 200}
  pro:
    limits:
      - meter: slots
        units: 9007199254740993   # 2^53 + 1: kept exactly
      - meter: calls
        name: weekly
        units: 0
  "none": {limits: []}
prices:
  slots:
    step: 60
    rates: {standard: 1, neural: 2, on: 3}
  calls:
    rates:
      any: 1
dynamodb:
  meter: slots
  limit: week
  format: 1
  attributes: {subject: pk, window: w, count: c, plan: tier, prefix: q}
embedded: {format: 1}
`

func TestWholeFile(t *testing.T) {
	c, err := config.Parse("headroom.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if c.Catalog.Horizon("slots") != 30*24*time.Hour {
		t.Errorf("horizon %s, want 720h", c.Catalog.Horizon("slots"))
	}
	if want := (config.DynamoDB{Meter: "slots", Limit: "week", Format: 1, Subject: "pk", Window: "w", Count: "c", Plan: "tier", Prefix: "q"}); c.DynamoDB != want {
		t.Errorf("dynamodb %+v, want %+v", c.DynamoDB, want)
	}
	if c.Embedded.Format != 1 {
		t.Errorf("embedded format %d, want 1", c.Embedded.Format)
	}
	plans := c.Catalog.Plans()
	if len(plans) != 3 || c.Catalog.Default() != "free" {
		t.Fatalf("plans %+v, default %q", plans, c.Catalog.Default())
	}
	pro := plans[2]
	if pro.Name != "pro" || len(pro.Limits) != 2 || pro.Limits[0].Units != 1<<53+1 || pro.Limits[0].Name != "week" || pro.Limits[1].Name != "weekly" {
		t.Errorf("plan %+v", pro)
	}
	for _, price := range []struct {
		meter, class string
		quantity     float64
		want         int64
	}{{"slots", "neural", 900, 30}, {"slots", "on", 1, 3}, {"calls", "any", 7, 7}} {
		p, err := c.Catalog.Prices(price.meter)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Cost(price.class, price.quantity); err != nil || got != price.want {
			t.Errorf("%v costs %d (%v), want %d", price, got, err, price.want)
		}
	}
}

func TestWhatIsLeftOutIsLumcast(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "horizon: 15d\n"} {
		c, err := config.Parse("headroom.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		prices, err := c.Catalog.Prices("slots")
		if err != nil {
			t.Fatal(err)
		}
		cost, err := prices.Cost("generative", 900)
		if c.Catalog.Default() != "free" || c.Catalog.Horizon("slots") != headroom.DefaultHorizon || cost != 60 || err != nil {
			t.Errorf("%q: default %q, horizon %s, cost %d, %v", text, c.Catalog.Default(), c.Catalog.Horizon("slots"), cost, err)
		}
	}
}

func TestEachMeterRemembersForAsLongAsItIsTold(t *testing.T) {
	const day = 24 * time.Hour
	c, err := config.Parse("headroom.yaml", []byte("plans: {free: {limits: [{meter: a, window: year, name: year, units: 1}, {meter: b, units: 1}, {meter: c, window: month, name: month, units: 1}, {meter: d, units: 1}]}}\n"+
		"meters:\n  b: {remember: none}\n  c: {remember: 40 days}\n  d: {remember: 90m}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for meter, want := range map[string]time.Duration{"a": 367 * day, "b": 15 * day, "c": 40 * day, "d": 90 * time.Minute} {
		if got := c.Catalog.Horizon(meter); got != want || c.Catalog.NeedsID(meter) != (meter != "b") {
			t.Errorf("%s: %s, ids needed %t: want %s", meter, got, c.Catalog.NeedsID(meter), want)
		}
	}
	if w := c.Catalog.Warnings(); len(w) != 1 {
		t.Errorf("%q: want one warning, of d", w)
	}
	all, err := config.Parse("headroom.yaml", []byte("horizon: 1 day\n"))
	if err != nil || all.Catalog.Horizon("slots") != day {
		t.Errorf("%s, %v: want a day", all.Catalog.Horizon("slots"), err)
	}
}

func TestFaultsNameLineAndColumn(t *testing.T) {
	const plan = "default_plan: free\nplans:\n  free:\n    limits:\n      - meter: slots\n"
	for text, want := range map[string]string{
		"default_pln: free\n":                                         `1:1: unknown key "default_pln": want default_plan, dynamodb, embedded, horizon, meters, plans, prices`,
		plan + "        unitz: 3\n":                                   `6:9: unknown key "unitz": want carry_over, max_holds, meter, mode, name, thresholds, units, window`,
		plan + "        units: 1.5\n":                                 "6:16: 1.5: want a whole number in plain digits",
		plan + "        units: 2e2\n":                                 `6:16: want a whole number, not the text "2e2"`,
		plan + "        units: 0200\n":                                "6:16: 0200: want a whole number in plain digits",
		plan + "        units: 1_000\n":                               "6:16: 1_000: want a whole number in plain digits",
		plan + "        units: .nan\n":                                "6:16: .nan: want a whole number in plain digits",
		plan + "        units: \"200\"\n":                             `6:16: want a whole number, not the text "200"`,
		plan + "        units:\n":                                     "6:15: want a whole number, not nothing",
		plan + "        units: null\n":                                "6:16: want a whole number, not nothing",
		plan + "        units: true\n":                                "6:16: want a whole number, not true",
		plan + "        units: [1]\n":                                 "6:16: want a whole number, not a list",
		plan + "        units: -1\n":                                  "6:16: -1: want at least 0",
		plan + "        units: 9223372036854775808\n":                 "6:16: 9223372036854775808: want at most 9223372036854775807",
		plan + "        name: week\n":                                 "5:9: units is missing",
		plan + "        units: 1\n        window: fortnight\n":        `7:17: unknown window "fortnight": want hour, day, week, month, quarter or year, "week from sunday", or "every 2 weeks from 2026-01-05"; for another zone than UTC add "in Europe/Berlin"`,
		plan + "        units: 1\n        units: 2\n":                 `7:9: mapping key "units" already defined at [6:9]`,
		plan + "        units: 1\n        name: Week\n":               `5:9: limit "Week" of plan "free": want 1 to 32 lower-case letters, digits, - or _`,
		plan + "        units: 1\n      - {meter: slots, units: 2}\n": `7:9: plan "free" limits "week" of meter "slots" twice`,
		plan + "        units: 1\n  free: {limits: []}\n":             `7:3: mapping key "free" already defined at [3:3]`,
		"default_plan: [free]\n":                                      "1:15: want a text, not a list",
		plan + "        units: 1\n        window: [day]\n":            "7:17: want a text, not a list",
		plan + "        units: 1\n  a+b: {limits: []}\n":              `7:8: plan "a+b": a + in a stored plan begins a subject's own limits`,
		plan + "        units: 1\n        name: [week]\n":             "7:15: want a text, not a list",
		plan[:len(plan)-6] + "[slots]\n        units: 1\n":            "5:16: want a text, not a list",
		"prices:\n  slots: {step: 9007199254740993, rates: {a: 1}}\n": `2:10: prices of meter "slots": step 9007199254740993: want 1 to 2^53`,
		"dynamodb:\n  meter: [slots]\n":                               "2:10: want a text, not a list",
		"dynamodb:\n  attributes: {count: [n]}\n":                     "2:23: want a text, not a list",
		"default_plan: gold\n" + plan[19:] + "        units: 1\n":     `1:15: there is no plan "gold"`,
		"plans:\n  pro: {limits: []}\n":                               `2:3: default_plan is not given, and there is no plan "free"`,
		"plans:\n  free: {}\n":                                        "2:9: limits is missing",
		"plans:\n  free:\n    - meter: slots\n":                       "3:5: want keys and values, not a list",
		"plans:\n  \"\": {limits: []}\n":                              "2:3: the name of a plan is empty",
		"plans: 3\n":                                                  "1:8: want keys and values, not 3",
		"- a\n":                                                       "1:1: want keys and values, not a list",
		"prices:\n  slots: {step: 0, rates: {a: 1}}\n":                "2:17: 0: want at least 1",
		"prices:\n  slots: {rates: {a: -1}}\n":                        "2:22: -1: want at least 0",
		"prices:\n  slots:\n    rates:\n      a: x\n":                 `4:10: want a whole number, not the text "x"`,
		"horizon: 15\n":                                               `1:10: "15": want whole minutes, from 1m to 3660d: 15d, 360h or 90m`,
		"horizon: 30s\n":                                              `1:10: "30s": want whole minutes, from 1m to 3660d: 15d, 360h or 90m`,
		"horizon: 999999999d\n":                                       `1:10: "999999999d": want whole minutes, from 1m to 3660d: 15d, 360h or 90m`,
		"dynamodb:\n  format: 0\n":                                    "2:11: 0: want at least 1",
		"dynamodb:\n  format: 3000000000\n":                           "2:11: 3000000000 is no format",
		"dynamodb:\n  attributes: {table: x}\n":                       `2:16: unknown key "table": want count, plan, prefix, subject, window`,
		"horizon: for ever\n":                                         `1:10: "for ever": want whole minutes, from 1m to 3660d: 15d, 360h or 90m`,
		"meters: {slots: {remember: 3661d}}\n":                        `1:28: "3661d": want whole minutes, from 1m to 3660d: 15d, 360h or 90m`,
		"meters: {slots: {}}\n":                                       "1:17: remember is missing",
		"meters: {slots: {keep: 3d}}\n":                               `1:18: unknown key "keep": want remember`,
		"meters: {minutes: {remember: none}}\n":                       `1:9: unknown meter "minutes": no plan limits it`,
		"horizon: &h 15d\n":                                           "1:10: want a text, not an anchor, an alias or a tag: write the value out",
		"horizon: 15d\n---\nhorizon: 16d\n":                           "3:1: a second document: want one",
		"plans: [\n":                                                  "1:8: sequence end token ']' not found",
		"horizon: \"15d\n":                                            "1:10: could not find end character of double-quoted text",
		"\thorizon: 15d\n":                                            "1:8: tab character cannot use as a map key directly",
	} {
		_, err := config.Parse("c.yaml", []byte(text))
		if err == nil || err.Error() != "c.yaml:"+want {
			t.Errorf("%q:\n got %v\nwant c.yaml:%s", text, err, want)
		}
		if !errors.Is(err, headroom.Invalid) {
			t.Errorf("%q: %v is not Invalid", text, err)
		}
	}
}

func TestExcerptMarksTheColumn(t *testing.T) {
	_, err := config.Parse("c.yaml", []byte("horizon: 15d\r\nprice: {}\r\n"))
	var fault *config.Error
	if !errors.As(err, &fault) {
		t.Fatal(err)
	}
	if got, want := fault.Excerpt(), "    2 | price: {}\n        ^"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	_, err = config.Parse("c.yaml", []byte("prices: {été: {rates: {a: x}}}\n"))
	if !errors.As(err, &fault) {
		t.Fatal(err)
	}
	if got, want := fault.Excerpt(), "    1 | prices: {été: {rates: {a: x}}}\n"+strings.Repeat(" ", 34)+"^"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestUnreadableFile(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, headroom.Invalid) || !errors.Is(err, os.ErrNotExist) || strings.Count(err.Error(), "none.yaml") != 1 {
		t.Errorf("got %v", err)
	}
}

// FuzzParse holds that no text makes the reader panic, that every error is one of its own and
// points into the text, and that what was read, written out, is read as the same.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("plans: [\n")
	f.Add("a: &a [*a]\n? b\n: c\n<<: *a\n")
	f.Add("plans: {free: {limits: [{meter: \"a\\tb\\u00e9\", units: 1, window: every 2 weeks from 2026-01-05 in Europe/Berlin, thresholds: [], mode: shadow, carry_over: 3}]}}\nhorizon: 90m\n")
	f.Add("horizon: 15d\r\n\tprices: {}\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("c.yaml", []byte(text))
		var fault *config.Error
		if err != nil && !errors.As(err, &fault) {
			t.Errorf("error of another kind: %v", err)
		}
		if (err == nil) != (c != nil) {
			t.Error("neither a configuration nor an error")
		}
		if fault != nil {
			_ = fault.Excerpt()
			lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
			if fault.Line < 1 || fault.Line > len(lines) || fault.Column < 1 || fault.Column > utf8.RuneCountInString(lines[fault.Line-1])+1 {
				t.Errorf("%v in %q", err, text)
			}
			return
		}
		again, err := config.Parse("c.yaml", written(t, c))
		if err != nil {
			t.Fatalf("%v\n%s", err, written(t, c))
		}
		if got, want := fmt.Sprintf("%+v", said(again)), fmt.Sprintf("%+v", said(c)); got != want {
			t.Errorf("read   %s\nwanted %s\nof %s", got, want, written(t, c))
		}
	})
}

// horizons is how each meter remembers ids.
func horizons(c *config.Config) (all []string) {
	for _, meter := range c.Catalog.Meters() {
		all = append(all, fmt.Sprint(meter, c.Catalog.Horizon(meter), c.Catalog.NeedsID(meter)))
	}
	return all
}

// said is all that a configuration says.
func said(c *config.Config) any {
	return []any{c.Catalog.Plans(), c.Catalog.Default(), c.Prices, horizons(c), c.DynamoDB}
}

// written is a configuration as a file. JSON is YAML.
func written(t *testing.T, c *config.Config) []byte {
	type object = map[string]any
	plans, prices := object{}, object{}
	for _, p := range c.Catalog.Plans() {
		limits := []any{}
		for _, l := range p.Limits {
			limit := object{
				"meter": l.Meter, "name": l.Name, "window": l.Period.String(), "units": l.Units, "mode": l.Mode.String(),
				"carry_over": l.CarryOver, "thresholds": append([]int{}, l.Thresholds...),
			}
			if l.MaxHolds > 0 {
				limit["max_holds"] = l.MaxHolds
			}
			limits = append(limits, limit)
		}
		plans[p.Name] = object{"limits": limits}
	}
	for meter, p := range c.Prices {
		prices[meter] = object{"step": p.Step, "rates": p.Rates}
	}
	meters := object{}
	for _, meter := range c.Catalog.Meters() {
		remember := fmt.Sprintf("%dm", int64(c.Catalog.Horizon(meter)/time.Minute))
		if !c.Catalog.NeedsID(meter) {
			remember = "none"
		}
		meters[meter] = object{"remember": remember}
	}
	names := object{}
	for name, value := range map[string]string{"subject": c.DynamoDB.Subject, "window": c.DynamoDB.Window, "count": c.DynamoDB.Count, "plan": c.DynamoDB.Plan, "prefix": c.DynamoDB.Prefix} {
		names[name] = value
	}
	dynamodb := object{"meter": c.DynamoDB.Meter, "limit": c.DynamoDB.Limit, "attributes": names}
	if c.DynamoDB.Format != 0 {
		dynamodb["format"] = c.DynamoDB.Format
	}
	embedded := object{}
	if c.Embedded.Format != 0 {
		embedded["format"] = c.Embedded.Format
	}
	text, err := json.Marshal(object{
		"default_plan": c.Catalog.Default(), "plans": plans, "prices": prices, "meters": meters,
		"dynamodb": dynamodb, "embedded": embedded,
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheExampleIsRight(t *testing.T) {
	c, err := config.Load("../examples/headroom.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c.Catalog.Default() != "free" || len(c.Catalog.Plans()) != 3 || c.Catalog.Horizon("slots") != headroom.DefaultHorizon || c.DynamoDB.Window != "quotaWeek" {
		t.Errorf("default %q, plans %v, horizon %s, %+v", c.Catalog.Default(), c.Catalog.Plans(), c.Catalog.Horizon("slots"), c.DynamoDB)
	}
}
