package headroom

import "testing"

// TestStrayHoldsAreToldBeforeAWindowOpens holds that whatever opens a window first tells the holds
// that a wrong clock had put elsewhere where they count.
func TestStrayHoldsAreToldBeforeAWindowOpens(t *testing.T) {
	last := ISOWeek(may.AddDate(0, 0, -7))
	c, err := NewCatalog("free", []Plan{{Name: "free", Limits: []Limit{{Meter: "slots", Name: "week", Units: 100, CarryOver: 50}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := rules{catalog: c}
	stray := Record{Kind: KindHold, Cost: 20, Expires: may.AddDate(1, 0, 0), Windows: []ChargedWindow{{"week", ISOWeek(may).Start, 20}}}
	charge := Record{Kind: KindDeduct, Cost: 30, Windows: []ChargedWindow{{"week", last.Start, 30}}}
	for name, decide := range map[string]intent{
		"a deduction": k.deduct(Request{Subject: "s", Meter: "slots", Operation: "id", Cost: 1}),
		"a refund":    k.refund(RefundRequest{Subject: "s", Meter: "slots", Operation: "charge", ID: "id"}),
	} {
		v := View{Now: may, State: State{
			Counters: map[string]Counter{"week": {Window: last, Count: 50}}, Buckets: bucketsOf(stray), Epoch: k.epoch(may),
		}, Records: map[string]Record{"charge": charge}}
		for write := 0; ; write++ {
			answer, err := decide(v)
			if err != nil || answer.change == nil || write > 3 {
				t.Fatalf("%s, write %d: %+v, %v", name, write, answer, err)
			}
			v.State = answer.change.Apply(v.State)
			if c := v.State.Counters["week"]; !c.Window.same(last) && !v.State.Buckets[1].countsIn().Equal(last.Start) {
				t.Fatalf("%s opened the week while the bucket says %+v", name, v.State.Buckets[1])
			}
			if !answer.clears() {
				break
			}
		}
		if now, there := v.reserved(stray); !there || !now.Windows[0].Start.Equal(last.Start) || v.State.Series != 1 {
			t.Errorf("%s: the hold counts %s, in series %d", name, now, v.State.Series)
		}
		if s, err := standingOf(Limit{Meter: "slots", Name: "week", Units: 100, CarryOver: 50}, v, false); err != nil || s.held != 0 || s.carried != 50 {
			t.Errorf("%s: %d held of this week and %d carried over, %v: want 0 and 50", name, s.held, s.carried, err)
		}
	}
}

// TestOldRefundFindsItsCharge holds that the ids do not age between the writes of one request: a
// charge of the older generation is still there when the window into which units are carried over
// has been opened.
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
	if err != nil || !first.clears() || first.change.Rotate.IsZero() {
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
			Buckets: bucketsOf(Record{Kind: KindHold, Cost: 200, Expires: now, Windows: []ChargedWindow{{"week", ISOWeek(now).Start, 200}}}),
		},
	}
	first, err := k.settle(Request{Subject: "s", Meter: "slots", Operation: "old", Cost: 40})(v)
	if err != nil || !first.clears() || first.change.Rotate.IsZero() || len(first.change.Records) != 1 || first.change.Records[0].ID != "old" || first.change.Records[0].Is.String() != released.String() {
		t.Fatalf("%+v, %v: want a first write that clears the hold away and keeps the id", first, err)
	}
}
