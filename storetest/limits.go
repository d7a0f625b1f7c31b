package storetest

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// dayAndWeek returns a catalog whose plan "free" has a limit by the day and one by the week.
func (w *world) dayAndWeek(daily, weekly int64) *headroom.Catalog {
	w.Helper()
	c := w.limited(
		headroom.Limit{Meter: meter, Name: "week", Units: weekly},
		headroom.Limit{Meter: meter, Name: "day", Period: period(w.T, "day"), Units: daily},
	)
	return c
}

// inDay and inWeek show a window's key as figure does.
func inDay(t time.Time) string { return " in " + t.Format(time.DateOnly) }

func inWeek(t time.Time) string { return " in " + headroom.ISOWeek(t).Key }

func severalLimits(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.dayAndWeek(60, 200), 0)
	in, week := inDay(base), inWeek(base)
	a.decides(preflight, "", 60, admitted, "day* 0+0/60"+in, "week 0+0/200"+week)
	a.decides(deduct, "1", 50, admitted, "day* 50+0/60"+in, "week 50+0/200"+week)
	a.unchanged(func() {
		a.decides(deduct, "2", 11, overLimit, "day* 50+0/60"+in, "week 50+0/200"+week)
		a.decides(deduct, "2", 61, never, "day* 50+0/60"+in, "week 50+0/200"+week)
	}, "2")
	a.decides(deduct, "3", 10, admitted, "day* 60+0/60"+in, "week 60+0/200"+week)
	for i := range int64(2) {
		w.set(base.Add(time.Duration(i+1) * day))
		a.decides(deduct, id(i), 60, admitted, "day* 60+0/60"+inDay(w.now()), "week "+[]string{"120", "180"}[i]+"+0/200"+week)
	}
	w.set(base.Add(3 * day))
	in = inDay(w.now())
	a.unchanged(func() {
		a.decides(deduct, "4", 21, overLimit, "day 0+0/60"+in, "week* 180+0/200"+week)
		a.decides(deduct, "4", 201, never, "day 0+0/60"+in, "week* 180+0/200"+week)
		a.decides(deduct, "4", 61, never, "day* 0+0/60"+in, "week 180+0/200"+week)
	}, "4")
	a.decides(deduct, "4", 20, admitted, "day 20+0/60"+in, "week* 200+0/200"+week)
	d, err := a.engine.Deduct(t.Context(), a.request("5", 30, record))
	if err != nil || d.Reason != past || d.LimitName != "week" {
		t.Errorf("a charge past the week's limit: %s, %v", text(d), err)
	}
	a.shows(d, "day 50+0/60"+in, "week* 230+0/200"+week)
	d, err = a.engine.Deduct(t.Context(), a.request("1", 50))
	if err != nil || !d.Replay || d.Reason != admitted {
		t.Errorf("a repeat: %s, %v", text(d), err)
	}
	a.shows(d, "day 50+0/60"+in, "week* 230+0/200"+week)
}

// closed checks the totals of the closed windows of each limit.
func (a account) closed(want map[string][]int64) {
	a.w.Helper()
	for _, l := range a.usage().Limits {
		var got []int64
		for _, t := range l.History {
			got = append(got, t.Units)
		}
		if len(got) != len(want[l.Name]) {
			a.w.Fatalf("history of %q: %d, want %d", l.Name, got, want[l.Name])
		}
		for i := range got {
			if got[i] != want[l.Name][i] {
				a.w.Fatalf("history of %q: %d, want %d", l.Name, got, want[l.Name])
			}
		}
	}
}

func turnApart(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.dayAndWeek(60, 100), 0)
	saturday := monday.Add(-2 * day)
	w.set(saturday)
	a.decides(deduct, "saturday", 60, admitted, "day* 60+0/60"+inDay(saturday), "week 60+0/100"+inWeek(saturday))
	w.set(monday.Add(-time.Second))
	a.decides(deduct, "sunday", 40, admitted, "day 40+0/60"+inDay(w.now()), "week* 100+0/100"+inWeek(base))
	a.closed(map[string][]int64{"day": {60}})
	w.set(monday)
	a.decides(deduct, "monday", 50, admitted, "day* 50+0/60"+inDay(monday), "week 50+0/100"+inWeek(monday))
	a.closed(map[string][]int64{"day": {40, 60}, "week": {100}})
	// By a clock that is a little behind, the stored windows are charged. If the clock had been
	// wrong by more, each window is brought back.
	w.set(monday.Add(-time.Minute))
	a.decides(deduct, "late", 1, admitted, "day* 51+0/60"+inDay(monday), "week 51+0/100"+inWeek(monday))
	w.back(monday.Add(-time.Hour))
	a.decides(preflight, "", 0, admitted, "day 91+0/60"+inDay(w.now()), "week* 151+0/100"+inWeek(base))
	a.decides(deduct, "brought back", 0, admitted, "day 91+0/60"+inDay(w.now()), "week* 151+0/100"+inWeek(base))
	a.closed(map[string][]int64{"day": {60}})
}

