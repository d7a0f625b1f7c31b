package memstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// TestAPlainDeductionAllocatesLittle bounds what the engine and this store allocate for the most
// common request: a charge in a running window, under one limit, with an id that is new. A change
// that needs more raises the bound, and says in its message what the memory is for.
func TestAPlainDeductionAllocatesLittle(t *testing.T) {
	const most, runs = 48, 100
	tuesday := time.Date(2031, 5, 27, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return tuesday }
	engine, err := headroom.New(memstore.New(clock), headroom.DefaultCatalog(), headroom.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	deduct := func(subject, id string) {
		r := headroom.Request{Subject: subject, Meter: "slots", Operation: id, Cost: 1}
		if d, err := engine.Deduct(t.Context(), r); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	// Each run has a subject of its own, whose window an earlier charge has opened. AllocsPerRun
	// makes one run more, to warm up.
	var subjects []string
	for i := range runs + 1 {
		subjects = append(subjects, strconv.Itoa(i))
		deduct(subjects[i], "first")
	}
	n := 0
	got := testing.AllocsPerRun(runs, func() { deduct(subjects[n], "second"); n++ })
	t.Logf("%.0f allocations", got)
	if got > most {
		t.Errorf("a deduction allocates %.0f times, want at most %d", got, most)
	}
}
