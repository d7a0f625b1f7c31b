package dynamostore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// manyLimits is a plan of so many limits of one meter with the longest names, each with what makes
// a write larger.
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

var (
	operators   = regexp.MustCompile(` (?:AND|OR|=|<>|<=|>=|<|>|BETWEEN|\+|-) |[a-z_]+\(`)
	assignments = regexp.MustCompile(` = `)
)

// operatorsOf counts operators and functions, the AND of a BETWEEN too. An assignment is none: of
// "SET a = :val1 + :val2 + :val3" the developer guide says that it has two.
func operatorsOf(update, condition string) int {
	in := func(s string) int { return len(operators.FindAllString(s, -1)) }
	return max(in(update)-len(assignments.FindAllString(update, -1)), in(condition))
}

// TestEveryWriteFitsAtMostLimits: a catalog may have as many limits of one meter as the store says,
// and then no write of any kind is too large for DynamoDB; with one more, no engine is made, and
// the error says how many there may be.
func TestEveryWriteFitsAtMostLimits(t *testing.T) {
	for _, carry := range []int64{0, 500} {
		each(t, func(t *testing.T, engine string) {
			r := newRig(t, engine)
			most := r.store.MostLimits()
			if _, err := headroom.New(r.store, manyLimits(t, most+1, carry), headroom.Options{}); headroom.CodeOf(err) != headroom.Invalid || !strings.Contains(err.Error(), fmt.Sprint("at most ", most)) {
				t.Fatalf("with %d limits: %v", most+1, err)
			}
			r = newRig(t, engine, under(manyLimits(t, most, carry)))
			var bytes, ops, mostBytes, mostOps int
			r.wire.reset(func(x *exchange) (*http.Response, error) {
				var in struct{ UpdateExpression, ConditionExpression string }
				if x.op == "UpdateItem" && json.Unmarshal(x.body, &in) == nil {
					bytes = max(bytes, len(in.UpdateExpression), len(in.ConditionExpression))
					ops = max(ops, operatorsOf(in.UpdateExpression, in.ConditionExpression))
				}
				return x.pass()
			})
			does := func(what string, d headroom.Decision, err error) {
				t.Helper()
				if err != nil || !d.Allowed {
					t.Fatalf("%s: %+v, %v", what, d, err)
				}
				t.Logf("%s: expressions of %d bytes and %d operators", what, bytes, ops)
				if bytes > 4096 || ops > 300 {
					t.Errorf("%s: DynamoDB takes 4096 and 300", what)
				}
				mostBytes, mostOps, bytes, ops = max(mostBytes, bytes), max(mostOps, ops), 0, 0
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
			for i := range 81 {
				hold(fmt.Sprintf("more-holds-with-a-long-id-%02d", i), 0, time.Hour)
			}
			r.at(day(2).Add(2 * time.Hour))
			hold("the one that clears them away", 0, time.Hour)
			// A charge that counts in two windows of each limit, and drew on every grant, is refunded when
			// both windows have closed and their totals have moved to the ledger.
			r.at(day(20))
			for i := range headroom.MaxGrants {
				d, err := r.engine.Grant(t.Context(), headroom.GrantRequest{Subject: "u", Meter: "slots", ID: fmt.Sprintf("later-grant-with-a-long-id-%02d", i), Units: 5, Lasts: 90 * 24 * time.Hour})
				does("a later grant", d, err)
			}
			left := func() int64 {
				u, err := r.engine.Usage(t.Context(), headroom.UsageRequest{Subject: "u", Meter: "slots"})
				if err != nil {
					t.Fatal(err)
				}
				return u.Limits[0].Remaining
			}
			const half = 5 * headroom.MaxGrants / 2
			deduct("all but five", "all but five", left()-5)
			hold("wide", 5+half, 30*time.Hour)
			r.at(day(21))
			deduct("all but five again", "all but five again", left()-5)
			d, err = r.engine.Settle(t.Context(), request("u", "wide", 10+2*half))
			does("a settlement in the next window, over grants", d, err)
			past := request("u", "past the limit", 50)
			past.Over = headroom.RecordOverLimit
			d, err = r.engine.Deduct(t.Context(), past)
			does("past the limit and all grants", d, err)
			for i := range 10 {
				r.at(day(22 + i))
				deduct("a turn", fmt.Sprint("turn ", i), 10)
			}
			d, err = r.engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: "wide", ID: "refund of all"})
			does("a refund of two windows in the ledger and of all grants", d, err)
			// A clock that is a year ahead opens more windows than are kept.
			for i := range headroom.HistoryWindows + 8 {
				r.at(day(300 + i))
				deduct("a window of the future", fmt.Sprint("ahead ", i), 10)
			}
			r.at(day(31))
			past.Operation = "past the limit, and windows back"
			d, err = r.engine.Deduct(t.Context(), past)
			does("windows brought back", d, err)
			if want := int64(10*(headroom.HistoryWindows+8) + 10 + 50); d.Used != want {
				t.Errorf("%d are used after that, want %d", d.Used, want)
			}
			// So few that the charge takes them back itself.
			r.at(day(60))
			deduct("ahead again", "ahead again", 10)
			r.at(day(31))
			past.Operation = "past the limit, and a window back"
			past.Cost = left() + 100
			d, err = r.engine.Deduct(t.Context(), past)
			does("a window brought back", d, err)
			r.at(day(90))
			deduct("ids that have aged", "aged", 10)
			t.Logf("the largest expression of %d limits has %d bytes, and one has %d operators and functions", most, mostBytes, mostOps)
		})
	}
}
