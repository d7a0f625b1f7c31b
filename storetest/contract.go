package storetest

import (
	"reflect"
	"testing"

	"github.com/lumcast/headroom"
)

// contract holds what the comments of headroom.Store ask for, without an engine between.
var contract = []rule{
	{"contract of Load", loadContract},
	{"contract of Commit", commitContract},
}

func loadContract(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300)), 200)
	key := headroom.Key{Subject: a.subject, Meter: a.meter}
	load := func(q headroom.Query) headroom.View {
		t.Helper()
		q.Key = key
		v, err := w.store.Load(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, q := range []headroom.Query{{}, {IDs: []string{"id"}}, {History: true}, {Weak: true}, {IDs: []string{"id", "another"}, Weak: true}} {
		v := load(q)
		if v.State.Plan != "" || len(v.State.Counters) != 0 || !v.State.Epoch.IsZero() || !v.State.EpochBefore.IsZero() || len(v.State.Holds)+len(v.State.Grants)+len(v.Records) != 0 {
			t.Errorf("of a key that nobody has written, %+v shows %+v", q, v)
		}
		if !v.Now.Equal(base) {
			t.Errorf("%+v is answered at %s, want the clock's %s", q, v.Now, base)
		}
		q.Now = base.Add(-year).Add(1)
		if v := load(q); !v.Now.Equal(q.Now) {
			t.Errorf("%+v is answered at %s", q, v.Now)
		}
	}
	a.setPlan("pro")
	if v := load(headroom.Query{}); v.State.Plan != "pro" || len(v.State.Counters) != 0 {
		t.Errorf("with a plan and nothing else: %+v", v)
	}
	a.under("pro", 300).admit("id", 30, 30)
	want := headroom.Record{Kind: headroom.KindDeduct, Cost: 30, Windows: []headroom.ChargedWindow{{Limit: "week", Start: headroom.ISOWeek(base).Start, Units: 30}}}
	if v := load(headroom.Query{IDs: []string{"id"}}); !reflect.DeepEqual(v.Records["id"], want) || v.State.Counters["week"].Count != 30 {
		t.Errorf("after a charge: %+v, %+v: want %+v", v, v.Records, want)
	}
	for _, other := range []string{"i", "id ", "ID"} {
		if v := load(headroom.Query{IDs: []string{other}}); len(v.Records) != 0 {
			t.Errorf("%q was charged %+v", other, v.Records)
		}
	}
}

func commitContract(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	this, young := headroom.ISOWeek(base), epoch(base, horizon)
	change := func(id string, cost int64) headroom.Change {
		return headroom.Change{
			Key: headroom.Key{Subject: a.subject, Meter: a.meter}, Plan: "free", PlanOrNone: true, Epoch: young, Horizon: horizon,
			Records: []headroom.RecordStep{{ID: id, Is: &headroom.Record{Kind: headroom.KindDeduct, Cost: cost, Windows: []headroom.ChargedWindow{{Limit: "week", Start: this.Start, Units: cost}}}}},
			Steps:   []headroom.Step{{Limit: "week", From: this, To: this, Max: 200 - cost, Add: cost}},
		}
	}
	commit := func(what string, c headroom.Change, done bool, count int64) headroom.View {
		t.Helper()
		v, ok, err := w.store.Commit(t.Context(), c)
		if err != nil || ok != done {
			t.Fatalf("%s: %t, %v: want %t", what, ok, err, done)
		}
		if got := v.State.Counters["week"]; got.Count != count || count > 0 && (got.Window.Key != this.Key || !got.Window.Start.Equal(this.Start) || !got.Window.End.Equal(this.End)) || !v.Now.Equal(base) {
			t.Fatalf("%s: the view is %+v, want a count of %d", what, v, count)
		}
		return v
	}
	commit("before the window is open", change("a", 30), false, 0)
	first := change("a", 30)
	first.Epoch, first.Rotate, first.Steps[0].From = headroom.State{}.Epoch, young, headroom.Window{}
	first.Steps[0].Opens = true
	v := commit("the first", first, true, 30)
	if !v.State.Epoch.Equal(young) || !v.State.EpochBefore.IsZero() {
		t.Errorf("generations of ids after the first: %s, %s", v.State.Epoch, v.State.EpochBefore)
	}
	v = commit("the first again", first, false, 30)
	if !reflect.DeepEqual(v.Records["a"], *first.Records[0].Is) {
		t.Errorf("the view that refused a repeat shows the records %+v, want %+v", v.Records, first.Records)
	}
	if v = commit("a charge of an id that is known", change("a", 1), false, 30); v.Records["a"].Cost != 30 {
		t.Errorf("the view that refused a known id shows the records %+v", v.Records)
	}
	other := first
	other.Records = change("b", 30).Records
	if v = commit("what opens a window that is open", other, false, 30); len(v.Records) != 0 {
		t.Errorf("the view shows the records %+v of an id that has none", v.Records)
	}
	commit("one more than fits", change("b", 171), false, 30)
	commit("what just fits", change("b", 170), true, 200)
	none := change("c", 0)
	commit("nothing", none, true, 200)
	late := change("d", 0)
	late.Steps[0].Min, late.Steps[0].Max = 201, 1000
	commit("less than asked for", late, false, 200)
	late.Steps[0].Min = 200
	commit("what was asked for", late, true, 200)
	plan := change("e", 0)
	plan.Plan, plan.PlanOrNone = "free", false
	commit("a plan that is not stored", plan, false, 200)
	a.setPlan("free")
	commit("a plan that is stored", plan, true, 200)
	plan = change("f", 0)
	plan.Plan, plan.PlanOrNone = "pro", true
	commit("another plan", plan, false, 200)
	for id, known := range map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": false} {
		v, err := w.store.Load(t.Context(), headroom.Query{Key: headroom.Key{Subject: a.subject, Meter: a.meter}, IDs: []string{id}})
		if err != nil || (len(v.Records) != 0) != known {
			t.Errorf("%s: %+v, %v: want it remembered: %t", id, v.Records, err, known)
		}
	}
}
