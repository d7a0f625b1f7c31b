package embedded_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/embedded"
)

// A charge is still there after the store was closed and opened again.
func Example() {
	dir, err := os.MkdirTemp("", "headroom")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	clock := func() time.Time { return time.Date(2026, time.June, 1, 9, 0, 0, 0, time.UTC) }
	for range 2 {
		store, err := embedded.Open(dir, embedded.Options{Clock: clock})
		if err != nil {
			fmt.Println(err)
			return
		}
		engine, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{Clock: clock})
		if err != nil {
			fmt.Println(err)
			return
		}
		d, err := engine.Deduct(context.Background(), headroom.Request{Subject: "ann", Meter: "slots", Operation: "job-1", Cost: 30})
		fmt.Println(d.Allowed, d.Replay, d.Used, d.Remaining, err)
		if err := store.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// true false 30 170 <nil>
	// true true 30 170 <nil>
}
