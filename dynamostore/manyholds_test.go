package dynamostore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/proof/report"
)

// What docs/cost.md promises of an item with live holds, in bytes.
const (
	oneLength   = 2 * 1024  // all of one length
	manyLengths = 12 * 1024 // of all lengths, under one limit
)

// TestAnyNumberOfHolds: rule 9, case 72. One subject has many live holds: the item stays small, a
// deduction beside them costs what it costs beside none, and holds cost no more the more there are.
func TestAnyNumberOfHolds(t *testing.T) {
	many := report.Of(200, 10_000)
	catalog, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "slots", Name: "week", Units: 1 << 40},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		lasts func(i int) time.Duration
		bound int
	}{
		{"holds of one length", func(int) time.Duration { return 5 * time.Minute }, oneLength},
		{"holds of many lengths", func(i int) time.Duration { return time.Duration(1+i*i%3800) * 300 * time.Second }, manyLengths},
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
			allows := func(d headroom.Decision, err error) {
				t.Helper()
				if err != nil || !d.Allowed || d.Replay {
					t.Fatalf("%+v, %v", d, err)
				}
			}
			largest, start, note := 0, *r.clock, ""
			// Of n, the mean is checked, with the ids that some of them move to the ledger, and what
			// most of them cost.
			check := func(what string, n int, mostly, mostWrites, mostReads float64, do func(i int)) {
				t.Helper()
				all, each := b, []float64{}
				for i := range n {
					before := b
					do(i)
					cost := b.minus(before)
					each = append(each, cost.writes+cost.failed)
					if i%20 == 0 {
						largest = max(largest, size(r.item("u")))
					}
				}
				slices.Sort(each)
				cost, of := b.minus(all), float64(n)
				writes, reads := (cost.writes+cost.failed)/of, cost.reads/of
				note += fmt.Sprintf("; %s %.1f requests, %.2f and %.2f", what, float64(cost.requests)/of, writes, reads)
				if test.bound == oneLength && (each[n/2] > mostly || writes > mostWrites || reads > mostReads) {
					t.Errorf("%s costs %.2f write units and %.2f read units, and mostly %.0f write units: want at most %.1f, %.1f and %.0f",
						what, writes, reads, each[n/2], mostWrites, mostReads, mostly)
				}
			}
			id := func(i int) string { return fmt.Sprint("hold-", i) }
			// All of them are live at once.
			check("a hold", many, 2, 3.5, 2, func(i int) {
				r.at(start.Add(time.Duration(i) * 280 * time.Second / time.Duration(many)))
				allows(r.engine.Hold(t.Context(), request("u", id(i), 5), test.lasts(i)))
				report.Step(test.name, int64(i+1), int64(many))
			})
			u, err := r.engine.Usage(t.Context(), headroom.UsageRequest{Subject: "u", Meter: "slots"})
			if err != nil || u.Limits[0].Held != int64(5*many) {
				t.Fatalf("%d units are held, %v, want %d", u.Limits[0].Held, err, 5*many)
			}
			const some = 50
			check("a deduction", some, 2, 3.5, 1, func(i int) { allows(r.deduct("u", fmt.Sprint("beside-", i), 1)) })
			check("a settlement", some, 2, 3.5, 2, func(i int) { allows(r.engine.Settle(t.Context(), request("u", id(many-1-i), 4))) })
			check("a release", some, 2, 3.5, 2, func(i int) { allows(r.engine.Release(t.Context(), request("u", id(many-1-some-i), 0).Held())) })
			check("an extension", some, 2, 3.5, 2, func(i int) {
				allows(r.engine.Extend(t.Context(), request("u", id(many-1-2*some-i), 0).Held(), min(2*test.lasts(many-1-2*some-i), (320+time.Duration(i)/2)*time.Hour)))
			})
			report.Add(t, report.Row{
				Part: "many holds", Name: test.name, Count: int64(many), Unit: "live holds", Took: time.Since(began),
				Note: fmt.Sprintf("the item has at most %d bytes; on average, in write and read units: %s", largest, note[2:]),
			})
			if largest > test.bound {
				t.Errorf("the item had up to %d bytes, want at most %d", largest, test.bound)
			}
		})
	}
}

// TestHoldsOfManyWindowsThatEndTogether: rule 17. Holds are far longer than the windows of a limit,
// so that those which end together have begun in many windows. More than one write clears them
// away, since each has to fit into an expression.
func TestHoldsOfManyWindowsThatEndTogether(t *testing.T) {
	hour, err := headroom.ParsePeriod("hour")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "slots", Name: "hour", Units: 10, Period: hour},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dynoxide, under(catalog))
	store, err := dynamostore.New(enginetest.Client(t, dynoxide, r.wire, 3), r.opts)
	if err != nil {
		t.Fatal(err)
	}
	const year = 365 * 24 * time.Hour
	r.engine, err = headroom.New(store, catalog, headroom.Options{Clock: func() time.Time { return *r.clock }, Horizon: 2 * year})
	if err != nil {
		t.Fatal(err)
	}
	start := *r.clock
	const windows = 300
	for i := range windows {
		r.at(start.Add(time.Duration(i) * time.Hour))
		if d, err := r.engine.Hold(t.Context(), request("u", fmt.Sprint("h", i), 5), year); err != nil || !d.Allowed {
			t.Fatalf("%d: %+v, %v", i, d, err)
		}
	}
	r.at(start.Add(year + 40*24*time.Hour)) // an end is at a multiple of 16 days
	for _, i := range []int{0, windows / 2, windows - 1} {
		if d, err := r.engine.Settle(t.Context(), request("u", fmt.Sprint("h", i), 3)); err != nil || !d.Allowed {
			t.Fatalf("%d: %+v, %v", i, d, err)
		}
	}
	if u := r.limits("u")[0]; u.Used != 9 || u.Held != 0 {
		t.Errorf("%+v", u)
	}
}
