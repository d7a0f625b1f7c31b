package headroom

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"
)

func TestPlaceOfChangedKinds(t *testing.T) {
	week, june := ISOWeek(may), periodOf(t, "month").At(time.Date(2026, time.June, 15, 0, 0, 0, 0, time.UTC))
	day := periodOf(t, "day")
	for name, c := range map[string]struct {
		stored Window
		period string
		now    time.Time
		want   Window
		opens  bool
	}{
		"nothing stored":                            {Window{}, "month", may, periodOf(t, "month").At(may), true},
		"the stored week holds":                     {week, "month", may, week, false},
		"to its last instant":                       {week, "month", week.End.Add(-1), week, false},
		"the first month begins where it ended":     {periodOf(t, "week from wednesday").At(may), "month", may.AddDate(0, 0, 7), Window{Key: "2026-06", Start: time.Date(2026, time.June, 3, 0, 0, 0, 0, time.UTC), End: june.End}, true},
		"a month after is whole":                    {week, "month", time.Date(2026, time.July, 2, 0, 0, 0, 0, time.UTC), periodOf(t, "month").At(time.Date(2026, time.July, 2, 0, 0, 0, 0, time.UTC)), true},
		"the stored month holds for days":           {periodOf(t, "month").At(may), "day", may, periodOf(t, "month").At(may), false},
		"and days begin after it":                   {periodOf(t, "month").At(may), "day", june.Start, day.At(june.Start), true},
		"in another zone the first day is cut":      {day.At(may), "day in Asia/Tokyo", day.At(may).End, Window{Key: "2026-05-28", Start: day.At(may).End, End: periodOf(t, "day in Asia/Tokyo").At(day.At(may).End).End}, true},
		"and the next is whole":                     {day.At(may), "day in Asia/Tokyo", day.At(may).End.Add(24 * time.Hour), periodOf(t, "day in Asia/Tokyo").At(day.At(may).End.Add(24 * time.Hour)), true},
		"one that begins at the same instant waits": {day.At(june.Start), "month", june.Start.Add(time.Hour), day.At(june.Start), false},
	} {
		l := Limit{Meter: "slots", Name: "l", Period: periodOf(t, c.period), Units: 100}
		v := View{Now: c.now, State: State{Counters: map[string]Counter{}}}
		if !c.stored.IsZero() {
			v.State.Counters["l"] = Counter{Window: c.stored, Count: 40}
		}
		s, err := standingOf(l, v, false)
		count := int64(40)
		if c.opens {
			count = 0
		}
		if err != nil || s.opens != c.opens || s.window != c.want || s.count != count {
			t.Errorf("%s: in %+v, opens %t, %d used, %v: want %+v, %t, %d", name, s.window, s.opens, s.count, err, c.want, c.opens, count)
		}
	}
}

func TestCarryDoesNotDependOnWhoLooks(t *testing.T) {
	l := Limit{Meter: "slots", Name: "week", Units: 100, CarryOver: 250}
	this := ISOWeek(may)
	hold := func(units int64, expires time.Time) Record {
		return Record{Kind: KindHold, Cost: units, Expires: expires, Windows: []ChargedWindow{{"week", this.Start, units}}}
	}
	for name, c := range map[string]struct {
		count, carried int64
		holds          []Record
		weeks          int
		want           int64
	}{
		"what is left":                            {40, 0, nil, 1, 60},
		"with what was carried into it":           {40, 30, nil, 1, 90},
		"nothing of one that is used up":          {130, 30, nil, 1, 0},
		"nor of one with charges past its limit":  {500, 30, nil, 1, 0},
		"weeks that nobody used":                  {40, 0, nil, 2, 160},
		"up to the cap":                           {40, 0, nil, 3, 250},
		"however many":                            {40, 0, nil, 4000, 250},
		"a used up week and one that nobody used": {500, 0, nil, 2, 100},
		"a hold that was live at the end":         {40, 0, []Record{hold(10, this.End.Add(time.Second))}, 1, 60},
		"a hold that ended with it":               {40, 0, []Record{hold(10, this.End)}, 1, 70},
		"a hold of more than is counted":          {40, 0, []Record{hold(1000, this.End)}, 1, 100},
	} {
		v := View{State: State{Counters: map[string]Counter{"week": {Window: this, Count: c.count, Carried: c.carried}}, Buckets: bucketsOf(c.holds...)}}
		for _, into := range []time.Duration{0, time.Hour, 7*24*time.Hour - 1} {
			v.Now = this.Start.Add(time.Duration(c.weeks)*7*24*time.Hour + into)
			if s, err := standingOf(l, v, false); err != nil || s.carried != c.want || !s.opens {
				t.Errorf("%s: %d carried over at %s, %v: want %d", name, s.carried, v.Now, err, c.want)
			}
		}
	}
	for units, want := range map[int64]int64{0: 0, 1: 52, math.MaxInt64: math.MaxInt64} {
		v := View{Now: this.End.AddDate(2, 0, 0), State: State{Counters: map[string]Counter{"week": {Window: this}}}}
		l.Units, l.CarryOver = units, math.MaxInt64
		if s, err := standingOf(l, v, false); err != nil || s.carried != want || s.allowance() < 0 || s.most() < 0 {
			t.Errorf("of %d units a week %d are carried over, %v: want %d", units, s.carried, err, want)
		}
	}
}

