package embedded

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumcast/headroom"
)

func TestWhatIsWrittenCanBeRead(t *testing.T) {
	at := time.Date(2026, time.March, 29, 1, 0, 0, 999_999_999, time.UTC)
	for _, e := range []entry{
		{state: headroom.State{Counters: map[string]headroom.Counter{}}},
		{buckets: true, state: headroom.State{Counters: map[string]headroom.Counter{}}},
		{debts: true, buckets: true, state: headroom.State{Counters: map[string]headroom.Counter{}}},
		{debts: true, state: headroom.State{Counters: map[string]headroom.Counter{}}},
		{young: generation{byClock, at}, old: generation{byCaller, time.Time{}}, older: generation{byClock, at}, over: at, grants: true, state: headroom.State{Epoch: at, Counters: map[string]headroom.Counter{
			"":     {},
			"day":  {Window: headroom.Window{Key: "2026-03-29", Start: at, End: at.Add(23 * time.Hour)}, Count: math.MaxInt64, Carried: 7},
			"week": {Window: headroom.ISOWeek(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)), Count: 0, Partial: true},
			"year": {Window: headroom.ISOWeek(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)), Count: 1<<53 + 1},
		}}},
	} {
		got, err := decodeEntry(e.encode())
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("read  %+v, %v\nwrote %+v", got, err, e)
		}
	}
	holds := map[string]headroom.Record{"": {Kind: headroom.KindHold, Cost: 1}, "job\x00": {Kind: headroom.KindHold, Cost: math.MaxInt64, Expires: time.Unix(1779667200, 0).UTC()}}
	if got, err := decodeHolds(encodeHolds(holds)); err != nil || !reflect.DeepEqual(got, holds) {
		t.Errorf("read %+v, %v", got, err)
	}
	buckets := headroom.State{Series: 2, Swept: at, Buckets: []headroom.Bucket{
		{BucketKey: headroom.BucketKey{Expires: monday}, Units: 3},
		{BucketKey: headroom.BucketKey{Grant: "g", Expires: monday}, Units: math.MaxInt64},
		{BucketKey: headroom.BucketKey{Limit: "week", Start: at, Expires: monday}, In: monday},
		{BucketKey: headroom.BucketKey{Expires: monday, Series: 1}, Units: 1},
	}}
	var got headroom.State
	if err := decodeBuckets(encodeBuckets(buckets), &got); err != nil || !reflect.DeepEqual(got, buckets) {
		t.Errorf("read %+v, %v", got, err)
	}
	grants := map[string]headroom.Grant{"": {}, "g": {Units: math.MaxInt64, Used: 7, Expires: at}}
	if got, err := decodeGrants(encodeGrants(grants)); err != nil || !reflect.DeepEqual(got, grants) {
		t.Errorf("read %+v, %v", got, err)
	}
	debts := map[string]headroom.Debt{"": {To: "a", Since: monday}, "job\x00": {To: "b <c", Cost: math.MaxInt64, Since: monday, Given: true}}
	if got, err := decodeDebts(encodeDebts(debts)); err != nil || !reflect.DeepEqual(got, debts) {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, k := range []headroom.Key{{Subject: "a", Meter: "b_c"}, {Subject: "a\x00", Meter: ""}, {Subject: "", Meter: "m"}} {
		if got, err := debtor(debtsKey(k)); err != nil || got != k {
			t.Errorf("read %q, %v, want %q", got, err, k)
		}
	}
	past := []headroom.Total{{Start: at, Units: math.MaxInt64}, {Start: time.Time{}, Unknown: true}}
	if got, err := decodeHistory(encodeHistory(past)); err != nil || !reflect.DeepEqual(got, past) {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, mark := range []time.Time{{}, at} {
		if got, horizon, err := decodeClock(encodeClock(mark, epoch)); err != nil || got != mark || horizon != epoch {
			t.Errorf("read %v, %v, %v", got, horizon, err)
		}
	}
}

// Rows of the first version had two generations of ids; those of a later one are not this program's
// to read.
func TestRowsOfOtherVersionsOfAState(t *testing.T) {
	label := time.Unix(1779667200, 0).UTC()
	// the label, no older generation, no holds, grants, no counter
	first := []byte{1, byClock, 0x80, 0xc4, 0x9c, 0xa1, 0x0d, 0, noGeneration, 0, 1, 0}
	want := entry{young: generation{byClock, label}, grants: true, state: headroom.State{Epoch: label, Counters: map[string]headroom.Counter{}}}
	got, err := decodeEntry(first)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	if _, err := decodeEntry(append([]byte{stateVersion + 1}, first[1:]...)); !errors.Is(err, headroom.Unreadable) || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("a later version: %v", err)
	}
}

