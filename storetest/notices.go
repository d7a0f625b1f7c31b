package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// notified returns a subject with a limit of so many units a week, which has these thresholds.
func (w *world) notified(units int64, thresholds ...int) account {
	w.Helper()
	c := w.limited(headroom.Limit{Meter: meter, Name: "week", Units: units, Thresholds: thresholds})
	return w.accountOn(c, units)
}

// crosses asks twice. Both answers must say that the call crossed the given thresholds, in the week
// that holds in. It returns the ids of the notices.
func (a account) crosses(v verb, id string, cost int64, in time.Time, percents ...int) []string {
	a.w.Helper()
	var first []string
	for repeat := range 2 {
		r := a.request(id, cost, record)
		d, err := a.ask(v, r)
		if err != nil || !d.Allowed || d.Replay != (repeat == 1) {
			a.w.Fatalf("%s %q: %s, %v", v, id, text(d), err)
		}
		got := a.crossed(d, in, percents...)
		if repeat == 0 {
			first = got
		} else if !slices.Equal(got, first) {
			a.w.Fatalf("%s %q: notices %q, and at the repeat %q", v, id, first, got)
		}
	}
	return first
}

// crossed checks that a decision crossed the given thresholds of the limit "week". It returns the
// ids of the notices.
func (a account) crossed(d headroom.Decision, in time.Time, percents ...int) (ids []string) {
	a.w.Helper()
	var got []int
	for _, n := range d.Crossed {
		got = append(got, n.Percent)
		ids = append(ids, n.ID)
		if n.Limit != "week" || span(n.Window) != span(headroom.ISOWeek(in)) || len(n.ID) < 24 {
			a.w.Fatalf("notice %+v: want one of the week of %s", n, in)
		}
	}
	if !slices.Equal(got, percents) {
		a.w.Fatalf("crossed %d, want %d: %s", got, percents, text(d))
	}
	return ids
}

func crossedOnce(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.notified(200, 50, 80, 100, 150)
	a.crosses(deduct, "a", 99, base)
	fifty := a.crosses(deduct, "b", 1, base, 50)
	a.crosses(deduct, "nothing", 0, base)
	two := a.crosses(deduct, "c", 100, base, 80, 100)
	a.crosses(deduct, "d", 99, base)
	past := a.crosses(deduct, "e", 1000, base, 150)
	a.crosses(deduct, "f", 1, base)
	a.repeats(deduct, "a", 99, admitted, 1300, 0)
	w.set(monday)
	last := a.in(base)
	if got := last.crosses2(deduct, "b", 1, base, 50); !slices.Equal(got, fifty) {
		t.Errorf("the repeat of a later week has notices %q, want %q", got, fifty)
	}
	all := slices.Concat(fifty, two, past, a.crosses(deduct, "g", 300, monday, 50, 80, 100, 150),
		a.of(a.subject+"x").crosses(deduct, "g", 300, monday, 50, 80, 100, 150))
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 12 {
		t.Errorf("%d notices are of %d ids", 12, n)
	}
	// A refusal and a preflight cross nothing.
	b := w.notified(200, 80)
	d, err := b.engine.Deduct(t.Context(), b.request("x", 201))
	if err != nil || len(d.Crossed) != 0 {
		t.Errorf("a refusal: %s, %v", text(d), err)
	}
	d, err = b.engine.Preflight(t.Context(), b.request("x", 200))
	if err != nil || len(d.Crossed) != 0 {
		t.Errorf("a preflight: %s, %v", text(d), err)
	}
}

// crosses2 is like crosses, for a call that was made before.
func (a account) crosses2(v verb, id string, cost int64, in time.Time, percents ...int) []string {
	a.w.Helper()
	d, err := a.ask(v, a.request(id, cost))
	if err != nil || !d.Replay {
		a.w.Fatalf("repeat of %s %q: %s, %v", v, id, text(d), err)
	}
	return a.crossed(d, in, percents...)
}

func crossedInEachLimit(t *testing.T, h Harness) {
	w := newWorld(t, h)
	c := w.limited(
		headroom.Limit{Meter: meter, Name: "day", Period: period(t, "day"), Units: 60, Thresholds: []int{50}},
		headroom.Limit{Meter: meter, Name: "shadow", Units: 10, Mode: headroom.Shadow, Thresholds: []int{100, 200}},
		headroom.Limit{Meter: meter, Name: "soft", Units: 30, Mode: headroom.Soft, Thresholds: []int{100}},
		headroom.Limit{Meter: meter, Name: "week", Units: 200, Thresholds: []int{50}},
	)
	a := w.accountOn(c, 0)
	for i, want := range []string{"day 50, shadow 100, shadow 200, soft 100, ", "", "day 50, week 50, "} {
		w.set(base.Add(time.Duration(i/2) * day))
		cost := []int64{30, 29, 60}[i]
		for range 2 {
			d, err := a.engine.Deduct(t.Context(), a.request(id(int64(i)), cost))
			got := ""
			for _, n := range d.Crossed {
				got += fmt.Sprintf("%s %d, ", n.Limit, n.Percent)
			}
			if err != nil || !d.Allowed || got != want {
				t.Errorf("deduction %d crossed %q: %s, %v, want %q", i, got, text(d), err, want)
			}
		}
	}
}

