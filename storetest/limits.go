package storetest

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// dayAndWeek is a catalog whose plan "free" has both limits.
func (w *world) dayAndWeek(daily, weekly int64) *headroom.Catalog {
	w.Helper()
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: meter, Name: "week", Units: weekly}, {Meter: meter, Name: "day", Period: period(w.T, "day"), Units: daily},
	}}}, nil)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// inDay and inWeek are the windows' keys as figure shows them.
func inDay(t time.Time) string  { return " in " + t.Format(time.DateOnly) }
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

// closed expects of each limit the totals of its closed windows.
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
	// A clock that is a little late is charged to the stored windows, and one that was wrong by more is brought back in each.
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
	// Of two that leave the same, the one whose units come back last.
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
	c, err := headroom.NewCatalog("weekly", []headroom.Plan{plan("weekly", "week", "week", 200), plan("daily", "day", "day", 60), {Name: "none"}}, nil)
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
		"free+", "+slots/week=1", "free+slots/week", "free+slots/week=", "free+=1", "free+slots/week=-1", "free+slots/week=x", "free+slots/week=9223372036854775808",
		"free+slots/nonesuch=1", "free+nonesuch/week=1", "nonesuch+slots/week=1", "free+slots/week=1+slots/week=2", "free+slots/week=1+", "free+slots/week=1 ",
	}
	for _, bad := range bads {
		a.failed("set plan "+bad, a.request("", 0), headroom.Decision{}, a.engine.SetPlan(t.Context(), a.subject, bad), headroom.ErrInvalid)
	}
	a.setPlan("")
	for _, bad := range bads {
		a.fails(deduct, "c", 1, headroom.ErrInvalid, says(bad))
	}
	a.uses(500)
	w.set(monday)
	// The caller's word may have limits of its own too.
	a.under("pro+slots/week=1000", 1000).does(deduct, "d", 1000, admitted, 1000, 0, says("pro+slots/week=1000"))
	a.does(deduct, "e", 1, overLimit, 1000, 0)

	// A meter's name may look like the text around it.
	odd := headroom.Plan{Name: "odd", Limits: []headroom.Limit{{Meter: "a/b=c", Name: "week", Units: 1}}}
	b := w.accountOn(w.catalog(200, odd), 7)
	b.setPlan("free+a/b=c/week=7")
	b.meter = "a/b=c"
	b.under("free+a/b=c/week=7", 7).does(deduct, "a", 7, admitted, 7, 0)
}

func kindChanges(t *testing.T, h Harness) {
	w := newWorld(t, h)
	by := func(window string, units int64) *headroom.Catalog {
		c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{{Meter: meter, Name: "window", Period: period(t, window), Units: units}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	month := func(t time.Time) string { return " in " + t.Format("2006-01") }

	// From weeks to months in midweek: the stored week holds on, and the first month begins where it ended.
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
	repeat("4", 10, d.Window) // cut as it was

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

	// Another zone cuts the same kind elsewhere.
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

// modes is a catalog whose default plan has a hard limit of 200 a week and one of 100 of another mode.
func (w *world) modes(m headroom.Mode) *headroom.Catalog {
	w.Helper()
	return w.catalog(0, headroom.Plan{Name: "both", Limits: []headroom.Limit{
		{Meter: meter, Name: "week", Units: 200}, {Meter: meter, Name: "trial", Units: 100, Mode: m},
	}}, headroom.Plan{Name: "only", Limits: []headroom.Limit{{Meter: "words", Name: "trial", Units: 100, Mode: m}}})
}

func softLimit(t *testing.T, h Harness)   { admits(t, h, headroom.Soft) }
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

	// With none that is hard, no limit is named.
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
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{{Meter: meter, Name: "month", Period: period(t, "month"), Units: 200}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
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