// FuzzDecode reads rows that nobody wrote: no panic, and what can be read is written again with the
// same meaning.
func FuzzDecode(f *testing.F) {
	e := entry{young: generation{byClock, monday}, state: headroom.State{Epoch: monday, Counters: map[string]headroom.Counter{"week": {Window: headroom.ISOWeek(monday), Count: 30, Partial: true}}}}
	f.Add(e.encode())
	f.Add(encodeHistory([]headroom.Total{{Start: monday, Units: 30}, {Start: monday.AddDate(0, 0, -7), Unknown: true}}))
	f.Add(encodeClock(monday, epoch))
	f.Add(encodeHolds(map[string]headroom.Record{"job": {Kind: headroom.KindHold, Cost: 5, Expires: monday}}))
	f.Add(encodeBuckets(headroom.State{Series: 1, Swept: monday, Buckets: []headroom.Bucket{{BucketKey: headroom.BucketKey{Limit: "week", Start: monday, Expires: monday}, Units: 5}}}))
	f.Add(encodeGrants(map[string]headroom.Grant{"g": {Units: 5, Expires: monday}}))
	f.Add(encodeDebts(map[string]headroom.Debt{"job": {To: "acme", Cost: 5, Since: monday}}))
	f.Add(encodeFormat(storeFormat))
	f.Add([]byte{rowVersion, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, row []byte) {
		if e, err := decodeEntry(row); err == nil {
			if again, err := decodeEntry(e.encode()); err != nil || !reflect.DeepEqual(again, e) {
				t.Errorf("%+v, %v\n%+v", again, err, e)
			}
		}
		if holds, err := decodeHolds(row); err == nil {
			if again, err := decodeHolds(encodeHolds(holds)); err != nil || !reflect.DeepEqual(again, holds) {
				t.Errorf("%+v, %v\n%+v", again, err, holds)
			}
		}
		var buckets, again headroom.State
		if err := decodeBuckets(row, &buckets); err == nil {
			if err := decodeBuckets(encodeBuckets(buckets), &again); err != nil || !reflect.DeepEqual(again, buckets) {
				t.Errorf("%+v, %v\n%+v", again, err, buckets)
			}
		}
		if grants, err := decodeGrants(row); err == nil {
			if again, err := decodeGrants(encodeGrants(grants)); err != nil || !reflect.DeepEqual(again, grants) {
				t.Errorf("%+v, %v\n%+v", again, err, grants)
			}
		}
		if debts, err := decodeDebts(row); err == nil {
			if again, err := decodeDebts(encodeDebts(debts)); err != nil || !reflect.DeepEqual(again, debts) {
				t.Errorf("%+v, %v\n%+v", again, err, debts)
			}
		}
		_, _ = debtor(append([]byte{tableDebts}, row...))
		if past, err := decodeHistory(row); err == nil {
			if again, err := decodeHistory(encodeHistory(past)); err != nil || !reflect.DeepEqual(again, past) {
				t.Errorf("%+v, %v\n%+v", again, err, past)
			}
		}
		if mark, horizon, err := decodeClock(row); err == nil {
			if m, h, err := decodeClock(encodeClock(mark, horizon)); err != nil || !m.Equal(mark) || h != horizon {
				t.Errorf("%v %v, %v\n%v %v", m, h, err, mark, horizon)
			}
		}
		_, _ = decodeFormat(row)
		_, _ = opsLabel(row)
	})
}

