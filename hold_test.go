package headroom

import (
	"testing"
	"time"
)

// TestDecisionsShareNothing holds that a decision writes into nothing that its view holds: a store
// in memory shows its own.
func TestDecisionsShareNothing(t *testing.T) {
	c, err := NewCatalog("free", []Plan{{Name: "free", Limits: []Limit{{Meter: "slots", Name: "week", Units: 200, Thresholds: []int{50, 100}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := rules{catalog: c}
	start := ISOWeek(may).Start
	crossed := make([]Crossing, 1, 4)
	crossed[0] = Crossing{"week", 50, start}
	uses := make([]GrantUse, 1, 4)
	uses[0] = GrantUse{"g", 5}
	hold := Record{Kind: KindHold, Cost: 105, Expires: may.Add(time.Hour), Windows: []ChargedWindow{{"week", start, 100}}, Crossed: crossed, Grants: uses}
	v := View{Now: may, Records: map[string]Record{"id": hold}, State: State{
		Counters: map[string]Counter{"week": {Window: ISOWeek(may), Count: 100}}, Epoch: k.epoch(may), Buckets: bucketsOf(hold),
		Grants: map[string]Grant{"g": {Units: 50, Used: 5, Expires: may.Add(time.Hour)}},
	}}
	before := hold.String()
	for cost, want := range map[int64]string{
		210: "s210@week:1779667200*200 h105 g5:g g5:g ^week:50:1779667200 ^week:100:1779667200",
		102: "s102@week:1779667200*100 h105 g2:g ^week:50:1779667200",
		60:  "s60@week:1779667200 h105 ^week:50:1779667200",
		0:   "s0@week:1779667200 h105 ^week:50:1779667200",
	} {
		answer, err := k.settle(Request{Subject: "s", Meter: "slots", Operation: "id", Cost: cost})(v)
		if err != nil || answer.change == nil || answer.change.Records[0].Is.String() != want {
			t.Errorf("settled at %d: %+v, %v: want %q", cost, answer, err, want)
		}
		if hold.String() != before || v.State.Grants["g"].Used != 5 || crossed[:2][1] != (Crossing{}) || uses[:2][1] != (GrantUse{}) {
			t.Fatalf("settling at %d changed the view: %s, %v, %v", cost, hold, crossed[:4], uses[:4])
		}
	}
}
