package headroom

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestIdsLiveAtLeastAsLongAsTheWindowTheyWereChargedIn(t *testing.T) {
	for window, want := range map[string]time.Duration{
		"hour": DefaultHorizon, "day": DefaultHorizon, "week": DefaultHorizon, "month": 32 * day, "quarter": 93 * day, "year": 367 * day,
		"every 15 days from 2026-01-01": 16 * day, "every 2 months from 2026-01-31": 63 * day, "every 4 years from 2024-02-29": 1462 * day,
		"every month from 2026-01-31 in Europe/Berlin": 33 * day, "week in Europe/Berlin": DefaultHorizon, "month in Asia/Manila": 33 * day,
		"every 100 years from 2000-01-01": MaxHorizon,
	} {
		p, err := ParsePeriod(window)
		if err != nil {
			t.Fatal(err)
		}
		c := catalogOf(t, Limit{Meter: "a", Name: "long", Period: p}, Limit{Meter: "b", Name: "week"}, Limit{Meter: "c", Name: "soft", Period: p, Mode: Soft})
		if a, b, soft := c.Horizon("a"), c.Horizon("b"), c.Horizon("c"); a != want || b != DefaultHorizon || soft != DefaultHorizon {
			t.Errorf("%s: %s, and %s and %s for others: want %s, and %s for others", window, a, b, soft, want, DefaultHorizon)
		}
		// No window that there is is longer.
		for at := time.Date(1840, 1, 1, 0, 0, 0, 0, time.UTC); want < MaxHorizon && at.Year() < 2110; at = at.AddDate(0, 0, 9) {
			if w := p.At(at); w.End.Sub(w.Start)+day > want {
				t.Fatalf("%s: the window %s lasts %s", window, w.Key, w.End.Sub(w.Start))
			}
		}
	}
}

func TestHorizonsAreBounded(t *testing.T) {
	c := catalogOf(t, Limit{Meter: "a", Name: "week"})
	for _, h := range []time.Duration{-1, 1, time.Second, time.Minute + 1, MaxHorizon + time.Minute, math.MaxInt64, math.MinInt64, time.Duration(math.MaxInt64).Truncate(time.Minute)} {
		for _, set := range []func() (*Catalog, error){
			func() (*Catalog, error) { return c.WithMemory(h, nil) },
			func() (*Catalog, error) { return c.WithMemory(0, map[string]Memory{"a": {Horizon: h}}) },
		} {
			if _, err := set(); !errors.Is(err, Invalid) {
				t.Errorf("a horizon of %s: %v", h, err)
			}
		}
	}
	if _, err := c.WithMemory(0, map[string]Memory{"b": {}}); !errors.Is(err, Invalid) {
		t.Errorf("a meter that nothing limits: %v", err)
	}
	all, err := c.WithMemory(MaxHorizon, map[string]Memory{"a": {None: true}})
	if err != nil || all.Horizon("a") != MaxHorizon || all.NeedsID("a") || !c.NeedsID("a") || c.Horizon("a") != DefaultHorizon {
		t.Errorf("the longest: %s, %v", all.Horizon("a"), err)
	}
}

func TestAHorizonShorterThanItsWindowIsAWarning(t *testing.T) {
	month, _ := ParsePeriod("month")
	c := catalogOf(t, Limit{Meter: "a", Name: "month", Period: month}, Limit{Meter: "b", Name: "week"})
	for _, x := range []struct {
		all    time.Duration
		meters map[string]Memory
		want   []string // parts of each
	}{
		{},
		{all: 40 * day},
		{all: 15 * day, want: []string{`meter "a" remembers operation ids for 15 days, but a window of its limit "month" lasts 31 days`}},
		{all: 15 * day, meters: map[string]Memory{"a": {Horizon: 32 * day}}},
		{meters: map[string]Memory{"b": {Horizon: 8 * day}}, want: []string{`meter "b" remembers operation ids for 8 days, but a queue`}},
		{all: time.Hour, want: []string{`meter "a" remembers operation ids for 1h0m0s`, `"week" lasts 7 days: late in it a repeat is charged again, and a refund finds no charge; want at least 15 days`}},
	} {
		with, err := c.WithMemory(x.all, x.meters)
		if err != nil {
			t.Fatal(err)
		}
		got := with.Warnings()
		for i, part := range x.want {
			if len(got) != len(x.want) || !strings.Contains(got[i], part) {
				t.Errorf("%+v: %q: want %q", x, got, x.want)
			}
		}
		if len(x.want) == 0 && len(got) > 0 {
			t.Errorf("%+v: %q: want none", x, got)
		}
	}
}
