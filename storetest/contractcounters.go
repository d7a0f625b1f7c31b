package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lumcast/headroom"
)

// counts expects what a counter shows: its count and the window in which it stands.
func (b bare) counts(v headroom.View, limit string, count int64, in headroom.Window) {
	b.Helper()
	if c := v.State.Counters[limit]; c.Count != count || span(c.Window) != span(in) {
		b.Fatalf("the counter %q: want a count of %d in %s, stored is\n%s", limit, count, span(in), viewText(v))
	}
}

func storesWhatItAcknowledges(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 30)
	first.Records = charge("a", 30).Records
	v := b.commit("the first charge of a key", first, true)
	b.counts(v, "week", 30, thisWeek)
	if !v.State.Epoch.Equal(young) || !v.State.EpochBefore.IsZero() {
		t.Errorf("the first change begins a generation of ids: want %s and none before, stored are %s and %s",
			young, v.State.Epoch, v.State.EpochBefore)
	}
	b.commit("the same change again", first, false)
	b.counts(b.commit("a second charge", charge("b", 170), true), "week", 200, thisWeek)
	b.counts(b.commit("a charge of nothing", charge("c", 0), true), "week", 200, thisWeek)
	// Whole numbers of 64 bits: a store that keeps them as floating-point numbers loses the last
	// unit.
	const great = 1<<53 - 200
	b.counts(b.commit("as many as a float can count", steps(step(great, 0, anyMax)), true), "week", 1<<53, thisWeek)
	b.counts(b.commit("one more", steps(step(1, 0, anyMax)), true), "week", 1<<53+1, thisWeek)
	b.counts(b.commit("many more", steps(step(1<<60, 0, anyMax)), true), "week", 1<<60+1<<53+1, thisWeek)
	b.counts(b.commit("all but one", steps(step(-(1<<60+1<<53), 1<<60+1<<53, anyMax)), true), "week", 1, thisWeek)
}

func checksTheCount(t *testing.T, h Harness) {
	b := newBare(t, h)
	b.commit("a window with 30", opened("week", 30), true)
	b.commit("one more than fits", charge("a", 171), false)
	b.commit("what just fits", charge("a", 170), true)
	b.commit("one more", charge("b", 1), false)
	b.commit("less counted than the change wants", steps(step(0, 201, 1000)), false)
	b.commit("less counted than the change takes off", steps(step(-201, 201, 1000)), false)
	b.commit("as much counted as the change wants", steps(step(-200, 200, 1000)), true)
	b.commit("nothing to take off", steps(step(-1, 1, 1000)), false)
}

func checksTheWindow(t *testing.T, h Harness) {
	b := newBare(t, h)
	b.commit("a charge before any window is open", func() headroom.Change {
		c := charge("a", 30)
		c.Epoch = c.Rotate
		return c
	}(), false)
	first := opened("week", 30)
	b.commit("the first", first, true)
	again := steps(first.Steps...)
	b.commit("opens a window that is open", again, false)
	late := step(1, 0, 100)
	late.From, late.To = lastWeek, lastWeek
	b.commit("a charge to another window", steps(late), false)
	late.Opens, late.To = true, nextWeek
	b.commit("closes another window", steps(late), false)
	// Two windows that begin at one instant are two, where they end at different ones.
	longer := thisWeek
	longer.End = longer.End.Add(day)
	late = step(1, 0, 100)
	late.From, late.To = longer, longer
	b.commit("a charge to a window that ends later", steps(late), false)
	unknown := step(1, 0, 100)
	unknown.Limit = "day"
	b.commit("a charge to a counter that is not there", steps(unknown), false)
}

func checksThePlan(t *testing.T, h Harness) {
	b := newBare(t, h)
	b.commit("the first", opened("week", 30), true)
	under := func(plan string, orNone bool) headroom.Change {
		c := steps(step(1, 0, 100))
		c.Plan, c.PlanOrNone = plan, orNone
		return c
	}
	b.commit("no plan is stored, one is asked for", under("free", false), false)
	b.commit("no plan is stored, one or none is asked for", under("free", true), true)
	b.commit("no plan is stored, none is asked for", under("", false), true)
	if err := b.store.SetPlan(t.Context(), b.key.Subject, "free"); err != nil {
		t.Fatalf("SetPlan: %v", err)
	}
	b.commit("the plan that is stored", under("free", false), true)
	b.commit("the plan that is stored, or none", under("free", true), true)
	b.commit("another plan", under("pro", false), false)
	b.commit("another plan, or none", under("pro", true), false)
	b.commit("a plan is stored, none is asked for", under("", false), false)
}

