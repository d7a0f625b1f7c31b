package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lumcast/headroom"
)

// joinable are two keys that a store joins.
type joinable struct {
	a, b bare
	headroom.Joiner
}

// eachJoinable runs f on two meters of one subject, and on two subjects, if the store joins those.
// A store need not join any.
func eachJoinable(t *testing.T, h Harness, f func(*testing.T, joinable)) {
	for _, subjects := range []bool{false, true} {
		a := newBare(t, h)
		b := a
		if b.key.Meter = "tokens"; subjects {
			b.key = headroom.Key{Subject: a.key.Subject + "2", Meter: a.key.Meter}
		}
		j, ok := a.store.(headroom.Joiner)
		if !ok {
			return
		}
		switch err := j.Joins([]headroom.Key{a.key, b.key}, 2); {
		case err == nil:
			f(t, joinable{a, b, j})
		case !subjects || headroom.CodeOf(err) != headroom.Invalid:
			t.Errorf("Joins of two keys with a limit each, of two subjects: %t: %v", subjects, err)
		default:
			refusesToJoin(t, joinable{a, b, j})
		}
	}
}

// refusesToJoin: what a store does not join, it neither loads nor changes in one step.
func refusesToJoin(t *testing.T, p joinable) {
	if _, err := p.LoadAll(t.Context(), []headroom.Query{{Key: p.a.key}, {Key: p.b.key}}); headroom.CodeOf(err) != headroom.Invalid {
		t.Errorf("LoadAll of keys that the store does not join: %v", err)
	}
	changes := []headroom.Change{p.a.of(opened("week", 30)), p.b.of(opened("week", 5))}
	if _, made, err := p.CommitAll(t.Context(), changes); made || headroom.CodeOf(err) != headroom.Invalid {
		t.Errorf("CommitAll of keys that the store does not join made the changes: %t, %v", made, err)
	}
	for _, b := range []bare{p.a, p.b} {
		if d := differ(b.load(headroom.Query{}), headroom.View{}); d != "" {
			t.Errorf("after that Load shows\n%s", d)
		}
	}
}

// load shows both keys at one moment, and checks that Load shows the same of each.
func (p joinable) load(ids ...string) []headroom.View {
	p.a.Helper()
	views, err := p.LoadAll(p.a.Context(), []headroom.Query{{Key: p.a.key, IDs: ids, History: true}, {Key: p.b.key, IDs: ids, History: true}})
	if err != nil || len(views) != 2 {
		p.a.Fatalf("LoadAll of two keys: %d views, %v", len(views), err)
	}
	for i, of := range []bare{p.a, p.b} {
		if d := differ(views[i], of.load(headroom.Query{IDs: ids, History: true})); d != "" {
			p.a.Fatalf("LoadAll and Load show different things of %q:\n%s", of.key, d)
		}
		if !views[i].Now.Equal(p.a.now()) {
			p.a.Fatalf("LoadAll is answered at %s: want the clock's %s", views[i].Now, p.a.now())
		}
	}
	return views
}

// of makes a change one of a key.
func (b bare) of(c headroom.Change) headroom.Change {
	c.Key, c.Horizon, c.Now = b.key, horizon, base
	return c
}

// commit sends a change of each key, and expects that both are made or refused, as done says.
func (p joinable) commit(what string, a, b headroom.Change, done bool) {
	p.a.Helper()
	changes := []headroom.Change{p.a.of(a), p.b.of(b)}
	ids := append(a.IDs(), b.IDs()...)
	before := p.load(ids...)
	views, made, err := p.CommitAll(p.a.Context(), changes)
	if err != nil || made != done || len(views) != 2 {
		p.a.Fatalf("%s: CommitAll made the changes: %t, with %d views and the error %v: want %t, 2 and none", what, made, len(views), err, done)
	}
	stored := p.load(ids...)
	for i, c := range changes {
		want := before[i]
		if made {
			want = after(c, want)
		}
		if d := differ(stored[i], want); d != "" {
			p.a.Fatalf("%s: CommitAll says that it made the changes: %t, and then LoadAll shows of %q\n%s", what, made, c.Key, d)
		}
		if want = only(want, c.IDs()); differ(views[i], want) != "" {
			p.a.Fatalf("%s: CommitAll returns a view of %q with\n%s", what, c.Key, differ(views[i], want))
		}
	}
}

