package storetest

import (
	"testing"

	"github.com/lumcast/headroom"
)

func stepsContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("day", 5)
	first.Steps = append(first.Steps, opened("week", 7).Steps...)
	b.commit("two counters", first, true)
	move := func(day, week headroom.Step) headroom.Change {
		c := next()
		day.Limit, week.Limit = "day", "week"
		c.Steps = []headroom.Step{day, week}
		return c
	}
	stay := func(least, most, add int64) headroom.Step {
		return headroom.Step{From: thisWeek, To: thisWeek, Min: least, Max: most, Add: add}
	}
	gone := stay(0, 100, 1)
	gone.From = lastWeek
	longer := thisWeek
	longer.End = longer.End.Add(day)
	cut := stay(0, 100, 1)
	cut.From, cut.To = longer, longer
	for what, c := range map[string]headroom.Change{
		"the first is over":                           move(stay(0, 4, 1), stay(0, 100, 1)),
		"the second is over":                          move(stay(0, 100, 1), stay(0, 6, 1)),
		"the second is under":                         move(stay(0, 100, 1), stay(8, 100, 1)),
		"the first stands elsewhere":                  move(gone, stay(0, 100, 1)),
		"the second stands in one that ends elsewhen": move(stay(0, 100, 1), cut),
	} {
		v := b.commit(what, c, false)
		if v.State.Counters["day"].Count != 5 || v.State.Counters["week"].Count != 7 {
			t.Fatalf("%s: %s", what, viewText(v))
		}
	}
	v := b.commit("both", move(stay(5, 5, -5), stay(7, 7, 3)), true)
	if v.State.Counters["day"].Count != 0 || v.State.Counters["week"].Count != 10 {
		t.Errorf("%s", viewText(v))
	}
	// One window turns, the other goes on.
	b.set(monday)
	turn := headroom.Step{From: thisWeek, To: headroom.ISOWeek(monday), Opens: true, Max: 1 << 60, Add: 4}
	v = b.commit("one turns", move(turn, stay(0, 100, 4)), true)
	if d, w := v.State.Counters["day"], v.State.Counters["week"]; d.Count != 4 || span(d.Window) != span(headroom.ISOWeek(monday)) || len(d.Past) != 0 || w.Count != 14 || len(w.Past) != 0 {
		t.Errorf("%s", viewText(v))
	}
}

func totalsContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 40)
	first.Steps[0].To = lastWeek
	b.commit("last week", first, true)
	turn := next()
	turn.Steps = []headroom.Step{{Limit: "week", From: lastWeek, To: thisWeek, Opens: true, Max: 1 << 60, Add: 30}}
	b.commit("this week", turn, true)
	earlier := headroom.ISOWeek(base.Add(-2 * week))
	correct := func(add int64, past ...headroom.Total) headroom.Change {
		c := next()
		c.Steps = []headroom.Step{{Limit: "week", From: thisWeek, To: thisWeek, Min: -min(0, add), Max: 1 << 60, Add: add, Past: past}}
		return c
	}
	b.commit("a total that is not there", correct(0, headroom.Total{Start: earlier.Start, Units: 1}), false)
	b.commit("a total that would be below 0", correct(0, headroom.Total{Start: lastWeek.Start, Units: -41}), false)
	v := b.commit("a total and the count", correct(-10, headroom.Total{Start: lastWeek.Start, Units: -15}), true)
	if c := v.State.Counters["week"]; c.Count != 20 || len(c.Past) != 1 || c.Past[0].Units != 25 {
		t.Errorf("%s", viewText(v))
	}
	v = b.commit("more in a total", correct(0, headroom.Total{Start: lastWeek.Start, Units: 5}), true)
	if c := v.State.Counters["week"]; c.Count != 20 || len(c.Past) != 1 || c.Past[0].Units != 30 {
		t.Errorf("%s", viewText(v))
	}
	v = b.commit("nothing left of a total", correct(0, headroom.Total{Start: lastWeek.Start, Units: -30}), true)
	if c := v.State.Counters["week"]; c.Count != 20 || len(c.Past) != 0 {
		t.Errorf("%s", viewText(v))
	}
	b.commit("a total of which nothing is left", correct(0, headroom.Total{Start: lastWeek.Start, Units: 1}), false)

	// A window of the future that a wrong clock opened is taken back into the one that it left.
	ahead := headroom.ISOWeek(base.Add(year))
	open := next()
	open.Steps = []headroom.Step{{Limit: "week", From: thisWeek, To: ahead, Opens: true, Max: 1 << 60, Add: 3}}
	b.commit("a window of the future", open, true)
	fold := func(units int64) headroom.Change {
		c := next()
		c.Steps = []headroom.Step{{Limit: "week", From: ahead, To: thisWeek, Min: 3, Max: 3, Add: 1, Fold: []headroom.Total{{Start: thisWeek.Start, Units: units}}}}
		return c
	}
	b.commit("another total than it has", fold(21), false)
	v = b.commit("its total", fold(20), true)
	if c := v.State.Counters["week"]; c.Count != 24 || len(c.Past) != 0 || span(c.Window) != span(thisWeek) {
		t.Errorf("%s", viewText(v))
	}
}

func carriedContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 10)
	first.Steps[0].Carried = 25
	if v := b.commit("a window with 25 carried over", first, true); v.State.Counters["week"].Carried != 25 {
		t.Errorf("%s", viewText(v))
	}
	step := func(from, to headroom.Window, carried int64) headroom.Change {
		c := next()
		c.Steps = []headroom.Step{{Limit: "week", From: from, To: to, Max: 1 << 60, Add: 1, Carried: carried, Opens: to.Start.After(from.Start)}}
		return c
	}
	b.commit("that none is", step(thisWeek, thisWeek, 0), false)
	b.commit("that more is", step(thisWeek, thisWeek, 26), false)
	b.commit("that so much is", step(thisWeek, thisWeek, 25), true)
	ahead := headroom.ISOWeek(base.Add(year))
	if v := b.commit("a window of the future with 40", step(thisWeek, ahead, 40), true); v.State.Counters["week"].Carried != 40 {
		t.Errorf("%s", viewText(v))
	}
	// A window that is brought back has what the change says.
	back := step(ahead, thisWeek, 7)
	back.Steps[0].Fold = []headroom.Total{{Start: thisWeek.Start, Units: 11}}
	if v := b.commit("brought back", back, true); v.State.Counters["week"].Carried != 7 || v.State.Counters["week"].Count != 13 {
		t.Errorf("%s", viewText(v))
	}
	if v := b.commit("the next with none", step(thisWeek, headroom.ISOWeek(monday), 0), true); v.State.Counters["week"].Carried != 0 {
		t.Errorf("%s", viewText(v))
	}
	b.commit("of which nobody may say otherwise", step(headroom.ISOWeek(monday), headroom.ISOWeek(monday), 7), false)
}
