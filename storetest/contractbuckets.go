package storetest

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// until is the key of a bucket that ends so many hours after base: of a limit in this week or, if
// that is empty, the one that counts holds.
func until(hours int, limit string) headroom.BucketKey {
	k := headroom.BucketKey{Limit: limit, Expires: base.Add(time.Duration(hours) * time.Hour)}
	if limit != "" {
		k.Start = thisWeek.Start
	}
	return k
}

// adds is a step that adds units to a bucket, and makes it if it is not there.
func adds(k headroom.BucketKey, units int64) headroom.BucketStep {
	return headroom.BucketStep{BucketKey: k, Add: units}
}

// takes is a step that adds units, mostly less than 0, to a bucket that has at least so many.
func takes(k headroom.BucketKey, least, add int64) headroom.BucketStep {
	return headroom.BucketStep{BucketKey: k, There: true, Min: least, Max: anyMax, Add: add}
}

// clears is a step that clears a bucket of so many units away.
func clears(k headroom.BucketKey, units int64) headroom.BucketStep {
	return headroom.BucketStep{BucketKey: k, There: true, Min: units, Max: units, Ends: true}
}

func bucketSteps(all ...headroom.BucketStep) headroom.Change {
	c := next()
	slices.SortFunc(all, func(a, b headroom.BucketStep) int { return a.Compare(b.BucketKey) })
	c.Buckets = all
	return c
}

// twoBuckets returns a key with a hold of 30 units, and another key of its limit's.
func twoBuckets(t *testing.T, h Harness) bare {
	b := newBare(t, h)
	first := opened("week", 30)
	first.Buckets = []headroom.BucketStep{adds(until(1, ""), 1), adds(until(1, "week"), 30)}
	b.commit("the first two buckets", first, true)
	return b
}

func checksBuckets(t *testing.T, h Harness) {
	b := twoBuckets(t, h)
	key := until(1, "week")
	last, series, gift := key, key, until(1, "")
	last.Start, series.Series, gift.Grant = lastWeek.Start, 1, strange
	for _, c := range []struct {
		what string
		key  headroom.BucketKey
	}{
		{"a bucket that ends later", until(2, "week")}, {"a bucket of another limit", until(1, "day")}, {"a bucket of last week", last},
		{"a bucket of another series", series}, {"a bucket of a grant", gift},
	} {
		b.commit(c.what+", which is not there", bucketSteps(takes(c.key, 0, 0)), false)
	}
	b.commit("a bucket of fewer units than is asked for", bucketSteps(takes(key, 31, -31)), false)
	most := takes(key, 0, 0)
	most.Max = 29
	b.commit("a bucket of more units than is asked for", bucketSteps(most), false)
	b.commit("a bucket that is cleared away with other units", bucketSteps(clears(key, 29)), false)
	b.commit("one guard that is met and one that is not", bucketSteps(takes(key, 30, -30), takes(until(1, ""), 2, -1)), false)
	b.commit("all units of a bucket leave it", bucketSteps(takes(key, 30, -30), takes(until(1, ""), 1, -1)), true)
	b.commit("it stays, and is empty", bucketSteps(takes(key, 0, 0), adds(gift, 7), adds(last, 8)), true)
	b.commit("units that move from one bucket to another", bucketSteps(takes(gift, 7, -7), adds(until(2, ""), 1), adds(until(2, "week"), 7)), true)
	in := takes(until(2, "week"), 7, 0)
	in.Max, in.In = 7, lastWeek.Start
	b.commit("units that count in another window", bucketSteps(in), true)
	b.commit("and are taken from there", bucketSteps(takes(until(2, "week"), 7, -5)), true)
	b.commit("a bucket is cleared away", bucketSteps(clears(until(2, "week"), 2), clears(gift, 0)), true)
	b.commit("and is not there any more", bucketSteps(takes(until(2, "week"), 0, 0)), false)
	most = takes(last, 8, math.MaxInt64-8)
	most.Max = 8
	b.commit("as many units as there can be", bucketSteps(most), true)
}

func bucketsBlindly(t *testing.T, h Harness) {
	b := twoBuckets(t, h)
	for range 3 {
		b.commit("a hold more", bucketSteps(adds(until(1, ""), 1), adds(until(1, "week"), 20)), true)
	}
	b.commit("one that takes nothing", bucketSteps(adds(until(1, ""), 1), adds(until(3, "week"), 0)), true)
	c := bucketSteps(adds(until(1, ""), 1))
	c.MostHolds = 5
	b.commit("a hold more than there may be", c, false)
	c.MostHolds = 6
	b.commit("as many holds as there may be", c, true)
	c = bucketSteps(adds(until(2, ""), 1))
	c.MostHolds = 6
	b.commit("one more, with another end", c, false)
	c = bucketSteps(clears(until(1, ""), 6), adds(until(2, ""), 1))
	c.MostHolds = 1
	b.commit("one in the place of all", c, true)
}

func sweepsOnce(t *testing.T, h Harness) {
	b := twoBuckets(t, h)
	swept := bucketSteps(clears(until(1, ""), 1), clears(until(1, "week"), 30))
	swept.Swept, swept.Sweep = base, base.Add(time.Hour)
	b.commit("a sweep that takes another for the last", swept, false)
	swept.Swept = time.Time{}
	b.commit("a sweep", swept, true)
	b.commit("the bucket that was cleared away, once more", bucketSteps(adds(until(1, ""), 1)), false)
	b.commit("a bucket that ends before it", bucketSteps(adds(until(0, "week"), 1)), false)
	later := until(1, "")
	later.Expires = later.Expires.Add(time.Second)
	b.commit("a bucket that ends after it", bucketSteps(adds(later, 1), adds(until(2, "week"), 5)), true)
	series := func(of int64, again bool, steps ...headroom.BucketStep) headroom.Change {
		for i := range steps {
			if !steps[i].There {
				steps[i].Series = of
			}
		}
		c := bucketSteps(steps...)
		if c.Series = of; again {
			c.NewSeries, c.Series = true, of-1
		}
		return c
	}
	b.commit("a new series, after another than the last", series(2, true, adds(until(1, ""), 1)), false)
	b.commit("a bucket of a series that is not there", series(1, false, adds(until(3, ""), 1)), false)
	b.commit("a new series", series(1, true, adds(until(1, ""), 1), adds(until(1, "week"), 3)), true)
	b.commit("a bucket of the series before", series(0, false, adds(until(3, ""), 1)), false)
	b.commit("a bucket of the new one", series(1, false, adds(until(1, ""), 1), takes(later, 1, -1)), true)
	swept = bucketSteps(clears(later, 0))
	swept.Swept, swept.Sweep = base.Add(time.Hour), base.Add(2*time.Hour)
	swept.Series = 1
	b.commit("a sweep that knows nothing of the new series", swept, false)
	swept.Swept = time.Time{}
	b.commit("a sweep of the new series", swept, true)
	b.commit("what of it was not cleared away is there", bucketSteps(takes(until(2, "week"), 5, -5)), true)
	b.commit("a series after it, without any bucket", series(2, true), true)
}