// FuzzKeys looks for two things that have one key, for a range of keys that takes in what belongs
// to another, and for keys that do not sort by generation.
func FuzzKeys(f *testing.F) {
	f.Add("a", "b_c", "op", "a_b", "c", "op", int64(0), int64(0))
	f.Add("a\x00", "b", "", "a", "\x00b", "", int64(math.MinInt64), int64(math.MaxInt64))
	f.Add("", "", "x", "", "x", "", int64(-1), int64(1))
	f.Add("a", "b", "c", "a", "bc", "", int64(1), int64(1))
	f.Add("\x01a", "b", "", "\x01", "ab", "", int64(1), int64(256))
	f.Fuzz(func(t *testing.T, s1, m1, o1, s2, m2, o2 string, l1, l2 int64) {
		k1, k2 := headroom.Key{Subject: s1, Meter: m1}, headroom.Key{Subject: s2, Meter: m2}
		g1, g2 := generation{byClock, time.Unix(l1, 0)}, generation{byClock, time.Unix(l2, 0)}
		// What each thing is, beside its table, and its key.
		things := func(s, m, o string, k headroom.Key, g generation) (what []string, keys [][]byte) {
			id := fmt.Sprintf("%q %q ", s, m)
			what = []string{fmt.Sprintf("p%q", s), "s" + id, "l" + id, "b" + id, "g" + id, "h" + id + fmt.Sprintf("%q", o), "o" + id + fmt.Sprintf("%q %d", o, g.label.Unix()), "f", "c"}
			return what, [][]byte{planKey(s), stateKey(k), holdsKey(k), bucketsKey(k), grantsKey(k), historyKey(k, o), opKey(g, k, o), {tableFormat}, {tableClock}}
		}
		what1, keys1 := things(s1, m1, o1, k1, g1)
		what2, keys2 := things(s2, m2, o2, k2, g2)
		for i := range keys1 {
			for j := range keys2 {
				if bytes.Equal(keys1[i], keys2[j]) != (what1[i] == what2[j]) {
					t.Errorf("%s and %s have the keys %q and %q", what1[i], what2[j], keys1[i], keys2[j])
				}
			}
		}
		// The name that comes first in a key ends where it ends, whatever follows.
		for name, prefix := range map[string][]byte{"states": appendName([]byte{tableState}, s1), "histories": appendName([]byte{tableHistory}, s1), "operations": appendName(opsPrefix(g1), s1)} {
			for _, key := range keys2 {
				if bytes.HasPrefix(key, prefix) && s1 != s2 {
					t.Errorf("among the %s of %q is the key %q of %q", name, s1, key, s2)
				}
			}
		}
		if got, want := bytes.Compare(opsPrefix(g1), opsPrefix(g2)), cmp.Compare(l1, l2); got != want {
			t.Errorf("generations %d and %d sort as %d", l1, l2, got)
		}
		// What a sweep removes up to a generation is all that came before it, and nothing else.
		if key := opKey(g2, k2, o2); bytes.Compare(key, opsPrefix(g1)) < 0 != (l2 < l1) {
			t.Errorf("the key %q of generation %d and a sweep up to %d", key, l2, l1)
		}
		if label, err := opsLabel(opKey(g1, k1, o1)); err != nil || label.Unix() != l1 {
			t.Errorf("label %d was read as %v, %v", l1, label, err)
		}
		subject, rest := cutName(opKey(g1, k1, o1)[opsPrefixLen:])
		if meter, id := cutName(rest); subject != s1 || meter != m1 || string(id) != o1 {
			t.Errorf("%q, %q, %q is read as %q, %q, %q", s1, m1, o1, subject, meter, id)
		}
	})
}

