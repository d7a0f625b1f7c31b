package headroom_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// script reads calls and amounts from whatever a fuzzer comes up with.
type script []byte

func (s *script) byte() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

// amount is a small number, one near a power of two or near the greatest, or any.
func (s *script) amount() int64 {
	b := s.byte()
	switch n := int64(s.byte()); b % 5 {
	case 0:
		return n
	case 1:
		return math.MaxInt64 - n%8
	case 2:
		return 1<<(n%63) - int64(b/5)%3
	case 3:
		return math.MaxInt64/(n+1) + int64(b/5)
	default:
		var eight [8]byte
		*s = (*s)[copy(eight[:], *s):]
		return int64(binary.LittleEndian.Uint64(eight[:]))
	}
}

// FuzzNoSumOverflows calls every verb with amounts of any size, under limits of any size: rules 1
// and 14. Every count is the sum of what the ids count, in arithmetic of unbounded precision, and
// what is shown adds up.
func FuzzNoSumOverflows(f *testing.F) {
	f.Add([]byte{1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1})
	f.Add([]byte{1, 0, 0, 0, 5, 1, 0, 1, 0, 6, 1, 1, 2, 61, 2, 1, 1, 1, 3, 1, 2, 0})
	f.Add([]byte{0, 200, 1, 0, 1, 0, 0, 5, 1, 0, 5, 2, 1, 0, 0, 3, 1, 0, 40, 0, 4, 1, 0, 0, 1, 1, 0, 40, 2, 1, 0, 5})
	codes := []error{headroom.Invalid, headroom.Conflict, headroom.NotFound, headroom.Expired, headroom.TooMany}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := script(data)
		day, err := headroom.ParsePeriod("day")
		if err != nil {
			t.Fatal(err)
		}
		natural := func() int64 { return s.amount() & math.MaxInt64 }
		catalog, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
			{Meter: "slots", Name: "week", Units: natural(), CarryOver: natural(), Mode: headroom.Mode(s.byte() % 3), Thresholds: []int{1, 80, 100, headroom.MaxThreshold}},
			{Meter: "slots", Name: "day", Period: day, Units: natural(), Thresholds: []int{50}},
		}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 5, 30, 0, 0, 0, 0, time.UTC)
		store := memstore.New(func() time.Time { return now })
		e, err := headroom.New(store, catalog, headroom.Options{Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{"a", "b", "c", "d", "e"}
		for range 40 {
			if len(s) == 0 {
				break
			}
			verb, id := s.byte(), ids[int(s.byte())%len(ids)]
			of := headroom.Request{Subject: "u", Meter: "slots", Operation: id, Cost: s.amount(), Over: headroom.Policy(verb / 8 % 2)}
			var d headroom.Decision
			switch verb % 8 {
			case 0:
				d, err = e.Deduct(t.Context(), of)
			case 1:
				d, err = e.Hold(t.Context(), of, time.Hour)
			case 2:
				d, err = e.Settle(t.Context(), of)
			case 3:
				d, err = e.Release(t.Context(), of.Held())
			case 4:
				d, err = e.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: id, ID: ids[int(verb/16)%len(ids)], Units: of.Cost})
			case 5:
				d, err = e.Grant(t.Context(), headroom.GrantRequest{Subject: "u", Meter: "slots", ID: id, Units: of.Cost, Lasts: 36 * time.Hour})
			case 6:
				d, err = e.Preflight(t.Context(), of)
			default:
				now = now.Add(time.Duration(1+of.Cost&63) * time.Hour)
				continue
			}
			if err != nil {
				known := false
				for _, code := range codes {
					known = known || errors.Is(err, code)
				}
				if !known {
					t.Fatalf("%+v: %v", of, err)
				}
			}
			if d.Used < 0 || d.Held < 0 || d.Remaining < 0 || d.Granted < 0 || d.Cost < 0 || d.Remaining > d.Limit {
				t.Fatalf("%+v: %+v", of, d)
			}
			checkSums(t, store, ids)
		}
	})
}

// checkSums holds that each counter is the sum of what the ids count in its window.
func checkSums(t *testing.T, store headroom.Store, ids []string) {
	t.Helper()
	v, err := store.Load(t.Context(), headroom.Query{Key: headroom.Key{Subject: "u", Meter: "slots"}, IDs: ids, History: true})
	if err != nil {
		t.Fatal(err)
	}
	for limit, c := range v.State.Counters {
		sums := map[time.Time]*big.Int{}
		for _, r := range v.Records {
			for _, w := range r.Windows {
				if w.Limit == limit {
					if sums[w.Start] == nil {
						sums[w.Start] = new(big.Int)
					}
					sums[w.Start].Add(sums[w.Start], big.NewInt(w.Units))
				}
			}
		}
		have := map[time.Time]int64{c.Window.Start: c.Count}
		for _, p := range c.Past {
			have[p.Start] = p.Units
		}
		for start, sum := range sums {
			if sum.Cmp(big.NewInt(have[start])) != 0 {
				t.Fatalf("%s from %s counts %d, its operations add up to %s", limit, start, have[start], sum)
			}
			delete(have, start)
		}
		for start, units := range have {
			if units != 0 {
				t.Fatalf("%s from %s counts %d, which no operation does", limit, start, units)
			}
		}
	}
}
