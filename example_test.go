package headroom_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// The Lumcast plan allows 200 slots an ISO week. A refusal is a decision, not an error, and a
// repeat of an operation is answered with its first decision.
func ExampleEngine_Deduct() {
	ctx := context.Background()
	tuesday := func() time.Time { return time.Date(2026, time.May, 26, 10, 0, 0, 0, time.UTC) }
	engine, err := headroom.New(memstore.New(tuesday), headroom.DefaultCatalog(), headroom.Options{Clock: tuesday})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, job := range []struct {
		id   string
		cost int64
	}{{"job-1", 150}, {"job-2", 60}, {"job-3", 50}, {"job-1", 150}} {
		d, err := engine.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: job.id, Cost: job.cost})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s, %d of %d used until %s, replay %t\n", job.id, d.Reason, d.Used, d.Limit, d.Window.End.Format(time.DateOnly), d.Replay)
	}
	_, err = engine.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 1})
	fmt.Println(errors.Is(err, headroom.Conflict), err)

	// Output:
	// job-1: admitted, 150 of 200 used until 2026-06-01, replay false
	// job-2: over_limit, 150 of 200 used until 2026-06-01, replay false
	// job-3: admitted, 200 of 200 used until 2026-06-01, replay false
	// job-1: admitted, 200 of 200 used until 2026-06-01, replay true
	// true operation "job-1" stands for a deduction of 150 and now asks to deduct 1: an id stands for one piece of work
}

// The work is done, so it is charged even though it no longer fits.
func ExampleEngine_Deduct_overRecord() {
	engine, err := headroom.New(memstore.New(nil), headroom.DefaultCatalog(), headroom.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"job-1", "job-2"} {
		d, err := engine.Deduct(context.Background(), headroom.Request{Subject: "mira", Meter: "slots", Operation: id, Cost: 120, Over: headroom.RecordOverLimit})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Reason, d.Used, "of", d.Limit, "used,", d.Remaining, "left")
	}

	// Output:
	// admitted 120 of 200 used, 80 left
	// recorded 240 of 200 used, 0 left
}

func ExampleEngine_Preflight() {
	ctx := context.Background()
	engine, err := headroom.New(memstore.New(nil), headroom.DefaultCatalog(), headroom.Options{LetThrough: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := engine.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 180}); err != nil {
		fmt.Println(err)
		return
	}
	for _, cost := range []int64{20, 30, 300} {
		d, err := engine.Preflight(ctx, headroom.Request{Subject: "mira", Meter: "slots", Cost: cost})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d: allowed %t (%s), %d left\n", cost, d.Allowed, d.Reason, d.Remaining)
	}

	// Output:
	// 20: allowed true (admitted), 20 left
	// 30: allowed false (over_limit), 20 left
	// 300: allowed false (never_fits), 20 left
}

func ExampleEngine_Usage() {
	ctx := context.Background()
	now := time.Date(2026, time.May, 26, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	engine, err := headroom.New(memstore.New(clock), headroom.DefaultCatalog(), headroom.Options{Clock: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	for week := range 3 {
		id := fmt.Sprint("job-", week)
		if _, err := engine.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: id, Cost: 30 + int64(week)}); err != nil {
			fmt.Println(err)
			return
		}
		now = now.AddDate(0, 0, 7)
	}
	u, err := engine.Usage(ctx, headroom.UsageRequest{Subject: "mira", Meter: "slots"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range u.Limits {
		fmt.Printf("%s: %d of %d used in %s on plan %s\n", l.Name, l.Used, l.Limit, l.Window.Key, u.Plan)
		for _, t := range l.History {
			fmt.Println(t.Window.Key, t.Units)
		}
	}

	// Output:
	// week: 0 of 200 used in 2026-W25 on plan free
	// 2026-W24 32
	// 2026-W23 31
	// 2026-W22 30
}

func ExamplePrices_Cost() {
	prices, err := headroom.DefaultCatalog().Prices("slots")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, seconds := range []float64{0, 60, 60.5, 900} {
		cost, err := prices.Cost("neural", seconds)
		fmt.Println(seconds, cost, err)
	}

	// Output:
	// 0 0 <nil>
	// 60 2 <nil>
	// 60.5 4 <nil>
	// 900 30 <nil>
}

func ExampleISOWeek() {
	w := headroom.ISOWeek(time.Date(2024, time.December, 30, 12, 0, 0, 0, time.UTC))
	fmt.Println(w.Key, "from", w.Start.Format(time.DateOnly), "until", w.End.Format(time.DateOnly))
	// Output: 2025-W01 from 2024-12-30 until 2025-01-06
}
