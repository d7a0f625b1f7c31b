package dynamostore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// metersAndLimits is a plan of so many meters with so many limits together, all with the longest
// names.
func metersAndLimits(t *testing.T, meters, limits int, carry int64) (*headroom.Catalog, []string) {
	t.Helper()
	day, err := headroom.ParsePeriod("day")
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, meters)
	for i := range names {
		names[i] = fmt.Sprintf("meter-%d-%s", i, strings.Repeat("m", headroom.MaxMeter-8))
	}
	var all []headroom.Limit
	for i := range limits {
		all = append(all, headroom.Limit{
			Meter: names[i%meters], Name: fmt.Sprintf("limit-%02d-%s", i, strings.Repeat("l", 23)), Period: day, Units: 1_000_000, CarryOver: carry, Thresholds: []int{50, 80, 100},
		})
	}
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: all}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, names
}

// callOf asks for as many units of each meter.
func callOf(names []string, id string, cost int64) headroom.Request {
	r := headroom.Request{Subject: "u", Meter: names[0], Operation: id, Cost: cost}
	for _, name := range names[1:] {
		r.More = append(r.More, headroom.Amount{Meter: name, Cost: cost})
	}
	return r
}

// TestEveryWriteOfMetersFits: a request may be of as many meters and limits as the store says, and
// then no write of any kind is too large for DynamoDB, as long as its meters have few grants. With
// one limit more the request is an error that says what to do.
func TestEveryWriteOfMetersFits(t *testing.T) {
	most := newRig(t, dynoxide).store.MostLimits()
	for meters := 2; meters <= 4; meters++ {
		limits := most - 2*(meters-1)
		for _, carry := range []int64{0, 500} {
			t.Run(fmt.Sprintf("%d meters, %d limits, carry %d", meters, limits, carry), func(t *testing.T) {
				c, names := metersAndLimits(t, meters, limits+1, carry)
				r := newRig(t, dynoxide, under(c))
				_, err := r.engine.Deduct(t.Context(), callOf(names, "id", 1))
				if headroom.CodeOf(err) != headroom.Invalid || !strings.Contains(err.Error(), fmt.Sprint("at most ", limits, " limits; ask for fewer meters")) {
					t.Fatalf("with one limit more: %v", err)
				}
				c, names = metersAndLimits(t, meters, limits, carry)
				sized(t, newRig(t, dynoxide, under(c)), names)
			})
		}
	}
}

// sized makes the largest writes of several meters and measures them.
func sized(t *testing.T, r *rig, names []string) {
	var bytes, ops int
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
		if err != nil || !d.Allowed || len(d.Parts) != len(names) {
			t.Fatalf("%s: %+v, %v", what, d, err)
		}
		if bytes > 4096 || ops > 300 {
			t.Errorf("%s: DynamoDB takes 4096 and 300", what)
		}
		t.Logf("%s: expressions of %d bytes and %d operators", what, bytes, ops)
		bytes, ops = 0, 0
	}
	deduct := func(what, id string, cost int64) {
		t.Helper()
		d, err := r.engine.Deduct(t.Context(), callOf(names, id, cost))
		does(what, d, err)
	}
	day := func(n int) time.Time { return tuesday.AddDate(0, 0, n) }
	deduct("the first", "first", 10)
	deduct("over thresholds", "crosses", 850_000)
	d, err := r.engine.Hold(t.Context(), callOf(names, "over-the-turn", 10), 30*time.Hour)
	does("a hold", d, err)
	d, err = r.engine.Extend(t.Context(), callOf(names, "over-the-turn", 10).Held(), 28*time.Hour)
	does("an extension", d, err)
	r.at(day(1))
	deduct("a turn", "turn", 100)
	d, err = r.engine.Settle(t.Context(), callOf(names, "over-the-turn", 200))
	does("a settlement over the turn", d, err)
	for i := range 12 {
		r.at(day(2 + i))
		deduct("another turn", fmt.Sprint("turn ", i), 10)
	}
	d, err = r.engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: names[0], Operation: "over-the-turn", ID: "refund"})
	does("a refund of two windows that are in the ledger", d, err)
	for i := range 3 { // windows that a clock opens which is ahead
		r.at(day(100 + i))
		deduct("a window of the future", fmt.Sprint("ahead ", i), 10)
	}
	r.at(day(31))
	deduct("windows brought back", "back", 10)
	r.at(day(90))
	deduct("ids that have aged", "aged", 10)
}

// TestTooManyGrantsForOneWrite: meters with so many grants that one write does not take them are an
// error that says what to do, and nothing is written.
func TestTooManyGrantsForOneWrite(t *testing.T) {
	c, names := metersAndLimits(t, 4, 4, 0)
	r := newRig(t, dynoxide, under(c))
	for _, name := range names {
		for i := range headroom.MaxGrants {
			r.allowsGrant(headroom.GrantRequest{Subject: "u", Meter: name, ID: fmt.Sprintf("grant-with-a-long-id-%02d", i), Units: 5, Lasts: 90 * 24 * time.Hour})
		}
	}
	d, err := r.engine.Deduct(t.Context(), callOf(names, "all of the plans", 1_000_000))
	if err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	_, err = r.engine.Deduct(t.Context(), callOf(names, "from grants", 50))
	if headroom.CodeOf(err) != headroom.Rejected || !strings.Contains(err.Error(), "nothing was written") || !strings.Contains(err.Error(), "fewer meters") {
		t.Fatalf("a write that draws on %d grants: %v", 4*headroom.MaxGrants, err)
	}
	for _, name := range names {
		d, err := r.engine.Deduct(t.Context(), headroom.Request{Subject: "u", Meter: name, Operation: "from grants", Cost: 50})
		if err != nil || !d.Allowed || d.Replay {
			t.Errorf("one meter at a time: %+v, %v", d, err)
		}
	}
}

// TestFormatOneHasNoSeveralMeters: while the release before reads the items, a request of several
// meters is an error that says so, and nothing is written. A request of one meter is as before.
func TestFormatOneHasNoSeveralMeters(t *testing.T) {
	c, names := metersAndLimits(t, 2, 2, 0)
	r := newRig(t, dynoxide, under(c), inFormat(1))
	refused := func(what string) {
		t.Helper()
		_, err := r.engine.Deduct(t.Context(), callOf(names, "id", 1))
		if headroom.CodeOf(err) != headroom.Rejected || !strings.Contains(err.Error(), "newest format") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("a new item")
	if item := r.item("u"); len(item) > 0 {
		t.Errorf("an item was written: %v", item)
	}
	d, err := r.engine.Deduct(t.Context(), headroom.Request{Subject: "u", Meter: names[0], Operation: "id", Cost: 1})
	if err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	refused("an item of format 1")
	if u, err := r.engine.Usage(t.Context(), headroom.UsageRequest{Subject: "u", Meter: names[1]}); err != nil || u.Limits[0].Used != 0 {
		t.Errorf("the other meter: %+v, %v", u, err)
	}
}
