package headroom

import (
	"errors"
	"math"
	"testing"
)

func TestOwnLimitsOfASubject(t *testing.T) {
	c, err := NewCatalog("free", []Plan{
		{Name: "free", Limits: []Limit{{Meter: "slots", Name: "week", Units: 200, Thresholds: []int{80}}, {Meter: "a=b/c", Name: "day", Units: 5}}},
		{Name: "pro", Limits: []Limit{{Meter: "slots", Name: "month", Period: periodOf(t, "month"), Units: 800, Mode: Soft}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][3]int64{ // slots a week, slots a month, a=b/c a day
		"":                                    {200, Unlimited, 5},
		"free":                                {200, Unlimited, 5},
		"pro":                                 {Unlimited, 800, Unlimited},
		"free+slots/week=500":                 {500, Unlimited, 5},
		"free+slots/week=0":                   {0, Unlimited, 5},
		"free+slots/month=7":                  {200, 7, 5}, // a limit that only another plan has
		"pro+slots/week=1+slots/month=2":      {1, 2, Unlimited},
		"free+a=b/c/day=9":                    {200, Unlimited, 9},
		"free+slots/week=9223372036854775807": {math.MaxInt64, Unlimited, 5},
	} {
		p, err := c.resolve(text, "")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var got [3]int64
		for _, l := range c.counters["slots"] {
			got[map[string]int{"week": 0, "month": 1}[l.Name]] = p.limit(l).Units
		}
		got[2] = p.limit(c.counters["a=b/c"][0]).Units
		if got != want || text != "" && p.name != text {
			t.Errorf("plan %q named %q allows %d, want %d", text, p.name, got, want)
		}
	}
	p, err := c.resolve("free+slots/week=500", "pro")
	if err != nil {
		t.Fatal(err)
	}
	if l := p.limit(c.counters["slots"][1]); l.Name != "week" || l.Units != 500 || len(l.Thresholds) != 1 || l.Mode != Hard {
		t.Errorf("a subject's own limit is %+v", l)
	}
	for _, text := range []string{
		"nonesuch", "nonesuch+slots/week=1", "+slots/week=1", "+", "free+", "free++slots/week=1", "free+slots/week=1+", "free+slots/week", "free+slots/week=", "free+slots=1", "free+/week=1", "free+=1", "free+slots/=1",
		"free+slots/week=-1", "free+slots/week=1.5", "free+slots/week= 1", "free+slots/week=1 ", "free+slots/week=9223372036854775808", "free+slots/hour=1", "free+words/week=1", "free+slots/week=1+slots/week=1", "free slots/week=1",
	} {
		if p, err := c.resolve(text, ""); !errors.Is(err, Invalid) {
			t.Errorf("%q resolves to %+v, %v", text, p, err)
		}
		if _, err := c.resolve("", text); !errors.Is(err, Invalid) {
			t.Errorf("%q of a caller: %v", text, err)
		}
	}
	if _, err := NewCatalog("a+b", []Plan{{Name: "a+b"}}, nil); !errors.Is(err, Invalid) {
		t.Errorf("a plan with a + in its name: %v", err)
	}
}