func TestRepairAsksForTheWholeHistoryIfItMust(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "week", Units: 200})
	some := func(weeks ...int) (past []Total) {
		for _, w := range weeks {
			past = append(past, Total{Start: weekAt(w).Start, Units: 1})
		}
		return past
	}
	for name, c := range map[string]struct {
		counter Counter
		asks    bool
	}{
		"nothing at hand":                      {Counter{Window: weekAt(9), Partial: true}, true},
		"only the future at hand":              {Counter{Window: weekAt(9), Partial: true, Past: some(8, 7, 1)}, true},
		"the present window at hand":           {Counter{Window: weekAt(9), Partial: true, Past: some(8, 0)}, true},
		"the past at hand":                     {Counter{Window: weekAt(9), Partial: true, Past: some(8, -1)}, true},
		"all at hand":                          {Counter{Window: weekAt(9), Past: some(8, 7)}, false},
		"no repair needed":                     {Counter{Window: thisWeek, Partial: true}, false},
		"a new window, no repair needed":       {Counter{Window: weekAt(-1), Partial: true}, false},
		"nobody has seen the subject, nothing": {Counter{}, false},
	} {
		v := View{Now: tuesday, State: State{Counters: map[string]Counter{"week": c.counter}}}
		_, _, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 1})
		if asks := errors.Is(err, errNeedHistory); asks != c.asks || !asks && err != nil {
			t.Errorf("%s: error %v, want history to be asked for: %t", name, err, c.asks)
		}
	}
}

func TestRepairLeavesUnknownTotalsAlone(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "week", Units: 200})
	v := View{Now: tuesday, State: State{Counters: map[string]Counter{"week": {Window: weekAt(9), Count: 5, Past: []Total{{Start: weekAt(8).Start, Unknown: true}, {Start: thisWeek.Start, Units: 100}}}}}}
	c, d, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: 1})
	if err != nil || c == nil || d.Used != 105 || len(c.Steps[0].Fold) != 1 || c.Unmet(v) != "" {
		t.Errorf("%+v, %+v, %v", c, d, err)
	}
}

// TestRepairTakesNothingAlong holds that a window that is brought back does not keep what the one
// that a wrong clock opened could carry over.
func TestRepairTakesNothingAlong(t *testing.T) {
	ahead := ISOWeek(may.AddDate(1, 0, 0))
	k := rules{catalog: &Catalog{}}
	var err error
	if k.catalog, err = NewCatalog("free", []Plan{{Name: "free", Limits: []Limit{{Meter: "slots", Name: "week", Units: 100, CarryOver: 50}}}}, nil); err != nil {
		t.Fatal(err)
	}
	v := View{Now: may, State: State{
		Counters: map[string]Counter{"week": {Window: ahead, Count: 20, Carried: 50, Past: []Total{{Start: ISOWeek(may).Start, Units: 60}}}}, Epoch: k.epoch(may),
	}}
	answer, err := k.deduct(Request{Subject: "s", Meter: "slots", Operation: "id", Cost: 20})(v)
	if err != nil || answer.change == nil || answer.change.Unmet(v) != "" {
		t.Fatalf("%+v, %v", answer, err)
	}
	if c := answer.change.Apply(v.State).Counters["week"]; c.Count != 100 || c.Carried != 0 || !c.Window.same(ISOWeek(may)) || len(c.Past) != 0 {
		t.Errorf("brought back to %+v", c)
	}
	if answer, err = k.deduct(Request{Subject: "s", Meter: "slots", Operation: "id", Cost: 21})(v); err != nil || answer.change != nil {
		t.Errorf("one more than fits: %+v, %v", answer, err)
	}
}

func TestThresholdIsTheLeastCountThatReachesIt(t *testing.T) {
	hundred := big.NewInt(100)
	for _, allowance := range []int64{0, 1, 2, 3, 7, 99, 100, 101, 199, 200, 12345, 1 << 53, 1<<53 + 1, 1 << 60, 1 << 62, math.MaxInt64 / 10, math.MaxInt64 - 1} {
		for _, percent := range []int{1, 2, 33, 50, 80, 99, 100, 101, 150, 999, 1000} {
			want := new(big.Int).Mul(big.NewInt(allowance), big.NewInt(int64(percent)))
			want.Add(want, big.NewInt(99)).Div(want, hundred)
			if want.Sign() == 0 {
				want.SetInt64(1)
			}
			got, ok := threshold(allowance, percent)
			if ok != want.IsInt64() || ok && got != want.Int64() {
				t.Errorf("%d%% of %d: %d, %t: want %s", percent, allowance, got, ok, want)
			}
		}
	}
	if got, ok := threshold(Unlimited, 1); ok {
		t.Errorf("1%% of no limit: %d", got)
	}
}

