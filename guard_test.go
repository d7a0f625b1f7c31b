package headroom

import (
	"testing"
	"time"
)

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
	if err != nil || change == nil || change.Unmet(seen) != "" {
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
		if change.Unmet(other) == "" {
			t.Errorf("the change holds for %s", name)
		}
	}
	for name, other := range map[string]View{
		"the same plan, stored": view(func(v *View, _ *Counter) { v.State.Plan = "free" }),
		"a greater count":       view(func(_ *View, c *Counter) { c.Count = 50 }),
		"a smaller count":       view(func(_ *View, c *Counter) { c.Count = 0 }),
		"more history":          view(func(_ *View, c *Counter) { c.Past = append(c.Past, Total{Start: weekAt(-1).Start, Units: 5}) }),
	} {
		if change.Unmet(other) != "" {
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

// TestGuessOfAnotherKindFails holds that a host that knows another kind of window does not take a
// stored one's place only because both begin at the same instant.
func TestGuessOfAnotherKindFails(t *testing.T) {
	first := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	day, month := periodOf(t, "day").At(first), periodOf(t, "month").At(first)
	v := View{State: State{Counters: map[string]Counter{"l": {Window: day, Count: 5}}}}
	if (Change{Steps: []Step{{Limit: "l", From: month, To: month, Max: 100, Add: 1}}}).Unmet(v) == "" {
		t.Error("a month was charged where a day stands")
	}
	if (Change{Steps: []Step{{Limit: "l", From: day, To: day, Max: 100, Add: 1}}}).Unmet(v) != "" {
		t.Error("the day itself was not charged")
	}
}
