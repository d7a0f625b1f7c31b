package storetest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// contract holds what the comments of headroom.Store ask for, without an engine between.
var contract = []rule{
	{"contract of Load", loadContract},
	{"contract of Commit", commitContract},
	{"contract of Commit: records", recordContract},
	{"contract of Commit: generations of records", generationContract},
	{"contract of Commit: holds", holdContract},
	{"contract of Commit: grants", grantContract},
	{"contract of Commit: debts", debtContract},
	{"contract of Owing", owingContract},
	{"contract of Commit: several counters", stepsContract},
	{"contract of Commit: totals of closed windows", totalsContract},
	{"contract of Commit: what is carried over", carriedContract},
}

// bare is a key of a store, without an engine.
type bare struct {
	*world
	key headroom.Key
}

func newBare(t *testing.T, h Harness) bare {
	w := newWorld(t, h)
	a := w.account(200)
	return bare{w, headroom.Key{Subject: a.subject, Meter: a.meter}}
}

func (b bare) load(q headroom.Query) headroom.View {
	b.Helper()
	q.Key = b.key
	v, err := b.store.Load(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// commit expects that a change is made or not, and that the view which comes back is what is stored then. It returns that.
func (b bare) commit(what string, c headroom.Change, done bool) headroom.View {
	b.Helper()
	if c.Key == (headroom.Key{}) {
		c.Key = b.key
	}
	c.Horizon = horizon
	c.Now = base // windows of the future are the change's own doing, and no clock's
	v, ok, err := b.store.Commit(b.Context(), c)
	if err != nil || ok != done {
		b.Fatalf("%s: %t, %v: want %t", what, ok, err, done)
	}
	after := b.load(headroom.Query{IDs: ids(c), History: true})
	if got, want := viewText(v), viewText(after); got != want && !partial(v) {
		b.Fatalf("%s: the view that came back is\n%s\nand what is stored\n%s", what, got, want)
	}
	return after
}

func partial(v headroom.View) bool {
	for _, c := range v.State.Counters {
		if c.Partial {
			return true
		}
	}
	return false
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// viewText shows a view but for the time.
func viewText(v headroom.View) string {
	s := fmt.Sprintf("plan %q, ids of %d and %d\n", v.State.Plan, v.State.Epoch.Unix(), v.State.EpochBefore.Unix())
	for _, name := range sorted(v.State.Counters) {
		c := v.State.Counters[name]
		s += fmt.Sprintf("%s: %d and %d carried in %s", name, c.Count, c.Carried, span(c.Window))
		for _, t := range c.Past {
			s += fmt.Sprintf(", %d in %d", t.Units, t.Start.Unix())
		}
		s += "\n"
	}
	for _, id := range sorted(v.State.Holds) {
		s += fmt.Sprintf("%q holds %s\n", id, v.State.Holds[id])
	}
	for _, id := range sorted(v.State.Grants) {
		g := v.State.Grants[id]
		s += fmt.Sprintf("%q grants %d, %d used, until %d\n", id, g.Units, g.Used, g.Expires.Unix())
	}
	for _, id := range sorted(v.State.Debts) {
		s += fmt.Sprintf("%q owes %s\n", id, v.State.Debts[id])
	}
	for _, id := range sorted(v.Records) {
		s += fmt.Sprintf("%q is %s\n", id, v.Records[id])
	}
	return s
}

var (
	young    = epoch(base, horizon)
	thisWeek = headroom.ISOWeek(base)
	lastWeek = headroom.ISOWeek(base.Add(-week))
)

// opened is a change that opens a counter at so many units. Its From is to be set where there is one already.
func opened(limit string, units int64) headroom.Change {
	return headroom.Change{Plan: "free", PlanOrNone: true, Rotate: young, Steps: []headroom.Step{{Limit: limit, To: thisWeek, Opens: true, Max: 1 << 60, Add: units}}}
}

// next is a change of the present generation with nothing in it.
func next() headroom.Change { return headroom.Change{Plan: "free", PlanOrNone: true, Epoch: young} }

// charged is the record of a deduction of so many units in this week.
func charged(units int64) *headroom.Record {
	return &headroom.Record{Kind: headroom.KindDeduct, Cost: units, Windows: []headroom.ChargedWindow{{Limit: "week", Start: thisWeek.Start, Units: units}}}
}

// reserved is the record of a hold of so many units in this week.
func reserved(units int64) *headroom.Record {
	r := charged(units)
	r.Kind, r.Expires = headroom.KindHold, base.Add(time.Hour)
	return r
}

func loadContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	for _, q := range []headroom.Query{{}, {IDs: []string{"id"}}, {History: true}, {Weak: true}, {IDs: []string{"id", "other"}, Weak: true}} {
		v := b.load(q)
		if v.State.Plan != "" || len(v.State.Counters)+len(v.State.Holds)+len(v.State.Grants)+len(v.Records) != 0 || !v.State.Epoch.IsZero() || !v.State.EpochBefore.IsZero() {
			t.Errorf("of a key that nobody has written, %+v shows %+v", q, v)
		}
		if !v.Now.Equal(base) {
			t.Errorf("%+v is answered at %s, want the clock's %s", q, v.Now, base)
		}
		q.Now = base.Add(-year).Add(1)
		if v := b.load(q); !v.Now.Equal(q.Now) {
			t.Errorf("%+v is answered at %s", q, v.Now)
		}
	}
	if err := b.store.SetPlan(t.Context(), b.key.Subject, "free"); err != nil {
		t.Fatal(err)
	}
	if v := b.load(headroom.Query{}); v.State.Plan != "free" || len(v.State.Counters) != 0 {
		t.Errorf("with a plan and nothing else: %+v", v)
	}
	first := opened("week", 30)
	first.Records = []headroom.RecordStep{{ID: "id", Is: charged(30)}, {ID: "held", Is: reserved(5)}}
	b.commit("the first", first, true)
	v := b.load(headroom.Query{IDs: []string{"id", "held", "none"}})
	if len(v.Records) != 2 || !reflect.DeepEqual(v.Records["id"], *charged(30)) || !reflect.DeepEqual(v.Records["held"], *reserved(5)) || v.State.Counters["week"].Count != 30 {
		t.Errorf("after a charge and a hold: %s", viewText(v))
	}
	for _, other := range []string{"i", "id ", "ID"} {
		if v := b.load(headroom.Query{IDs: []string{other}}); len(v.Records) != 0 {
			t.Errorf("%q is known: %s", other, viewText(v))
		}
	}
	if v := b.load(headroom.Query{}); len(v.Records) != 0 || len(v.State.Holds) != 1 {
		t.Errorf("no id is asked for, and the answer is %s", viewText(v))
	}
}

func commitContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	change := func(id string, cost int64) headroom.Change {
		c := next()
		c.Records = []headroom.RecordStep{{ID: id, Is: charged(cost)}}
		c.Steps = []headroom.Step{{Limit: "week", From: thisWeek, To: thisWeek, Max: 200 - cost, Add: cost}}
		return c
	}
	counts := func(v headroom.View, count int64) {
		t.Helper()
		if got := v.State.Counters["week"]; got.Count != count || count > 0 && span(got.Window) != span(thisWeek) || !v.Now.Equal(base) {
			t.Fatalf("want a count of %d: %s", count, viewText(v))
		}
	}
	counts(b.commit("before the window is open", change("a", 30), false), 0)
	first := opened("week", 30)
	first.Records = change("a", 30).Records
	v := b.commit("the first", first, true)
	if counts(v, 30); !v.State.Epoch.Equal(young) || !v.State.EpochBefore.IsZero() {
		t.Errorf("generations of ids after the first: %s, %s", v.State.Epoch, v.State.EpochBefore)
	}
	v = b.commit("the first again", first, false)
	if counts(v, 30); !reflect.DeepEqual(v.Records["a"], *charged(30)) {
		t.Errorf("the view that refused a repeat: %s", viewText(v))
	}
	counts(b.commit("a charge of an id that is known", change("a", 1), false), 30)
	other := first
	other.Records = change("b", 30).Records
	counts(b.commit("what opens a window that is open", other, false), 30)
	counts(b.commit("one more than fits", change("b", 171), false), 30)
	counts(b.commit("what just fits", change("b", 170), true), 200)
	counts(b.commit("nothing", change("c", 0), true), 200)
	late := change("d", 0)
	late.Steps[0].Min, late.Steps[0].Max = 201, 1000
	counts(b.commit("less than asked for", late, false), 200)
	late.Steps[0].Min = 200
	counts(b.commit("what was asked for", late, true), 200)
	plan := change("e", 0)
	plan.PlanOrNone = false
	counts(b.commit("a plan that is not stored", plan, false), 200)
	if err := b.store.SetPlan(t.Context(), b.key.Subject, "free"); err != nil {
		t.Fatal(err)
	}
	counts(b.commit("a plan that is stored", plan, true), 200)
	plan = change("f", 0)
	plan.Plan = "pro"
	counts(b.commit("another plan", plan, false), 200)
	plan = change("f", 0)
	plan.Epoch = young.Add(horizon)
	counts(b.commit("another generation of ids", plan, false), 200)
	v = b.load(headroom.Query{IDs: []string{"a", "b", "c", "d", "e", "f"}})
	if len(v.Records) != 5 {
		t.Errorf("remembered: %s", viewText(v))
	}
}

func recordContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 30)
	first.Records = []headroom.RecordStep{{ID: "a", Is: charged(30)}, {ID: "b", Is: charged(0)}}
	b.commit("two records in one change", first, true)
	less := charged(30)
	less.Refunded, less.Windows[0].Units = 10, 20
	refund := &headroom.Record{Kind: headroom.KindRefund, Cost: 10, Of: "a"}
	step := func(steps ...headroom.RecordStep) headroom.Change {
		c := next()
		c.Records = steps
		return c
	}
	for what, s := range map[string][]headroom.RecordStep{
		"an id that is known":                            {{ID: "a", Is: refund}},
		"an id that is not known":                        {{ID: "x", Was: charged(30), Is: less}},
		"an id that stands for something else":           {{ID: "a", Was: charged(29), Is: less}},
		"one that holds and one that does not":           {{ID: "r", Is: refund}, {ID: "a", Was: less, Is: less}},
		"one that does not and one that holds":           {{ID: "a", Was: less, Is: less}, {ID: "r", Is: refund}},
		"the end of what is not known":                   {{ID: "x", Was: charged(30)}},
		"that nothing is known, where something is":      {{ID: "a"}},
		"a record that differs in what it crossed only":  {{ID: "a", Was: &headroom.Record{Kind: headroom.KindDeduct, Cost: 30, Windows: charged(30).Windows, Crossed: []headroom.Crossing{{Limit: "week", Percent: 80, Start: thisWeek.Start}}}, Is: less}},
		"a hold that lies nowhere":                       {{ID: "x", Was: reserved(30), Is: charged(30)}},
		"a hold where a charge of the same units is":     {{ID: "a", Was: reserved(30), Is: charged(30)}},
		"a new record and the end of one of another key": {{ID: "r", Is: refund}, {ID: "other", Was: charged(1)}},
	} {
		before := viewText(b.load(headroom.Query{IDs: []string{"a", "b", "r", "x"}}))
		b.commit(what, step(s...), false)
		if after := viewText(b.load(headroom.Query{IDs: []string{"a", "b", "r", "x"}})); after != before {
			t.Fatalf("%s changed\n%s\nto\n%s", what, before, after)
		}
	}
	v := b.commit("a refund", step(headroom.RecordStep{ID: "r", Is: refund}, headroom.RecordStep{ID: "a", Was: charged(30), Is: less}), true)
	if !reflect.DeepEqual(v.Records, map[string]headroom.Record{"a": *less, "r": *refund}) {
		t.Errorf("after a refund: %s", viewText(v))
	}
	v = b.commit("the end of a record", step(headroom.RecordStep{ID: "b", Was: charged(0)}), true)
	if _, ok := v.Records["b"]; ok {
		t.Errorf("it is still known: %s", viewText(v))
	}
	b.commit("the same id anew", step(headroom.RecordStep{ID: "b", Is: charged(7)}), true)
	// What a record may hold comes back as it was.
	rich := &headroom.Record{
		Kind: headroom.KindSettled, Cost: 1 << 60, Held: 5, Refunded: 3, Recorded: true,
		Windows: []headroom.ChargedWindow{{Limit: "day", Start: lastWeek.Start, Units: 0}, {Limit: "week", Start: lastWeek.Start, Units: 2}, {Limit: "week", Start: thisWeek.Start, Units: 9}},
		Grants:  []headroom.GrantUse{{ID: "a b,c:#%/\x00\u65e5", Units: 4}, {ID: "g", Units: 1}},
		Crossed: []headroom.Crossing{{Limit: "week", Percent: 80, Start: lastWeek.Start}, {Limit: "week", Percent: 1000, Start: thisWeek.Start}},
	}
	b.commit("a record with everything", step(headroom.RecordStep{ID: "rich", Is: rich}), true)
	if v := b.load(headroom.Query{IDs: []string{"rich"}}); !reflect.DeepEqual(v.Records["rich"], *rich) {
		t.Errorf("it comes back as %+v, want %+v", v.Records["rich"], *rich)
	}
}

func generationContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 30)
	first.Records = []headroom.RecordStep{{ID: "old", Is: charged(1)}, {ID: "again", Is: charged(2)}, {ID: "held", Is: reserved(3)}, {ID: "ended", Is: reserved(4)}}
	b.commit("the first", first, true)
	rotate := func(from time.Time, steps ...headroom.RecordStep) headroom.View {
		t.Helper()
		b.set(from.Add(horizon))
		b.commit("a new generation", headroom.Change{Plan: "free", PlanOrNone: true, Epoch: from, Rotate: from.Add(horizon), Records: steps}, true)
		return b.load(headroom.Query{IDs: []string{"old", "again", "held", "ended", "new"}})
	}
	known := func(v headroom.View, want ...string) {
		t.Helper()
		if got := sorted(v.Records); !reflect.DeepEqual(got, want) {
			t.Fatalf("remembered are %q, want %q", got, want)
		}
	}
	ended := reserved(4)
	ended.Kind = headroom.KindReleased
	v := rotate(young, headroom.RecordStep{ID: "again", Was: charged(2), Is: charged(2)}, headroom.RecordStep{ID: "new", Is: charged(5)}, headroom.RecordStep{ID: "ended", Was: reserved(4), Is: ended})
	known(v, "again", "ended", "held", "new", "old")
	// What was written again, and what ended, is of the younger generation; a hold ages in none.
	known(rotate(young.Add(horizon)), "again", "ended", "held", "new")
	known(rotate(young.Add(2*horizon)), "held")
	b.commit("an id that was forgotten", headroom.Change{Plan: "free", PlanOrNone: true, Epoch: young.Add(3 * horizon), Records: []headroom.RecordStep{{ID: "old", Is: charged(9)}}}, true)
}

func holdContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 100)
	name := func(i int) string { return fmt.Sprintf("hold-%02d", i) }
	for i := range 20 {
		first.Records = append(first.Records, headroom.RecordStep{ID: name(i), Is: reserved(int64(i))})
	}
	v := b.commit("twenty holds in one change", first, true)
	if len(v.State.Holds) != 20 || len(v.Records) != 20 || v.State.Holds[name(7)].String() != reserved(7).String() {
		t.Errorf("%s", viewText(v))
	}
	more := func(from, to int) headroom.Change {
		c := next()
		for i := from; i < to; i++ {
			c.Records = append(c.Records, headroom.RecordStep{ID: name(i), Is: reserved(int64(i))})
		}
		return c
	}
	for from := 20; from < 80; from += 20 {
		b.commit("twenty more", more(from, from+20), true)
	}
	b.commit("as many as there can be, and one", more(80, 101), false)
	b.commit("as many as there can be", more(80, 100), true)
	b.commit("one more", more(100, 101), false)
	longer := reserved(3)
	longer.Expires = base.Add(2 * time.Hour)
	swap := more(100, 101)
	swap.Records = append(swap.Records, headroom.RecordStep{ID: name(3), Was: reserved(3), Is: longer})
	b.commit("one more, and one that lasts longer", swap, false)
	swap.Records[1].Is = charged(3)
	v = b.commit("one more for one that ends", swap, true)
	if len(v.State.Holds) != headroom.MaxHolds || v.Records[name(3)].Kind != headroom.KindDeduct {
		t.Errorf("%d holds: %s", len(v.State.Holds), v.Records[name(3)])
	}
	if _, ok := v.State.Holds[name(3)]; ok {
		t.Error("the hold that ended is still one")
	}
	longer = reserved(4)
	longer.Expires = base.Add(2 * time.Hour)
	change := next()
	change.Records = []headroom.RecordStep{{ID: name(4), Was: reserved(4), Is: longer}}
	b.commit("a hold that lasts longer, among all", change, true)
	b.commit("and once more from what it was", change, false)
	change.Records = []headroom.RecordStep{{ID: name(4), Was: longer}}
	if v = b.commit("a hold that is forgotten", change, true); len(v.State.Holds) != headroom.MaxHolds-1 || len(v.Records) != 0 {
		t.Errorf("%d holds, and %v", len(v.State.Holds), v.Records)
	}
}
