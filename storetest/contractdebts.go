package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func debt(to string, cost int64) *headroom.Debt {
	return &headroom.Debt{To: to, Cost: cost, Since: base}
}

func owes(steps ...headroom.DebtStep) headroom.Change {
	c := next()
	c.Debts = steps
	return c
}

func debtContract(t *testing.T, h Harness) {
	b := newBare(t, h)
	const strange = "b c/%\x00\u65e5"
	first := opened("week", 30)
	first.Records = []headroom.RecordStep{{ID: "a", Is: &headroom.Record{Kind: headroom.KindDeduct, Cost: 30, Within: "acme & co", Windows: charged(30).Windows}}}
	first.Debts = []headroom.DebtStep{{ID: "a", Is: debt("acme & co", 30)}}
	v := b.commit("a charge and its debt", first, true)
	if len(v.State.Debts) != 1 || v.State.Debts["a"].String() != debt("acme & co", 30).String() || v.Records["a"].Within != "acme & co" {
		t.Errorf("%s", viewText(v))
	}
	given := debt(strange, 1<<60)
	given.Given = true
	b.commit("a second debt", owes(headroom.DebtStep{ID: strange, Is: given}), true)
	if v = b.load(headroom.Query{}); len(v.State.Debts) != 2 || v.State.Debts[strange].String() != given.String() {
		t.Errorf("%s", viewText(v))
	}
	later := debt("acme & co", 30)
	later.Since = base.Add(time.Second)
	for what, s := range map[string][]headroom.DebtStep{
		"a debt that is there":            {{ID: "a", Is: debt("acme & co", 30)}},
		"a debt that is not there":        {{ID: "x", Was: debt("acme & co", 30)}},
		"a debt to another":               {{ID: "a", Was: debt("acme", 30)}},
		"a debt of other units":           {{ID: "a", Was: debt("acme & co", 31)}},
		"a debt of another time":          {{ID: "a", Was: later}},
		"a debt of a caller's own time":   {{ID: strange, Was: debt(strange, 1<<60)}},
		"one that is and one that is not": {{ID: "a", Was: debt("acme & co", 30)}, {ID: "x", Was: debt("x", 1)}},
	} {
		if v := b.commit(what, owes(s...), false); len(v.State.Debts) != 2 {
			t.Fatalf("%s: %s", what, viewText(v))
		}
	}
	v = b.commit("the end of one", owes(headroom.DebtStep{ID: "a", Was: debt("acme & co", 30)}), true)
	if _, there := v.State.Debts["a"]; there || len(v.State.Debts) != 1 || v.State.Counters["week"].Count != 30 {
		t.Errorf("%s", viewText(v))
	}
	// As many as there can be, which is a guard.
	more := func(from, to int) headroom.Change {
		var steps []headroom.DebtStep
		for i := from; i < to; i++ {
			steps = append(steps, headroom.DebtStep{ID: fmt.Sprint("debt-", i), Is: debt("acme", int64(i))})
		}
		return owes(steps...)
	}
	b.commit("as many as there can be, and one", more(1, headroom.MaxDebts+1), false)
	b.commit("as many as there can be", more(1, headroom.MaxDebts), true)
	b.commit("one more", more(headroom.MaxDebts, headroom.MaxDebts+1), false)
	swap := more(headroom.MaxDebts, headroom.MaxDebts+1)
	swap.Debts = append(swap.Debts, headroom.DebtStep{ID: "debt-1", Was: debt("acme", 1)})
	if v = b.commit("one more for one that ends", swap, true); len(v.State.Debts) != headroom.MaxDebts {
		t.Errorf("%d debts: %s", len(v.State.Debts), viewText(v))
	}
	// They outlive the generations of ids.
	b.set(base.Add(3 * horizon))
	for i := range 3 {
		epoch := young.Add(time.Duration(i) * horizon)
		b.commit("a new generation", headroom.Change{Plan: "free", PlanOrNone: true, Epoch: epoch, Rotate: epoch.Add(horizon)}, true)
	}
	if v = b.load(headroom.Query{IDs: []string{"a"}}); len(v.State.Debts) != headroom.MaxDebts || len(v.Records) != 0 {
		t.Errorf("after three generations: %s", viewText(v))
	}
}

// owing lists the keys with debts of a store, in pages of so many.
func (w *world) owing(limit int) map[headroom.Key]bool {
	w.Helper()
	all := map[headroom.Key]bool{}
	after := ""
	for page := 0; ; page++ {
		keys, next, err := w.store.Owing(w.Context(), after, limit)
		if err != nil || len(keys) > limit {
			w.Fatalf("page %d after %q: %d keys, %v", page, after, len(keys), err)
		}
		for _, key := range keys {
			all[key] = true
		}
		if after = next; after == "" {
			return all
		}
		if page > 10000 {
			w.Fatal("the list has no end")
		}
	}
}

func owingContract(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	var want []headroom.Key
	for i := range 7 {
		for _, meter := range []string{"slots", "tokens/#\x00"} {
			key := headroom.Key{Subject: fmt.Sprintf("%s#%d/\x00", a.subject, i), Meter: meter}
			c := opened("week", 1)
			c.Debts = []headroom.DebtStep{{ID: "a", Is: debt("acme", 1)}, {ID: "b", Is: debt("acme", 2)}}
			bare{w, key}.commit("two debts", c, true)
			want = append(want, key)
		}
	}
	none := bare{w, headroom.Key{Subject: a.subject, Meter: "slots"}}
	none.commit("a charge alone", opened("week", 1), true)
	for _, limit := range []int{1, 3, 1000} {
		all := w.owing(limit)
		for _, key := range want {
			if !all[key] {
				t.Errorf("by %d: %q is not in the list", limit, key)
			}
		}
	}
	for _, key := range want[:7] {
		b := bare{w, key}
		b.commit("one ends", owes(headroom.DebtStep{ID: "a", Was: debt("acme", 1)}), true)
		if !w.owing(1000)[key] {
			t.Errorf("%q owes still, and is not in the list", key)
		}
		b.commit("the other ends", owes(headroom.DebtStep{ID: "b", Was: debt("acme", 2)}), true)
	}
	all := w.owing(2)
	for i, key := range want {
		if i < 7 == all[key] {
			t.Errorf("%q is in the list: %t", key, all[key])
		}
	}
	if all[none.key] {
		t.Errorf("%q never owed, and is in the list", none.key)
	}
}
