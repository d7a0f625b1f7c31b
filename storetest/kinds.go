package storetest

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func ownLimits(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300)), 200)
	a.does(deduct, "a", 200, admitted, 200, 0)
	const more = "free+slots/week=500"
	a.setPlan(more)
	own := a.under(more, 500)
	own.uses(200)
	own.does(deduct, "b", 300, admitted, 500, 0)
	own.does(deduct, "c", 1, overLimit, 500, 0)
	own.does(deduct, "c", 501, never, 500, 0, says("pro"))
	a.setPlan("free+slots/week=0")
	a.under("free+slots/week=0", 0).does(deduct, "c", 1, never, 500, 0)
	a.unchanged(func() { a.under("free+slots/week=0", 0).does(deduct, "c", 1, never, 500, 0, says("nonesuch")) }, "c")
	bads := []string{
		"free+", "+slots/week=1", "free+slots/week", "free+slots/week=", "free+=1", "free+slots/week=-1",
		"free+slots/week=x", "free+slots/week=9223372036854775808", "free+slots/nonesuch=1", "free+nonesuch/week=1",
		"nonesuch+slots/week=1", "free+slots/week=1+slots/week=2", "free+slots/week=1+", "free+slots/week=1 ",
	}
	for _, bad := range bads {
		a.failed("set plan "+bad, a.request("", 0), headroom.Decision{}, a.engine.SetPlan(t.Context(), a.subject, bad), headroom.Invalid)
	}
	a.setPlan("")
	for _, bad := range bads {
		a.fails(deduct, "c", 1, headroom.Invalid, says(bad))
	}
	a.uses(500)
	w.set(monday)
	// The plan that a caller names may have limits of the subject's own too.
	a.under("pro+slots/week=1000", 1000).does(deduct, "d", 1000, admitted, 1000, 0, says("pro+slots/week=1000"))
	a.does(deduct, "e", 1, overLimit, 1000, 0)

	// A meter's name may contain the signs that separate the parts of the text.
	odd := headroom.Plan{Name: "odd", Limits: []headroom.Limit{{Meter: "a/b=c", Name: "week", Units: 1}}}
	b := w.accountOn(w.catalog(200, odd), 7)
	b.setPlan("free+a/b=c/week=7")
	b.meter = "a/b=c"
	b.under("free+a/b=c/week=7", 7).does(deduct, "a", 7, admitted, 7, 0)
}

