package storetest

import (
	"reflect"
	"slices"
	"testing"

	"github.com/lumcast/headroom"
)

// records is a later change of what is remembered.
func records(r ...headroom.RecordStep) headroom.Change {
	c := next()
	c.Records = r
	return c
}

func loadsRecords(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 35)
	first.Records = []headroom.RecordStep{{ID: "id", Is: charged(30)}, {ID: "held", Is: reserved(5)}}
	b.commit("a charge and a hold", first, true)
	for _, c := range []struct{ asked, want []string }{
		{[]string{"id", "held", "none"}, []string{"held", "id"}},
		{[]string{"held"}, []string{"held"}},
		{[]string{"i"}, nil}, {[]string{"id "}, nil}, {[]string{"ID"}, nil}, {[]string{"id\x00"}, nil},
	} {
		v := b.load(headroom.Query{IDs: c.asked})
		if got := sorted(v.Records); !slices.Equal(got, c.want) {
			t.Errorf("Load is asked for %q and brings the records %q: want %q", c.asked, got, c.want)
		}
	}
	v := b.load(headroom.Query{IDs: []string{"id", "held"}})
	if !reflect.DeepEqual(v.Records["id"], *charged(30)) || !reflect.DeepEqual(v.Records["held"], *reserved(5)) {
		t.Errorf("a charge of 30 and a hold of 5 come back as\n%s", viewText(v))
	}
	v = b.load(headroom.Query{})
	if len(v.Records) != 0 {
		t.Errorf("Load is asked for no ids, and shows\n%s", viewText(v))
	}
}

func checksRecords(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 30)
	first.Records = []headroom.RecordStep{{ID: "a", Is: charged(30)}, {ID: "b", Is: charged(0)}}
	b.commit("two records in one change", first, true)
	less := charged(30)
	less.Refunded, less.Windows[0].Units = 10, 20
	crossed := charged(30)
	crossed.Crossed = []headroom.Crossing{{Limit: "week", Percent: 80, Start: thisWeek.Start}}
	refund := &headroom.Record{Kind: headroom.KindRefund, Cost: 10, Of: "a"}
	for _, c := range []struct {
		what  string
		steps []headroom.RecordStep
	}{
		{"a new record, of an id that is known", []headroom.RecordStep{{ID: "a", Is: refund}}},
		{"a later record, of an id that is not known", []headroom.RecordStep{{ID: "x", Was: charged(30), Is: less}}},
		{"a later record, of an id that stands for something else", []headroom.RecordStep{{ID: "a", Was: charged(29), Is: less}}},
		{"a later record, where the thresholds that were crossed differ", []headroom.RecordStep{{ID: "a", Was: crossed, Is: less}}},
		{"one guard that is met and one that is not", []headroom.RecordStep{{ID: "r", Is: refund}, {ID: "a", Was: less, Is: less}}},
		{"one guard that is not met and one that is", []headroom.RecordStep{{ID: "a", Was: less, Is: less}, {ID: "r", Is: refund}}},
		{"the end of an id that is not known", []headroom.RecordStep{{ID: "x", Was: charged(30)}}},
		{"that nothing is known, where something is", []headroom.RecordStep{{ID: "a"}}},
		{"the end of a hold that is not there", []headroom.RecordStep{{ID: "x", Was: reserved(30), Is: charged(30)}}},
		{"the end of a hold where a charge of the same units is", []headroom.RecordStep{{ID: "a", Was: reserved(30), Is: charged(30)}}},
		{"a new record, and the end of none", []headroom.RecordStep{{ID: "r", Is: refund}, {ID: "other", Was: charged(1)}}},
	} {
		b.commit(c.what, records(c.steps...), false)
	}
	all := b.load(headroom.Query{IDs: []string{"a", "b", "r", "x"}})
	if !reflect.DeepEqual(all.Records, map[string]headroom.Record{"a": *charged(30), "b": *charged(0)}) {
		t.Errorf("changes that were refused left\n%s", viewText(all))
	}
	b.commit("a refund and what it leaves of the charge",
		records(headroom.RecordStep{ID: "r", Is: refund}, headroom.RecordStep{ID: "a", Was: charged(30), Is: less}),
		true)
	b.commit("the end of a record", records(headroom.RecordStep{ID: "b", Was: charged(0)}), true)
	b.commit("the same id anew", records(headroom.RecordStep{ID: "b", Is: charged(7)}), true)
	b.commit("that nothing is known, where nothing is", records(headroom.RecordStep{ID: "x"}), true)
}

