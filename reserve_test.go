package headroom

import (
	"testing"
	"time"
)

// bucketsOf returns the buckets of some holds.
func bucketsOf(holds ...Record) []Bucket {
	var c Change
	for _, h := range holds {
		c.reserve(State{}, h)
	}
	return c.Apply(State{}).Buckets
}

// TestWhenHoldsEnd holds that a hold ends never earlier than was asked, and later by less than a
// sixteenth of what was asked, or than a second if that is more.
func TestWhenHoldsEnd(t *testing.T) {
	for lasts, want := range map[time.Duration]int64{
		time.Second: 1, 31 * time.Second: 1, 32 * time.Second: 2, time.Minute: 3, 5 * time.Minute: 15, 10 * time.Minute: 30,
		15 * time.Minute: 30, 16 * time.Minute: 60, time.Hour: 180, day: 3600, DefaultHorizon: 12 * 3600, MaxHorizon: 128 * 24 * 3600,
	} {
		if got := quantum(lasts); got != want {
			t.Errorf("a hold of %s ends at a multiple of %d seconds, want %d", lasts, got, want)
		}
		for _, from := range []time.Time{may, may.Add(1), may.Add(999 * time.Millisecond), may.Add(7777 * time.Second), time.Unix(-12345, 678)} {
			end := holdEnd(from, lasts)
			late := end.Sub(from.Add(lasts))
			if late < 0 || late >= max(time.Second, lasts/16) || end.Unix()%want != 0 || end.Nanosecond() != 0 {
				t.Errorf("a hold of %s from %s ends at %s, %s later than asked", lasts, from, end, late)
			}
		}
	}
}

// TestHoldsHaveFewEnds holds how many ends the live holds can have: at most 33 if all have one
// length, and at most 400 whatever their lengths are.
func TestHoldsHaveFewEnds(t *testing.T) {
	lengths := func(yield func(time.Duration) bool) {
		for lasts := time.Second; lasts <= 30*day && yield(lasts); lasts += max(time.Second, lasts/40).Truncate(time.Second) {
		}
	}
	all := map[int64]bool{}
	for lasts := range lengths {
		own := map[int64]bool{}
		for began := may.Add(-lasts - lasts/16 - time.Second); !began.After(may); began = began.Add(time.Duration(quantum(lasts)) * time.Second / 2) {
			if end := holdEnd(began, lasts); end.After(may) {
				own[end.Unix()], all[end.Unix()] = true, true
			}
		}
		if len(own) > 33 {
			t.Errorf("holds of %s have %d ends", lasts, len(own))
		}
	}
	if len(all) > 400 || len(all) < 100 {
		t.Errorf("holds of all lengths have %d ends", len(all))
	}
}

// TestASeriesIsNeverMadeTwice holds that a bucket which was cleared away is not made again.
func TestASeriesIsNeverMadeTwice(t *testing.T) {
	hold := Record{Kind: KindHold, Cost: 5, Expires: may.Add(time.Hour)}
	swept := State{Swept: may.Add(time.Hour)}
	var c Change
	if c.reserve(swept, hold); c.Unmet(View{State: swept}) == "" {
		t.Error("a bucket is made that may have been cleared away")
	}
	again := hold
	again.Series = swept.series(hold.Expires)
	c = Change{}
	c.reserve(swept, again)
	if unmet := c.Unmet(View{State: swept}); unmet != "" || !c.NewSeries {
		t.Errorf("a new series: %s", unmet)
	}
	after := c.Apply(swept)
	if after.Series != 1 || !after.Swept.IsZero() || len(after.Buckets) != 1 || after.Buckets[0].Series != 1 {
		t.Errorf("after a new series: %+v", after)
	}
	v := View{State: after, Now: may}
	if v.live(hold) || !v.live(again) {
		t.Errorf("the hold of before is live: %t, that of the new series: %t", v.live(hold), v.live(again))
	}
}
