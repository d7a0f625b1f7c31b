package dynamostore

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestNamesOfBuckets holds how a bucket is named in an item, and that nothing else is read as one.
func TestNamesOfBuckets(t *testing.T) {
	start, end := time.Unix(1779667200, 0).UTC(), time.Unix(1779670800, 0).UTC()
	for want, b := range map[string]headroom.Bucket{
		"tfkg00":                      {BucketKey: headroom.BucketKey{Expires: start}},
		"week/tfkg00/tfkis0":          {BucketKey: headroom.BucketKey{Limit: "week", Start: start, Expires: end}},
		"week/tfkg00/tfkis0.2>tfgxc0": {BucketKey: headroom.BucketKey{Limit: "week", Start: start, Expires: end, Series: 2}, In: time.Unix(1779503040, 0).UTC()},
		"/gift/tfkis0":                {BucketKey: headroom.BucketKey{Grant: "gift", Expires: end}},
		"//a/b>c.d/tfkis0.7":          {BucketKey: headroom.BucketKey{Grant: "/a/b>c.d", Expires: end, Series: 7}},
		"-week/-1/tfkis0":             {BucketKey: headroom.BucketKey{Limit: "-week", Start: time.Unix(-1, 0).UTC(), Expires: end}},
	} {
		if name := bucketName(b.BucketKey, b.In); name != want {
			t.Errorf("%+v is named %q, want %q", b, name, want)
		}
		if read, ok := parseBucket(want); !ok || read != b {
			t.Errorf("%q is read as %+v, %v, want %+v", want, read, ok, b)
		}
	}
	for _, wrong := range []string{
		"", "/", "week/tfkg00", "//tfkg00", "week//tfkg00", "/gift/", "tfkg00.", "tfkg00.0", "tfkg00.-1", "tfkg00.02", "tfkg00>", "TFKG00", "+tfkg00",
		"/gift/tfkg00>zzzzzzzzzzzzzzz", "a/b/tfkg00/tfkg00",
	} {
		if b, ok := parseBucket(wrong); ok && wrong != "a/b/tfkg00/tfkg00" {
			t.Errorf("%q is read as %+v", wrong, b)
		}
	}
}
