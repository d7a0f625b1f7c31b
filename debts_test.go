package headroom_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// deaf is a store in which organisations of some names never answer.
type deaf struct{ *memstore.Store }

func (d deaf) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	if strings.HasPrefix(q.Key.Subject, "silent") {
		<-ctx.Done()
		return headroom.View{}, headroom.Errorf(headroom.Unavailable, ctx.Err(), "no answer")
	}
	return d.Store.Load(ctx, q)
}

// leaveDebt leaves a debt of a user in a store.
func leaveDebt(t *testing.T, store headroom.Store, user, id string, d headroom.Debt) {
	t.Helper()
	c := headroom.Change{
		Key: headroom.Key{Subject: user, Meter: "slots"}, PlanOrNone: true, Debts: []headroom.DebtStep{{ID: id, Is: &d}},
	}
	if _, done, err := store.Commit(t.Context(), c); !done || err != nil {
		t.Fatal(done, err)
	}
}

// TestAnOrganisationThatDoesNotAnswerStarvesNoOther: a run comes to every debt, also beside a
// thousand debtors of one that does not answer, and to the other debts of each of them.
func TestAnOrganisationThatDoesNotAnswerStarvesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := deaf{memstore.New(time.Now)}
		engine, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		const debtors = 1000
		now := time.Now().Truncate(time.Second)
		for i := range debtors {
			user := fmt.Sprintf("user %04d", i)
			leaveDebt(t, store, user, "a", headroom.Debt{To: "silent", Cost: 1, Since: now})
			leaveDebt(t, store, user, "b"+user, headroom.Debt{To: "acme", Cost: 1, Since: now})
		}
		leaveDebt(t, store, "zoe", "z", headroom.Debt{To: "globex", Cost: 7, Since: now})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		n, err := engine.FinishDebts(ctx)
		if n != (headroom.Finished{Settled: debtors + 1, Left: debtors}) || !errors.Is(err, headroom.Unavailable) {
			t.Errorf("%+v, %.200v", n, err)
		}
		for organisation, want := range map[string]int64{"acme": debtors, "globex": 7} {
			u, err := engine.Usage(t.Context(), headroom.UsageRequest{Subject: organisation, Meter: "slots"})
			if err != nil || u.Limits[0].Used != want {
				t.Errorf("%s: %+v, %v", organisation, u, err)
			}
		}
		// A look is no longer than before, and settles what can be.
		leaveDebt(t, store, "zoe", "a", headroom.Debt{To: "silent", Cost: 1, Since: now})
		leaveDebt(t, store, "zoe", "y", headroom.Debt{To: "globex", Cost: 1, Since: now})
		began := time.Now()
		u, err := engine.Usage(t.Context(), headroom.UsageRequest{Subject: "zoe", Meter: "slots"})
		if err != nil || len(u.Debts) != 1 || u.Debts["a"].Organisation != "silent" || time.Since(began) > 3*time.Second {
			t.Errorf("after %s: %+v, %v", time.Since(began), u.Debts, err)
		}
	})
}

// TestADebtThatIsTooOldIsNotDroppedInSilence: by a look and by a run, the log keeps who owed what.
func TestADebtThatIsTooOldIsNotDroppedInSilence(t *testing.T) {
	seen := 0
	for name, finish := range map[string]func(*headroom.Engine) error{
		"a look": func(e *headroom.Engine) error {
			_, err := e.Usage(t.Context(), headroom.UsageRequest{Subject: "ann", Meter: "slots"})
			return err
		},
		"a run": func(e *headroom.Engine) error {
			n, err := e.FinishDebts(t.Context())
			if seen += n.TooOld; seen != 1 || n.Settled+n.Left > 0 {
				t.Errorf("%+v", n)
			}
			return err
		},
	} {
		now := time.Date(2026, time.May, 28, 9, 0, 0, 0, time.UTC)
		store := memstore.New(func() time.Time { return now })
		var log bytes.Buffer
		engine, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{
			Clock: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		leaveDebt(t, store, "ann", "job", headroom.Debt{To: "acme", Cost: 7, Since: now.AddDate(-1, 0, 0)})
		for range 2 {
			if err := finish(engine); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, part := range []string{"subject=ann", "meter=slots", "operation=job", "organisation=acme", "units=7", "since=2025-05-28"} {
			if strings.Count(log.String(), part) != 1 {
				t.Errorf("%s: want %q once in the log: %s", name, part, log.String())
			}
		}
	}
}