func kindChanges(t *testing.T, h Harness) {
	w := newWorld(t, h)
	by := func(window string, units int64) *headroom.Catalog {
		c := w.limited(headroom.Limit{Meter: meter, Name: "window", Period: period(t, window), Units: units})
		return c
	}
	month := func(t time.Time) string { return " in " + t.Format("2006-01") }

	// From weeks to months in midweek. The stored week goes on to its end, and the first month
	// begins there.
	a := w.accountOn(by("week", 200), 0)
	a.decides(deduct, "1", 150, admitted, "window* 150+0/200"+inWeek(base))
	a = a.on(by("month", 800), headroom.Options{})
	a.decides(deduct, "2", 100, admitted, "window* 250+0/800"+inWeek(base))
	repeat := func(id string, cost int64, want headroom.Window) {
		t.Helper()
		if d, err := a.engine.Deduct(t.Context(), a.request(id, cost)); err != nil || !d.Replay || span(d.Window) != span(want) {
			t.Errorf("the repeat of %q shows %s, %v: want %s", id, span(d.Window), err, span(want))
		}
	}
	repeat("1", 150, headroom.ISOWeek(base))
	w.set(monday.Add(-time.Second))
	a.decides(deduct, "3", 100, admitted, "window* 350+0/800"+inWeek(base))
	w.set(monday)
	d := a.decides(deduct, "4", 10, admitted, "window* 10+0/800"+month(monday))
	if june := monday.AddDate(0, 1, -1); !d.Window.Start.Equal(monday) || !d.Window.End.Equal(june) {
		t.Errorf("the first month is %s, want it from %s to %s", span(d.Window), monday, june)
	}
	a.closed(map[string][]int64{"window": {350}})
	a.decides(deduct, "5", 5, admitted, "window* 15+0/800"+month(monday))
	repeat("4", 10, d.Window)
	w.set(monday.AddDate(0, 1, 0))
	a.decides(deduct, "6", 5, admitted, "window* 5+0/800"+month(w.now()))
	repeat("4", 10, d.Window) // the first month stays short

	// From months to days and back.
	w.back(base)
	b := w.accountOn(by("month", 800), 0)
	b.decides(deduct, "1", 700, admitted, "window* 700+0/800"+month(base))
	b = b.on(by("day", 100), headroom.Options{})
	w.set(base.Add(2 * day))
	b.decides(deduct, "2", 1, overLimit, "window* 700+0/100"+month(base))
	june := time.Date(2031, time.June, 1, 0, 0, 0, 0, time.UTC)
	w.set(june.Add(-time.Second))
	b.decides(deduct, "2", 1, overLimit, "window* 700+0/100"+month(base))
	w.set(june)
	b.decides(deduct, "2", 100, admitted, "window* 100+0/100"+inDay(june))
	b = b.on(by("month", 800), headroom.Options{})
	b.decides(deduct, "3", 100, admitted, "window* 200+0/800"+inDay(june))
	w.set(june.Add(day))
	d = b.decides(deduct, "4", 100, admitted, "window* 100+0/800"+month(june))
	if !d.Window.Start.Equal(june.Add(day)) {
		t.Errorf("the month after a day of its own is %s", span(d.Window))
	}
	b.closed(map[string][]int64{"window": {200, 700}})

	// In another zone the same kind of window begins at another time.
	w.back(base.Add(13 * time.Hour)) // 23:00
	c := w.accountOn(by("day", 100), 0)
	c.decides(deduct, "1", 100, admitted, "window* 100+0/100"+inDay(base))
	c = c.on(by("day in Asia/Tokyo", 100), headroom.Options{})
	c.decides(deduct, "2", 1, overLimit, "window* 100+0/100"+inDay(base))
	w.set(base.Add(14 * time.Hour)) // midnight in UTC, 09:00 in Tokyo
	d = c.decides(deduct, "2", 100, admitted, "window* 100+0/100"+inDay(base.Add(day)))
	if end := base.Add(29 * time.Hour); !d.Window.Start.Equal(w.now()) || !d.Window.End.Equal(end) {
		t.Errorf("the first day in Tokyo is %s, want it from now until %s", span(d.Window), end)
	}
	w.set(base.Add(29*time.Hour - time.Second))
	c.decides(deduct, "3", 1, overLimit, "window* 100+0/100"+inDay(base.Add(day)))
	w.set(base.Add(29 * time.Hour))
	c.decides(deduct, "3", 1, admitted, "window* 1+0/100"+inDay(base.Add(2*day)))
}

// modes returns a catalog with two plans. "both" has a hard limit of 200 a week and one of 100 in
// another mode; "only" has no hard limit.
func (w *world) modes(m headroom.Mode) *headroom.Catalog {
	w.Helper()
	return w.catalog(0, headroom.Plan{Name: "both", Limits: []headroom.Limit{
		{Meter: meter, Name: "week", Units: 200}, {Meter: meter, Name: "trial", Units: 100, Mode: m},
	}}, headroom.Plan{Name: "only", Limits: []headroom.Limit{{Meter: "words", Name: "trial", Units: 100, Mode: m}}})
}

func softLimit(t *testing.T, h Harness) { admits(t, h, headroom.Soft) }

func shadowLimit(t *testing.T, h Harness) { admits(t, h, headroom.Shadow) }

