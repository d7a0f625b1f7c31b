package headroom

import (
	"errors"
	"math"
	"testing"
	"time"
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
		if p, err := c.resolve(text, ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q resolves to %+v, %v", text, p, err)
		}
		if _, err := c.resolve("", text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q of a caller: %v", text, err)
		}
	}
	if _, err := NewCatalog("a+b", []Plan{{Name: "a+b"}}, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a plan with a + in its name: %v", err)
	}
}

// TestFiguresOfADecision holds what is shown once a change is committed, and at a repeat: the window that was charged, and how it stands with all that others did to it.
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
	if !answer.change.Holds(v) {
		t.Fatal("a blind write is in the way of another")
	}
	after := View{Now: day.End.Add(time.Hour), State: answer.change.Apply(v.State)}
	d, whole := k.committed(answer, after)
	if !whole || !d.Allowed || d.LimitName != "day" || d.Used != 45 || d.Remaining != 15 || d.Window != day || d.Limits[1].Used != 105 || len(d.Crossed) != 1 {
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
	if err != nil || back.change == nil || !back.change.Holds(after) {
		t.Fatalf("refund: %+v, %v", back, err)
	}
	after.State = back.change.Apply(after.State)
	d, _ = k.committed(back, after)
	if d.Cost != 30 || d.Used != 0 || d.Limits[1].Used != 75 || d.Window != d.Limits[0].Window || after.State.Counters["day"].Count != 15 {
		t.Errorf("refunded: %+v", d)
	}
}

// TestOldRefundFindsItsCharge holds that the ids do not age between the writes of one request: a charge of the older generation is still there when the window into which units are carried over has been opened.
func TestOldRefundFindsItsCharge(t *testing.T) {
	c, err := NewCatalog("free", []Plan{{Name: "free", Limits: []Limit{{Meter: "slots", Name: "week", Units: 200, CarryOver: 50}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := rules{catalog: c}
	old := Record{Kind: KindDeduct, Cost: 30, Windows: []ChargedWindow{{"week", ISOWeek(may).Start, 30}}}
	v := View{
		Now: may.Add(2 * DefaultHorizon), Records: map[string]Record{"old": old},
		State: State{Counters: map[string]Counter{"week": {Window: ISOWeek(may), Count: 30}}, Epoch: k.epoch(may.Add(DefaultHorizon)), EpochBefore: k.epoch(may)},
	}
	first, err := k.refund(RefundRequest{Subject: "s", Meter: "slots", Operation: "old", ID: "r"})(v)
	if err != nil || !first.again || first.change.Rotate.IsZero() {
		t.Fatalf("%+v, %v: want a first write that opens the window", first, err)
	}
	kept := false
	for _, r := range first.change.Records {
		kept = kept || r.ID == "old" && r.Is != nil && r.Is.String() == old.String()
	}
	if !kept {
		t.Errorf("the first write forgets the charge: %+v", first.change.Records)
	}
}

// TestOldSettlementFindsItsHold is the same where expired holds are cleared away first.
func TestOldSettlementFindsItsHold(t *testing.T) {
	c, err := NewCatalog("free", []Plan{{Name: "free", Limits: []Limit{{Meter: "slots", Name: "week", Units: 200}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := rules{catalog: c}
	now := may.Add(2 * DefaultHorizon)
	released := Record{Kind: KindReleased, Cost: 30}
	v := View{
		Now: now, Records: map[string]Record{"old": released},
		State: State{
			Counters: map[string]Counter{"week": {Window: ISOWeek(now), Count: 200}}, Epoch: k.epoch(may.Add(DefaultHorizon)), EpochBefore: k.epoch(may),
			Holds: map[string]Record{"dead": {Kind: KindHold, Cost: 200, Expires: now, Windows: []ChargedWindow{{"week", ISOWeek(now).Start, 200}}}},
		},
	}
	first, err := k.settle(Request{Subject: "s", Meter: "slots", Operation: "old", Cost: 40})(v)
	if err != nil || !first.again || first.change.Rotate.IsZero() || len(first.change.Records) != 2 || first.change.Records[0].ID != "old" || first.change.Records[0].Is.String() != released.String() {
		t.Fatalf("%+v, %v: want a first write that clears the hold away and keeps the id", first, err)
	}
}

// TestDecisionsShareNothing holds that a decision writes into nothing that its view holds: a store in memory shows its own.
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
		Counters: map[string]Counter{"week": {Window: ISOWeek(may), Count: 100}}, Epoch: k.epoch(may), Holds: map[string]Record{"id": hold},
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

func TestGrantsNeverFallBelowZero(t *testing.T) {
	grants := map[string]Grant{"g": {Units: 50, Used: 5}, "other": {Units: 50, Used: 5}, "none": {Units: 50}}
	steps := given(grants, map[string]int64{"g": 6, "other": 2, "none": 3, "gone": 3})
	if len(steps) != 2 || steps[0].ID != "g" || steps[1].ID != "other" {
		t.Fatalf("%+v", steps)
	}
	after := Change{Grants: steps}.Apply(State{Grants: grants})
	if after.Grants["g"].Used != 0 || after.Grants["other"].Used != 3 {
		t.Errorf("%+v", after.Grants)
	}
	for used, holds := range map[int64][2]bool{4: {false, true}, 5: {true, true}, 6: {false, true}, 1: {false, false}} {
		for i, g := range steps {
			if have := (Grant{Units: 50, Used: used}); g.holds(have) != holds[i] {
				t.Errorf("%+v holds of %+v: %t, want %t", g, have, !holds[i], holds[i])
			}
		}
	}
}

func TestHoldsLastAWholeSecondAtLeast(t *testing.T) {
	for lasts, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 1500 * time.Millisecond: 2 * time.Second, time.Second + 1: 2 * time.Second, time.Hour: time.Hour,
	} {
		if got := until(may, lasts).Sub(may); got != want {
			t.Errorf("%s from a whole second end after %s, want %s", lasts, got, want)
		}
	}
	if got := until(may.Add(999*time.Millisecond), time.Second); !got.Equal(may.Add(2 * time.Second)) {
		t.Errorf("a second from 0.999 s ends at %s", got)
	}
}
