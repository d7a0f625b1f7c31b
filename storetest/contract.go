package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// contract is what the comments of headroom.Store ask for. Each rule calls the store directly, with
// no engine in between, so that a rule which fails names the method and the promise that it broke.
// The order is the order in which an author writes a store: read, write, refuse, remember, list,
// close.
var contract = []rule{
	{"contract", "Load of a key that nobody has written shows nothing", loadsNothing,
		"a subject's first charge is decided from an empty state; an error here would turn every new user away"},
	{"contract", "Commit stores what it acknowledges", storesWhatItAcknowledges,
		"units that were acknowledged and are not stored are spent a second time"},
	{"contract", "Load and Commit tell the store's time, or the one they are given", tellsTheTime,
		"windows open and holds end by View.Now; a caller who replays a log gives the time, and then no clock counts"},
	{"contract", "keys, limits and ids stay apart", staysApart,
		"two names that become one key share one allowance, and one of them is refused for what the other used"},
	{"contract", "Commit checks the count", checksTheCount,
		"the count's Min and Max are all that keeps two writers together from going over a limit"},
	{"contract", "Commit checks the window", checksTheWindow,
		"a late writer must not add to a window that has closed, nor open one that is open already"},
	{"contract", "Commit checks the plan", checksThePlan,
		"a charge that was decided under one plan must not be made under another"},
	{"contract", "SetPlan is for all meters of one subject", setsThePlan,
		"one plan covers whatever a subject uses, and a change of plan forgets nothing that was used"},
	{"contract", "Load brings the records that are asked for, and no others", loadsRecords,
		"a repeat is known by its record; under another id it would be taken for other work"},
	{"contract", "Commit checks every record of a change", checksRecords,
		"the record is what keeps an operation from being charged twice, and a refund from being given twice"},
	{"contract", "a record comes back as it was", keepsRecords,
		"a repeat is answered, and a refund is split, by what the record says; what is lost of it is charged wrongly later"},
	{"contract", "Commit makes all of a change or nothing", allOrNothing,
		"half a change is a charge that nobody can repeat or undo"},
	{"contract", "Commit adds to whatever is there", addsBlindly,
		"a change says by how much, not to what; two that were made from one view must both count"},
	{"contract", "Commit checks and writes in one step, whoever else writes", oneStep,
		"between a check and a write that are two steps another writer spends the same units"},
	{"contract", "Commit follows windows and keeps their totals", keepsTotals,
		"a window that closes becomes history in the same write; no job runs later to save it"},
	{"contract", "Commit checks the totals that it corrects", checksTotals,
		"a refund of a closed window must not take its total below nothing, nor make up a total that is not there"},
	{"contract", "Commit keeps what a window carried over", keepsCarried,
		"a window may use what the one before it left, once, and nobody may say otherwise later"},
	{"contract", "ids age", agesRecords,
		"ids are remembered for two generations and then forgotten, those of holds like all others"},
	{"contract", "Commit checks every bucket of a change", checksBuckets,
		"a hold that was cleared away must not be settled with the units of another"},
	{"contract", "Commit adds to a bucket whatever else was added", bucketsBlindly,
		"many holds end at one time; none of them may make another one try again"},
	{"contract", "a bucket that was cleared away is not made again", sweepsOnce,
		"a late hold would make it, and the settlement of the one that was cleared away would take its units"},
	{"contract", "Commit checks every grant of a change", checksGrants,
		"a grant that was replaced, used up or taken away meanwhile must not be drawn on"},
	{"contract", "Commit draws on a grant whatever else was drawn", drawsBlindly,
		"many draw on one grant at once; what a change says was used is no guard"},
	{"contract", "Commit checks every debt of a change", checksDebts,
		"a debt that is cleared twice, or for another organisation, is work that is charged twice or to nobody"},
	{"contract", "debts have a place of their own, for 16", keepsDebts,
		"a charge and its debt are one write, and the debt stays until somebody pays, however long that takes"},
	{"contract", "Owing lists every key that owes", listsDebts,
		"whoever pays the debts finds them by this list alone; a key that is left out is never charged"},
	{"contract", "a view stays as it was", viewsStay,
		"an engine decides from a view while others write; a view that changes meanwhile is of no moment at all"},
	{"contract", "a call that is cancelled fails with an Error and writes nothing", honoursContext,
		"a caller reads from the code whether to repeat; an error without a code says nothing"},
	{"contract", "CommitAll makes all changes or none", joinsChanges,
		"a request of several meters is one decision; half of it would be charged to nobody's knowledge"},
	{"contract", "CommitAll and LoadAll are of one moment, whoever else writes", joinsInOneStep,
		"what is charged of one meter and not yet of the other is a state that nobody decided"},
	{"contract", "Forget removes all of one subject and nothing of another", forgetsOne,
		"a person who asks to be forgotten is owed that, and everybody else that nothing of theirs goes"},
	{"contract", "what was acknowledged is there when the store is opened again", survivesClose,
		"a process ends at any time; a charge that ends with it was given away"},
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
		b.Fatalf("Load: %v", err)
	}
	b.survives(v.State)
	return v
}