// FuzzRows puts anything into the rows of a key: each call gives an error that says so, or a
// decision; none a panic, and no count below 0.
func FuzzRows(f *testing.F) {
	// the label of the young generation
	label := time.Unix(monday.Unix()/int64(epoch/time.Second)*int64(epoch/time.Second), 0).UTC()
	hold := headroom.Record{Kind: headroom.KindHold, Cost: 5, Expires: monday.Add(time.Hour), Windows: []headroom.ChargedWindow{{Limit: "week", Start: monday, Units: 5}}}
	e := entry{young: generation{byClock, label}, oldHolds: true, grants: true, buckets: true, state: headroom.State{Epoch: label, Counters: map[string]headroom.Counter{
		"week": {Window: headroom.ISOWeek(monday), Count: 30, Partial: true}, "day": {Window: headroom.Window{Key: "2026-06-01", Start: monday, End: monday.AddDate(0, 0, 1)}, Count: 30, Carried: 5},
	}}}
	holds, grants := encodeHolds(map[string]headroom.Record{"held": hold}), encodeGrants(map[string]headroom.Grant{"g": {Units: 5, Expires: monday.AddDate(0, 1, 0)}})
	past := encodeHistory([]headroom.Total{{Start: monday.AddDate(0, 0, -7), Units: 30}})
	buckets := encodeBuckets(headroom.State{Buckets: []headroom.Bucket{
		{BucketKey: headroom.BucketKey{Expires: monday}, Units: 1},
		{BucketKey: headroom.BucketKey{Limit: "week", Start: monday, Expires: monday}, Units: 30},
		{BucketKey: headroom.BucketKey{Limit: "week", Start: monday.AddDate(0, 0, 7), Expires: monday.Add(time.Hour)}, Units: math.MaxInt64},
		{BucketKey: headroom.BucketKey{Grant: "g", Expires: monday.Add(time.Hour), Series: 3}, Units: math.MaxInt64},
	}})
	f.Add(e.encode(), holds, buckets, grants, past, []byte("d30@day:1780272000,week:1780272000"), []byte("free"))
	e.state.Counters["week"] = headroom.Counter{Window: headroom.ISOWeek(monday), Count: -5}
	f.Add(e.encode(), holds, buckets, grants, past, []byte("d30@week:1780272000"), []byte("free+slots/week=9223372036854775807"))
	e.state.Counters["week"] = headroom.Counter{Window: headroom.ISOWeek(monday.AddDate(1, 0, 0)), Count: math.MaxInt64, Carried: math.MaxInt64}
	f.Add(e.encode(), holds, buckets, encodeGrants(map[string]headroom.Grant{"g": {Units: math.MaxInt64, Used: -1, Expires: monday.AddDate(0, 1, 0)}}), past, []byte("s1@week:1@"), []byte("gone"))
	clock := &hand{monday}
	s, err := Open("db", Options{Clock: clock.read, fs: vfs.NewMem()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	engine, err := loadEngine(s, epoch)
	if err != nil {
		f.Fatal(err)
	}
	key := slots("u")
	f.Fuzz(func(t *testing.T, state, holds, buckets, grants, past, record, plan []byte) {
		clock.now = monday
		b := s.db.NewBatch()
		errs := []error{
			b.DeleteRange([]byte{tableBuckets}, []byte{tableState + 1}, nil), b.Set([]byte{tableFormat}, encodeFormat(storeFormat), nil),
			b.Set(stateKey(key), state, nil), b.Set(holdsKey(key), holds, nil), b.Set(bucketsKey(key), buckets, nil), b.Set(grantsKey(key), grants, nil),
			b.Set(historyKey(key, "week"), past, nil), b.Set(historyKey(key, "day"), past, nil), b.Set(opKey(generation{byClock, label}, key, "op"), record, nil),
		}
		if len(plan) > 0 {
			errs = append(errs, b.Set(planKey("u"), plan, nil))
		}
		if err := errors.Join(append(errs, s.db.Apply(b, pebble.NoSync))...); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			clock.now = monday.AddDate(0, 0, 8*i) // and in the week after
			r := headroom.Request{Subject: "u", Meter: "slots", Operation: "op", Cost: 30}
			for what, call := range map[string]func() (headroom.Decision, error){
				"deduct": func() (headroom.Decision, error) { return engine.Deduct(t.Context(), r) },
				"refund": func() (headroom.Decision, error) {
					return engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: "op", ID: fmt.Sprint("r", i), Units: 1})
				},
				"another": func() (headroom.Decision, error) {
					r := r
					r.Operation = fmt.Sprint("new", i)
					return engine.Deduct(t.Context(), r)
				},
				"hold": func() (headroom.Decision, error) {
					r := r
					r.Operation = fmt.Sprint("hold", i)
					return engine.Hold(t.Context(), r, time.Hour)
				},
				"settle": func() (headroom.Decision, error) { r := r; r.Operation = "held"; return engine.Settle(t.Context(), r) },
				"usage": func() (headroom.Decision, error) {
					_, err := engine.Usage(t.Context(), headroom.UsageRequest{Subject: "u", Meter: "slots"})
					return headroom.Decision{}, err
				},
			} {
				d, err := call()
				if err != nil && (headroom.CodeOf(err) == "" || headroom.CodeOf(err).Retryable()) {
					t.Errorf("%s: %v", what, err)
				}
				if d.Used < 0 || d.Held < 0 || d.Remaining < 0 {
					t.Errorf("%s: %+v", what, d)
				}
			}
		}
	})
}

