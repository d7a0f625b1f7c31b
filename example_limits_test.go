package headroom_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// A subject's own limit follows the name of its plan. It holds from the next decision on, and what
// was used stays used.
func ExampleEngine_SetPlan() {
	ctx := context.Background()
	engine, err := headroom.New(memstore.New(nil), headroom.DefaultCatalog(), headroom.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, plan := range []string{"", "free+slots/week=500", ""} {
		if err := engine.SetPlan(ctx, "mira", plan); err != nil {
			fmt.Println(err)
			return
		}
		d, err := engine.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: fmt.Sprint("job-", i), Cost: 150})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s, %d of %d used\n", d.Plan, d.Reason, d.Used, d.Limit)
	}
	err = engine.SetPlan(ctx, "mira", "free+slots/day=5")
	fmt.Println(errors.Is(err, headroom.Invalid), err)

	// Output:
	// free: admitted, 150 of 200 used
	// free+slots/week=500: admitted, 300 of 500 used
	// free: over_limit, 300 of 200 used
	// true plan "free+slots/day=5": "slots/day=5" is no limit of its own: want METER/LIMIT=UNITS once, of a limit that some plan has
}

// The work failed, so that its hold is given back before it would expire.
func ExampleEngine_Release() {
	ctx := context.Background()
	engine, err := headroom.New(memstore.New(nil), headroom.DefaultCatalog(), headroom.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	job := headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 120}
	if _, err := engine.Hold(ctx, job, time.Hour); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		d, err := engine.Release(ctx, job.Held())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s, %d used and %d held, replay %t\n", d.Reason, d.Used, d.Held, d.Replay)
	}
	_, err = engine.Release(ctx, headroom.HeldRequest{Subject: "mira", Meter: "slots", Operation: "job-2"})
	fmt.Println(errors.Is(err, headroom.NotFound))

	// Output:
	// released, 0 used and 0 held, replay false
	// released, 0 used and 0 held, replay true
	// true
}

// A decision says which thresholds it crossed. The same ID comes again with every repeat of the
// operation, so that a lost message can be sent again and a receiver drop what it has.
func ExampleDecision_crossed() {
	ctx := context.Background()
	tuesday := func() time.Time { return time.Date(2026, time.May, 26, 10, 0, 0, 0, time.UTC) }
	engine, err := headroom.New(memstore.New(tuesday), headroom.DefaultCatalog(), headroom.Options{Clock: tuesday})
	if err != nil {
		fmt.Println(err)
		return
	}
	sent := map[string]bool{}
	for _, job := range []struct {
		id   string
		cost int64
	}{{"job-1", 159}, {"job-2", 1}, {"job-2", 1}, {"job-3", 39}, {"job-4", 1}} {
		d, err := engine.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: job.id, Cost: job.cost})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, n := range d.Crossed {
			fmt.Printf("%s: %d%% of the %s %s, sent before: %t\n", job.id, n.Percent, n.Limit, n.Window.Key, sent[n.ID])
			sent[n.ID] = true
		}
	}

	// Output:
	// job-2: 80% of the week 2026-W22, sent before: false
	// job-2: 80% of the week 2026-W22, sent before: true
	// job-4: 100% of the week 2026-W22, sent before: false
}

func ExampleParsePeriod() {
	t := time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC)
	for _, text := range []string{"week", "week from sunday", "day in Asia/Tokyo", "every month from 2026-01-31", "fortnight"} {
		p, err := headroom.ParsePeriod(text)
		if err != nil {
			fmt.Println(errors.Is(err, headroom.Invalid))
			return
		}
		w := p.At(t)
		fmt.Printf("%s: %s from %s until %s\n", p, w.Key, w.Start.UTC().Format(time.RFC3339), w.End.UTC().Format(time.RFC3339))
	}

	// Output:
	// week: 2026-W09 from 2026-02-23T00:00:00Z until 2026-03-02T00:00:00Z
	// week from sunday: 2026-02-22--P1W from 2026-02-22T00:00:00Z until 2026-03-01T00:00:00Z
	// day in Asia/Tokyo: 2026-02-28 from 2026-02-27T15:00:00Z until 2026-02-28T15:00:00Z
	// every month from 2026-01-31: 2026-02-28--P1M from 2026-02-28T00:00:00Z until 2026-03-31T00:00:00Z
	// true
}