// survives checks that a state reads the same once it was text. A state that does not has times in
// another zone than UTC, parts of a second, or empty names.
func (b bare) survives(s headroom.State) {
	b.Helper()
	text, err := s.MarshalText()
	if err != nil {
		b.Fatalf("State.MarshalText: %v", err)
	}
	var read headroom.State
	if err := read.UnmarshalText(text); err != nil {
		b.Fatalf("State.UnmarshalText: %v in\n%s", err, text)
	}
	if d := differ(headroom.View{State: s}, headroom.View{State: read}); d != "" {
		b.Fatalf("the state that Load shows is another once it was text:\n%s", d)
	}
}

// commit sends a change and expects that it is made or refused, as done says. What the store
// answers and what it stores is compared with what a change means in Go: Change.Unmet and
// Change.Apply. It returns what is stored afterwards.
func (b bare) commit(what string, c headroom.Change, done bool) headroom.View {
	b.Helper()
	c.Key, c.Horizon = b.key, horizon
	c.Now = base // a window of the future is then the change's own doing, and no clock's
	q := headroom.Query{IDs: c.IDs(), History: true}
	want := b.load(q)
	unmet := c.Unmet(want)
	if (unmet == "") != done {
		b.Fatalf("%s: Load shows what cannot be stored after the changes so far (unmet: %q):\n%s", what, unmet, viewText(want))
	}
	v, made, err := b.store.Commit(b.Context(), c)
	switch {
	case err != nil:
		b.Fatalf("%s: Commit failed: %v", what, err)
	case made && !done:
		b.Fatalf("%s: Commit made the change, though a guard is not met: %s", what, unmet)
	case !made && done:
		b.Fatalf("%s: Commit refused the change, though every guard is met:\n%s", what, guardsText(c))
	case made:
		want = after(c, want)
	}
	answer := map[bool]string{true: "made", false: "refused"}[made]
	stored := b.load(q)
	if d := differ(stored, want); d != "" {
		b.Fatalf("%s: Commit says that the change is %s, and then Load shows\n%s", what, answer, d)
	}
	if d := differ(v, want); d != "" && !partial(v) {
		b.Fatalf("%s: Commit says that the change is %s, and returns a view with\n%s", what, answer, d)
	}
	return stored
}

// after is a view once a change is made.
func after(c headroom.Change, v headroom.View) headroom.View {
	v.State = c.Apply(v.State)
	v.Records = maps.Clone(v.Records)
	for _, r := range c.Records {
		delete(v.Records, r.ID)
		if r.Is != nil {
			v.Records[r.ID] = *r.Is
		}
	}
	return v
}

// queries are ways to ask for a key.
var queries = []headroom.Query{
	{}, {IDs: []string{"id"}}, {History: true}, {Weak: true}, {IDs: []string{"id", "other"}, Weak: true},
}

func loadsNothing(t *testing.T, h Harness) {
	b := newBare(t, h)
	for _, q := range queries {
		if d := differ(b.load(q), headroom.View{}); d != "" {
			t.Errorf("Load of %+v shows\n%s", q, d)
		}
	}
}

