package embedded

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lumcast/headroom"
)

// BenchmarkDeduct measures durable deductions through the engine, on a real disk: each writer waits
// for its own answer before it asks again.
func BenchmarkDeduct(b *testing.B) {
	for _, subjects := range []int{100_000, 1} {
		for _, writers := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprintf("subjects=%d/writers=%d", subjects, writers), func(b *testing.B) {
				s, err := Open(b.TempDir(), Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				e := engine(b, s, 1_000_000_000)
				var next atomic.Int64
				var wg sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for range writers {
					wg.Go(func() {
						for {
							n := next.Add(1)
							if n > int64(b.N) {
								return
							}
							d, err := e.Deduct(b.Context(), headroom.Request{Subject: "user-" + strconv.Itoa(int(n)%subjects), Meter: "slots", Operation: "job-" + strconv.Itoa(int(n)), Cost: 1})
							if err != nil || !d.Allowed {
								b.Errorf("%+v, %v", d, err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deductions/s")
			})
		}
	}
}
