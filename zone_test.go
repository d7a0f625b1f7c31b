package headroom_test

import (
	"sync"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func TestZonesAreOneForAllGoroutines(t *testing.T) {
	zones := []string{"Europe/Oslo", "Asia/Seoul", "America/Lima"}
	got := make([][]headroom.Period, 16)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			for _, zone := range zones {
				p, err := headroom.ParsePeriod("day in " + zone)
				if err != nil {
					t.Error(err)
				}
				p.At(time.Unix(int64(i)*1e8, 0))
				got[i] = append(got[i], p)
			}
		})
	}
	all.Wait()
	for i, periods := range got {
		for j, p := range periods {
			if p != got[0][j] {
				t.Errorf("goroutine %d has another %s than the first", i, p)
			}
		}
	}
}
