package headroom

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// recorded are records of every kind, and their text.
var recorded = map[string]Record{
	"d30@week:1779667200": {Kind: KindDeduct, Cost: 30, Windows: []ChargedWindow{{"week", unixTime(1779667200), 30}}},
	"d400@week:1779667200 ?1000:100": {
		Kind: KindDeduct, Cost: 400, Asked: 1000, AtLeast: 100, Windows: []ChargedWindow{{"week", unixTime(1779667200), 400}},
	},
	"h75@week:1779667200 x1779670000": {
		Kind: KindHold, Cost: 75, Expires: unixTime(1779670000), Windows: []ChargedWindow{{"week", unixTime(1779667200), 75}},
	},
	"s200@week:1779667200*1,week:1780272000*199 ! h1 ^week:80:1779667200 ^week:100:1780272000": {
		Kind: KindSettled, Cost: 200, Held: 1, Recorded: true,
		Windows: []ChargedWindow{{"week", unixTime(1779667200), 1}, {"week", unixTime(1780272000), 199}},
		Crossed: []Crossing{{"week", 80, unixTime(1779667200)}, {"week", 100, unixTime(1780272000)}},
	},
	"x75@week:1779667200*0 x1779670000": {
		Kind: KindReleased, Cost: 75, Expires: unixTime(1779670000), Windows: []ChargedWindow{{"week", unixTime(1779667200), 0}},
	},
	"r12 >a+b%26%3E%00":   {Kind: KindRefund, Cost: 12, Of: "a b&>\x00"},
	"d30 <acme+%26+co":    {Kind: KindDeduct, Cost: 30, Within: "acme & co"},
	"d1 &a+%26+b &tokens": {Kind: KindDeduct, Cost: 1, Also: []string{"a & b", "tokens"}},
	"g50 x1779670000":     {Kind: KindGrant, Cost: 50, Expires: unixTime(1779670000)},
	"d9223372036854775807@l-_0:253402300799*5 -12 g5:%3A+%2C g7:%E6%97%A5": {
		Kind: KindDeduct, Cost: math.MaxInt64, Refunded: 12,
		Windows: []ChargedWindow{{"l-_0", unixTime(253402300799), 5}}, Grants: []GrantUse{{": ,", 5}, {"日", 7}},
	},
}

func unixTime(s int64) time.Time { return time.Unix(s, 0).UTC() }

func TestRecordsKeepTheirText(t *testing.T) {
	for text, r := range recorded {
		if got := r.String(); got != text {
			t.Errorf("%+v is %q, want %q", r, got, text)
		}
		if got, err := ParseRecord(text); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%q reads as %+v, %v: want %+v", text, got, err, r)
		}
	}
}

func TestUnknownRecordsAreErrors(t *testing.T) {
	for _, text := range []string{
		"", " ", "d", "x", "30", "z30", "D30", "d-1", "d1.5", "d30 ", "d30  !", "d30@", "d30@week", "d30@week:", "d30@week:x", "d30@Week:1", "d30@week:1*", "d30@week:1*-1", "d30@week:1,", "d30@:1",
		"d9223372036854775808", "d30 !!", "d30 ?", "d30 h", "d30 h-1", "d30 -", "d30 --1", "d30 x", "d30 xx", "d30 g", "d30 g5", "d30 g5:", "d30 gx:a", "d30 g5:%zz", "d30 >", "d30 >%z", "d30 <", "d30 <%z",
		"d30 ?", "d30 ?100", "d30 ?100:", "d30 ?100:0", "d30 ?:1", "d30 ?100:-1", "d30 ?100:1:1",
		"d30 ^", "d30 ^week", "d30 ^week:80", "d30 ^week:80:", "d30 ^week:0:1", "d30 ^week:1001:1", "d30 ^Week:80:1", "d30 ^week:80:1:1", "d30@week:1@day:1", "d30\n",
		"d30@" + strings.Repeat("l", 33) + ":1",
	} {
		if r, err := ParseRecord(text); !errors.Is(err, Unreadable) || !reflect.DeepEqual(r, Record{}) {
			t.Errorf("%q reads as %+v, %v: want an error with the code %s", text, r, err, Unreadable)
		}
	}
}