func admits(t *testing.T, h Harness, m headroom.Mode) {
	w := newWorld(t, h)
	a := w.accountOn(w.modes(m), 0)
	a.setPlan("both")
	a.plan = "both"
	week := inWeek(base)
	a.decides(deduct, "1", 100, admitted, m.String()+" trial 100+0/100"+week, "week* 100+0/200"+week)
	a.decides(preflight, "", 50, admitted, m.String()+" trial! 100+0/100"+week, "week* 100+0/200"+week)
	a.decides(hold, "2", 50, admitted, m.String()+" trial! 100+50/100"+week, "week* 100+50/200"+week)
	a.decides(settle, "2", 60, admitted, m.String()+" trial! 160+0/100"+week, "week* 160+0/200"+week)
	a.decides(deduct, "3", 0, admitted, m.String()+" trial 160+0/100"+week, "week* 160+0/200"+week)
	a.decides(deduct, "4", 41, overLimit, m.String()+" trial! 160+0/100"+week, "week* 160+0/200"+week)
	a.decides(deduct, "4", 201, never, m.String()+" trial! 160+0/100"+week, "week* 160+0/200"+week)
	a.decides(deduct, "4", 40, admitted, m.String()+" trial! 200+0/100"+week, "week* 200+0/200"+week)

	fresh := w.accountOn(w.modes(m), 0)
	fresh.setPlan("both")
	fresh.plan = "both"
	fresh.decides(deduct, "1", 201, never, m.String()+" trial! 0+0/100"+week, "week* 0+0/200"+week)
	fresh.decides(preflight, "", 101, admitted, m.String()+" trial! 0+0/100"+week, "week* 0+0/200"+week)
	fresh.decides(preflight, "", 100, admitted, m.String()+" trial 0+0/100"+week, "week* 0+0/200"+week)

	// If no limit is hard, the decision names none.
	b := w.accountOn(w.modes(m), 0)
	b.meter = "words"
	b.setPlan("only")
	b.plan = "only"
	d := b.decides(deduct, "1", 500, admitted, m.String()+" trial! 500+0/100"+week)
	if d.LimitName != "" || d.Limit != headroom.Unlimited || d.Remaining != headroom.Unlimited || d.Used != 0 || !d.Window.IsZero() {
		t.Errorf("decided %s, though no limit is hard", text(d))
	}
}

func months(t *testing.T, h Harness) {
	w := newWorld(t, h)
	c := w.limited(headroom.Limit{Meter: meter, Name: "month", Period: period(t, "month"), Units: 200})
	a := w.accountOn(c, 200)
	for _, year := range []int{2032, 2033} { // a leap year, and one that is none
		january := time.Date(year, time.January, 31, 23, 59, 59, 999e6, time.UTC)
		february := time.Date(year, time.February, 1, 0, 0, 0, 0, time.UTC)
		march := time.Date(year, time.March, 1, 0, 0, 0, 0, time.UTC)
		for i, c := range []struct {
			at   time.Time
			used int64
			key  string
		}{
			{january, 150, "-01"}, {february, 150, "-02"}, {march.Add(-time.Millisecond), 50, "-02"}, {march, 150, "-03"},
		} {
			r := a.request(c.at.String(), c.used, at(c.at))
			d, err := a.engine.Deduct(t.Context(), r)
			used := c.used
			if i == 2 {
				used = 200
			}
			if key := february.Format("2006") + c.key; err != nil || !d.Allowed || d.Used != used || d.Window.Key != key {
				t.Errorf("%s: %s, %v: want %d used in %s", c.at, text(d), err, used, key)
			}
		}
	}
}

func weeklyToMonthly(t *testing.T, h Harness) {
	w := newWorld(t, h)
	c, err := headroom.NewCatalog("free", []headroom.Plan{
		{Name: "free", Limits: []headroom.Limit{{Meter: meter, Name: "week", Units: 200}}},
		{Name: "pro", Limits: []headroom.Limit{{Meter: meter, Name: "month", Period: period(t, "month"), Units: 800}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const unlimited = "9223372036854775807"
	a := w.accountOn(c, 0)
	month, week := " in 2031-05", inWeek(base)
	a.decides(deduct, "1", 150, admitted, "month 150+0/"+unlimited+month, "week* 150+0/200"+week)
	a.setPlan("pro")
	a.plan = "pro"
	a.decides(deduct, "2", 600, admitted, "month* 750+0/800"+month, "week 750+0/"+unlimited+week)
	a.decides(deduct, "3", 51, overLimit, "month* 750+0/800"+month, "week 750+0/"+unlimited+week)
	a.setPlan("free")
	a.plan = "free"
	a.decides(deduct, "3", 1, overLimit, "month 750+0/"+unlimited+month, "week* 750+0/200"+week)
	w.set(monday)
	month, week = " in 2031-06", inWeek(monday)
	a.decides(deduct, "3", 200, admitted, "month 200+0/"+unlimited+month, "week* 200+0/200"+week)
	a.setPlan("pro")
	a.plan = "pro"
	a.decides(deduct, "4", 600, admitted, "month* 800+0/800"+month, "week 800+0/"+unlimited+week)
	a.decides(deduct, "5", 1, overLimit, "month* 800+0/800"+month, "week 800+0/"+unlimited+week)
}
