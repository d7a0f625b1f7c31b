package headroom

import (
	"errors"
	"math"
	"testing"
)

func TestGuardOfADeduction(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "week", Units: 200})
	ahead := Counter{Window: weekAt(52), Count: 30, Past: []Total{{Start: weekAt(51).Start, Units: 20}, {Start: thisWeek.Start, Units: 100}, {Start: weekAt(-1).Start, Units: 7}}}
	for name, c := range map[string]struct {
		counter  Counter
		cost     int64
		over     Policy
		min, max int64
		opens    bool
		folds    int
	}{
		"that fits":                       {Counter{Window: thisWeek, Count: 50}, 30, RefuseOverLimit, 0, 170, false, 0},
		"that just fits":                  {Counter{Window: thisWeek, Count: 170}, 30, RefuseOverLimit, 0, 170, false, 0},
		"that fits, whatever the policy":  {Counter{Window: thisWeek, Count: 50}, 30, RecordOverLimit, 0, 170, false, 0},
		"of nothing":                      {Counter{Window: thisWeek, Count: 500}, 0, RefuseOverLimit, 0, math.MaxInt64, false, 0},
		"past the limit only if it is":    {Counter{Window: thisWeek, Count: 190}, 30, RecordOverLimit, 171, math.MaxInt64 - 30, false, 0},
		"greater than the limit":          {Counter{Window: thisWeek, Count: 0}, 201, RecordOverLimit, 0, math.MaxInt64 - 201, false, 0},
		"that opens a window":             {Counter{Window: weekAt(-1), Count: 190}, 30, RefuseOverLimit, 0, 0, true, 0},
		"that brings a window back":       {ahead, 50, RefuseOverLimit, 0, 30, false, 2},
		"past the limit of one that does": {ahead, 60, RecordOverLimit, 21, math.MaxInt64 - 60 - 120, false, 2},
	} {
		v := View{Now: tuesday, State: State{Counters: map[string]Counter{"week": c.counter}, Epoch: k.epoch(tuesday)}}
		change, _, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: c.cost, Over: c.over})
		if err != nil || change == nil || len(change.Steps) != 1 {
			t.Errorf("a deduction %s: %+v, %v", name, change, err)
			continue
		}
		s := change.Steps[0]
		if s.Opens != c.opens || len(s.Fold) != c.folds || s.Add != c.cost || !s.Opens && (s.Min != c.min || s.Max != c.max) {
			t.Errorf("a deduction %s: %+v, want a count from %d to %d, opening %t, folding %d", name, s, c.min, c.max, c.opens, c.folds)
		}
		if change.Unmet(v) != "" || !change.Rotate.IsZero() {
			t.Errorf("a deduction %s does not hold for what it was decided on: %+v", name, change)
		}
	}
}

func TestRequestOfAClosedWindowSeesTheStoredOne(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "week", Units: 200})
	v := View{Now: tuesday, State: State{Counters: map[string]Counter{"week": {Window: weekAt(9), Count: 30, Partial: true}}}}
	r := Request{Meter: "slots", Operation: "id", Cost: 1, SkipClosed: true}
	c, d, err := k.decide(v, r)
	if err != nil || c != nil || d.Reason != ReasonClosed || d.Used != 30 || !d.Window.same(weekAt(9)) {
		t.Errorf("a late request: %+v, %+v, %v", c, d, err)
	}
	v.Records = map[string]Record{"id": {Kind: KindDeduct, Cost: 1, Windows: []ChargedWindow{{Limit: "week", Start: thisWeek.Start, Units: 1}}}}
	c, d, err = k.decide(v, r)
	if err != nil || c != nil || !d.Replay || d.Used != 30 || !d.Window.same(thisWeek) {
		t.Errorf("a repeat of a late request: %+v, %+v, %v", c, d, err)
	}
}

func TestSumsAreGuardedAgainstOverflow(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "week", Units: Unlimited})
	counter := Counter{Window: weekAt(9), Count: math.MaxInt64 - 10, Past: []Total{{Start: thisWeek.Start, Units: 11}}}
	v := View{Now: tuesday, State: State{Counters: map[string]Counter{"week": counter}}}
	if c, _, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 0}); !errors.Is(err, Invalid) || c != nil {
		t.Errorf("a repair beyond int64: %+v, %v", c, err)
	}
	counter.Past[0].Units = 10
	if c, d, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 0}); err != nil || c == nil || d.Used != math.MaxInt64 {
		t.Errorf("a repair up to int64: %+v, %+v, %v", c, d, err)
	}
	if c, d, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 1}); err != nil || c != nil || d.Reason != ReasonOverLimit {
		t.Errorf("one more: %+v, %+v, %v", c, d, err)
	}
	if c, _, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 1, Over: RecordOverLimit}); !errors.Is(err, Invalid) || c != nil {
		t.Errorf("one more past the limit: %+v, %v", c, err)
	}
}
