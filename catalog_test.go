package headroom_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// TestACatalogIsItsOwn: what a caller does with the slices that it gave, or was given, changes no catalog.
func TestACatalogIsItsOwn(t *testing.T) {
	thresholds := []int{80}
	limits := []headroom.Limit{{Meter: "slots", Name: "week", Units: 100, Thresholds: thresholds}}
	plans := []headroom.Plan{{Name: "free", Limits: limits}}
	c, err := headroom.NewCatalog("free", plans, nil)
	if err != nil {
		t.Fatal(err)
	}
	thresholds[0], limits[0].Units, plans[0].Name = 1, 1, "other"
	shown := c.Plans()
	shown[0].Limits[0].Thresholds[0], shown[0].Limits[0].Units = 1, 1
	e, err := headroom.New(memstore.New(func() time.Time { return time.Unix(1<<31, 0) }), c, headroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Deduct(t.Context(), headroom.Request{Subject: "a", Meter: "slots", Operation: "1", Cost: 2})
	if err != nil || !d.Allowed || d.Limit != 100 || len(d.Crossed) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// BenchmarkCatalog makes catalogs of plans that each have a limit of their own: the time for each plan is to stay the same.
func BenchmarkCatalog(b *testing.B) {
	for _, n := range []int{500, 5000} {
		var plans []headroom.Plan
		for i := range n {
			plans = append(plans, headroom.Plan{Name: fmt.Sprint("plan-", n-i), Limits: []headroom.Limit{{Meter: "slots", Name: fmt.Sprint("limit-", n-i), Units: 1}}})
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := headroom.NewCatalog("plan-1", plans, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/plan")
		})
	}
}