// only is the view with the records of these ids.
func only(v headroom.View, ids []string) headroom.View {
	records := map[string]headroom.Record{}
	for _, id := range ids {
		if r, ok := v.Records[id]; ok {
			records[id] = r
		}
	}
	v.Records = records
	return v
}

func joinsChanges(t *testing.T, h Harness) { eachJoinable(t, h, allOrNone) }

func allOrNone(t *testing.T, p joinable) {
	h := p.a.h
	p.load("id")
	for i, guards := range []struct {
		what string
		a, b headroom.Change
		done bool
	}{
		{"the first of each", opened("week", 30), opened("week", 5), true},
		{"the second does not fit", charge("id", 10), charge("id", 196), false},
		{"the first does not fit", charge("id", 171), charge("id", 1), false},
		{"neither fits", charge("id", 171), charge("id", 196), false},
		{"both fit", charge("id", 10), charge("id", 20), true},
		{"an id that the first knows", charge("id", 1), charge("other", 1), false},
		{"an id that the second knows", charge("other", 1), charge("id", 1), false},
		{"all sorts of things", next(), next(), true},
	} {
		if i == 7 {
			guards.a.Records = []headroom.RecordStep{{ID: "held", Is: reserved(10)}}
			guards.a.Grants = []headroom.GrantStep{{ID: "gift", Is: gives(50, 5)}}
			guards.b.Records = []headroom.RecordStep{{ID: "id", Was: charged(20)}, {ID: "held", Is: reserved(3)}}
		}
		p.commit(guards.what, guards.a, guards.b, guards.done)
	}
	// One of them alone is as it was.
	p.a.commit("a charge of the first alone", charge("alone", 5), true)
	if v := p.load("alone"); len(v[0].Records) != 1 || len(v[1].Records) != 0 {
		t.Errorf("after a charge of one key LoadAll shows\n%s\nand\n%s", viewText(v[0]), viewText(v[1]))
	}
	if h.Reopen == nil {
		return
	}
	before := p.load("id", "held")
	if err := p.a.store.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	p.a.store = h.Reopen(t, p.a.store, p.a.now)
	p.b.world, p.Joiner = p.a.world, p.a.store.(headroom.Joiner)
	for i, v := range p.load("id", "held") {
		if d := differ(v, before[i]); d != "" {
			t.Errorf("after Close and a new start LoadAll shows\n%s", d)
		}
	}
}

// joinsInOneStep: what many commit of both keys at once is never seen of one alone, and the keys
// come in either order.
func joinsInOneStep(t *testing.T, h Harness) { eachJoinable(t, h, ofOneMoment) }

func ofOneMoment(t *testing.T, p joinable) {
	const writers, units, fit = 40, 8, 25
	p.commit("the first", opened("week", 0), opened("week", 0), true)
	var made atomic.Int64
	ctx, done := context.WithCancel(t.Context())
	looked := make(chan string)
	go func() { looked <- p.torn(ctx) }()
	together(writers, func(i int) {
		changes := []headroom.Change{p.a.of(charge(id(int64(i)), units)), p.b.of(charge(id(int64(i)), units))}
		if i%2 == 1 {
			changes[0], changes[1] = changes[1], changes[0]
		}
		switch _, done, err := p.CommitAll(t.Context(), changes); {
		case err != nil:
			t.Errorf("CommitAll failed where nothing was wrong: %v", err)
		case done:
			made.Add(1)
		}
	})
	done()
	if torn := <-looked; torn != "" {
		t.Error(torn)
	}
	views := p.load()
	a, b := views[0].State.Counters["week"].Count, views[1].State.Counters["week"].Count
	if made.Load() != fit || a != units*fit || b != units*fit {
		t.Fatalf("%d writers at once add %d units to each of two keys, and %d of them fit: CommitAll made %d changes, the counts are %d and %d",
			writers, units, fit, made.Load(), a, b)
	}
}

// torn looks at both keys until ctx ends, and says if the one shows what the other does not.
func (p joinable) torn(ctx context.Context) string {
	for ctx.Err() == nil {
		views, err := p.LoadAll(context.WithoutCancel(ctx), []headroom.Query{{Key: p.a.key}, {Key: p.b.key}})
		if err != nil {
			return fmt.Sprintf("LoadAll failed where nothing was wrong: %v", err)
		}
		a, b := views[0].State.Counters["week"].Count, views[1].State.Counters["week"].Count
		if a != b {
			return fmt.Sprintf("every change adds as much to both keys, and LoadAll shows counts of %d and %d: they are not of one moment", a, b)
		}
	}
	return ""
}
