package dynamostore_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// overtaken has the ids of a subject move to the ledger, and another writer change what one of
// theirs stands for between the copy and the removal, while the ledger refuses what that writer
// would copy. Ids move in the order of their names: that one is to come before those of fill.
func overtaken(t *testing.T, engine string, before, between func(r *rig)) *rig {
	t.Helper()
	r := newRig(t, engine)
	before(r)
	other := r.another()
	other.wire.reset(func(x *exchange) (*http.Response, error) {
		if x.op == "BatchWriteItem" {
			return x.say(http.StatusBadRequest, "AccessDeniedException")
		}
		return x.pass()
	})
	copied, done := false, false
	r.wire.reset(func(x *exchange) (*http.Response, error) {
		if copied && !done {
			if x.op != "UpdateItem" {
				t.Errorf("after the copy, %s is sent", x.op)
			}
			done = true
			between(other)
		}
		copied = copied || x.op == "BatchWriteItem"
		return x.pass()
	})
	for i := 0; !done; i++ {
		if i == 2*inItem+10 {
			t.Fatal("no id has moved")
		}
		if d, err := r.deduct("u", fmt.Sprintf("full-%05d", i), 1); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	if !slices.Contains(other.wire.requests(), "BatchWriteItem") {
		t.Error("the other writer had nothing to copy, or others' ids would have been free to move")
	}
	r.wire.reset(nil)
	return r
}

// TestARefundWhileIdsMoveHappensOnce: case 6, rule 10. The ledger's copy of a charge that was
// refunded since does not stand for it.
func TestARefundWhileIdsMoveHappensOnce(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		refund := func(r *rig, id string) (headroom.Decision, error) {
			return r.engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: "charge", ID: id, Units: 20})
		}
		r := overtaken(t, engine, func(r *rig) { r.admit("u", "charge", 20, 20) }, func(other *rig) {
			if d, err := refund(other, "refund"); err != nil || d.Cost != 20 {
				t.Errorf("the first refund: %+v, %v", d, err)
			}
		})
		used := r.used("u")
		for _, by := range []*rig{r, r.another()} {
			d, err := refund(by, "another refund")
			by.fails(d, err, headroom.Invalid, "20 were refunded before")
			if d, err := refund(by, "refund"); err != nil || !d.Replay || d.Cost != 20 {
				t.Errorf("the first refund again: %+v, %v", d, err)
			}
		}
		stillKnown(r, "charge", used)
	})
}

// TestASettlementWhileIdsMoveHappensOnce: case 6, rule 9. The ledger's copy of a release does not
// stand for the operation that was settled since.
func TestASettlementWhileIdsMoveHappensOnce(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := overtaken(t, engine, func(r *rig) {
			if d, err := r.engine.Hold(t.Context(), request("u", "begun", 20), time.Hour); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			if d, err := r.engine.Release(t.Context(), request("u", "begun", 20).Held()); err != nil || d.Reason != headroom.ReasonReleased {
				t.Fatal(d, err)
			}
		}, func(other *rig) {
			if d, err := other.engine.Settle(t.Context(), request("u", "begun", 20)); err != nil || !d.Allowed || d.Replay {
				t.Errorf("the settlement: %+v, %v", d, err)
			}
		})
		used := r.used("u")
		for _, by := range []*rig{r, r.another()} {
			d, err := by.engine.Settle(t.Context(), request("u", "begun", 15))
			by.fails(d, err, headroom.Conflict, "")
			if d, err := by.engine.Settle(t.Context(), request("u", "begun", 20)); err != nil || !d.Replay || d.Used != used {
				t.Errorf("the settlement again: %+v, %v", d, err)
			}
		}
		stillKnown(r, "begun", used)
	})
}

// TestACopyThatComesLateBringsNothingBack: case 6. The copy of a release is on its way to the
// ledger for so long that another writer has meanwhile held, settled and moved ids: the
// organisation is charged once.
func TestACopyThatComesLateBringsNothingBack(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		within := func(by *rig, replay bool) {
			t.Helper()
			j, err := by.engine.DeductWithin(t.Context(), "u", request("user", "begun", 20))
			if err != nil || !j.Allowed || j.Organisation.Replay != replay {
				t.Errorf("within: %+v, %v", j, err)
			}
		}
		if d, err := r.engine.Hold(t.Context(), request("u", headroom.OperationWithin("user", "begun"), 20), time.Hour); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		if d, err := r.engine.Release(t.Context(), request("u", headroom.OperationWithin("user", "begun"), 20).Held()); err != nil {
			t.Fatal(d, err)
		}
		other, late := r.another(), false
		r.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op == "BatchWriteItem" && !late {
				late = true
				within(other, false)
				other.fillMore("u", 2*inItem)
			}
			return x.pass()
		})
		for i := 0; !late; i++ {
			if i == 2*inItem {
				t.Fatal("no id has moved")
			}
			if d, err := r.deduct("u", fmt.Sprintf("full-%05d", i), 1); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		r.wire.reset(nil)
		used := r.used("u")
		for _, by := range []*rig{r, other, r.another()} {
			within(by, true)
			if got := by.used("u"); got != used {
				t.Fatalf("%d used, want %d", got, used)
			}
		}
		if r.used("user") != 20 {
			t.Errorf("the user has used %d", r.used("user"))
		}
	})
}

// TestAChargeFromTheLedgerIsRefundedInParts: rule 10. What came back from the ledger into the item
// is found there, though the ledger still has what it was before.
func TestAChargeFromTheLedgerIsRefundedInParts(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.admit("u", "charge", 20, 20)
		r.fillMore("u", 2*inItem)
		if len(r.ledger()) < inItem {
			t.Fatal("the ids have not moved")
		}
		used := r.used("u")
		for i, by := range []*rig{r, r, r.another(), r} {
			used -= 5
			d, err := by.engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: "charge", ID: fmt.Sprint("refund ", i), Units: 5})
			if err != nil || d.Cost != 5 || d.Used != used || d.Replay {
				t.Fatalf("refund %d: %+v, %v", i, d, err)
			}
		}
		stillKnown(r, "charge", used)
	})
}

// stillKnown moves ids until that of an operation is in the ledger, and expects that nothing else
// was charged or came back meanwhile, and that the operation cannot be charged anew.
func stillKnown(r *rig, operation string, used int64) {
	r.Helper()
	if got := r.used("u"); got != used {
		r.Fatalf("%d used, want %d", got, used)
	}
	for i := range 2 * inItem {
		if d, err := r.deduct("u", fmt.Sprint("yet more ", i), 1); err != nil || !d.Allowed {
			r.Fatal(d, err)
		}
	}
	if got := r.used("u"); got != used+2*inItem {
		r.Fatalf("%d used, want %d", got, used+2*inItem)
	}
	if !r.known("u")[operation] {
		r.Fatalf("%q is forgotten", operation)
	}
	_, err := r.deduct("u", operation, 1)
	if !errors.Is(err, headroom.Conflict) {
		r.Fatalf("%q once more: %v", operation, err)
	}
}