func keepsRecords(t *testing.T, h Harness) {
	b := newBare(t, h)
	rich := &headroom.Record{
		Kind: headroom.KindSettled, Cost: 1 << 60, Held: 5, Refunded: 3, Recorded: true,
		Windows: []headroom.ChargedWindow{
			{
				Limit: "day", Start: lastWeek.Start, Units: 0,
			},
			{Limit: "week", Start: lastWeek.Start, Units: 2},
			{Limit: "week", Start: thisWeek.Start, Units: 9},
		},
		Grants: []headroom.GrantUse{{ID: "a b,c:#%/\x00\u65e5", Units: 4}, {ID: "g", Units: 1}},
		Crossed: []headroom.Crossing{
			{Limit: "week", Percent: 80, Start: lastWeek.Start}, {Limit: "week", Percent: 1000, Start: thisWeek.Start},
		},
	}
	within := charged(30)
	within.Within = "acme & co"
	several := charged(30)
	several.Also = []string{"micro-dollars & cents", "tokens"}
	all := map[string]*headroom.Record{
		"rich": rich, "within": within, "several": several, "held": reserved(7), "plain": charged(0),
		"refund": {Kind: headroom.KindRefund, Cost: 10, Of: "a b,c:#%/\x00\u65e5"},
		"grant":  {Kind: headroom.KindGrant, Cost: 10, Expires: base.Add(day)},
	}
	c := opened("week", 30)
	for _, id := range sorted(all) {
		c.Records = append(c.Records, headroom.RecordStep{ID: id, Is: all[id]})
	}
	b.commit("records of every kind", c, true)
	v := b.load(headroom.Query{IDs: c.IDs()})
	for _, id := range sorted(all) {
		if have := v.Records[id]; !reflect.DeepEqual(have, *all[id]) {
			t.Errorf("the record %q comes back as\n%+v\nwant\n%+v", id, have, *all[id])
		}
	}
}

func agesRecords(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 30)
	first.Records = []headroom.RecordStep{
		{ID: "old", Is: charged(1)}, {ID: "again", Is: charged(2)}, {ID: "held", Is: reserved(3)}, {ID: "ended", Is: reserved(4)},
	}
	b.commit("two charges and two holds", first, true)
	epoch := young
	rotates := func(what string, want []string, steps ...headroom.RecordStep) {
		t.Helper()
		c := records(steps...)
		c.Epoch, c.Rotate = epoch, epoch.Add(horizon)
		epoch = c.Rotate
		b.set(epoch)
		b.commit(what, c, true)
		v := b.load(headroom.Query{IDs: []string{"old", "again", "held", "ended", "new"}})
		if got := sorted(v.Records); !slices.Equal(got, want) {
			t.Fatalf("after %s the records of %q are remembered: want %q", what, got, want)
		}
	}
	another := records(headroom.RecordStep{ID: "x", Is: charged(1)})
	another.Epoch = young.Add(horizon)
	b.commit("a charge that takes another generation for the present one", another, false)
	ended := reserved(4)
	ended.Kind = headroom.KindReleased
	rotates("a second generation", []string{"again", "ended", "held", "new", "old"},
		headroom.RecordStep{ID: "again", Was: charged(2), Is: charged(2)}, headroom.RecordStep{ID: "new", Is: charged(5)},
		headroom.RecordStep{ID: "ended", Was: reserved(4), Is: ended})
	// What was written again, and what ended, is of the second.
	rotates("a third generation", []string{"again", "ended", "new"})
	rotates("a fourth generation", nil)
	forgotten := records(headroom.RecordStep{ID: "old", Is: charged(9)})
	forgotten.Epoch = epoch
	b.commit("a charge under an id that was forgotten", forgotten, true)
}
