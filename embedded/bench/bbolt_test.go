// Package bench measures what else a deduction could be kept in on one host, for comparison with
// BenchmarkDeduct of package embedded. It is a module of its own, so that Headroom does not depend
// on what it is compared with.
package bench

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"
)

var (
	states = []byte("states")
	ops    = []byte("ops")
)

// BenchmarkBbolt does for each deduction what the embedded store does on disk: it reads the
// subject's row and looks for the operation's id, then writes both, durably. Update is bbolt's
// plain transaction, Batch the one that callers share.
func BenchmarkBbolt(b *testing.B) {
	for _, call := range []string{"Update", "Batch"} {
		for _, subjects := range []int{100_000, 1} {
			for _, writers := range []int{1, 8, 64, 512} {
				b.Run(fmt.Sprintf("%s/subjects=%d/writers=%d", call, subjects, writers), func(b *testing.B) { deduct(b, call, subjects, writers) })
			}
		}
	}
}

func deduct(b *testing.B, call string, subjects, writers int) {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "db"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	transact := map[string]func(func(*bbolt.Tx) error) error{"Update": db.Update, "Batch": db.Batch}[call]
	if err := db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucket(states); err != nil {
			return err
		}
		_, err := tx.CreateBucket(ops)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				subject := "user-" + strconv.Itoa(int(n)%subjects)
				op := []byte(subject + "/slots/job-" + strconv.Itoa(int(n)))
				if err := transact(func(tx *bbolt.Tx) error {
					if tx.Bucket(ops).Get(op) != nil {
						return nil
					}
					var row [60]byte
					copy(row[:], tx.Bucket(states).Get([]byte(subject)))
					row[0]++
					if err := tx.Bucket(states).Put([]byte(subject), row[:]); err != nil {
						return err
					}
					return tx.Bucket(ops).Put(op, []byte("d1@week:1779667200"))
				}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deductions/s")
}
