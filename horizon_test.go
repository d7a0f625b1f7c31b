package headroom

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func (k rules) epoch(t time.Time) time.Time { return epoch(t, DefaultHorizon) }

func TestGenerationsAreWholeHorizonsAndTellThem(t *testing.T) {
	times := []time.Time{tuesday, time.Unix(0, 0), time.Unix(0, 1), time.Unix(0, -1), time.Unix(-1, 0), time.Date(1969, 12, 1, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	for _, horizon := range []time.Duration{time.Minute, time.Hour, 36 * time.Hour, DefaultHorizon, 32 * day, 367 * day, MaxHorizon} {
		for _, at := range times {
			label, seconds := epoch(at, horizon), int64(horizon/time.Second)
			mark := label.Unix() - floorDiv(label.Unix(), 60)*60
			if label.After(at) || !label.Add(horizon).After(at) || floorDiv(label.Unix(), seconds)*seconds != label.Unix()-mark || label.Location() != time.UTC {
				t.Errorf("the generation of %s with a horizon of %s is %s", at, horizon, label)
			}
			says := told[mark]
			if says < horizon || horizon >= time.Hour && says > horizon*5/4 || horizon == DefaultHorizon && mark != 0 {
				t.Errorf("the label %s tells a horizon of %s: want %s, or a quarter more at most", label, says, horizon)
			}
		}
	}
}

func TestIdsLiveAsLongAsWasPromisedWhenTheHorizonChanges(t *testing.T) {
	type id struct{ label, until time.Time }
	horizons := []time.Duration{time.Hour, 36 * time.Hour, 7 * day, DefaultHorizon, 16 * day, 30 * day, 32 * day, 60 * day, 367 * day}
	changes := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		h := horizons[random.IntN(len(horizons))]
		now := tuesday
		var s State
		var ids []id
		for range 6 {
			turns := 0
			for range 60 {
				now = now.Add(time.Duration(random.Int64N(int64(h) / 8)).Truncate(time.Second))
				if random.IntN(12) == 0 {
					now = now.Add(time.Duration(random.Int64N(int64(3 * h))).Truncate(time.Second))
				}
				if label, due := s.turn(now, h); due {
					if !label.After(s.Epoch) || label.After(now) {
						t.Fatalf("a generation of %s follows on that of %s at %s", label, s.Epoch, now)
					}
					s.EpochBefore, s.Epoch = s.Epoch, label
					turns++
				}
				for _, id := range ids {
					if !now.After(id.until) && !id.label.Equal(s.Epoch) && !id.label.Equal(s.EpochBefore) {
						t.Fatalf("seed %d: at %s an id is forgotten that was to be remembered until %s", seed, now, id.until)
					}
				}
				ids = append(ids, id{s.Epoch, now.Add(h)})
				if got := s.Horizon(h); got < h || got > 367*day*5/4 {
					t.Fatalf("ids are said to be remembered for %s", got)
				}
			}
			// Two generations by the present horizon have begun: from here on another may follow.
			for n := 0; n < 3; now = now.Add(h / 4) {
				if label, due := s.turn(now, h); due {
					s.EpochBefore, s.Epoch = s.Epoch, label
					n++
				}
				ids = append(ids, id{s.Epoch, now.Add(h)})
			}
			if !s.Epoch.Equal(epoch(now.Add(-h/4), h)) {
				t.Fatalf("seed %d: generations do not come back to those of the horizon", seed)
			}
			changes++
			h = horizons[random.IntN(len(horizons))]
		}
	}
	t.Logf("%d changes of a horizon", changes)
}

func catalogOf(t *testing.T, limits ...Limit) *Catalog {
	t.Helper()
	c, err := NewCatalog("p", []Plan{{Name: "p", Limits: limits}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

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
			if _, err := set(); !errors.Is(err, ErrInvalid) {
				t.Errorf("a horizon of %s: %v", h, err)
			}
		}
	}
	if _, err := c.WithMemory(0, map[string]Memory{"b": {}}); !errors.Is(err, ErrInvalid) {
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
