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

func checksDebts(t *testing.T, h Harness) {
	b := newBare(t, h)
	first := opened("week", 30)
	first.Debts = []headroom.DebtStep{{ID: "a", Is: debt("acme & co", 30)}}
	b.commit("a charge and its debt", first, true)
	given := debt(strange, 1<<60)
	given.Given = true
	b.commit("a second debt, by the caller's time", owes(headroom.DebtStep{ID: strange, Is: given}), true)
	later := debt("acme & co", 30)
	later.Since = base.Add(time.Second)
	for _, c := range []struct {
		what  string
		steps []headroom.DebtStep
	}{
		{"a new debt, where it is there", []headroom.DebtStep{{ID: "a", Is: debt("acme & co", 30)}}},
		{"the end of a debt that is not there", []headroom.DebtStep{{ID: "x", Was: debt("acme & co", 30)}}},
		{"the end of a debt to another", []headroom.DebtStep{{ID: "a", Was: debt("acme", 30)}}},
		{"the end of a debt of other units", []headroom.DebtStep{{ID: "a", Was: debt("acme & co", 31)}}},
		{"the end of a debt of another time", []headroom.DebtStep{{ID: "a", Was: later}}},
		{"the end of a debt, as if its time were not the caller's", []headroom.DebtStep{{ID: strange, Was: debt(strange, 1<<60)}}},
		{"one guard that is met, one that is not", []headroom.DebtStep{{ID: "a", Was: debt("acme & co", 30)}, {ID: "x", Was: debt("x", 1)}}},
	} {
		b.commit(c.what, owes(c.steps...), false)
	}
	v := b.commit("the end of one", owes(headroom.DebtStep{ID: "a", Was: debt("acme & co", 30)}), true)
	if len(v.State.Debts) != 1 || v.State.Debts[strange].String() != given.String() || v.State.Counters["week"].Count != 30 {
		t.Errorf("one of two debts is left, stored is\n%s", viewText(v))
	}
}

func keepsDebts(t *testing.T, h Harness) {
	b := newBare(t, h)
	more := func(from, to int) headroom.Change {
		c := next()
		for i := from; i < to; i++ {
			c.Debts = append(c.Debts, headroom.DebtStep{ID: fmt.Sprint("debt-", i), Is: debt("acme", int64(i))})
		}
		return c
	}
	first := opened("week", 30)
	first.Records, first.Debts = []headroom.RecordStep{{ID: "debt-0", Is: charged(30)}}, more(0, 1).Debts
	b.commit("a charge and its debt", first, true)
	b.commit("as many as there can be, and one", more(1, headroom.MaxDebts+1), false)
	b.commit("as many as there can be", more(1, headroom.MaxDebts), true)
	b.commit("one more", more(headroom.MaxDebts, headroom.MaxDebts+1), false)
	swap := more(headroom.MaxDebts, headroom.MaxDebts+1)
	swap.Debts = append(swap.Debts, headroom.DebtStep{ID: "debt-1", Was: debt("acme", 1)})
	b.commit("one more in the place of one that ends", swap, true)
	// Debts outlive the generations of ids.
	b.set(base.Add(3 * horizon))
	for i := range 3 {
		c := next()
		c.Epoch = young.Add(time.Duration(i) * horizon)
		c.Rotate = c.Epoch.Add(horizon)
		b.commit("a new generation of ids", c, true)
	}
	if v := b.load(headroom.Query{IDs: []string{"debt-0"}}); len(v.State.Debts) != headroom.MaxDebts || len(v.Records) != 0 {
		t.Errorf("three generations of ids later want %d debts and no record, stored is\n%s", headroom.MaxDebts, viewText(v))
	}
}

// owing returns the keys that the store lists as owing, asked for in pages of so many.
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

func listsDebts(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	var want []headroom.Key
	for i := range 7 {
		for _, meter := range []string{"slots", "tokens/#\x00"} {
			key := headroom.Key{Subject: fmt.Sprintf("%s#%d/\x00", a.subject, i), Meter: meter}
			c := opened("week", 1)
			c.Debts = []headroom.DebtStep{{ID: "a", Is: debt("acme", 1)}, {ID: "b", Is: debt("acme", 2)}}
			bare{w, key}.commit("a charge with two debts", c, true)
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
