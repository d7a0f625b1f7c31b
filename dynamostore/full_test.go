package dynamostore_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/proof/report"
)

// Items that are as large as DynamoDB lets one be.

const greatestItem = 400 * 1024

func plentiful(t *testing.T) *headroom.Catalog {
	t.Helper()
	plan := func(name string) headroom.Plan {
		return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 1 << 40}, {Meter: "calls", Name: "week", Units: 1 << 40}}}
	}
	c, err := headroom.NewCatalog("free", []headroom.Plan{plan("free"), plan("pro")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// job is the id of the ith charge that fills an item.
func job(i int) string { return fmt.Sprintf("job-%05d", i) }

// fillUp fills a subject's item with records like that of one id, up to a size. It returns how
// many.
func (r *rig) fillUp(subject, like string, bytes int) (n int) {
	r.Helper()
	item := r.item(subject)
	ops := item["quotaOps"].(*types.AttributeValueMemberM).Value
	each := size(attributes{job(0): ops[like]}) + 1
	for left := bytes - size(item); left >= each; left -= each {
		ops[job(n)] = ops[like]
		n++
	}
	r.put(item)
	return n
}

// earlierRelease leaves an item of format 1 at its greatest size, as refunds in one epoch did: each
// charge of 30 was given back but for 5. It returns how many there are beside "half".
func (r *rig) earlierRelease(subject string) int {
	r.Helper()
	old := r.another(under(plentiful(r.T)), inFormat(1))
	old.admit(subject, "half", 30, 30)
	old.refundOf("half", "refund", 25)
	n := r.fillUp(subject, "half", greatestItem)
	if f := r.item(subject)["quotaFormat"].(*numberAttribute).Value; f != "1" {
		r.Fatalf("the item is of format %s", f)
	}
	return n
}

// TestAnItemAtItsGreatestSizeLocksNobodyOut: rule 17. The release before kept what was refunded in
// the item. At 400 KB DynamoDB refused each write, also that of a turn long after. The next charge
// makes room, and brings the item to the newest format.
func TestAnItemAtItsGreatestSizeLocksNobodyOut(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		for name, later := range map[string]time.Duration{"at once": 0, "400 days later": 400 * 24 * time.Hour} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, engine, under(plentiful(t)))
				jobs := r.earlierRelease("u")
				before := r.item("u")
				r.at(tuesday.Add(later))
				used := int64(5)
				if later > 0 {
					used = 0
				}
				old := r.another(under(plentiful(t)), inFormat(1))
				d, err := old.deduct("u", "new", 1)
				old.fails(d, err, headroom.Rejected, "format 1")
				if now := r.item("u")["quotaCount"]; !reflect.DeepEqual(now, before["quotaCount"]) {
					t.Fatalf("a refused charge changed the count to %v", now)
				}
				r.admit("u", "new", 1, used+1)
				r.replay("u", "new", 1, used+1)
				r.has("u", "quotaFormat", n(2))
				if later > 0 {
					return // the ids in it need not be remembered so long
				}
				for _, i := range []int{0, jobs - 1} { // in the ledger, and still in the item
					r.replay("u", job(i), 30, used+1)
					r.gives("u", job(i), 6, 0)
				}
			})
		}
	})
}

// TestASubjectsPastLeavesItsItemOfTheReleaseBefore: what that kept moves with the charges that
// follow, the item is small in the end, and every id is remembered as it was rewritten last.
func TestASubjectsPastLeavesItsItemOfTheReleaseBefore(t *testing.T) {
	r := newRig(t, dynoxide, under(plentiful(t)))
	old := r.another(under(plentiful(t)), inFormat(1))
	old.admit("u", "half", 30, 30)
	old.refundOf("half", "refund", 25)
	jobs := r.fillUp("u", "half", report.Of(64*1024, greatestItem))
	r.drain("u", 5)
	used := r.count("u")
	for _, i := range []int{0, 1, jobs / 2, jobs - 1} {
		r.replay("u", job(i), 30, used)
		r.gives("u", job(i), 6, 0)
	}
	// What the ledger has of it now is the first version. It comes back as the second, moves, and
	// comes back as the third.
	r.gives("u", "half", 6, 0)
	r.gives("u", "half", 3, 3)
	r.fillMore("u", 60)
	r.gives("u", "half", 3, 0)
	r.gives("u", "half", 2, 2)
	r.fillMore("u", 60)
	r.gives("u", "half", 1, 0)
}

// drain charges until a subject's item is small.
func (r *rig) drain(subject string, used int64) {
	r.Helper()
	for i := 1; i%20 > 0 || size(r.item(subject)) > pastBound; i++ {
		if i > 200 {
			r.Fatalf("after %d charges the item still has %d bytes", i, size(r.item(subject)))
		}
		r.admit(subject, fmt.Sprint("drain-", i), 1, used+int64(i))
	}
}

