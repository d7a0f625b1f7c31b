package dynamostore_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// threeMeters is a plan of a request limit by the day, and of tokens and money by the month.
func threeMeters(t *testing.T) *headroom.Catalog {
	t.Helper()
	period := func(name string) headroom.Period {
		p, err := headroom.ParsePeriod(name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "requests", Name: "day", Period: period("day"), Units: 1_000},
		{Meter: "tokens", Name: "month", Period: period("month"), Units: 10_000_000},
		{Meter: "money", Name: "month", Period: period("month"), Units: 100_000_000},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// modelCall is a call to a language model: one request, 1,850 tokens and 23,000 micro-dollars.
func modelCall(id string) headroom.Request {
	return headroom.Request{
		Subject: "u", Meter: "requests", Operation: id, Cost: 1,
		More: []headroom.Amount{{Meter: "tokens", Cost: 1_850}, {Meter: "money", Cost: 23_000}},
	}
}

// TestCostOfMeters measures what requests of three meters cost, and holds docs/cost.md to it.
func TestCostOfMeters(t *testing.T) {
	var rows []string
	a := newAccount(t, &rows)
	a.catalog = threeMeters(t)
	a.renew()
	all := func(replay bool) func(headroom.Decision, error) {
		return func(d headroom.Decision, err error) {
			t.Helper()
			if err != nil || !d.Allowed || d.Replay != replay || len(d.Parts) != 3 {
				t.Fatalf("%+v, %v", d, err)
			}
		}
	}
	deduct := func(id string, replay bool) func() {
		return func() { d, err := a.engine.Deduct(t.Context(), modelCall(id)); all(replay)(d, err) }
	}
	// The second time the engine sends the item along, and then the store knows that it does.
	for _, replay := range []bool{false, true} {
		r := modelCall("job")
		r.Subject = "another"
		d, err := a.engine.Deduct(t.Context(), r)
		all(replay)(d, err)
	}
	b := a.cost("a subject's very first deduction", deduct("job-00001", false))
	a.costs("very first", b, 2, 1, 1, 0)
	b = a.cost("a deduction in running windows", deduct("job-00002", false))
	a.costs("running windows", b, 1, 2, 0, 0)
	b = a.cost("a replay", deduct("job-00001", true))
	a.costs("replay", b, 1, 0, 2, 0)
	b = a.cost("a refusal by one of the meters", func() {
		r := modelCall("large")
		r.More[0].Cost = 9_999_999
		if d, err := a.engine.Deduct(t.Context(), r); err != nil || d.Allowed || d.Meter != "tokens" {
			t.Fatalf("%+v, %v", d, err)
		}
	})
	a.costs("refusal", b, 1, 0, 2, 0)
	b = a.cost("a preflight", func() { d, err := a.engine.Preflight(t.Context(), modelCall("")); all(false)(d, err) })
	a.costs("preflight", b, 1, 0, 0, 0.5)
	a.cost("a hold", func() { d, err := a.engine.Hold(t.Context(), modelCall("job-00003"), time.Hour); all(false)(d, err) })
	a.cost("its settlement", func() { d, err := a.engine.Settle(t.Context(), modelCall("job-00003")); all(false)(d, err) })
	a.cost("a refund of all of it", func() {
		d, err := a.engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "tokens", Operation: "job-00003", ID: "refund"})
		all(false)(d, err)
	})
	a.at(a.clock.AddDate(0, 0, 1))
	b = a.cost("the first deduction of a day", deduct("job-00004", false))
	if b.requests > 2 {
		t.Errorf("the first of a day takes %d requests", b.requests)
	}
	begun, largest := a.bill, 0
	for i := range 500 {
		what := ""
		if i == 499 {
			what = "operation 500 of a day"
		}
		a.cost(what, deduct(fmt.Sprintf("call-%05d", i), false))
		largest = max(largest, size(a.item("u")))
	}
	rows = append(rows, row("the mean of 500 operations of a day", a.bill.minus(begun), 500))
	if largest > 3*1024 {
		t.Errorf("the item has up to %d bytes", largest)
	}
	table := "| what, in three meters | requests | write units | units of failed writes | read units |\n|---|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	t.Logf("the item has up to %d bytes\n%s", largest, table)
	if doc, err := os.ReadFile("../docs/cost.md"); err != nil || !strings.Contains(string(doc), table) {
		t.Errorf("docs/cost.md does not have this table (%v)", err)
	}
}
