package headroom_test

import (
	"context"
	"fmt"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// A call to a language model is one request, some tokens and some money. It is charged in all three
// meters or in none.
func ExampleEngine_Deduct_severalMeters() {
	ctx := context.Background()
	catalog, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "requests", Name: "week", Units: 60},
		{Meter: "tokens", Name: "week", Units: 10_000},
		{Meter: "micro-dollars", Name: "week", Units: 100_000},
	}}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := headroom.New(memstore.New(nil), catalog, headroom.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, tokens := range []int64{1_850, 9_000} {
		d, err := engine.Deduct(ctx, headroom.Request{
			Subject: "mira", Operation: fmt.Sprint("call of ", tokens), Meter: "requests", Cost: 1,
			More: []headroom.Amount{{Meter: "tokens", Cost: tokens}, {Meter: "micro-dollars", Cost: 23_000}},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("allowed:", d.Allowed, "by", d.Meter, d.Reason)
		for _, p := range d.Parts {
			fmt.Printf("  %s: %d of %d used\n", p.Meter, p.Used, p.Limit)
		}
	}
	// Output:
	// allowed: true by requests admitted
	//   requests: 1 of 60 used
	//   tokens: 1850 of 10000 used
	//   micro-dollars: 23000 of 100000 used
	// allowed: false by tokens over_limit
	//   requests: 1 of 60 used
	//   tokens: 1850 of 10000 used
	//   micro-dollars: 23000 of 100000 used
}
