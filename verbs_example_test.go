package headroom_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// Units are reserved before the work, and the true cost is charged after it. What a worker that
// died held comes back by itself.
func ExampleEngine_Hold() {
	ctx, now := context.Background(), time.Date(2026, time.May, 26, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	engine, err := headroom.New(memstore.New(clock), headroom.DefaultCatalog(), headroom.Options{Clock: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(what string, d headroom.Decision, err error) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s, %d used and %d held of %d\n", what, d.Reason, d.Used, d.Held, d.Limit)
	}
	job := func(id string, cost int64) headroom.Request {
		return headroom.Request{Subject: "mira", Meter: "slots", Operation: id, Cost: cost}
	}
	d, err := engine.Hold(ctx, job("job-1", 120), time.Hour)
	show("hold job-1", d, err)
	d, err = engine.Hold(ctx, job("job-2", 100), time.Hour)
	show("hold job-2", d, err)
	d, err = engine.Settle(ctx, job("job-1", 90))
	show("settle job-1", d, err)
	d, err = engine.Hold(ctx, job("job-2", 100), time.Hour)
	show("hold job-2", d, err)

	now = now.Add(time.Hour) // and nobody has heard of job-2 again
	d, err = engine.Preflight(ctx, job("job-3", 110))
	show("preflight job-3", d, err)

	// Output:
	// hold job-1: admitted, 0 used and 120 held of 200
	// hold job-2: over_limit, 0 used and 120 held of 200
	// settle job-1: admitted, 90 used and 0 held of 200
	// hold job-2: admitted, 90 used and 100 held of 200
	// preflight job-3: admitted, 90 used and 0 held of 200
}

// A refund names the charge that it undoes, in part or in whole, and happens once for each of its
// ids.
func ExampleEngine_Refund() {
	ctx := context.Background()
	engine, err := headroom.New(memstore.New(nil), headroom.DefaultCatalog(), headroom.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := engine.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 120}); err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"ticket-1", "ticket-1", "ticket-2"} {
		d, err := engine.Refund(ctx, headroom.RefundRequest{Subject: "mira", Meter: "slots", Operation: "job-1", ID: id, Units: 70})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %d back, %d used, replay %t\n", id, d.Cost, d.Used, d.Replay)
	}

	// Output:
	// ticket-1: 70 back, 50 used, replay false
	// ticket-1: 70 back, 50 used, replay true
	// a refund of 70 of operation "job-1": of its 120 units 70 were refunded before
}

// A grant adds units that are drawn on when those of the plan are used up. The end of the week
// stays where it is.
func ExampleEngine_Grant() {
	ctx := context.Background()
	tuesday := time.Date(2026, time.May, 26, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return tuesday }
	engine, err := headroom.New(memstore.New(clock), headroom.DefaultCatalog(), headroom.Options{Clock: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = engine.Grant(ctx, headroom.GrantRequest{Subject: "mira", Meter: "slots", ID: "goodwill-7", Units: 50, Expires: tuesday.AddDate(0, 0, 14)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, cost := range []int64{190, 30, 40} {
		d, err := engine.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: fmt.Sprint("job of ", cost), Cost: cost})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d: %s, %d of %d used until %s, %d granted\n", cost, d.Reason, d.Used, d.Limit, d.Window.End.Format(time.DateOnly), d.Granted)
	}

	// Output:
	// 190: admitted, 190 of 200 used until 2026-06-01, 50 granted
	// 30: admitted, 200 of 200 used until 2026-06-01, 30 granted
	// 40: over_limit, 200 of 200 used until 2026-06-01, 30 granted
}

// A user and its organisation are charged together or not at all.
func ExampleEngine_DeductWithin() {
	ctx := context.Background()
	catalog, err := headroom.NewCatalog("member", []headroom.Plan{
		{Name: "member", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 100}}},
		{Name: "team", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 150}}},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := headroom.New(memstore.New(nil), catalog, headroom.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := engine.SetPlan(ctx, "lumcast", "team"); err != nil {
		fmt.Println(err)
		return
	}
	for _, job := range []struct {
		user string
		cost int64
	}{{"mira", 90}, {"mira", 20}, {"jon", 70}, {"jon", 60}} {
		j, err := engine.DeductWithin(ctx, "lumcast", headroom.Request{Subject: job.user, Meter: "slots", Operation: fmt.Sprint(job.user, "-", job.cost), Cost: job.cost})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %d: allowed %t (lumcast %s, %d used; %s %s)\n", job.user, job.cost, j.Allowed, j.Organisation.Reason, j.Organisation.Used, job.user, j.User.Reason)
	}

	// Output:
	// mira 90: allowed true (lumcast admitted, 90 used; mira admitted)
	// mira 20: allowed false (lumcast released, 90 used; mira over_limit)
	// jon 70: allowed false (lumcast over_limit, 90 used; jon )
	// jon 60: allowed true (lumcast admitted, 150 used; jon admitted)
}