// TestRowsForTheReleaseBefore: a store that is told to writes nothing that the release before
// cannot read.
func TestRowsForTheReleaseBefore(t *testing.T) {
	dir := t.TempDir()
	key := headroom.Key{Subject: "ann", Meter: "slots"}
	open := func(format int) (*Store, *headroom.Engine) {
		t.Helper()
		s, err := Open(dir, Options{Clock: func() time.Time { return monday }, Format: format})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		e, err := headroom.New(s, headroom.DefaultCatalog(), headroom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s, e
	}
	ask := func(e *headroom.Engine, organisation, id string) error {
		_, err := e.DeductWithin(t.Context(), organisation, headroom.Request{Subject: key.Subject, Meter: key.Meter, Operation: id, Cost: 1})
		return err
	}
	record := func(s *Store, id string) headroom.View {
		t.Helper()
		v, err := s.Load(t.Context(), headroom.Query{Key: key, IDs: []string{id}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if _, err := Open(t.TempDir(), Options{Format: 3}); !errors.Is(err, headroom.Invalid) {
		t.Errorf("format 3: %v", err)
	}
	s, e := open(1)
	for range 2 { // the second is a repeat, as it was to the release before
		if err := ask(e, "acme", "a"); err != nil {
			t.Fatal(err)
		}
	}
	if v := record(s, "a"); v.Records["a"].Within != "" || !v.Older {
		t.Errorf("%s, older %t", v.Records["a"], v.Older)
	}
	s.Close()
	s, e = open(2)
	// What was charged by the release before is a repeat still: the organisation is settled.
	if err := ask(e, "acme", "a"); err != nil {
		t.Error(err)
	}
	if err := ask(e, "globex", "a"); !errors.Is(err, headroom.Conflict) {
		t.Errorf("within another: %v", err)
	}
	if err := ask(e, "acme", "b"); err != nil {
		t.Fatal(err)
	}
	if v := record(s, "b"); v.Records["b"].Within != "acme" || v.Older {
		t.Errorf("%s, older %t", v.Records["b"], v.Older)
	}
	// Only while something is owed is the row one that the release before cannot read.
	row := func(e entry) byte { return e.encode()[0] }
	if version := row(entry{}); version != withoutDebts {
		t.Errorf("a row without debts has version %d", version)
	}
	if version := row(entry{debts: true}); version != noBuckets {
		t.Errorf("a row with debts has version %d", version)
	}
	if version := row(entry{buckets: true}); version != stateVersion {
		t.Errorf("a row with buckets has version %d", version)
	}
	s.Close()
	s, e = open(1)
	if err := ask(e, "acme", "c"); err != nil {
		t.Fatal(err)
	}
	if v := record(s, "c"); v.Records["c"].Within != "" || !v.Older {
		t.Errorf("%s, older %t", v.Records["c"], v.Older)
	}
}
