package dynamostore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// manyLimits is a plan of so many limits of one meter with the longest names, each with what makes a write larger.
func manyLimits(t *testing.T, n int, carry int64) *headroom.Catalog {
	t.Helper()
	day, err := headroom.ParsePeriod("day")
	if err != nil {
		t.Fatal(err)
	}
	var limits []headroom.Limit
	for i := range n {
		limits = append(limits, headroom.Limit{
			Meter: "slots", Name: fmt.Sprintf("limit-%02d-%s", i, strings.Repeat("l", 23)), Period: day, Units: 1_000_000, CarryOver: carry, Thresholds: []int{50, 80, 100},
		})
	}
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: limits}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var operators = regexp.MustCompile(` (?:AND|OR|=|<>|<=|>=|<|>|BETWEEN|\+|-) |[a-z_]+\(`)

// TestEveryWriteFitsAtMostLimits: a catalog may have as many limits of one meter as the store says, and then no write
// of any kind is too large for DynamoDB; with one more, no engine is made, and the error says how many there may be.
func TestEveryWriteFitsAtMostLimits(t *testing.T) {
	for _, carry := range []int64{0, 500} {
		each(t, func(t *testing.T, engine string) {
			r := newRig(t, engine)
			most := r.store.MostLimits()
			var invalid *headroom.Error
			if _, err := headroom.New(r.store, manyLimits(t, most+1, carry), headroom.Options{}); !errors.As(err, &invalid) || invalid.Code != headroom.CodeInvalid || !strings.Contains(err.Error(), fmt.Sprint("at most ", most)) {
				t.Fatalf("with %d limits: %v", most+1, err)
			}
			r = newRig(t, engine, under(manyLimits(t, most, carry)))
			var bytes, ops int
			r.wire.reset(func(x *exchange) (*http.Response, error) {
				var in struct{ UpdateExpression, ConditionExpression string }
				if x.op == "UpdateItem" && json.Unmarshal(x.body, &in) == nil {
					for _, e := range []string{in.UpdateExpression, in.ConditionExpression} {
						bytes, ops = max(bytes, len(e)), max(ops, len(operators.FindAllString(e, -1)))
					}
				}
				return x.pass()
			})
			does := func(what string, d headroom.Decision, err error) {
				t.Helper()
				if err != nil || !d.Allowed {
					t.Fatalf("%s: %+v, %v", what, d, err)
				}
				t.Logf("%s: so far expressions of %d bytes and %d operators at most", what, bytes, ops)
			}
			deduct := func(what, id string, cost int64) {
				t.Helper()
				d, err := r.deduct("u", id, cost)
				does(what, d, err)
			}
			hold := func(id string, cost int64, lasts time.Duration) {
				t.Helper()
				d, err := r.engine.Hold(t.Context(), request("u", id, cost), lasts)
				does("a hold", d, err)
			}
			day := func(n int) time.Time { return tuesday.AddDate(0, 0, n) }
			deduct("the first", "first", 10)
			deduct("over thresholds", "crosses", 850_000)
			for i := range 19 {
				hold(fmt.Sprintf("hold-with-a-long-id-%02d", i), 10, time.Hour)
			}
			hold("over-the-turn", 10, 30*time.Hour)
			for i := range headroom.MaxGrants {
				d, err := r.engine.Grant(t.Context(), headroom.GrantRequest{Subject: "u", Meter: "slots", ID: fmt.Sprintf("grant-with-a-long-id-%02d", i), Units: 5, Lasts: 9 * 24 * time.Hour})
				does("a grant", d, err)
			}
			r.at(day(1))
			deduct("a turn", "turn", 100)
			// The hold counts in two windows of each limit, and both have closed when it is refunded.
			d, err := r.engine.Settle(t.Context(), request("u", "over-the-turn", 200))
			does("a settlement over the turn", d, err)
			deduct("past the limit of the plan, over all grants but one", "grants", 999_900-100-190+95)
			r.at(day(2))
			deduct("another turn", "turn again", 1_000_000-100)
			// Twenty holds that have expired are in the way: their units are in a window that has closed.
			d, err = r.engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: "over-the-turn", ID: "refund"})
			does("a refund of two windows that have closed", d, err)
			for i := range headroom.MaxHolds - 19 {
				hold(fmt.Sprintf("more-holds-with-a-long-id-%02d", i), 0, time.Hour)
			}
			r.at(day(2).Add(2 * time.Hour))
			hold("the one that clears them away", 0, time.Hour)
			for i := range 12 {
				r.at(day(3 + i))
				deduct("yet another turn", fmt.Sprint("later ", i), 10)
			}
			// Windows of days 3 to 14 are of the future now: what of them is in the item and in the ledger is taken back.
			r.at(day(2).Add(3 * time.Hour))
			deduct("windows brought back", "back", 10)
			r.at(day(40))
			deduct("ids that have aged", "aged", 10)
			t.Logf("the largest expression of %d limits has %d bytes, and one has %d operators and functions", most, bytes, ops)
			if bytes > 4096 || ops > 300 {
				t.Errorf("DynamoDB takes 4096 and 300")
			}
		})
	}
}
