package headroom_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

var someMonday = time.Date(2026, time.May, 25, 0, 0, 0, 0, time.UTC)

func TestChargeIsReadAsItIsWritten(t *testing.T) {
	deduct := func(cost int64, recorded bool, windows ...headroom.ChargedWindow) headroom.Charge {
		return headroom.Charge{Kind: headroom.KindDeduct, Cost: cost, Recorded: recorded, Windows: windows}
	}
	for text, c := range map[string]headroom.Charge{
		"d30@week:1779667200": deduct(30, false, headroom.ChargedWindow{Limit: "week", Start: someMonday}),
		"d0":                  deduct(0, false),
		"d0!":                 deduct(0, true),
		"d9223372036854775807!@day:-259200,week_2-x:0": deduct(math.MaxInt64, true, headroom.ChargedWindow{Limit: "day", Start: time.Unix(-259200, 0).UTC()}, headroom.ChargedWindow{Limit: "week_2-x", Start: time.Unix(0, 0).UTC()}),
	} {
		if c.String() != text {
			t.Errorf("%+v is written as %q, want %q", c, c, text)
		}
		if got, err := headroom.ParseCharge(text); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%q is read as %+v, %v: want %+v", text, got, err, c)
		}
	}
}

// noCharges are texts that no version so far has written.
var noCharges = []string{
	"", "d", "d!", "d-1", "dx", "d1.5", "d1e3", "d9223372036854775808", "x30@week:0", "h30@week:0", "D30", "30", "d30!!", "d30@", "d30@week", "d30@week:", "d30@:0", "d30@week:x", "d30@week:0,", "d30@,week:0", "d30@Week:0",
	"d30@week:0:0", "d30@week:9223372036854775808", "d30!@", "d 30", "d30 ", "d30@week:0;day:0", "d30\x00", "{}", "\xff",
}

func TestUnknownChargeIsAnError(t *testing.T) {
	for _, text := range noCharges {
		if c, err := headroom.ParseCharge(text); !errors.Is(err, headroom.ErrFormat) {
			t.Errorf("%q is read as %+v, %v: want an error", text, c, err)
		}
	}
}

func FuzzParseCharge(f *testing.F) {
	for _, s := range append([]string{"d30@week:1779667200", "d0", "d0!", "d9223372036854775807!@day:-259200,week_2-x:0", "d30@a:0,a:0", "d+1", "d007"}, noCharges...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := headroom.ParseCharge(text)
		if err != nil {
			if !errors.Is(err, headroom.ErrFormat) || !reflect.DeepEqual(c, headroom.Charge{}) {
				t.Fatalf("%q is read as %+v, %v", text, c, err)
			}
			return
		}
		if c.Cost < 0 {
			t.Fatalf("%q is read as a cost of %d", text, c.Cost)
		}
		again, err := headroom.ParseCharge(c.String())
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%q is read as %+v, written as %q and read as %+v, %v", text, c, c, again, err)
		}
	})
}

func TestHistoryKeepsTheLatestTotals(t *testing.T) {
	at := func(week int) time.Time { return someMonday.AddDate(0, 0, 7*week) }
	var past []headroom.Total
	for _, week := range []int{3, 1, 2, 0, 5} {
		before := slices.Clone(past)
		next := headroom.AddTotal(past, headroom.Total{Start: at(week), Units: int64(week + 1)})
		if !slices.Equal(past, before) {
			t.Fatalf("AddTotal changed what it was given to %v", past)
		}
		past = next
	}
	want := []headroom.Total{{Start: at(5), Units: 6}, {Start: at(3), Units: 4}, {Start: at(2), Units: 3}, {Start: at(1), Units: 2}, {Start: at(0), Units: 1}}
	if !slices.Equal(past, want) {
		t.Fatalf("history is %v, want %v", past, want)
	}
	if got := headroom.AddTotal(past, headroom.Total{Start: at(3), Units: 40}); len(got) != 5 || got[1].Units != 40 {
		t.Errorf("a total of the same window: %v", got)
	}
	if got := headroom.AddTotal(past, headroom.Total{Start: at(3)}); len(got) != 4 || got[1].Start != at(2) {
		t.Errorf("a total of nothing: %v", got)
	}
	if got := headroom.AddTotal(past, headroom.Total{Start: at(4), Unknown: true}); len(got) != 6 || !got[1].Unknown {
		t.Errorf("an unknown total: %v", got)
	}
	for week := range 100 {
		past = headroom.AddTotal(past, headroom.Total{Start: at(week), Units: 1})
	}
	if len(past) != headroom.HistoryWindows || past[0].Start != at(99) || past[51].Start != at(48) {
		t.Errorf("history of 100 windows has %d, from %v to %v", len(past), past[0], past[len(past)-1])
	}
	if got := headroom.AddTotal(past, headroom.Total{Start: at(0), Units: 1}); !slices.Equal(got, past) {
		t.Errorf("a total older than all that are kept: %v", got)
	}
}

func TestErrorsMatchTheSentinelOfTheirCode(t *testing.T) {
	cause := errors.New("the cause")
	err := error(headroom.Errorf(headroom.CodeThrottled, cause, "slow down, %s", "please"))
	if err.Error() != "slow down, please: the cause" || !errors.Is(err, headroom.ErrThrottled) || errors.Is(err, headroom.ErrUnavailable) || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if err := headroom.Errorf(headroom.CodeInvalid, nil, "wrong"); err.Error() != "wrong" || err.Unwrap() != nil || errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}