func strictestNamed(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.dayAndWeek(100, 100), 0)
	in, week := inDay(base), inWeek(base)
	// If two limits have the same left, the strictest is the one whose window ends last.
	a.decides(deduct, "1", 40, admitted, "day 40+0/100"+in, "week* 40+0/100"+week)
	a.decides(deduct, "2", 61, overLimit, "day 40+0/100"+in, "week* 40+0/100"+week)
	a.decides(deduct, "2", 101, never, "day 40+0/100"+in, "week* 40+0/100"+week)
	b := a.on(w.dayAndWeek(90, 100), headroom.Options{})
	b.decides(deduct, "2", 100, never, "day* 40+0/90"+in, "week 40+0/100"+week)
	c := a.on(w.dayAndWeek(90, 60), headroom.Options{})
	c.decides(deduct, "2", 80, never, "day 40+0/90"+in, "week* 40+0/60"+week)
	c.decides(deduct, "2", 95, never, "day 40+0/90"+in, "week* 40+0/60"+week)
	c.decides(deduct, "2", 20, admitted, "day 60+0/90"+in, "week* 60+0/60"+week)
}

func holdInEveryLimit(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.dayAndWeek(60, 200), 0)
	night := base.Add(13*time.Hour + 30*time.Minute) // 23:30
	w.set(night)
	a.decides(hold, "job", 50, admitted, "day* 0+50/60"+inDay(night), "week 0+50/200"+inWeek(night))
	w.set(night.Add(40 * time.Minute))
	in, week := inDay(w.now()), inWeek(night)
	a.decides(deduct, "next day", 40, admitted, "day* 40+0/60"+in, "week 40+50/200"+week)
	a.decides(settle, "job", 71, overLimit, "day* 40+0/60"+in, "week 40+50/200"+week)
	a.decides(settle, "job", 70, admitted, "day* 60+0/60"+in, "week 110+0/200"+week)
	a.closed(map[string][]int64{"day": {50}})
	if d, err := a.engine.Refund(t.Context(), a.refundOf("job", "r", 30)); err != nil {
		t.Fatal(err)
	} else {
		a.shows(d, "day* 40+0/60"+in, "week 80+0/200"+week)
	}
	a.closed(map[string][]int64{"day": {40}})
}

func refundInEveryLimit(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.dayAndWeek(60, 100), 0)
	w.set(monday.Add(-36 * time.Hour)) // Saturday
	a.decides(deduct, "a", 60, admitted, "day* 60+0/60"+inDay(w.now()), "week 60+0/100"+inWeek(base))
	w.set(monday.Add(-12 * time.Hour))
	a.decides(deduct, "b", 40, admitted, "day 40+0/60"+inDay(w.now()), "week* 100+0/100"+inWeek(base))
	refund := func(operation, id string, units int64, figures ...string) {
		t.Helper()
		d, err := a.engine.Refund(t.Context(), a.refundOf(operation, id, units))
		if err != nil || d.Reason != refunded || d.Cost != units {
			t.Fatalf("refund: %s, %v", text(d), err)
		}
		a.shows(d, figures...)
	}
	refund("a", "r1", 20, "day* 40+0/60"+inDay(w.now()), "week 80+0/100"+inWeek(base))
	a.closed(map[string][]int64{"day": {40}})
	w.set(monday)
	refund("a", "r2", 20, "day* 0+0/60"+inDay(monday), "week 0+0/100"+inWeek(monday))
	a.closed(map[string][]int64{"day": {40, 20}, "week": {60}})
	a.decides(deduct, "c", 10, admitted, "day* 10+0/60"+inDay(monday), "week 10+0/100"+inWeek(monday))
	refund("b", "r3", 40, "day* 10+0/60"+inDay(monday), "week 10+0/100"+inWeek(monday))
	a.closed(map[string][]int64{"day": {20}, "week": {20}})
}

func expiredInEveryLimit(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.dayAndWeek(60, 70), 0)
	night := base.Add(13*time.Hour + 30*time.Minute)
	w.set(night)
	a.decides(hold, "job", 60, admitted, "day* 0+60/60"+inDay(night), "week 0+60/70"+inWeek(night))
	w.set(night.Add(59 * time.Minute))
	in, week := inDay(w.now()), inWeek(night)
	a.decides(deduct, "x", 11, overLimit, "day 0+0/60"+in, "week* 0+60/70"+week)
	w.set(night.Add(time.Hour))
	a.decides(deduct, "x", 60, admitted, "day* 60+0/60"+in, "week 60+0/70"+week)
	a.closed(nil)
}

func countedAllAlong(t *testing.T, h Harness) {
	w := newWorld(t, h)
	plan := func(name, limit, window string, units int64) headroom.Plan {
		return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: meter, Name: limit, Period: period(t, window), Units: units}}}
	}
	c, err := headroom.NewCatalog("weekly",
		[]headroom.Plan{plan("weekly", "week", "week", 200), plan("daily", "day", "day", 60), {Name: "none"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const unlimited = "9223372036854775807"
	a := w.accountOn(c, 0)
	in, week := inDay(base), inWeek(base)
	a.plan = "weekly"
	a.decides(deduct, "1", 100, admitted, "day 100+0/"+unlimited+in, "week* 100+0/200"+week)
	a.setPlan("daily")
	a.plan = "daily"
	a.decides(deduct, "2", 1, overLimit, "day* 100+0/60"+in, "week 100+0/"+unlimited+week)
	a.setPlan("none")
	a.plan = "none"
	a.decides(deduct, "2", 150, admitted, "day 250+0/"+unlimited+in, "week* 250+0/"+unlimited+week)
	a.setPlan("")
	a.plan = "weekly"
	a.decides(deduct, "3", 1, overLimit, "day 250+0/"+unlimited+in, "week* 250+0/200"+week)
}