// FuzzParseRecord holds that whatever reads is written as something that reads the same.
func FuzzParseRecord(f *testing.F) {
	for text := range recorded {
		f.Add(text)
	}
	for _, text := range []string{"d+5@week:+1*+5", "d5@week:1*5,week:1", "d1 h0 -0 x-62135596800", "d1 g0:a g0:a", "d1 >a >b", "d1 g5:a+b", "d1@b:1,a:2", "d1 x9223372036854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRecord(text)
		if err != nil {
			if !errors.Is(err, Unreadable) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		written := r.String()
		again, err := ParseRecord(written)
		if err != nil || !reflect.DeepEqual(again, r) || again.String() != written {
			t.Fatalf("%q reads as %+v and is written as %q, which reads as %+v, %v", text, r, written, again, err)
		}
	})
}

// FuzzRecordKeepsItsText holds that whatever a record holds, its text gives it again.
func FuzzRecordKeepsItsText(f *testing.F) {
	f.Add(uint8(0), int64(30), int64(0), int64(0), int64(0), "", "", int64(1779667200), int64(30), uint16(80), false)
	f.Add(uint8(1), int64(math.MaxInt64), int64(7), int64(7), int64(-62135596799), "a b&>\x00", "日:,*@", int64(math.MinInt64), int64(math.MaxInt64), uint16(999), true)
	f.Add(uint8(4), int64(0), int64(1), int64(2), int64(253402300799), "+%20", "\xff", int64(-1), int64(0), uint16(0), true)
	f.Fuzz(func(t *testing.T, kind uint8, cost, held, refunded, expires int64, of, grant string, start, units int64, percent uint16, recorded bool) {
		natural := func(n int64) int64 { return n & math.MaxInt64 }
		r := Record{Kind: Kind(kinds[int(kind)%len(kinds)]), Cost: natural(cost), Held: natural(held), Refunded: natural(refunded), Recorded: recorded, Of: of}
		if at := unixTime(expires); !at.IsZero() {
			r.Expires = at
		}
		for i, limit := range []string{"day", "l-_0"} {
			r.Windows = append(r.Windows, ChargedWindow{limit, unixTime(start + int64(i)), natural(units - int64(i))})
			r.Crossed = append(r.Crossed, Crossing{limit, int(percent)%MaxThreshold + 1, unixTime(start)})
		}
		if grant != "" {
			r.Grants = []GrantUse{{grant, natural(units)}, {"g", natural(cost)}}
		}
		text := r.String()
		if got, err := ParseRecord(text); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v is written as %q and read as %+v, %v", r, text, got, err)
		}
	})
}

func TestUnitsAreTakenLastFirst(t *testing.T) {
	a, b, c := unixTime(100), unixTime(200), unixTime(300)
	r := Record{Windows: []ChargedWindow{{"day", a, 5}, {"day", b, 0}, {"day", c, 4}, {"week", a, 9}}}
	left, taken := r.take(6)
	if want := []ChargedWindow{{"day", a, 3}, {"day", b, 0}, {"day", c, 0}, {"week", a, 3}}; !reflect.DeepEqual(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	got := map[ChargedWindow]bool{}
	for _, w := range taken {
		if w.Units != 0 {
			got[w] = true
		}
	}
	if want := map[ChargedWindow]bool{{"day", c, 4}: true, {"day", a, 2}: true, {"week", a, 6}: true}; !reflect.DeepEqual(got, want) {
		t.Errorf("taken %v, want %v", got, want)
	}
	if r.Windows[0].Units != 5 {
		t.Error("the record itself was changed")
	}
	if left, _ := r.take(100); left[0].Units != 0 || left[3].Units != 0 {
		t.Errorf("of more than there is, %v is left", left)
	}
}