func tellsTheTime(t *testing.T, h Harness) {
	b := newBare(t, h)
	for _, q := range queries {
		if v := b.load(q); !v.Now.Equal(base) {
			t.Errorf("Load of %+v is answered at %s: want the clock's %s", q, v.Now, base)
		}
		q.Now = base.Add(-year).Add(1)
		if v := b.load(q); !v.Now.Equal(q.Now) {
			t.Errorf("Load of %+v is answered at %s: want the time that the query gives, %s", q, v.Now, q.Now)
		}
	}
	for i, given := range []time.Time{{}, base.Add(-time.Hour)} {
		c := []headroom.Change{opened("week", 1), charge("id", 1)}[i]
		c.Key, c.Horizon, c.Now = b.key, horizon, given
		want := []time.Time{base, given}[i]
		if v, made, err := b.store.Commit(t.Context(), c); err != nil || !made || !v.Now.Equal(want) {
			t.Errorf("Commit at the time %q: made %t, error %v, a view of %s: want one of %s", short(given), made, err, v.Now, want)
		}
	}
}

func setsThePlan(t *testing.T, h Harness) {
	b := newBare(t, h)
	other, stranger := b, b
	other.key.Meter, stranger.key.Subject = "tokens", b.key.Subject+"2"
	set := func(plan string) {
		t.Helper()
		if err := b.store.SetPlan(t.Context(), b.key.Subject, plan); err != nil {
			t.Fatalf("SetPlan %q: %v", plan, err)
		}
	}
	shows := func(plan string, counted int) {
		t.Helper()
		for _, of := range []bare{b, other} {
			if v := of.load(headroom.Query{}); v.State.Plan != plan || len(v.State.Counters) != counted {
				t.Errorf("after SetPlan %q, Load of meter %q shows\n%s", plan, of.key.Meter, viewText(v))
			}
		}
		if v := stranger.load(headroom.Query{}); v.State.Plan != "" {
			t.Errorf("SetPlan gave another subject the plan %q", v.State.Plan)
		}
	}
	set("free") // before the subject has used anything
	shows("free", 0)
	b.commit("a charge on the plan", opened("week", 30), true)
	other.commit("a charge of another meter", opened("week", 40), true)
	set("pro")
	shows("pro", 1)
	set("pro")
	set("")
	shows("", 1)
	set("") // there is none to remove
	if n := b.load(headroom.Query{}).State.Counters["week"].Count; n != 30 {
		t.Errorf("changes of plan changed the count from 30 to %d", n)
	}
}

func staysApart(t *testing.T, h Harness) {
	b := newBare(t, h)
	own := b.key.Subject
	var keys []headroom.Key
	for _, sep := range []string{"_", "#", ":", "/", "%", "\x00", "\u0301"} {
		keys = append(keys, headroom.Key{Subject: own + "a", Meter: "b" + sep + "c"},
			headroom.Key{Subject: own + "a" + sep + "b", Meter: "c"})
	}
	for _, subject := range []string{"n", "N", " n", "n ", "n\x00", "é", "e\u0301", strings.Repeat("n", headroom.MaxSubject-len(own))} {
		keys = append(keys, headroom.Key{Subject: own + subject, Meter: "c"})
	}
	for i, key := range keys {
		if i == 0 || !slices.Contains(keys[:i], key) {
			c := opened("week", int64(i))
			c.Steps = append(c.Steps, headroom.Step{Limit: "week-2", To: thisWeek, Opens: true, Max: anyMax, Add: 7})
			c.Records = []headroom.RecordStep{{ID: "id", Is: charged(int64(i))}}
			if d := differ(bare{b.world, key}.load(headroom.Query{IDs: []string{"id"}}), headroom.View{}); d != "" {
				t.Fatalf("key %d, %q, is mixed up with another: before its first charge Load shows\n%s", i, key, d)
			}
			bare{b.world, key}.commit(fmt.Sprintf("the first charge of %q", key), c, true)
		}
	}
	for i, key := range keys {
		v := bare{b.world, key}.load(headroom.Query{IDs: []string{"id"}})
		if at := slices.Index(keys, key); v.State.Counters["week"].Count != int64(at) || v.Records["id"].Cost != int64(at) {
			t.Errorf("key %d, %q, is mixed up with another: Load shows\n%s", i, key, viewText(v))
		}
	}
}