func crossedByHolds(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.notified(200, 50, 80, 100).lasts(2 * day)
	a.crosses(hold, "a", 90, base)
	fifty := a.crosses(hold, "b", 20, base, 50)
	a.crosses(settle, "a", 90, base)
	// A settlement names all thresholds that the operation has crossed, the hold's too.
	if got := a.crosses(settle, "b", 80, base, 50, 80); !slices.Equal(got[:1], fifty) {
		t.Errorf("notices %q, want %q first", got, fifty)
	}
	// A hold is made in one week and settled in the next. Each notice names its own week.
	w.set(monday.Add(-time.Hour))
	b := w.notified(200, 50, 80, 100).lasts(2 * day)
	sunday := b.crosses(hold, "job", 170, base, 50, 80)
	w.set(monday)
	var first []headroom.Notice
	for repeat := range 2 {
		d, err := b.ask(settle, b.request("job", 280))
		if err != nil || len(d.Crossed) != 3 || d.Crossed[0].ID != sunday[0] || d.Crossed[1].ID != sunday[1] ||
			d.Crossed[2].Percent != 50 || span(d.Crossed[2].Window) != span(headroom.ISOWeek(monday)) {
			t.Fatalf("%s, %v", text(d), err)
		}
		if repeat == 0 {
			first = d.Crossed
		} else if !slices.Equal(d.Crossed, first) {
			t.Errorf("notices %v, and at the repeat %v", first, d.Crossed)
		}
	}
	// The notices of a hold that was released are remembered.
	c := w.notified(200, 50, 80, 100)
	fifty = c.crosses(hold, "released", 100, monday, 50)
	c.does(release, "released", 100, released, 0, 0)
	if got := c.crosses2(hold, "released", 100, monday, 50); !slices.Equal(got, fifty) {
		t.Errorf("notices %q, want %q", got, fifty)
	}
}

func crossedByNoExpiredHold(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.notified(200, 50, 80)
	a.crosses(hold, "dead", 110, base, 50)
	w.set(base.Add(time.Hour))
	a.crosses(deduct, "a", 60, base) // 60 are used, and not 170
	a.crosses(deduct, "b", 39, base)
	a.crosses(deduct, "c", 1, base, 50)

	b := w.notified(200, 50, 80)
	b.crosses(deduct, "before", 100, w.now(), 50)
	b.does(hold, "dead", 50, admitted, 100, 50)
	w.set(base.Add(2 * time.Hour))
	b.crosses(deduct, "a", 5, base) // neither with the hold nor without it
	b.crosses(deduct, "b", 54, base)
	b.crosses(deduct, "c", 1, base, 80)
}

func crossedAgain(t *testing.T, h Harness) {
	a := newWorld(t, h).notified(200, 50)
	first := a.crosses(deduct, "a", 100, base, 50)
	a.refund("a", "r", 50, 50, 50)
	second := a.crosses(deduct, "b", 50, base, 50)
	if !slices.Equal(first, second) {
		t.Errorf("one threshold of one window has the notices %q and %q", first, second)
	}
}

func crossedOddLimits(t *testing.T, h Harness) {
	w := newWorld(t, h)
	great := w.notified(1<<62, 1, 80, 1000)
	great.crosses(deduct, "a", 1<<55, base)
	great.crosses(deduct, "b", 1<<62-1<<55-1, base, 1, 80)

	none := w.notified(0, 80)
	none.crosses(deduct, "nothing", 0, base)
	none.crosses(deduct, "a", 1, base, 80)

	odd := w.notified(3, 50)
	odd.crosses(deduct, "a", 1, base)
	odd.crosses(deduct, "b", 1, base, 50)

	endless := w.notified(headroom.Unlimited, 50)
	endless.crosses(deduct, "a", headroom.Unlimited, base)

	c := w.limited(headroom.Limit{Meter: meter, Name: "week", Units: 100, CarryOver: 100, Thresholds: []int{50}})
	a := w.accountOn(c, 100)
	a.crosses(deduct, "a", 0, base)
	w.set(monday)
	a.crosses(deduct, "b", 99, monday)
	a.crosses(deduct, "c", 1, monday, 50)
}

// crossedLess settles a hold at fewer units than it held, after it had crossed a threshold. It does
// so after each way in which a hold can end.
func crossedLess(t *testing.T, h Harness) {
	w := newWorld(t, h)
	live := w.notified(200, 80)
	eighty := live.crosses(hold, "a", 170, base, 80)
	if got := live.crosses(settle, "a", 100, base, 80); !slices.Equal(got, eighty) {
		t.Errorf("settled, notices %q, held, %q", got, eighty)
	}
	free := w.notified(200, 80)
	eighty = free.crosses(hold, "a", 170, base, 80)
	free.crosses(release, "a", 170, base) // what gives units back crosses nothing
	if got := free.crosses(settle, "a", 100, base, 80); !slices.Equal(got, eighty) {
		t.Errorf("settled after a release, notices %q, held, %q", got, eighty)
	}
	dead := w.notified(200, 80)
	eighty = dead.crosses(hold, "a", 170, base, 80)
	w.set(base.Add(time.Hour))
	if got := dead.crosses(settle, "a", 100, base, 80); !slices.Equal(got, eighty) {
		t.Errorf("settled after its end, notices %q, held, %q", got, eighty)
	}
	longer := w.notified(200, 80)
	longer.crosses(hold, "a", 170, base, 80)
	longer.lasting = 2 * time.Hour
	longer.crosses(extend, "a", 170, base)
}
