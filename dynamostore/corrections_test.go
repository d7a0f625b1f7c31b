package dynamostore_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// What is corrected after it was written: refunds, releases and settlements of ids and windows that
// have moved to the ledger, are on their way there, or were thrown away by another writer.

func (r *rig) refundOf(op, id string, units int64) {
	r.Helper()
	d, err := r.engine.Refund(r.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: op, ID: id, Units: units})
	if err != nil || !d.Allowed || d.Replay {
		r.Fatalf("refund %s of %s: %+v, %v", id, op, d, err)
	}
}

func (r *rig) holds(subject, id string, cost int64, lasts time.Duration) {
	r.Helper()
	if d, err := r.engine.Hold(r.Context(), request(subject, id, cost), lasts); err != nil || !d.Allowed {
		r.Fatalf("hold %s: %+v, %v", id, d, err)
	}
}

func (r *rig) releases(subject, id string) {
	r.Helper()
	if d, err := r.engine.Release(r.Context(), request(subject, id, 0).Held()); err != nil || !d.Allowed {
		r.Fatalf("release %s: %+v, %v", id, d, err)
	}
}

// TestAMovedChargeIsRefundedInParts: the first refund brings the charge back into the item, the
// second finds it there.
func TestAMovedChargeIsRefundedInParts(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.admit("u", "big", 20, 20)
		r.fillMore("u", 40)
		r.refundOf("big", "first", 5)
		r.refundOf("big", "second", 5)
		r.replay("u", "big", 20, 50)
	})
}

// TestADelayedCopyDoesNotUndoASettlement: a hold was released, taken again and settled, while the
// copy of its release was on its way to the ledger.
func TestADelayedCopyDoesNotUndoASettlement(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		other := newRig(t, engine)
		other.holds("org", headroom.OperationWithin("u", "aaa"), 30, time.Hour)
		other.releases("org", headroom.OperationWithin("u", "aaa"))
		joint := func() headroom.DecisionWithin {
			j, err := other.engine.DeductWithin(t.Context(), "org", request("u", "aaa", 30))
			if err != nil || !j.Allowed {
				t.Fatalf("%+v, %v", j, err)
			}
			return j
		}
		slow := other.another()
		delayed := false
		slow.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op == "BatchWriteItem" && !delayed {
				delayed = true
				joint()
				for i := range 45 {
					if _, err := other.deduct("org", fmt.Sprintf("more-%05d", i), 1); err != nil {
						t.Error(err)
					}
				}
			}
			return x.pass()
		})
		for i := 0; !delayed; i++ {
			if _, err := slow.deduct("org", fmt.Sprintf("full-%05d", i), 1); err != nil {
				t.Fatal(err)
			}
		}
		slow.wire.reset(nil)
		before := other.item("org")["quotaCount"].(*types.AttributeValueMemberN).Value
		if j := joint(); !j.Organisation.Replay {
			t.Errorf("the organisation was charged again: %+v", j.Organisation)
		}
		if after := other.item("org")["quotaCount"].(*types.AttributeValueMemberN).Value; after != before {
			t.Errorf("the organisation counts %s, and %s after the repeat", before, after)
		}
	})
}

// TestAMovedTotalIsCorrected: that one total of an item was corrected, and stays there, does not
// hide that younger ones have moved.
func TestAMovedTotalIsCorrected(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, horizon(2*52*7*24*time.Hour))
		week := func(i int) time.Time { return tuesday.AddDate(0, 0, 7*i) }
		for i := range 20 {
			r.at(week(i))
			r.admit("u", fmt.Sprint("w", i), 50, 50)
			switch i {
			case 2:
				r.holds("u", "h", 30, 30*7*24*time.Hour)
			case 4:
				r.refundOf("w0", "r0", 10)
			}
		}
		r.releases("u", "h")
		for _, total := range r.limits("u")[0].History {
			want := int64(50)
			if total.Window.Start.Equal(headroom.ISOWeek(week(0)).Start) {
				want = 40
			}
			if total.Units != want {
				t.Errorf("%s has %d units, want %d", total.Window.Key, total.Units, want)
			}
		}
	})
}

// TestATotalThatWasCorrectedAndMovedMeanwhileIsNoticed: between the look at the ledger and the
// write of a correction, another one brought the same total back into the item, and it moved again.
func TestATotalThatWasCorrectedAndMovedMeanwhileIsNoticed(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, horizon(2*52*7*24*time.Hour))
		const weeks = 30
		for i := range weeks {
			r.at(tuesday.AddDate(0, 0, 7*i))
			r.admit("u", fmt.Sprint("a", i), 20, 20)
			r.admit("u", fmt.Sprint("b", i), 30, 50)
		}
		// So many totals come back that one more makes the oldest move. Then ids move, so that they
		// need not move soon.
		for i := 1; r.totals("u") < 16; i++ {
			r.refundOf(fmt.Sprint("a", i), fmt.Sprint("of-a", i), 1)
		}
		for i, gen := 0, r.item("u")["quotaGen"]; reflect.DeepEqual(r.item("u")["quotaGen"], gen); i++ {
			if d, err := r.deduct("u", fmt.Sprint("fill-", i), 0); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		slow := r.another(horizon(2 * 52 * 7 * 24 * time.Hour))
		writes := 0
		slow.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op == "UpdateItem" {
				writes++
			}
			// The write comes after a look at the ledger.
			if x.op == "UpdateItem" && writes == 1 {
				before := r.item("u")
				r.refundOf("a0", "of-a0", 20)
				if now := r.item("u"); !reflect.DeepEqual(now["quotaGen"], before["quotaGen"]) || r.totals("u") >= 16 {
					t.Errorf("not just totals have moved: the item was %v and is %v", before, now)
				}
			}
			return x.pass()
		})
		slow.refundOf("b0", "of-b0", 7)
		if got, want := r.history("u"), headroom.ISOWeek(tuesday).Key+" 23"; writes != 2 || !strings.HasSuffix(got, want) {
			t.Errorf("after %d writes, want 2, the history is %s, want %s at its end", writes, got, want)
		}
	})
}

