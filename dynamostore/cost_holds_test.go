package dynamostore_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestCostOfHolds measures what holds, refunds, grants and joint decisions cost, and holds
// docs/cost.md to it.
func TestCostOfHolds(t *testing.T) {
	var rows []string
	for _, held := range []int{0, 120} {
		a := newAccount(t, &rows)
		a.admit("u", "charged", 30, 30)
		a.admit("u", "charged too", 30, 60)
		for i := range held {
			a.allows(a.engine.Hold(t.Context(), request("u", uuid(i), 20), time.Hour))
		}
		with := fmt.Sprintf(" with %d holds", held)
		a.cost("a hold, on an item"+with, func() { a.allows(a.engine.Hold(t.Context(), request("u", "job-1", 20), time.Hour)) })
		a.cost("its settlement at less than was held,"+with, func() { a.allows(a.engine.Settle(t.Context(), request("u", "job-1", 12))) })
		a.allows(a.engine.Hold(t.Context(), request("u", "job-2", 20), time.Hour))
		a.cost("its settlement at more,"+with, func() { a.allows(a.engine.Settle(t.Context(), request("u", "job-2", 25))) })
		a.allows(a.engine.Hold(t.Context(), request("u", "job-3", 20), time.Hour))
		a.cost("its extension,"+with, func() { a.allows(a.engine.Extend(t.Context(), request("u", "job-3", 0).Held(), 2*time.Hour)) })
		a.cost("its release,"+with, func() { a.allows(a.engine.Release(t.Context(), request("u", "job-3", 0).Held())) })
		a.cost("a deduction,"+with, func() { a.allows(a.engine.Deduct(t.Context(), request("u", "job-4", 5))) })
		a.cost("a refund,"+with, func() {
			a.allows(a.engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: "charged", ID: "refund", Units: 5}))
		})
		a.cost("a grant,"+with, func() {
			a.allows(a.engine.Grant(t.Context(), headroom.GrantRequest{Subject: "u", Meter: "slots", ID: "gift", Units: 50, Expires: a.clock.Add(time.Hour)}))
		})
		a.joint(with)
	}

	a := newAccount(t, &rows)
	a.catalog = twoLimits(t)
	a.renew()
	a.allows(a.engine.Deduct(t.Context(), request("v", "job-1", 5)))
	b := a.cost("a deduction under a limit a day and one a week", func() { a.allows(a.engine.Deduct(t.Context(), request("v", "job-2", 5))) })
	a.costs("two limits", b, 1, 1, 0, 0)
	a.allows(a.engine.Deduct(t.Context(), request("v", "job-3", 40)))
	a.cost("a deduction past a threshold that was crossed before", func() { a.allows(a.engine.Deduct(t.Context(), request("v", "job-4", 1))) })

	table := "| what | requests | write units | units of failed writes | read units |\n|---|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	t.Log("\n" + table)
	if doc, err := os.ReadFile("../docs/cost.md"); err != nil || !strings.Contains(string(doc), table) {
		t.Errorf("docs/cost.md does not have this table (%v)", err)
	}
}

// joint measures a deduction at a user within an organisation that holds have been made at before.
func (a *account) joint(with string) {
	a.Helper()
	deduct := func(id string) {
		a.Helper()
		d, err := a.engine.DeductWithin(a.Context(), "u", request("user", id, 5))
		if err != nil || !d.Allowed {
			a.Fatalf("%+v, %v", d, err)
		}
	}
	deduct("joint-1")
	a.cost("a deduction at a user and at an organisation"+with, func() { deduct("joint-2") })
}

// allows fails the test unless a call allowed what was asked, for the first time.
func (a *account) allows(d headroom.Decision, err error) {
	a.Helper()
	if err != nil || !d.Allowed || d.Replay {
		a.Fatalf("%+v, %v", d, err)
	}
}

func request(subject, id string, cost int64) headroom.Request {
	return headroom.Request{Subject: subject, Meter: "slots", Operation: id, Cost: cost}
}

// twoLimits is a plan of 60 units a day and 200 a week, with a notice at 80 percent.
func twoLimits(t *testing.T) *headroom.Catalog {
	t.Helper()
	day, err := headroom.ParsePeriod("day")
	if err != nil {
		t.Fatal(err)
	}
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "slots", Name: "day", Period: day, Units: 60, Thresholds: []int{80}},
		{Meter: "slots", Name: "week", Units: 200, Thresholds: []int{80}},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