func allOrNothing(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("day", 5)
	first.Steps = append(first.Steps, opened("week", 7).Steps...)
	first.Records = []headroom.RecordStep{{ID: "a", Is: charged(7)}}
	b.commit("two counters", first, true)
	both := func(day, week headroom.Step) headroom.Change {
		day.Limit = "day"
		c := steps(day, week)
		c.Records = []headroom.RecordStep{{ID: "b", Is: charged(1)}, {ID: "held", Is: reserved(1)}}
		c.Grants = []headroom.GrantStep{{ID: "gift", Is: &headroom.Grant{Units: 5, Expires: base.Add(horizon)}}}
		c.Debts = []headroom.DebtStep{{ID: "b", Is: debt("acme", 1)}}
		return c
	}
	gone := step(1, 0, 100)
	gone.From = lastWeek
	b.commit("the first counter is over", both(step(1, 0, 4), step(1, 0, 100)), false)
	b.commit("the second counter is over", both(step(1, 0, 100), step(1, 0, 6)), false)
	b.commit("the second counter is under", both(step(1, 0, 100), step(1, 8, 100)), false)
	b.commit("the first counter stands elsewhere", both(gone, step(1, 0, 100)), false)
	b.commit("the second counter stands elsewhere", both(step(1, 0, 100), gone), false)
	known := both(step(1, 0, 100), step(1, 0, 100))
	known.Records = append(known.Records, headroom.RecordStep{ID: "a", Is: charged(7)})
	b.commit("the last of three ids is known", known, false)
	b.commit("all of it holds", both(step(-5, 5, 5), step(3, 7, 7)), true)
	// One window turns, the other goes on.
	b.set(monday)
	turn := headroom.Step{Limit: "day", From: thisWeek, To: nextWeek, Opens: true, Max: anyMax, Add: 4}
	v := b.commit("one window turns", steps(turn, step(4, 0, 100)), true)
	b.counts(v, "day", 4, nextWeek)
	b.counts(v, "week", 14, thisWeek)
}

func addsBlindly(t *testing.T, h Harness) {
	b := newBare(t, h)
	b.commit("the first", opened("week", 0), true)
	// All are made from one view, and none of them minds the others.
	for i := range int64(5) {
		v := b.commit(fmt.Sprintf("charge %d of five made from one view", i+1), charge(id(i), 10), true)
		b.counts(v, "week", 10*(i+1), thisWeek)
	}
}

func oneStep(t *testing.T, h Harness) {
	const writers, units, fit = 40, 8, 25
	for range 4 {
		b := newBare(t, h)
		b.commit("the first", opened("week", 0), true)
		var made atomic.Int64
		together(writers, func(i int) {
			c := charge(id(int64(i)), units)
			c.Key, c.Horizon, c.Now = b.key, horizon, base
			switch _, done, err := b.store.Commit(t.Context(), c); {
			case err != nil:
				t.Errorf("Commit failed where nothing was wrong: %v", err)
			case done:
				made.Add(1)
			}
		})
		var all []string
		for i := range int64(writers) {
			all = append(all, id(i))
		}
		v := b.load(headroom.Query{IDs: all})
		if n := v.State.Counters["week"].Count; made.Load() != fit || n != units*fit || len(v.Records) != fit {
			t.Fatalf(
				"%d writers at once add %d units each, and %d of them fit: Commit made %d changes, the count is %d, %d ids are remembered",
				writers, units, fit, made.Load(), n, len(v.Records))
		}
	}
}

func viewsStay(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := everything()
	first.Key, first.Horizon, first.Now = b.key, horizon, base
	committed, made, err := b.store.Commit(t.Context(), first)
	if err != nil || !made {
		t.Fatalf("Commit: %t, %v", made, err)
	}
	loaded := b.load(headroom.Query{IDs: first.IDs(), History: true})
	texts := []string{viewText(committed), viewText(loaded)}
	c := steps(headroom.Step{Limit: "week", From: thisWeek, To: nextWeek, Opens: true, Max: anyMax, Add: 4})
	c.Records = []headroom.RecordStep{{ID: "held", Was: reserved(10), Is: charged(10)}, {ID: "charged", Was: charged(30)}}
	c.Grants = []headroom.GrantStep{{ID: "gift", Was: gives(50, 5), Max: anyMax, Add: 3}}
	c.Debts = []headroom.DebtStep{{ID: "charged", Was: debt("acme", 30)}}
	b.commit("a change of everything", c, true)
	for i, v := range []headroom.View{committed, loaded} {
		if viewText(v) != texts[i] {
			t.Errorf("the view that %s returned has changed with a later Commit, from\n%s\nto\n%s",
				[]string{"Commit", "Load"}[i], texts[i], viewText(v))
		}
	}
}

// turned is a step by which the counter "week" leaves one window for another.
func turned(from, to headroom.Window, add int64) headroom.Step {
	return headroom.Step{Limit: "week", From: from, To: to, Opens: true, Max: anyMax, Add: add}
}

// corrects is a step that adds to the count and to totals of closed windows.
func corrects(add int64, past ...headroom.Total) headroom.Step {
	s := step(add, -min(0, add), anyMax)
	s.Past = past
	return s
}

