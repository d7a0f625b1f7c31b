package headroom

import (
	"testing"
	"time"
)

// TestFiguresOfADecision holds what is shown once a change is committed, and at a repeat: the
// window that was charged, and how it stands with all that others did to it.
func TestFiguresOfADecision(t *testing.T) {
	c, err := NewCatalog("free", []Plan{{Name: "free", Limits: []Limit{
		{Meter: "slots", Name: "day", Period: periodOf(t, "day"), Units: 60, Thresholds: []int{50}}, {Meter: "slots", Name: "week", Units: 200},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := rules{catalog: c}
	day, week := periodOf(t, "day").At(may), ISOWeek(may)
	v := View{Now: may, State: State{Counters: map[string]Counter{"day": {Window: day, Count: 10}, "week": {Window: week, Count: 70}}, Epoch: k.epoch(may)}}
	r := Request{Subject: "s", Meter: "slots", Operation: "id", Cost: 30}
	answer, err := k.deduct(r)(v)
	if err != nil || answer.change == nil {
		t.Fatalf("%+v, %v", answer, err)
	}
	// Another writer was faster, and the day has turned before the answer came.
	v.State.Counters["day"] = Counter{Window: day, Count: 15}
	v.State.Counters["week"] = Counter{Window: week, Count: 75}
	if answer.change.Unmet(v) != "" {
		t.Fatal("a blind write is in the way of another")
	}
	after := View{Now: day.End.Add(time.Hour), State: answer.change.Apply(v.State)}
	d, complete := k.keep(answer.promise, answer.change.Key, after)
	if !complete || !d.Allowed || d.LimitName != "day" || d.Used != 45 || d.Remaining != 15 || d.Window != day || d.Limits[1].Used != 105 || len(d.Crossed) != 1 {
		t.Errorf("committed: %+v", d)
	}
	// The repeat shows the present day, and the window and the notice of the first.
	after.Records = map[string]Record{"id": *answer.change.Records[0].Is}
	again, err := k.deduct(r)(after)
	if d2 := again.decision; err != nil || again.change != nil || !d2.Replay || d2.Used != 0 || d2.Remaining != 60 || d2.Window != day || d2.Limits[0].Window == day || len(d2.Crossed) != 1 || d2.Crossed[0] != d.Crossed[0] {
		t.Errorf("repeated: %+v, %v", again.decision, err)
	}
	// What gives units back shows the present.
	back, err := k.refund(RefundRequest{Subject: "s", Meter: "slots", Operation: "id", ID: "r", Units: 30})(after)
	if err != nil || back.change == nil || back.change.Unmet(after) != "" {
		t.Fatalf("refund: %+v, %v", back, err)
	}
	after.State = back.change.Apply(after.State)
	d, _ = k.keep(back.promise, back.change.Key, after)
	if d.Cost != 30 || d.Used != 0 || d.Limits[1].Used != 75 || d.Window != d.Limits[0].Window || after.State.Counters["day"].Count != 15 {
		t.Errorf("refunded: %+v", d)
	}
}
