package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// lived returns two accounts of one subject, on two meters. Each has something of everything that a
// store keeps.
func (w *world) lived(subject string) (slots, calls account) {
	w.Helper()
	plan := weekly("free", 1000)
	plan.Limits = append(
		plan.Limits,
		headroom.Limit{
			Meter: meter, Name: "day", Units: 900, Period: period(w.T, "day"),
		},
		headroom.Limit{Meter: "calls", Name: "week", Units: 1000},
	)
	c := w.catalog(1, headroom.Plan{Name: "own", Limits: plan.Limits})
	slots = w.accountOn(c, 1000).of(subject)
	calls = slots
	calls.meter = "calls"
	if err := slots.engine.SetPlan(w.Context(), subject, "own"); err != nil {
		w.Fatal(err)
	}
	must := func(_ headroom.Decision, err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	for _, a := range []account{slots, calls} {
		w.back(base)
		for i := range int64(40) {
			must(a.engine.Deduct(w.Context(), a.request(id(i), 1)))
		}
		must(a.engine.Refund(w.Context(), headroom.RefundRequest{Subject: subject, Meter: a.meter, Operation: id(0), ID: "refund"}))
		must(a.engine.Grant(w.Context(), headroom.GrantRequest{Subject: subject, Meter: a.meter, ID: "gift", Units: 5, Lasts: 60 * day}))
		must(a.engine.Hold(w.Context(), a.request("held", 3), time.Hour))
		for i := range 12 { // more windows than an item has room for
			w.set(base.Add(time.Duration(i+1) * week))
			must(a.engine.Deduct(w.Context(), a.request(id(int64(100+i)), 1)))
		}
		must(a.engine.Hold(w.Context(), a.request("held too", 3), 14*day))
	}
	for _, a := range []account{slots, calls} { // the next look would finish it
		org := a.of(subject + " & co")
		if err := org.engine.SetPlan(w.Context(), org.subject, "own"); err != nil {
			w.Fatal(err)
		}
		pair{a, org}.leave("owed", 7)
	}
	return slots, calls
}

// livedIDs are some of the ids that these accounts have used.
var livedIDs = []string{id(0), id(20), id(100), id(111), "refund", "gift", "held", "held too", "owed"}

func forgetsAll(t *testing.T, h Harness) {
	w := newWorld(t, h)
	if _, ok := w.store.(headroom.Forgetter); !ok {
		return // a store need not be able to forget
	}
	name := w.account(1).subject
	var others []account
	for _, other := range []string{name + "a", name[:len(name)-1]} {
		slots, calls := w.lived(other)
		others = append(others, slots, calls)
	}
	slots, calls := w.lived(name)
	var before []string
	for _, a := range others {
		before = append(before, a.stored(livedIDs...))
	}
	heard := 0
	rows, err := slots.engine.Forget(t.Context(), name, func(n int) {
		if n < heard {
			t.Errorf("%d rows are gone after %d were", n, heard)
		}
		heard = n
	})
	if err != nil || rows != heard || rows < 3 {
		t.Fatalf("%d rows, %d heard of, %v", rows, heard, err)
	}
	for _, a := range []account{slots, calls} {
		nobody := a.of("nobody has seen this subject")
		if got, want := a.stored(livedIDs...), nobody.stored(livedIDs...); got != want {
			t.Errorf("after it was forgotten\n%s\nis stored, want\n%s", got, want)
		}
	}
	for i, a := range others {
		if after := a.stored(livedIDs...); after != before[i] {
			t.Errorf("of %q\n%s\nbecame\n%s", a.subject, before[i], after)
		}
	}
	for _, a := range []account{slots, calls} {
		if u, err := a.engine.Usage(t.Context(),
			headroom.UsageRequest{Subject: name + " & co", Meter: a.meter}); err != nil ||
			u.Limits[0].Used != 7 {
			t.Errorf("of %s the organisation was owed 7: %s, %v", a.meter, usageText(u.Limits...), err)
		}
	}
	if rows, err := slots.engine.Forget(t.Context(), name, nil); err != nil || rows != 0 {
		t.Errorf("forgotten again: %d rows, %v", rows, err)
	}
	// The subject is like a new one. It has the default plan and all its units, and an old
	// operation is charged anew.
	slots.under("free", 1).admit(id(0), 1, 1)
}

func forgetsInSteps(t *testing.T, h Harness) {
	w := newWorld(t, h)
	if _, ok := w.store.(headroom.Forgetter); !ok {
		return
	}
	for step := 1; ; step++ {
		slots, calls := w.lived(w.account(1).subject)
		ctx, stop := context.WithCancel(t.Context())
		heard := 0
		_, err := slots.engine.Forget(ctx, slots.subject, func(int) {
			if heard++; heard == step {
				stop()
			}
		})
		stop()
		whole := heard < step
		if whole && err != nil || err != nil && headroom.CodeOf(err) == "" {
			t.Fatalf("cut off after step %d: %v", step, err)
		}
		if _, err := slots.engine.Forget(t.Context(), slots.subject, nil); err != nil {
			t.Fatal(err)
		}
		for _, a := range []account{slots, calls} {
			if got, want := a.stored(livedIDs...), a.of("nobody has seen this subject").stored(livedIDs...); got != want {
				t.Errorf("cut off after step %d and repeated,\n%s\nis stored, want\n%s", step, got, want)
			}
		}
		if whole {
			return
		}
	}
}

func forgetsNobody(t *testing.T, h Harness) {
	w := newWorld(t, h)
	if _, ok := w.store.(headroom.Forgetter); !ok {
		return
	}
	a := w.account(200)
	if rows, err := a.engine.Forget(t.Context(), a.subject, nil); err != nil || rows != 0 {
		t.Errorf("%d rows, %v", rows, err)
	}
	for _, bad := range []string{"", string(make([]byte, headroom.MaxSubject+1)), "\xff"} {
		if _, err := a.engine.Forget(t.Context(), bad, nil); !errors.Is(err, headroom.Invalid) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
	// A store that cannot forget gives an error that says so.
	b := w.engine(&lossy{Store: w.store}, a.catalog, headroom.Options{})
	if _, err := b.Forget(t.Context(), a.subject, nil); !errors.Is(err, headroom.Invalid) {
		t.Errorf("a store that cannot forget: %v", err)
	}
}

// unable is a store on a tap, and can forget.
type unable struct {
	*tap
	headroom.Forgetter
}

func forgetsNoDebt(t *testing.T, h Harness) {
	w := newWorld(t, h)
	forgetter, ok := w.store.(headroom.Forgetter)
	if !ok {
		return
	}
	for name, c := range map[string]struct {
		meets func(p pair, s *tap) *headroom.Catalog // the catalog of who forgets
		fails error
	}{
		"the organisation cannot be reached": {func(p pair, s *tap) *headroom.Catalog {
			s.fails(p.org.subject, -1, headroom.Throttled, false)
			return p.catalog
		}, headroom.Throttled},
		"the debt cannot be taken off": {func(p pair, s *tap) *headroom.Catalog {
			s.fails(p.subject, -1, headroom.Unavailable, false)
			return p.catalog
		}, headroom.Unavailable},
		"the debtor cannot be read": {func(p pair, s *tap) *headroom.Catalog {
			s.load = func() error { return headroom.Rejected }
			return p.catalog
		}, headroom.Rejected},
		"the catalog has lost the meter": {func(p pair, s *tap) *headroom.Catalog {
			c := w.limited(headroom.Limit{Meter: "another", Name: "week", Units: 1})
			return c
		}, headroom.Invalid},
	} {
		w.Run(name, func(t *testing.T) {
			p := w.newPair(150)
			p.account.does(deduct, "before", 5, admitted, 5, 0)
			p.leave("a", 50)
			before := p.stored("a", "before")
			s, _ := p.tapped()
			forgets := w.engine(unable{s, forgetter}, c.meets(p, s), headroom.Options{})
			if rows, err := forgets.Forget(t.Context(), p.subject, nil); !errors.Is(err, c.fails) || rows != 0 {
				t.Errorf("%d rows, %v", rows, err)
			}
			if after := p.stored("a", "before"); after != before {
				t.Errorf("after it failed\n%s\nis stored, want\n%s", after, before)
			}
			if rows, err := p.engine.Forget(t.Context(), p.subject, nil); err != nil || rows < 1 {
				t.Errorf("repeated: %d rows, %v", rows, err)
			}
			if got, want := p.stored("a", "before"), p.of("nobody has seen this subject").stored("a", "before"); got != want {
				t.Errorf("repeated,\n%s\nis stored, want\n%s", got, want)
			}
			p.org.holding(0).uses(50)
			p.unlisted()
		})
	}
}
