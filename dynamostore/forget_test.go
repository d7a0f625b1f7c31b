package dynamostore_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/lumcast/headroom/dynamostore"
)

// TestForgettingLeavesWhatIsTheApplications: of an item of the application's own only Headroom's
// attributes go, whatever it is named like; an item of which nothing else is left goes as a whole,
// and of the ledger every row.
func TestForgettingLeavesWhatIsTheApplications(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		for _, names := range []dynamostore.Names{{}, {Subject: "pk", Window: "w", Count: "c", Plan: "tier", Prefix: "hr_"}} {
			r := newRig(t, engine, named(names))
			subject, plan, prefix := "userId", "plan", "quota"
			if names.Prefix != "" {
				subject, plan, prefix = names.Subject, names.Plan, names.Prefix
			}
			own := attributes{subject: s("ann"), "email": s("ann@example.com"), prefix + "Extra": n(7), prefix + "/odd": s("x"), prefix: s("y")}
			mixed := maps.Clone(own)
			mixed[plan] = s("free")
			r.put(mixed)
			for _, who := range []string{"ann", "bob", "cid"} {
				r.fill(who, 60)
			}
			if len(r.ledger()) < 3*inItem {
				t.Fatal("the ids have not moved")
			}
			of := len(r.ledger()) / 3
			for _, who := range []string{"ann", "bob"} {
				if rows, err := r.engine.Forget(t.Context(), who, nil); err != nil || rows < inItem {
					t.Fatalf("%s: %d rows, %v", who, rows, err)
				}
			}
			if got := r.item("ann"); fmt.Sprint(slices.Sorted(maps.Keys(got))) != fmt.Sprint(slices.Sorted(maps.Keys(own))) {
				t.Errorf("of the application's item there is %v, want %v", got, own)
			}
			if got := r.item("bob"); got != nil {
				t.Errorf("of Headroom's own item there is %v", got)
			}
			for _, row := range r.ledger() {
				if fmt.Sprint(row["key"]) != fmt.Sprint(s("5#slotscid")) {
					t.Errorf("in the ledger there is %v", row)
				}
			}
			if got := len(r.ledger()); got < of {
				t.Errorf("%d rows of another are left of %d", got, of)
			}
			r.replay("cid", "full-00000", 1, 60)
			// A late repeat of one who was forgotten is charged anew.
			r.admit("bob", "full-00000", 1, 1)
		}
	})
}

// TestForgettingThatFailsAnywhereFinishesLater: whatever request of it gets lost, a repeat leaves
// nothing.
func TestForgettingThatFailsAnywhereFinishesLater(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, sending(1))
		for nth := 1; ; nth++ {
			who := fmt.Sprint("ann-", nth)
			r.wire.reset(nil)
			r.fill(who, 25)
			lost := false
			r.wire.reset(func(x *exchange) (*http.Response, error) {
				if x.n < nth {
					return x.pass()
				}
				lost = true
				return x.drop() // the process is gone
			})
			_, err := r.engine.Forget(t.Context(), who, nil)
			if lost != (err != nil) {
				t.Fatalf("request %d lost %t: %v", nth, lost, err)
			}
			r.wire.reset(nil)
			if _, err := r.engine.Forget(t.Context(), who, nil); err != nil {
				t.Fatal(err)
			}
			if item, rows := r.item(who), r.ledger(); item != nil || len(rows) != 0 {
				t.Fatalf("cut off at request %d and repeated: %v, %v are left", nth, item, rows)
			}
			if !lost {
				return
			}
		}
	})
}
