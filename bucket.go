package headroom

import (
	"cmp"
	"slices"
	"time"
)

// BucketKey says which bucket units of holds lie in. Holds that end at one time, and take their
// units from one place, share a bucket. So there are few buckets, however many holds there are.
type BucketKey struct {
	// Limit is the counter that counts the units. Grant is the id of the grant from which they are
	// drawn. Only one of them is set. If none is, the bucket counts the holds themselves, and its
	// units are how many there are.
	Limit, Grant string
	// Start is when the window began in which the holds were made. It is zero without a Limit.
	Start time.Time
	// Expires is when the holds end, a whole second.
	Expires time.Time
	// Series keeps a new bucket apart from one that was cleared away: see State.Series.
	Series int64
}

// Bucket is what holds reserve in one place until one time. The units are part of the count of the
// limit, or of what the grant has used, until the bucket goes. A bucket that is over counts for
// nothing, and any writer may clear it away.
type Bucket struct {
	BucketKey
	Units int64
	// In is when the window began in which the units count, if that is not Start. A wrong clock had
	// opened the window of Start, and it was folded into this one.
	In time.Time
}

// countsIn returns when the window began in which the units count.
func (b Bucket) countsIn() time.Time {
	if b.In.IsZero() {
		return b.Start
	}
	return b.In
}

// over reports whether the holds of the bucket have ended.
func (k BucketKey) over(now time.Time) bool { return !k.Expires.After(now) }

// Compare orders buckets: the earliest end first.
func (k BucketKey) Compare(o BucketKey) int {
	return cmp.Or(
		k.Expires.Compare(o.Expires), cmp.Compare(k.Series, o.Series), cmp.Compare(k.Limit, o.Limit),
		cmp.Compare(k.Grant, o.Grant), k.Start.Compare(o.Start),
	)
}

// bucketAt finds a bucket among those of a state.
func bucketAt(all []Bucket, k BucketKey) (at int, there bool) {
	return slices.BinarySearchFunc(all, k, func(b Bucket, k BucketKey) int { return b.Compare(k) })
}