// folds is a step that takes a window which a wrong clock opened back into this week, whose total
// it says is so many units.
func folds(add, units int64) headroom.Step {
	return headroom.Step{
		Limit: "week", From: ahead, To: thisWeek, Max: anyMax, Add: add,
		Fold: []headroom.Total{{Start: thisWeek.Start, Units: units}},
	}
}

// totals expects the totals of the closed windows of "week", the latest first.
func (b bare) totals(v headroom.View, units ...int64) {
	b.Helper()
	past := v.State.Counters["week"].Past
	same := len(past) == len(units)
	for i := range past {
		same = same && past[i].Units == units[i]
	}
	if !same {
		b.Fatalf("want the totals %d of closed windows, stored is\n%s", units, viewText(v))
	}
}

func keepsTotals(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 40)
	first.Steps[0].To = lastWeek
	b.totals(b.commit("last week", first, true))
	v := b.commit("this week", steps(turned(lastWeek, thisWeek, 30)), true)
	b.totals(v, 40)
	b.counts(v, "week", 30, thisWeek)
	v = b.commit("less in the total and in the count", steps(corrects(-10, headroom.Total{Start: lastWeek.Start, Units: -15})), true)
	b.totals(v, 25)
	b.counts(v, "week", 20, thisWeek)
	b.totals(b.commit("more in the total", steps(corrects(0, headroom.Total{Start: lastWeek.Start, Units: 5})), true), 30)
	b.totals(b.commit("nothing left of the total", steps(corrects(0, headroom.Total{Start: lastWeek.Start, Units: -30})), true))
	// A window of the future that a wrong clock opened is taken back into the one that it left.
	b.totals(b.commit("a window of the future", steps(turned(thisWeek, ahead, 3)), true), 20)
	v = b.commit("back into this week", steps(folds(1, 20)), true)
	b.totals(v)
	b.counts(v, "week", 24, thisWeek)
	// A window of which nothing was used leaves no total.
	b.commit("all given back", steps(step(-24, 24, 24)), true)
	b.totals(b.commit("the next week", steps(turned(thisWeek, nextWeek, 1)), true))
}

func checksTotals(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 40)
	first.Steps[0].To = lastWeek
	b.commit("last week", first, true)
	b.commit("this week", steps(turned(lastWeek, thisWeek, 30)), true)
	earlier := headroom.ISOWeek(base.Add(-2 * week))
	b.commit("a total that is not there", steps(corrects(0, headroom.Total{Start: earlier.Start, Units: 1})), false)
	b.commit("a total that would be below 0", steps(corrects(0, headroom.Total{Start: lastWeek.Start, Units: -41})), false)
	b.commit("one total that is there and one that is not", steps(corrects(0,
		headroom.Total{Start: lastWeek.Start, Units: -1}, headroom.Total{Start: earlier.Start, Units: 1})), false)
	b.commit("all of a total", steps(corrects(0, headroom.Total{Start: lastWeek.Start, Units: -40})), true)
	b.commit("a total of which nothing is left", steps(corrects(0, headroom.Total{Start: lastWeek.Start, Units: 1})), false)
	b.commit("a window of the future", steps(turned(thisWeek, ahead, 3)), true)
	b.commit("back into this week, whose total was more", steps(folds(1, 29)), false)
	b.commit("back into this week, whose total was less", steps(folds(1, 31)), false)
	b.commit("back into this week, at its total", steps(folds(1, 30)), true)
}

func keepsCarried(t *testing.T, h Harness) {
	b := newBare(t, h)
	carried := func(v headroom.View, units int64) {
		t.Helper()
		if c := v.State.Counters["week"]; c.Carried != units {
			t.Fatalf("want %d carried over, stored is\n%s", units, viewText(v))
		}
	}
	first := opened("week", 10)
	first.Steps[0].Carried = 25
	carried(b.commit("a window with 25 carried over", first, true), 25)
	says := func(s headroom.Step, carried int64) headroom.Change {
		s.Carried = carried
		return steps(s)
	}
	b.commit("a charge that says that nothing is", says(step(1, 0, anyMax), 0), false)
	b.commit("a charge that says that more is", says(step(1, 0, anyMax), 26), false)
	carried(b.commit("a charge that says that so much is", says(step(1, 0, anyMax), 25), true), 25)
	carried(b.commit("a window of the future with 40", says(turned(thisWeek, ahead, 1), 40), true), 40)
	// A window that is brought back has what the change says.
	v := b.commit("brought back with 7", says(folds(1, 11), 7), true)
	carried(v, 7)
	b.counts(v, "week", 13, thisWeek)
	carried(b.commit("the next with nothing", says(turned(thisWeek, nextWeek, 1), 0), true), 0)
	late := step(1, 0, anyMax)
	late.From, late.To = nextWeek, nextWeek
	b.commit("a charge that says that 7 still are", says(late, 7), false)
}
