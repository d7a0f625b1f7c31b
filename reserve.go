package headroom

import (
	"slices"
	"time"
)

// quanta are what the end of a hold is a multiple of, in seconds since 1970. Each divides a minute,
// an hour or a day, so that holds end at times that people can read. None is more than twice the
// one before it, so that holds of one length have few ends.
var quanta = func() (all []int64) {
	for _, unit := range []struct {
		seconds int64
		of      []int64
	}{
		{1, []int64{1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30}}, {60, []int64{1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30}},
		{60 * 60, []int64{1, 2, 3, 4, 6, 12}}, {24 * 60 * 60, []int64{1, 2, 4, 8, 16, 32, 64, 128, 256}},
	} {
		for _, n := range unit.of {
			all = append(all, n*unit.seconds)
		}
	}
	return all
}()

// quantum returns what the end of a hold is a multiple of: at most a sixteenth of its length, or a
// second if that is more.
func quantum(lasts time.Duration) int64 {
	at, exact := slices.BinarySearch(quanta, int64(lasts/(16*time.Second)))
	if !exact {
		at--
	}
	return quanta[max(0, at)]
}

// holdEnd returns when a hold ends that lasts from now on. It is never earlier than asked, and
// later by less than a sixteenth of what is asked, or than a second if that is more. So live holds
// of one length have at most 33 ends.
func holdEnd(now time.Time, lasts time.Duration) time.Time {
	q := quantum(lasts)
	end := now.UTC().Add(lasts)
	seconds := end.Unix()
	if end.Nanosecond() > 0 {
		seconds++
	}
	return time.Unix(-floorDiv(-seconds, q)*q, 0).UTC()
}

// bucket is the key of the bucket that counts a hold. It is there for as long as the hold reserves
// its units.
func (r Record) bucket() BucketKey { return BucketKey{Expires: r.Expires, Series: r.Series} }

// shares returns what a hold has in which buckets.
func (r Record) shares() []Bucket {
	all := []Bucket{{BucketKey: r.bucket(), Units: 1}}
	add := func(k BucketKey, units int64) {
		k.Expires, k.Series = r.Expires, r.Series
		if i := slices.IndexFunc(all, func(b Bucket) bool { return b.BucketKey == k }); i >= 0 {
			all[i].Units += units
		} else if units > 0 {
			all = append(all, Bucket{BucketKey: k, Units: units})
		}
	}
	for _, w := range r.Windows {
		add(BucketKey{Limit: w.Limit, Start: w.Start}, w.Units)
	}
	for _, g := range r.Grants {
		add(BucketKey{Grant: g.ID}, g.Units)
	}
	return all
}

// series returns the series of a new bucket that ends at a time. It is a new one if a bucket with
// that end may have been cleared away.
func (s State) series(expires time.Time) int64 {
	if s.Swept.Before(expires) {
		return s.Series
	}
	return s.Series + 1
}

// reserve adds to c that the units of a hold lie in its buckets.
func (c *Change) reserve(s State, hold Record) {
	c.Series, c.NewSeries = s.Series, hold.Series != s.Series
	for _, b := range hold.shares() {
		c.addBucket(BucketStep{BucketKey: b.BucketKey, Add: b.Units})
	}
}

// unreserve adds to c that the units of a hold leave its buckets.
func (c *Change) unreserve(hold Record) {
	for _, b := range hold.shares() {
		c.addBucket(BucketStep{BucketKey: b.BucketKey, There: true, Min: b.Units, Max: anyCount(0), Add: -b.Units})
	}
}

// addBucket adds a step in its place. Steps that make one bucket become one.
func (c *Change) addBucket(step BucketStep) {
	at, found := slices.BinarySearchFunc(c.Buckets, step, func(a, b BucketStep) int { return a.Compare(b.BucketKey) })
	if found {
		c.Buckets[at].Add += step.Add
		return
	}
	c.Buckets = slices.Insert(c.Buckets, at, step)
}

// reserved returns a hold as it stands: with the windows in which its units count by now. It
// reports false if they have come back, since the hold was over and was cleared away.
func (v View) reserved(hold Record) (Record, bool) {
	if _, there := bucketAt(v.State.Buckets, hold.bucket()); !there || hold.Kind != KindHold {
		return hold, false
	}
	hold.Windows = slices.Clone(hold.Windows)
	for i, w := range hold.Windows {
		key := hold.bucket()
		key.Limit, key.Start = w.Limit, w.Start
		if at, there := bucketAt(v.State.Buckets, key); there {
			hold.Windows[i].Start = v.State.Buckets[at].countsIn()
		}
	}
	return hold, true
}

// live reports whether a record is of a hold that reserves its units.
func (v View) live(r Record) bool {
	_, there := v.reserved(r)
	return there && !r.expired(v.Now)
}

// lapsed reports whether a record is of a hold that was over before it was settled or released.
func (v View) lapsed(r Record) bool {
	return r.Kind == KindHold && !v.live(r) || r.Kind == KindReleased && !r.Expires.IsZero()
}
