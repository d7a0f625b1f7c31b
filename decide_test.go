package headroom

import (
	"errors"
	"math"
	"testing"
	"time"
)

// The rules are tested through stores by package storetest. Here is what no sequence of today's operations reaches, and what is clearer as a table.

var (
	tuesday  = time.Date(2026, time.May, 26, 10, 0, 0, 0, time.UTC)
	thisWeek = ISOWeek(tuesday)
)

func weekAt(offset int) Window { return ISOWeek(tuesday.AddDate(0, 0, 7*offset)) }

func rulesFor(t *testing.T, limits ...Limit) rules {
	t.Helper()
	c, err := NewCatalog("free", []Plan{{Name: "free", Limits: limits}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rules{catalog: c}
}

// decide is a deduction's change, and its decision with the figures before the change.
func (k rules) decide(v View, r Request) (*Change, Decision, error) {
	answer, err := k.deduct(r)(v)
	d := answer.decision
	if err == nil && answer.change != nil {
		plan, standings, err := k.look(v, r)
		if err != nil {
			return nil, d, err
		}
		d = decided(v, plan, standings, r.Cost, d.Reason, false)
	}
	return answer.change, d, err
}

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
		"that fits":                       {Counter{Window: thisWeek, Count: 50}, 30, OverRefuse, 0, 170, false, 0},
		"that just fits":                  {Counter{Window: thisWeek, Count: 170}, 30, OverRefuse, 0, 170, false, 0},
		"that fits, whatever the policy":  {Counter{Window: thisWeek, Count: 50}, 30, OverRecord, 0, 170, false, 0},
		"of nothing":                      {Counter{Window: thisWeek, Count: 500}, 0, OverRefuse, 0, math.MaxInt64, false, 0},
		"past the limit only if it is":    {Counter{Window: thisWeek, Count: 190}, 30, OverRecord, 171, math.MaxInt64 - 30, false, 0},
		"greater than the limit":          {Counter{Window: thisWeek, Count: 0}, 201, OverRecord, 0, math.MaxInt64 - 201, false, 0},
		"that opens a window":             {Counter{Window: weekAt(-1), Count: 190}, 30, OverRefuse, 0, 0, true, 0},
		"that brings a window back":       {ahead, 50, OverRefuse, 0, 30, false, 2},
		"past the limit of one that does": {ahead, 60, OverRecord, 21, math.MaxInt64 - 60 - 120, false, 2},
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
		if !change.Holds(v) || !change.Rotate.IsZero() {
			t.Errorf("a deduction %s does not hold for what it was decided on: %+v", name, change)
		}
	}
}

func TestGuardFailsForWhatWasNotSeen(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "week", Units: 200})
	past := []Total{{Start: thisWeek.Start, Units: 100}}
	view := func(change func(*View, *Counter)) View {
		v := View{Now: tuesday, State: State{Epoch: k.epoch(tuesday)}}
		c := Counter{Window: weekAt(52), Count: 30, Past: past}
		change(&v, &c)
		if v.State.Counters == nil {
			v.State.Counters = map[string]Counter{"week": c}
		}
		return v
	}
	seen := view(func(*View, *Counter) {})
	change, _, err := k.decide(seen, Request{Meter: "slots", Operation: "id", Cost: 50})
	if err != nil || change == nil || !change.Holds(seen) {
		t.Fatalf("%+v, %v", change, err)
	}
	for name, other := range map[string]View{
		"another plan":              view(func(v *View, _ *Counter) { v.State.Plan = "pro" }),
		"a charge of the operation": view(func(v *View, _ *Counter) { v.Records = map[string]Record{"id": {Kind: KindDeduct, Cost: 50}} }),
		"another generation of ids": view(func(v *View, _ *Counter) { v.State.Epoch = v.State.Epoch.Add(DefaultHorizon) }),
		"another window":            view(func(_ *View, c *Counter) { c.Window = weekAt(51) }),
		"no window":                 view(func(v *View, _ *Counter) { v.State.Counters = map[string]Counter{} }),
		"too great a count":         view(func(_ *View, c *Counter) { c.Count = 51 }),
		"another total":             view(func(_ *View, c *Counter) { c.Past = []Total{{Start: thisWeek.Start, Units: 101}} }),
		"an unknown total":          view(func(_ *View, c *Counter) { c.Past = []Total{{Start: thisWeek.Start, Units: 100, Unknown: true}} }),
		"no total":                  view(func(_ *View, c *Counter) { c.Past = nil }),
	} {
		if change.Holds(other) {
			t.Errorf("the change holds for %s", name)
		}
	}
	for name, other := range map[string]View{
		"the same plan, stored": view(func(v *View, _ *Counter) { v.State.Plan = "free" }),
		"a greater count":       view(func(_ *View, c *Counter) { c.Count = 50 }),
		"a smaller count":       view(func(_ *View, c *Counter) { c.Count = 0 }),
		"more history":          view(func(_ *View, c *Counter) { c.Past = append(c.Past, Total{Start: weekAt(-1).Start, Units: 5}) }),
	} {
		if !change.Holds(other) {
			t.Errorf("the change does not hold for %s", name)
		}
	}
	after := change.Apply(seen.State)
	if c := after.Counters["week"]; c.Count != 180 || !c.Window.same(thisWeek) || len(c.Past) != 0 {
		t.Errorf("after the change: %+v", c)
	}
	if c := seen.State.Counters["week"]; c.Count != 30 || len(past) != 1 || past[0].Units != 100 {
		t.Errorf("Apply changed what it was given to %+v", c)
	}
}

