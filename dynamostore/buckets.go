package dynamostore

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// The buckets of holds are numbers in the map quotaHeld. The key of a bucket says what it is of,
// and when it ends. Times are Unix seconds in base 36, so that a key is short:
//
//	tfkis0               how many holds end then
//	week/tfkg00/tfkis0   units of the limit "week", of holds made in the window that began at tfkg00
//	/gift/tfkis0         units drawn from a grant, by its id
//
// Two parts may follow. ".2" is the series, if it is not 0. ">tfgxc0" is the start of the window in
// which the units count, if that is not the one in which the holds were made.

// bucketName is the key of a bucket whose units count in the window that began at in; zero stands
// for the one in which the holds were made.
func bucketName(k headroom.BucketKey, in time.Time) string {
	var b strings.Builder
	switch {
	case k.Limit != "":
		b.WriteString(k.Limit + "/" + base36(k.Start) + "/")
	case k.Grant != "":
		b.WriteString("/" + k.Grant + "/")
	}
	b.WriteString(base36(k.Expires))
	if k.Series != 0 {
		b.WriteString("." + strconv.FormatInt(k.Series, 10))
	}
	if !in.IsZero() {
		b.WriteString(">" + base36(in))
	}
	return b.String()
}

// parseBucket reads what bucketName wrote.
func parseBucket(name string) (b headroom.Bucket, ok bool) {
	of, rest := "", name
	slash := strings.LastIndexByte(name, '/')
	if slash >= 0 {
		of, rest = name[:slash], name[slash+1:]
	}
	ok = true
	switch grant, isGrant := strings.CutPrefix(of, "/"); {
	case isGrant:
		b.Grant, ok = grant, grant != ""
	case slash >= 0:
		limit, start, _ := strings.Cut(of, "/")
		b.Limit = limit
		b.Start, ok = fromBase36(start)
		ok = ok && limit != ""
	}
	rest, in, counted := strings.Cut(rest, ">")
	expires, series, later := strings.Cut(rest, ".")
	var read [2]bool
	b.Expires, read[0] = fromBase36(expires)
	if ok = ok && read[0]; counted {
		b.In, read[1] = fromBase36(in)
		ok = ok && read[1]
	}
	if later {
		n, err := strconv.ParseInt(series, 10, 64)
		b.Series, ok = n, ok && err == nil && n > 0
	}
	return b, ok && bucketName(b.BucketKey, b.In) == name
}

func base36(t time.Time) string { return strconv.FormatInt(t.Unix(), 36) }

func fromBase36(s string) (time.Time, bool) {
	n, err := strconv.ParseInt(s, 36, 64)
	return time.Unix(n, 0).UTC(), err == nil
}

// buckets reads the map of buckets.
func (r *reader) buckets(name string) (all []headroom.Bucket) {
	for key, v := range r.nested(name) {
		b, ok := parseBucket(key)
		var whole bool
		if b.Units, whole = integer(v); !ok || !whole || b.Units < 0 {
			r.bad(name, "holds something that is no bucket of holds")
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b headroom.Bucket) int { return a.Compare(b.BucketKey) })
	for i := range all[min(1, len(all)):] {
		if all[i].BucketKey == all[i+1].BucketKey {
			r.bad(name, "holds one bucket twice")
		}
	}
	return all
}

// bucketName is the key under which a bucket lies in the item.
func (it item) bucketName(k headroom.BucketKey) string {
	at, there := slices.BinarySearchFunc(it.state.Buckets, k, func(b headroom.Bucket, k headroom.BucketKey) int { return b.Compare(k) })
	if !there {
		return bucketName(k, time.Time{})
	}
	return bucketName(k, it.state.Buckets[at].In)
}

// ofBuckets reports whether a change looks at buckets or writes some.
func ofBuckets(c headroom.Change) bool { return len(c.Buckets) > 0 || c.GuardsSeries() }

// buildBuckets writes what the change does to buckets of holds. An item gets the map of them with
// its first hold.
func (l layout) buildBuckets(e *expression, c headroom.Change, seen item) {
	field := func(name string) string { return l.field(c.Key.Meter, name) }
	l.buildSeries(e, c, e.name(field("Series")), e.name(field("Swept")))
	if len(c.Buckets) == 0 {
		return
	}
	var first map[string]types.AttributeValue
	if !seen.formatted || seen.noBuckets {
		first = map[string]types.AttributeValue{}
		e.absent(e.name(field("Held")))
	} else {
		e.isMap(e.name(field("Held")))
	}
	for _, b := range c.Buckets {
		if first != nil && !b.There {
			first[bucketName(b.BucketKey, b.In)] = num(b.Add)
			continue
		}
		buildBucket(e, b, field("Held"), seen.bucketName(b.BucketKey))
	}
	if first != nil {
		e.set(e.name(field("Held")), &types.AttributeValueMemberM{Value: first})
	}
	holding, more := e.name(field("Holding")), c.MoreHolds()
	if c.MostHolds != 0 {
		most := holding + " <= " + e.value(num(c.MostHolds-more))
		if more <= c.MostHolds {
			most = "(attribute_not_exists(" + holding + ") OR " + most + ")"
		}
		e.require(most)
	}
	if more != 0 {
		e.add(holding, more)
	}
}

// buildBucket writes one step for a bucket that lies under a name.
func buildBucket(e *expression, b headroom.BucketStep, field, name string) {
	at := e.name(field, name)
	switch {
	case !b.There:
	case b.Min == b.Max:
		e.equal(at, num(b.Min))
	case b.Max >= math.MaxInt64-max(0, b.Add):
		e.require(at + " >= " + e.value(num(b.Min)))
	default:
		e.require(at + " BETWEEN " + e.value(num(b.Min)) + " AND " + e.value(num(b.Max)))
	}
	switch {
	case b.Ends:
		e.remove(at)
	case !b.In.IsZero():
		// The guard says how many units there are.
		e.remove(at)
		e.set(e.name(field, bucketName(b.BucketKey, b.In)), num(b.Min+b.Add))
	case !b.There:
		e.setTo(at, "if_not_exists("+at+", "+e.value(num(0))+") + "+e.value(num(b.Add)))
	case b.Add != 0:
		e.setTo(at, at+" + "+e.value(num(b.Add)))
	}
}

// buildSeries guards and writes up to when buckets were cleared away, and their series.
func (l layout) buildSeries(e *expression, c headroom.Change, series, swept string) {
	if !c.GuardsSeries() {
		return
	}
	if c.Series == 0 {
		e.absent(series)
	} else {
		e.equal(series, num(c.Series))
	}
	switch {
	case c.Sweep.IsZero():
	case c.Swept.IsZero():
		e.absent(swept)
	default:
		e.equal(swept, num(c.Swept.Unix()))
	}
	if earliest, makes := c.Makes(); makes && !c.NewSeries {
		e.require("(attribute_not_exists(" + swept + ") OR " + swept + " < " + e.value(num(earliest.Unix())) + ")")
	}
	switch {
	case c.NewSeries:
		e.set(series, num(c.Series+1))
		e.remove(swept)
	case !c.Sweep.IsZero():
		e.set(swept, num(c.Sweep.Unix()))
	}
}