// TestStepGuardsTheCrossing checks every small case: the guard of a step lets a count through only
// if the step crosses the same thresholds there as on the count that was seen, and fits just as it
// does there.
func TestStepGuardsTheCrossing(t *testing.T) {
	w := ISOWeek(may)
	l := Limit{Meter: "slots", Name: "week", Units: 20, Thresholds: []int{25, 50, 100, 120}}
	for _, mode := range []Mode{Hard, Soft} {
		l.Mode = mode
		for count := int64(0); count <= 30; count++ {
			for own := int64(0); own <= 12; own++ {
				s := standing{limit: l, stored: Counter{Window: w, Count: count}, window: w, count: count}
				guardsTheCrossing(t, s, own)
			}
		}
	}
}

// guardsTheCrossing checks the step of so many units from s.
func guardsTheCrossing(t *testing.T, s standing, own int64) {
	t.Helper()
	recorded := s.refuses(own)
	step, crossed := s.step(own, recorded)
	if s.count < step.Min || s.count > step.Max {
		t.Fatalf("%d on %d: the guard is %d to %d", own, s.count, step.Min, step.Max)
	}
	var want []int
	for _, c := range crossed {
		want = append(want, c.Percent)
	}
	for other := max(step.Min, 0); other <= min(step.Max, 40); other++ {
		reached := crossedBy(s.limit, other, own)
		fits := s.limit.Mode == Soft || own == 0 || recorded != (other+own <= s.limit.Units)
		if !slices.Equal(reached, want) || !fits {
			t.Fatalf("%s, %d on %d, recorded %t: the guard %d to %d lets %d through, which crosses %v and not %v",
				s.limit.Mode, own, s.count, recorded, step.Min, step.Max, other, reached, want)
		}
	}
}

// crossedBy returns the thresholds that so many units more than count reach.
func crossedBy(l Limit, count, own int64) (percents []int) {
	for _, percent := range l.Thresholds {
		if at := l.Units * int64(percent) / 100; count < at && count+own >= at {
			percents = append(percents, percent)
		}
	}
	return percents
}

func TestTheStrictestLimitIsNamed(t *testing.T) {
	k := rulesFor(t, Limit{Meter: "slots", Name: "a", Units: 100}, Limit{Meter: "slots", Name: "b", Units: 60}, Limit{Meter: "other", Name: "c", Units: 1})
	for name, c := range map[string]struct {
		a, b, cost int64
		limit      string
		reason     Reason
	}{
		"the one that leaves least":                  {50, 20, 1, "b", ReasonAdmitted},
		"the one that leaves least, whatever it is":  {90, 20, 1, "a", ReasonAdmitted},
		"the one that refuses":                       {95, 20, 6, "a", ReasonOverLimit},
		"the one that refuses most":                  {95, 59, 6, "b", ReasonOverLimit},
		"the one that can never hold it comes first": {99, 0, 61, "b", ReasonNeverFits},
	} {
		v := View{Now: tuesday, State: State{Counters: map[string]Counter{"a": {Window: thisWeek, Count: c.a}, "b": {Window: thisWeek, Count: c.b}}}}
		_, d, err := k.decide(v, Request{Meter: "slots", Operation: "id", Cost: c.cost})
		if err != nil || d.LimitName != c.limit || d.Reason != c.reason {
			t.Errorf("%s: %+v, %v: want %s by %s", name, d, err, c.reason, c.limit)
		}
	}
	if s := strictest([]standing{{limit: Limit{Name: "early", Units: 10}, window: thisWeek}, {limit: Limit{Name: "late", Units: 10}, window: weekAt(1)}}, 1); s.limit.Name != "late" {
		t.Errorf("of two that leave the same %s is named, want the one whose units come back last", s.limit.Name)
	}
}

// TestNothingIsNegative holds what is shown where another writer has counted less than the holds
// say.
func TestNothingIsNegative(t *testing.T) {
	w := ISOWeek(may)
	hold := func(units int64, expires time.Time) Record {
		return Record{Kind: KindHold, Cost: units, Expires: expires, Windows: []ChargedWindow{{"week", w.Start, units}}}
	}
	v := View{Now: may, State: State{
		Counters: map[string]Counter{"week": {Window: w, Count: 30}},
		Buckets:  bucketsOf(hold(50, may), hold(20, may.Add(time.Second))),
	}}
	s, err := standingOf(Limit{Meter: "slots", Name: "week", Units: 100}, v, false)
	if shown := s.show(0, true); err != nil || shown.Used != 0 || shown.Held != 20 || shown.Remaining != 80 {
		t.Errorf("%+v, %v: want 0 used, 20 held, 80 left", shown, err)
	}
	steps, err := backToWindows(v.State.Counters, []ChargedWindow{{"week", w.Start, 50}, {"week", w.Start.AddDate(0, 0, -7), 10}, {"other", w.Start, 5}})
	if err != nil || len(steps) != 1 || steps[0].Add != -30 || steps[0].Min != 30 || steps[0].Max != 30 || len(steps[0].Past) != 0 {
		t.Errorf("50 leave a count of 30: %+v, %v", steps, err)
	}
}