// totals is how many totals a subject's item holds.
func (r *rig) totals(subject string) (n int) {
	r.Helper()
	for key := range r.item(subject)["quotaPast"].(*types.AttributeValueMemberM).Value {
		if _, err := strconv.ParseInt(key, 10, 64); err == nil {
			n++
		}
	}
	return n
}

// TestATotalThatWasLostMeanwhileIsNotCorrected: between the look and the write of a correction, the
// seed went back to the week that it corrects, and Headroom left it again.
func TestATotalThatWasLostMeanwhileIsNotCorrected(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		first := headroom.ISOWeek(tuesday)
		r.admit("u", "a", 30, 30)
		r.at(monday)
		r.admit("u", "b", 20, 20)
		slow := r.another()
		happened := false
		slow.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op == "UpdateItem" && !happened {
				happened = true
				r.seedDeducts("u", first.Key, 10, 200)
				r.admit("u", "c", 5, 5)
			}
			return x.pass()
		})
		slow.refundOf("a", "of-a", 7)
		past := r.item("u")["quotaPast"].(*types.AttributeValueMemberM).Value
		if got := past[strconv.FormatInt(first.Start.Unix(), 10)]; !happened || !reflect.DeepEqual(got, n(10)) {
			t.Errorf("the total that the seed left is %v, want 10", got)
		}
		if !strings.Contains(r.history("u"), first.Key+" ?") {
			t.Errorf("the history is %s", r.history("u"))
		}
	})
}

// TestHoldsOfManyWindowsAreClearedAway: what one write says of them stays within the 4 KB of an
// expression.
func TestHoldsOfManyWindowsAreClearedAway(t *testing.T) {
	var limits []headroom.Limit
	for name, window := range map[string]string{"hour": "hour", "day": "day", "week": "week", "from-sunday": "week from sunday"} {
		period, err := headroom.ParsePeriod(window)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, headroom.Limit{Meter: "slots", Name: name, Period: period, Units: 1000})
	}
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: limits}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dynoxide, under(c))
	for i := range 101 {
		r.at(tuesday.AddDate(0, 0, i))
		if _, err := r.deduct("u", fmt.Sprint("d", i), 3); err != nil {
			t.Fatal(err)
		}
		r.holds("u", fmt.Sprintf("h%03d", 999-i), 2, 10*time.Minute)
	}
}

// TestAnEmptyWeekIsNone: an application may make its users with an empty string.
func TestAnEmptyWeekIsNone(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.put(attributes{"userId": s("u"), "quotaWeek": s(""), "quotaCount": n(0)})
		r.admit("u", "a", 5, 5)
	})
}

// TestARefundGivesNothingToAWeekThatTheSeedTurnedBackTo: what was charged was thrown away when the
// seed went back, and the earlier week never had it.
func TestARefundGivesNothingToAWeekThatTheSeedTurnedBackTo(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.admit("u", "a", 30, 30)
		r.seedDeducts("u", headroom.ISOWeek(tuesday.AddDate(0, 0, -7)).Key, 40, 200)
		r.refundOf("a", "r", 30)
		r.has("u", "quotaCount", n(40))
	})
}

// TestCorrectedTotalsDoNotPileUp: a total that was corrected stays in the item, and leaves it when
// it is no longer shown.
func TestCorrectedTotalsDoNotPileUp(t *testing.T) {
	hour, err := headroom.ParsePeriod("hour")
	if err != nil {
		t.Fatal(err)
	}
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{{Meter: "slots", Name: "hour", Period: hour, Units: 200}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dynoxide, under(c))
	for i := range 80 {
		id := fmt.Sprint("job-", i)
		r.at(tuesday.Add(time.Duration(i)*time.Hour + 55*time.Minute))
		r.holds("u", id, 20, time.Hour)
		r.at(tuesday.Add(time.Duration(i)*time.Hour + 65*time.Minute))
		if _, err := r.deduct("u", fmt.Sprint("next-", i), 1); err != nil {
			t.Fatal(err)
		}
		if d, err := r.engine.Settle(t.Context(), request("u", id, 12)); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if keys := r.item("u")["quotaPast:hour"].(*types.AttributeValueMemberM).Value; len(keys) > 2*(headroom.HistoryWindows+10) {
		t.Errorf("%d keys of totals", len(keys))
	}
	history := r.limits("u")[0].History
	if len(history) != headroom.HistoryWindows {
		t.Errorf("%d totals", len(history))
	}
	for _, total := range history {
		if total.Units != 13 {
			t.Errorf("%s: %d units, want 13", total.Window.Key, total.Units)
		}
	}
}