func TestRepairAsksForTheWholeHistoryIfItMust(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "week", Units: 200})
	some := func(weeks ...int) (past []Total) {
		for _, w := range weeks {
			past = append(past, Total{Start: weekAt(w).Start, Units: 1})
		}
		return past
	}
	for name, c := range map[string]struct {
		counter Counter
		asks    bool
	}{
		"nothing at hand":                      {Counter{Window: weekAt(9), Partial: true}, true},
		"only the future at hand":              {Counter{Window: weekAt(9), Partial: true, Past: some(8, 7, 1)}, true},
		"the present window at hand":           {Counter{Window: weekAt(9), Partial: true, Past: some(8, 0)}, true},
		"the past at hand":                     {Counter{Window: weekAt(9), Partial: true, Past: some(8, -1)}, true},
		"all at hand":                          {Counter{Window: weekAt(9), Past: some(8, 7)}, false},
		"no repair needed":                     {Counter{Window: thisWeek, Partial: true}, false},
		"a new window, no repair needed":       {Counter{Window: weekAt(-1), Partial: true}, false},
		"nobody has seen the subject, nothing": {Counter{}, false},
	} {
		v := View{Now: tuesday, State: State{Counters: map[string]Counter{"week": c.counter}}}
		_, _, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 1})
		if asks := errors.Is(err, errNeedHistory); asks != c.asks || !asks && err != nil {
			t.Errorf("%s: error %v, want history to be asked for: %t", name, err, c.asks)
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

func TestRepairLeavesUnknownTotalsAlone(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "week", Units: 200})
	v := View{Now: tuesday, State: State{Counters: map[string]Counter{"week": {Window: weekAt(9), Count: 5, Past: []Total{{Start: weekAt(8).Start, Unknown: true}, {Start: thisWeek.Start, Units: 100}}}}}}
	c, d, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 1})
	if err != nil || c == nil || d.Used != 105 || len(c.Steps[0].Fold) != 1 || !c.Holds(v) {
		t.Errorf("%+v, %+v, %v", c, d, err)
	}
}

func TestSumsAreGuardedAgainstOverflow(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "week", Units: Unlimited})
	counter := Counter{Window: weekAt(9), Count: math.MaxInt64 - 10, Past: []Total{{Start: thisWeek.Start, Units: 11}}}
	v := View{Now: tuesday, State: State{Counters: map[string]Counter{"week": counter}}}
	if c, _, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 0}); !errors.Is(err, ErrInvalid) || c != nil {
		t.Errorf("a repair beyond int64: %+v, %v", c, err)
	}
	counter.Past[0].Units = 10
	if c, d, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 0}); err != nil || c == nil || d.Used != math.MaxInt64 {
		t.Errorf("a repair up to int64: %+v, %+v, %v", c, d, err)
	}
	if c, d, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 1}); err != nil || c != nil || d.Reason != ReasonOverLimit {
		t.Errorf("one more: %+v, %+v, %v", c, d, err)
	}
	if c, _, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 1, Over: OverRecord}); !errors.Is(err, ErrInvalid) || c != nil {
		t.Errorf("one more past the limit: %+v, %v", c, err)
	}
}

func TestTheStrictestLimitIsNamed(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "a", Units: 100}, Limit{Meter: "slots", Name: "b", Units: 60}, Limit{Meter: "other", Name: "c", Units: 1})
	for name, c := range map[string]struct {
		a, b, cost int64
		limit      string
		reason     Reason
	}{
		"the one that leaves least":                  {50, 20, 1, "b", ReasonAdmitted},
		"the one that leaves least, whatever it is":  {90, 20, 1, "a", ReasonAdmitted},
		"the one that refuses":                       {95, 20, 6, "a", ReasonOverLimit},
		"the one that refuses most":                  {95, 59, 6, "b", ReasonOverLimit},
		"the one that can never hold it comes first": {99, 0, 61, "b", ReasonNeverFits},
	} {
		v := View{Now: tuesday, State: State{Counters: map[string]Counter{"a": {Window: thisWeek, Count: c.a}, "b": {Window: thisWeek, Count: c.b}}}}
		_, d, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: c.cost})
		if err != nil || d.LimitName != c.limit || d.Reason != c.reason {
			t.Errorf("%s: %+v, %v: want %s by %s", name, d, err, c.reason, c.limit)
		}
	}
	if s := pick([]standing{{limit: Limit{Name: "early", Units: 10}, window: thisWeek}, {limit: Limit{Name: "late", Units: 10}, window: weekAt(1)}}, 1); s.limit.Name != "late" {
		t.Errorf("of two that leave the same %s is named, want the one whose units come back last", s.limit.Name)
	}
}
