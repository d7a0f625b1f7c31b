package embedded

import (
	"bytes"
	"cmp"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func TestWhatIsWrittenCanBeRead(t *testing.T) {
	at := time.Date(2026, time.March, 29, 1, 0, 0, 999_999_999, time.UTC)
	for _, e := range []entry{
		{state: headroom.State{Counters: map[string]headroom.Counter{}}},
		{young: generation{byClock, at}, old: generation{byCaller, time.Time{}}, older: generation{byClock, at}, over: at, grants: true, state: headroom.State{Epoch: at, Counters: map[string]headroom.Counter{
			"":     {},
			"day":  {Window: headroom.Window{Key: "2026-03-29", Start: at, End: at.Add(23 * time.Hour)}, Count: math.MaxInt64, Carried: 7},
			"week": {Window: headroom.ISOWeek(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)), Count: -1, Partial: true},
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
	grants := map[string]headroom.Grant{"": {}, "g": {Units: math.MaxInt64, Used: 7, Expires: at}}
	if got, err := decodeGrants(encodeGrants(grants)); err != nil || !reflect.DeepEqual(got, grants) {
		t.Errorf("read %+v, %v", got, err)
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

// FuzzDecode reads rows that nobody wrote: no panic, and what can be read is written again with the same meaning.
func FuzzDecode(f *testing.F) {
	e := entry{young: generation{byClock, monday}, state: headroom.State{Epoch: monday, Counters: map[string]headroom.Counter{"week": {Window: headroom.ISOWeek(monday), Count: 30, Partial: true}}}}
	f.Add(e.encode())
	f.Add(encodeHistory([]headroom.Total{{Start: monday, Units: 30}, {Start: monday.AddDate(0, 0, -7), Unknown: true}}))
	f.Add(encodeClock(monday, epoch))
	f.Add(encodeHolds(map[string]headroom.Record{"job": {Kind: headroom.KindHold, Cost: 5, Expires: monday}}))
	f.Add(encodeGrants(map[string]headroom.Grant{"g": {Units: 5, Expires: monday}}))
	f.Add(encodeFormat(format))
	f.Add([]byte{rowVersion, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, row []byte) {
		if e, err := decodeEntry(row); err == nil {
			if again, err := decodeEntry(e.encode()); err != nil || !reflect.DeepEqual(again, e) {
				t.Errorf("%+v, %v\n%+v", again, err, e)
			}
		}
		if holds, err := decodeHolds(row); err == nil {
			if again, err := decodeHolds(encodeHolds(holds)); err != nil || len(again) != len(holds) {
				t.Errorf("%+v, %v\n%+v", again, err, holds)
			}
		}
		if grants, err := decodeGrants(row); err == nil {
			if again, err := decodeGrants(encodeGrants(grants)); err != nil || !reflect.DeepEqual(again, grants) {
				t.Errorf("%+v, %v\n%+v", again, err, grants)
			}
		}
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

// FuzzKeys looks for two things that have one key, and for keys that do not sort by generation.
func FuzzKeys(f *testing.F) {
	f.Add("a", "b_c", "op", "a_b", "c", "op", int64(0), int64(0))
	f.Add("a\x00", "b", "", "a", "\x00b", "", int64(math.MinInt64), int64(math.MaxInt64))
	f.Add("", "", "x", "", "x", "", int64(-1), int64(1))
	f.Fuzz(func(t *testing.T, s1, m1, o1, s2, m2, o2 string, l1, l2 int64) {
		k1, k2 := headroom.Key{Subject: s1, Meter: m1}, headroom.Key{Subject: s2, Meter: m2}
		g1, g2 := generation{byClock, time.Unix(l1, 0)}, generation{byClock, time.Unix(l2, 0)}
		if bytes.Equal(planKey(s1), planKey(s2)) != (s1 == s2) {
			t.Errorf("plans of %q and %q", s1, s2)
		}
		if bytes.Equal(stateKey(k1), stateKey(k2)) != (k1 == k2) {
			t.Errorf("states of %q and %q", k1, k2)
		}
		if bytes.Equal(historyKey(k1, o1), historyKey(k2, o2)) != (k1 == k2 && o1 == o2) {
			t.Errorf("histories of %q, %q and %q, %q", k1, o1, k2, o2)
		}
		if bytes.Equal(opKey(g1, k1, o1), opKey(g2, k2, o2)) != (l1 == l2 && k1 == k2 && o1 == o2) {
			t.Errorf("operations of %d, %q, %q and %d, %q, %q", l1, k1, o1, l2, k2, o2)
		}
		if got, want := bytes.Compare(opsPrefix(g1), opsPrefix(g2)), cmp.Compare(l1, l2); got != want {
			t.Errorf("generations %d and %d sort as %d", l1, l2, got)
		}
		if label, err := opsLabel(opKey(g1, k1, o1)); err != nil || label.Unix() != l1 {
			t.Errorf("label %d was read as %v, %v", l1, label, err)
		}
	})
}
