package headroom

import (
	"errors"
	"testing"
)

func TestReturnedCorrectsNoMoreThanThereIs(t *testing.T) {
	w, last := ISOWeek(may), ISOWeek(may.AddDate(0, 0, -7))
	counters := map[string]Counter{"week": {Window: w, Count: 30, Past: []Total{{Start: last.Start, Units: 40}, {Start: last.Start.AddDate(0, 0, -7), Unknown: true}}}}
	steps, err := backToWindows(counters, []ChargedWindow{{"week", last.Start, 25}, {"week", last.Start, 25}, {"week", last.Start.AddDate(0, 0, -7), 5}})
	if err != nil || len(steps) != 1 || len(steps[0].Past) != 1 || steps[0].Past[0].Units != -40 || steps[0].Add != 0 {
		t.Fatalf("50 leave a total of 40: %+v, %v", steps, err)
	}
	if (Change{Steps: steps}).Unmet(View{State: State{Counters: counters}}) != "" {
		t.Error("the guard of the correction cannot hold")
	}
	c := counters["week"]
	c.Partial = true
	counters["week"] = c
	if _, err := backToWindows(counters, []ChargedWindow{{"week", last.Start.AddDate(0, 0, -70), 5}}); !errors.Is(err, errNeedHistory) {
		t.Errorf("of a total that may be elsewhere: %v", err)
	}
}

func TestGrantsNeverFallBelowZero(t *testing.T) {
	grants := map[string]Grant{"g": {Units: 50, Used: 5}, "other": {Units: 50, Used: 5}, "none": {Units: 50}}
	steps := backToGrants(grants, map[string]int64{"g": 6, "other": 2, "none": 3, "gone": 3})
	if len(steps) != 2 || steps[0].ID != "g" || steps[1].ID != "other" {
		t.Fatalf("%+v", steps)
	}
	after := Change{Grants: steps}.Apply(State{Grants: grants})
	if after.Grants["g"].Used != 0 || after.Grants["other"].Used != 3 {
		t.Errorf("%+v", after.Grants)
	}
	for used, holds := range map[int64][2]bool{4: {false, true}, 5: {true, true}, 6: {false, true}, 1: {false, false}} {
		for i, g := range steps {
			have := Grant{Units: 50, Used: used}
			if met := (Change{Grants: []GrantStep{g}}).Unmet(View{State: State{Grants: map[string]Grant{g.ID: have}}}) == ""; met != holds[i] {
				t.Errorf("%+v holds of %+v: %t, want %t", g, have, !holds[i], holds[i])
			}
		}
	}
}
