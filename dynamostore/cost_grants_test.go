package dynamostore_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestCostOfGrants measures what it costs to draw on grants, and holds docs/cost.md to it.
func TestCostOfGrants(t *testing.T) {
	var rows []string
	a := newAccount(t, &rows)
	ends := a.clock.Add(24 * time.Hour)
	grant := func(subject, id string, units int64) headroom.GrantRequest {
		ends = ends.Add(time.Hour)
		return headroom.GrantRequest{Subject: subject, Meter: "slots", ID: id, Units: units, Expires: ends}
	}
	deduct := func(what, subject, id string, cost int64) bill {
		t.Helper()
		return a.cost(what, func() { a.allows(a.engine.Deduct(t.Context(), request(subject, id, cost))) })
	}

	a.admit("u", "job-1", 30, 30)
	first := grant("u", "gift-1", 50)
	a.cost("a grant", func() { a.allows(a.engine.Grant(t.Context(), first)) })
	a.cost("the same grant again", func() {
		if d, err := a.engine.Grant(t.Context(), first); err != nil || !d.Replay {
			t.Errorf("%+v, %v", d, err)
		}
	})
	b := deduct("a deduction that the plan covers, beside a grant", "u", "job-2", 30)
	a.costs("beside a grant", b, 1, 1, 0, 0)
	a.allows(a.engine.Deduct(t.Context(), request("u", "job-3", 4_920)))
	deduct("a deduction that takes the last of the plan, and the rest from a grant", "u", "job-4", 30)
	deduct("a deduction that draws on a grant", "u", "job-5", 10)
	a.allows(a.engine.Grant(t.Context(), grant("u", "gift-2", 500)))
	deduct("a deduction that takes the last of one grant, and the rest from the next", "u", "job-6", 40)
	a.cost("a refund that gives back to a grant", func() {
		a.allows(a.engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: "job-6", ID: "refund", Units: 5}))
	})
	a.cost("a hold that draws on a grant", func() { a.allows(a.engine.Hold(t.Context(), request("u", "job-7", 10), time.Hour)) })
	a.cost("its settlement at less", func() { a.allows(a.engine.Settle(t.Context(), request("u", "job-7", 8))) })
	a.cost("a refusal where the grants have too little", func() {
		if d, err := a.engine.Deduct(t.Context(), request("u", "large", 600)); err != nil || d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	})

	// As many grants as there can be, all used up but the last: the guard names each.
	a.admit("v", "job-1", 5_000, 5_000)
	for i := range headroom.MaxGrants {
		a.allows(a.engine.Grant(t.Context(), grant("v", fmt.Sprintf("gift-%02d", i), 10)))
	}
	a.allows(a.engine.Deduct(t.Context(), request("v", "job-2", 10*(headroom.MaxGrants-1))))
	deduct(fmt.Sprintf("a deduction that draws on the last of %d grants", headroom.MaxGrants), "v", "job-3", 5)

	table := "| what | requests | write units | units of failed writes | read units |\n|---|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	t.Log("\n" + table)
	if doc, err := os.ReadFile("../docs/cost.md"); err != nil || !strings.Contains(string(doc), table) {
		t.Errorf("docs/cost.md does not have this table (%v)", err)
	}
}
