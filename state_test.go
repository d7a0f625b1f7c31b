package headroom

import (
	"slices"
	"testing"
	"time"
)

var someMonday = time.Date(2026, time.May, 25, 0, 0, 0, 0, time.UTC)

func TestHistoryKeepsTheLatestTotals(t *testing.T) {
	at := func(week int) time.Time { return someMonday.AddDate(0, 0, 7*week) }
	var past []Total
	for _, week := range []int{3, 1, 2, 0, 5} {
		before := slices.Clone(past)
		next := addTotal(past, Total{Start: at(week), Units: int64(week + 1)})
		if !slices.Equal(past, before) {
			t.Fatalf("addTotal changed what it was given to %v", past)
		}
		past = next
	}
	want := []Total{{Start: at(5), Units: 6}, {Start: at(3), Units: 4}, {Start: at(2), Units: 3}, {Start: at(1), Units: 2}, {Start: at(0), Units: 1}}
	if !slices.Equal(past, want) {
		t.Fatalf("history is %v, want %v", past, want)
	}
	if got := addTotal(past, Total{Start: at(3), Units: 40}); len(got) != 5 || got[1].Units != 40 {
		t.Errorf("a total of the same window: %v", got)
	}
	if got := addTotal(past, Total{Start: at(3)}); len(got) != 4 || got[1].Start != at(2) {
		t.Errorf("a total of nothing: %v", got)
	}
	if got := addTotal(past, Total{Start: at(4), Unknown: true}); len(got) != 6 || !got[1].Unknown {
		t.Errorf("an unknown total: %v", got)
	}
	for week := range 100 {
		past = addTotal(past, Total{Start: at(week), Units: 1})
	}
	if len(past) != HistoryWindows || past[0].Start != at(99) || past[51].Start != at(48) {
		t.Errorf("history of 100 windows has %d, from %v to %v", len(past), past[0], past[len(past)-1])
	}
	if got := addTotal(past, Total{Start: at(0), Units: 1}); !slices.Equal(got, past) {
		t.Errorf("a total older than all that are kept: %v", got)
	}
}
