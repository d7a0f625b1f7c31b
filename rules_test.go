package headroom

import (
	"testing"
	"time"
)

// The rules are tested through stores by package storetest. Here is what no sequence of today's
// operations reaches, and what is clearer as a table.

var (
	tuesday  = time.Date(2026, time.May, 26, 10, 0, 0, 0, time.UTC)
	thisWeek = ISOWeek(tuesday)
)

func weekAt(offset int) Window { return ISOWeek(tuesday.AddDate(0, 0, 7*offset)) }

// may is a Wednesday at noon, in 2026-W22.
var may = time.Date(2026, time.May, 27, 12, 0, 0, 0, time.UTC)

func periodOf(t *testing.T, text string) Period {
	t.Helper()
	p, err := ParsePeriod(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func catalogOf(t *testing.T, limits ...Limit) *Catalog {
	t.Helper()
	c, err := NewCatalog("p", []Plan{{Name: "p", Limits: limits}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rulesFor(t *testing.T, limits ...Limit) rules {
	t.Helper()
	c, err := NewCatalog("free", []Plan{{Name: "free", Limits: limits}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rules{catalog: c}
}

// decide is a deduction's change, and its decision with the figures before the change.
func (k rules) decide(v View, r Request) (*Change, Decision, error) {
	answer, err := k.deduct(r)(v)
	d := answer.decision
	if err == nil && answer.change != nil {
		plan, standings, err := k.place(v, r)
		if err != nil {
			return nil, d, err
		}
		d = decided(v, plan, standings, r.Cost, answer.promise.reason, false)
	}
	return answer.change, d, err
}
