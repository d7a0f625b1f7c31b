package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/replay"
)

// TestWindowsAreThoseOfOneLimit holds that a summary counts each decision in one window, all of the
// same limit, whichever limit was the strictest each time.
func TestWindowsAreThoseOfOneLimit(t *testing.T) {
	const log = `completed_at,subject,operation,quality,duration_seconds
2026-05-25T10:00:00Z,alice,a-1,standard,3600
2026-05-25T11:00:00Z,alice,a-2,standard,600
2026-05-26T10:00:00Z,alice,a-3,standard,3600
2026-05-27T10:00:00Z,alice,a-4,standard,3600
2026-05-28T10:00:00Z,alice,a-5,standard,1200
2026-05-28T10:00:00Z,bob,b-1,standard,60
2026-05-29T10:00:00Z,alice,a-6,standard,60
2026-06-01T10:00:00Z,alice,a-7,standard,1800
2026-06-01T10:00:00Z,alice,a-7,standard,1800
2026-05-29T10:00:00Z,alice,a-8,standard,60
`
	const day, week, month = "{meter: slots, name: day, window: day, units: 60, mode: %s}", "{meter: slots, units: 200, mode: %s}", "{meter: slots, name: month, window: month, units: 5000, mode: %s}"
	days := []string{"2026-05-25 60 1", "2026-05-26 60 0", "2026-05-27 60 0", "2026-05-28 21 0", "2026-05-29 0 1", "2026-06-01 30 0"}
	for _, c := range []struct {
		limits []string
		modes  []any
		want   []string // key, units charged, rows refused
	}{
		{[]string{day, week}, []any{"hard", "hard"}, days},
		{[]string{week, day}, []any{"hard", "hard"}, days},
		{[]string{day, week}, []any{"soft", "hard"}, []string{"2026-W22 192 1", "2026-W23 30 0"}},
		{[]string{day, week}, []any{"shadow", "soft"}, []string{"2026-05-25 70 0", "2026-05-26 60 0", "2026-05-27 60 0", "2026-05-28 21 0", "2026-05-29 1 0", "2026-06-01 30 0"}},
		{[]string{week}, []any{"soft"}, []string{"2026-W22 212 0", "2026-W23 30 0"}},
		{[]string{month, week}, []any{"soft", "shadow"}, []string{"2026-W22 212 0", "2026-W23 30 0"}},
	} {
		limits := fmt.Sprintf(strings.Join(c.limits, ", "), c.modes...)
		cfg, err := config.Parse("c.yaml", []byte("plans: {free: {limits: ["+limits+"]}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		engine, err := headroom.New(memstore.New(nil), cfg.Catalog, headroom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := run(t.Context(), t, engine, strings.NewReader(log), 4)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		var all replay.Tally
		for _, w := range sum.Windows {
			got = append(got, fmt.Sprint(w.Window.Key, " ", w.Charged, " ", w.Refused))
			all.Charged += w.Charged
			all.Refused += w.Refused
		}
		if !slices.Equal(got, c.want) || all.Charged != sum.Charged || all.Refused != sum.Refused {
			t.Errorf("%s:\n got %q\nwant %q\nof %+v", limits, got, c.want, sum.Tally)
		}
	}
}
