package storetest

import (
	"fmt"
	"time"

	"github.com/lumcast/headroom"
)

// bucketText names a bucket.
func bucketText(k headroom.BucketKey) string {
	return fmt.Sprintf("bucket of limit %q from %s, of grant %q, until %s, in series %d", k.Limit, short(k.Start.UTC()), k.Grant,
		short(k.Expires.UTC()), k.Series)
}

func inText(start time.Time) string {
	if start.IsZero() {
		return ""
	}
	return ", in " + short(start.UTC())
}

// held returns how many holds the buckets count.
func held(s headroom.State) (n int64) {
	for _, b := range s.Buckets {
		if b.Limit == "" && b.Grant == "" {
			n += b.Units
		}
	}
	return n
}