func honoursContext(t *testing.T, h Harness) {
	b := newBare(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := opened("week", 30)
	c.Key, c.Horizon, c.Records = b.key, horizon, []headroom.RecordStep{{ID: "id", Is: charged(30)}}
	calls := map[string]func() error{
		"Load":    func() error { _, err := b.store.Load(ctx, headroom.Query{Key: b.key}); return err },
		"Commit":  func() error { _, _, err := b.store.Commit(ctx, c); return err },
		"SetPlan": func() error { return b.store.SetPlan(ctx, b.key.Subject, "pro") },
		"Owing":   func() error { _, _, err := b.store.Owing(ctx, "", 10); return err },
	}
	for _, method := range sorted(calls) {
		var failure *headroom.Error
		if err := calls[method](); !errors.As(err, &failure) {
			t.Errorf("%s of a cancelled context returns the error %v: want a *headroom.Error", method, err)
		}
	}
	if d := differ(b.load(headroom.Query{IDs: []string{"id"}}), headroom.View{}); d != "" {
		t.Errorf("after calls that were cancelled Load shows\n%s", d)
	}
}

func forgetsOne(t *testing.T, h Harness) {
	b := newBare(t, h)
	store, ok := b.store.(headroom.Forgetter)
	if !ok {
		return // a store need not be able to forget
	}
	calls, stranger := b, b
	calls.key.Meter, stranger.key.Subject = "calls", b.key.Subject+"2"
	all := []bare{b, calls, stranger}
	for _, of := range all {
		of.commit("all sorts of things", everything(), true)
		if err := b.store.SetPlan(t.Context(), of.key.Subject, "free"); err != nil {
			t.Fatalf("SetPlan: %v", err)
		}
	}
	q := headroom.Query{IDs: everything().IDs(), History: true}
	before := stranger.load(q)
	for i, least := range []int{2, 0} { // the second time there is nothing left
		heard := 0
		rows, err := store.Forget(t.Context(), b.key.Subject, []string{b.key.Meter, calls.key.Meter}, func(n int) { heard = n })
		if err != nil || rows < least || least == 0 && rows != 0 || heard != rows {
			t.Errorf("call %d of Forget: %d rows, of which progress heard %d, %v", i+1, rows, heard, err)
		}
		for _, of := range all[:2] {
			if d := differ(of.load(q), headroom.View{}); d != "" {
				t.Errorf("after Forget, Load of meter %q shows\n%s", of.key.Meter, d)
			}
		}
	}
	if d := differ(stranger.load(q), before); d != "" {
		t.Errorf("Forget of %q changed what is stored of %q:\n%s", b.key.Subject, stranger.key.Subject, d)
	}
}

func survivesClose(t *testing.T, h Harness) {
	if h.Reopen == nil {
		return // what the store keeps ends with it, or one store serves all tests
	}
	b := newBare(t, h)
	if err := b.store.SetPlan(t.Context(), b.key.Subject, "free"); err != nil {
		t.Fatalf("SetPlan: %v", err)
	}
	b.commit("all sorts of things", everything(), true)
	b.commit("a charge", charge("last", 5), true)
	q := headroom.Query{IDs: append(everything().IDs(), "last"), History: true}
	before := b.load(q)
	if err := b.store.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	b.store = h.Reopen(t, b.store, b.now)
	if d := differ(b.load(q), before); d != "" {
		t.Errorf("after Close and a new start Load shows\n%s", d)
	}
	b.commit("a repeat", charge("last", 5), false)
	if rest := b.load(q); !reflect.DeepEqual(rest.Records["last"], *charged(5)) {
		t.Errorf("after a new start the record is %s", rest.Records["last"])
	}
}
