package dynamostore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/proof/report"
)

// pastBound is what an item never reaches, whatever its subject has behind it: the bound of
// docs/cost.md for one without live holds.
const pastBound = 8 * 1024

// TestASubjectsPastLeavesItsItem: case 50, rule 17. Charges that are refunded, holds that expire
// and are settled, and totals that are corrected, all of one subject in one epoch: the item stays
// small, every write goes through, and a deduction days later costs what it always does.
func TestASubjectsPastLeavesItsItem(t *testing.T) {
	many := report.Of(300, 100_000)
	catalog, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "slots", Name: "week", Units: 1 << 40}, {Meter: "slots", Name: "hour", Units: 1 << 40, Period: hourly(t)},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		do   func(r *rig, i int)
	}{
		{"charges, each refunded", func(r *rig, i int) {
			id := fmt.Sprint("charge-", i)
			if d, err := r.deduct("u", id, 5); err != nil || !d.Allowed {
				r.Fatalf("%d: %+v, %v", i, d, err)
			}
			r.refundOf(id, fmt.Sprint("refund-", i), 5)
		}},
		{"holds that expire and are settled", func(r *rig, i int) {
			id := fmt.Sprint("hold-", i)
			r.holds("u", id, 5, time.Second)
			r.at(r.clock.Add(2 * time.Second))
			if d, err := r.engine.Settle(r.Context(), request("u", id, 3)); err != nil || !d.Allowed {
				r.Fatalf("%d: %+v, %v", i, d, err)
			}
		}},
		{"totals that are corrected", func(r *rig, i int) {
			if i < 40 { // hours with a total each
				if d, err := r.deduct("u", fmt.Sprint("hour-", i), 1<<20); err != nil || !d.Allowed {
					r.Fatalf("%d: %+v, %v", i, d, err)
				}
				r.at(r.clock.Add(time.Hour))
			}
			r.refundOf(fmt.Sprint("hour-", i*7%min(40, i+1)), fmt.Sprint("correction-", i), 1)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			began := time.Now()
			r := newRig(t, dynoxide, under(catalog))
			var b bill
			store, err := dynamostore.New(metered(enginetest.Client(t, dynoxide, r.wire, 3), &b), r.opts)
			if err != nil {
				t.Fatal(err)
			}
			if r.engine, err = headroom.New(store, catalog, headroom.Options{Clock: func() time.Time { return *r.clock }}); err != nil {
				t.Fatal(err)
			}
			largest := 0
			for i := range many {
				test.do(r, i)
				if i < 300 || i%100 == 0 {
					largest = max(largest, size(r.item("u")))
				}
				report.Step(test.name, int64(i+1), int64(many))
			}
			r.at(r.clock.Add(3 * 24 * time.Hour))
			before := b
			const after = 200
			for i := range after {
				if d, err := r.deduct("u", fmt.Sprint("later-", i), 1); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				largest = max(largest, size(r.item("u")))
			}
			cost := b.minus(before)
			writes, reads := (cost.writes+cost.failed)/after, cost.reads/after
			report.Add(t, report.Row{
				Part: "a subject's past", Name: test.name, Count: int64(many), Unit: "times", Took: time.Since(began),
				Note: fmt.Sprintf("at most %d bytes, then %.2f write units and %.2f read units a deduction", largest, writes, reads),
			})
			if largest > pastBound || writes > 3 || reads > 1.05 {
				t.Errorf("the item had up to %d bytes; a deduction costs %.2f write units and %.2f read units", largest, writes, reads)
			}
		})
	}
}

func hourly(t *testing.T) headroom.Period {
	t.Helper()
	p, err := headroom.ParsePeriod("hour")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
