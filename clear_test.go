package headroom

import (
	"errors"
	"testing"
	"time"
)

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

// TestAnEndOfManyWindowsIsClearedInSteps holds that no change clears away more than fits into a
// write, though holds that end together may have begun in any number of windows. The first change
// takes the bucket that says which holds are live.
func TestAnEndOfManyWindowsIsClearedInSteps(t *testing.T) {
	hour, err := ParsePeriod("hour")
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCatalog("free", []Plan{{Name: "free", Limits: []Limit{{Meter: "slots", Name: "hour", Period: hour, Units: 100}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := rules{catalog: c}
	const windows = 300
	var all []Record
	var past []Total
	for i := range windows {
		start := may.Truncate(time.Hour).Add(time.Duration(i) * time.Hour)
		all = append(all, Record{Kind: KindHold, Cost: 5, Expires: may.AddDate(1, 0, 0), Windows: []ChargedWindow{{"hour", start, 5}}})
		past = append([]Total{{Start: start, Units: 5}}, past...)
	}
	v := View{Now: may.AddDate(1, 0, 0), Records: map[string]Record{"h": all[0]}, State: State{
		Counters: map[string]Counter{"hour": {Window: hour.At(past[0].Start), Count: 5, Past: past[1 : HistoryWindows+1]}},
		Buckets:  bucketsOf(all...), Epoch: k.epoch(may.AddDate(1, 0, 0)),
	}}
	ends := k.extend(Request{Subject: "s", Meter: "slots", Operation: "h"}, time.Minute)
	settles := k.settle(Request{Subject: "s", Meter: "slots", Operation: "h", Cost: 5})
	first, err := settles(v)
	if err != nil || !first.clears() || len(first.change.Buckets) > maxCleared {
		t.Fatalf("%+v, %v: want a first write that clears a part away", first, err)
	}
	v.State = first.change.Apply(v.State)
	if answer, err := settles(v); err != nil || answer.clears() || answer.change == nil {
		t.Errorf("once its bucket is gone, a settlement is %+v, %v: want a plain deduction", answer, err)
	}
	if _, err := ends(v); CodeOf(err) != Expired {
		t.Errorf("an extension: %v", err)
	}
	for n := 1; len(v.State.Buckets) > 0; n++ {
		next, over, err := k.sweep(v, Request{Subject: "s", Meter: "slots"}, BucketKey{})
		if err != nil || !over || len(next.change.Buckets) > maxCleared || n > windows/maxCleared+1 {
			t.Fatalf("sweep %d: %+v, %v", n, next, err)
		}
		v.State = next.change.Apply(v.State)
	}
	counter := v.State.Counters["hour"]
	left := counter.Count
	for _, t := range counter.Past {
		left += t.Units
	}
	if left != 0 {
		t.Errorf("after all sweeps, %d units have not come back: %+v", left, counter)
	}
}

// TestBucketsTakeBoundedRoom holds that a hold which finds all the room for buckets taken clears
// those away that nobody needs, and if there are none, is an error that says what to do.
func TestBucketsTakeBoundedRoom(t *testing.T) {
	c, err := NewCatalog("free", []Plan{{Name: "free", Limits: []Limit{{Meter: "slots", Name: "week", Units: 1 << 40}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := rules{catalog: c}
	var all []Record
	for i := range mostBucketBytes/52 + 1 { // each has two buckets, of 24 and 28 bytes
		all = append(all, Record{Kind: KindHold, Cost: 1, Expires: may.Add(time.Hour + time.Duration(i)*time.Second), Windows: []ChargedWindow{{"week", ISOWeek(may).Start, 1}}})
	}
	v := View{Now: may, State: State{
		Counters: map[string]Counter{"week": {Window: ISOWeek(may), Count: int64(len(all))}}, Buckets: bucketsOf(all...), Epoch: k.epoch(may),
	}}
	hold := k.hold(Request{Subject: "s", Meter: "slots", Operation: "one more", Cost: 5}, time.Hour)
	deduct := k.deduct(Request{Subject: "s", Meter: "slots", Operation: "d", Cost: 5})
	if _, err := hold(v); !errors.Is(err, TooMany) {
		t.Errorf("without room, a hold is %v", err)
	}
	if answer, err := deduct(v); err != nil || answer.clears() || answer.change == nil {
		t.Errorf("without room for holds, a deduction is %+v, %v", answer, err)
	}
	var released Change
	for _, r := range all[:2*maxCleared] {
		released.unreserve(r)
	}
	v.State = released.Apply(v.State)
	before := len(v.State.Buckets)
	answer, err := hold(v)
	for n := 0; err == nil && answer.clears() && n < 10; n++ {
		v.State = answer.change.Apply(v.State)
		answer, err = hold(v)
	}
	if err != nil || answer.change == nil || answer.clears() || v.State.bucketBytes() >= mostBucketBytes {
		t.Errorf("of %d buckets, %d stay, and a hold is %+v, %v", before, len(v.State.Buckets), answer, err)
	}
}