// gives asks for units of a charge back, of which so many come.
func (r *rig) gives(subject, op string, units, want int64) {
	r.Helper()
	id := fmt.Sprint("gives-", op, "-", len(r.wire.requests()))
	_, err := r.engine.Refund(r.Context(), headroom.RefundRequest{Subject: subject, Meter: "slots", Operation: op, ID: id, Units: units})
	if (err == nil) != (want == units) || err != nil && !errors.Is(err, headroom.Invalid) {
		r.Fatalf("%d units of %s back: %v, want %d", units, op, err, want)
	}
}

// TestAFullItemTakesEveryKindOfWrite: not only the charge of the meter whose ids fill it.
func TestAFullItemTakesEveryKindOfWrite(t *testing.T) {
	does := map[string]func(r *rig) error{
		"a charge of another meter": func(r *rig) error {
			d, err := r.engine.Deduct(r.Context(), headroom.Request{Subject: "u", Meter: "calls", Operation: "a", Cost: 1})
			if err == nil && !d.Allowed {
				err = errors.New(string(d.Reason))
			}
			return err
		},
		"a plan": func(r *rig) error { return r.store.SetPlan(r.Context(), "u", "pro") },
		"a hold": func(r *rig) error {
			_, err := r.engine.Hold(r.Context(), request("u", "a-hold", 1), time.Hour)
			return err
		},
		"a grant": func(r *rig) error {
			_, err := r.engine.Grant(r.Context(), headroom.GrantRequest{Subject: "u", Meter: "slots", ID: "g", Units: 1, Lasts: time.Hour})
			return err
		},
		"a refund": func(r *rig) error {
			_, err := r.engine.Refund(r.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: job(7), ID: "r", Units: 1})
			return err
		},
	}
	for name, do := range does {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, dynoxide, under(plentiful(t)))
			r.earlierRelease("u")
			if err := do(r); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestManyFindAnItemFullAtOnce: each makes room, and each charge counts once.
func TestManyFindAnItemFullAtOnce(t *testing.T) {
	const writers, each = 6, 4
	r := newRig(t, dynoxide, under(plentiful(t)))
	r.earlierRelease("u")
	var all sync.WaitGroup
	for w := range writers {
		by := r.another(under(plentiful(t)))
		all.Go(func() {
			for i := range each {
				if d, err := by.deduct("u", fmt.Sprint(w, "-", i), 1); err != nil || !d.Allowed || d.Replay {
					t.Errorf("%+v, %v", d, err)
				}
			}
		})
	}
	all.Wait()
	if got, want := r.count("u"), int64(5+writers*each); got != want {
		t.Errorf("%d is stored, want %d", got, want)
	}
}

// TestAFullItemOfTheApplicationsIsAnError: Headroom has nothing to move, and says so.
func TestAFullItemOfTheApplicationsIsAnError(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		item := attributes{"userId": s("u"), "own": s("")}
		item["own"] = s(strings.Repeat("x", greatestItem-size(item)))
		r.put(item)
		d, err := r.deduct("u", "a", 1)
		r.fails(d, err, headroom.Rejected, "nothing in it that can move")
		if now := r.item("u"); !reflect.DeepEqual(now, item) {
			t.Error("the item was changed")
		}
	})
}

// TestRoomThatCannotBeMadeChargesNothing: where the ledger takes no rows, or an answer is lost
// while ids move, nothing is charged, and a repeat goes on.
func TestRoomThatCannotBeMadeChargesNothing(t *testing.T) {
	for _, fault := range []struct {
		name, op string
		do       func(x *exchange) (*http.Response, error)
		code     headroom.Code
	}{
		{"the ledger refuses", "BatchWriteItem", func(x *exchange) (*http.Response, error) {
			return x.say(http.StatusBadRequest, "AccessDeniedException")
		}, headroom.Rejected},
		{"rows are lost", "BatchWriteItem", (*exchange).lose, headroom.Unavailable},
		{"the move is lost", "UpdateItem", (*exchange).drop, headroom.Unavailable},
		{"its answer is lost", "UpdateItem", (*exchange).lose, headroom.Unavailable},
	} {
		t.Run(fault.name, func(t *testing.T) {
			r := newRig(t, dynoxide, under(plentiful(t)), sending(1))
			r.earlierRelease("u")
			moves, done := false, false
			r.wire.reset(func(x *exchange) (*http.Response, error) {
				if moves = moves || x.op == "BatchWriteItem"; moves && x.op == fault.op && !done {
					done = true
					return fault.do(x)
				}
				return x.pass()
			})
			d, err := r.deduct("u", "a", 1)
			r.fails(d, err, fault.code, "")
			r.has("u", "quotaCount", n(5))
			r.admit("u", "a", 1, 6)
		})
	}
}
