package headroom_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/storetest"
)

// elsewhere is a store that keeps all but the latest two totals where only a query for history finds them.
type elsewhere struct{ headroom.Store }

func (s elsewhere) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	v, err := s.Store.Load(ctx, q)
	if !q.History {
		v = atHand(v)
	}
	return v, err
}

func (s elsewhere) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	v, done, err := s.Store.Commit(ctx, c)
	return atHand(v), done, err
}

func atHand(v headroom.View) headroom.View {
	counters := map[string]headroom.Counter{}
	for name, c := range v.State.Counters {
		if len(c.Past) > 2 {
			c.Past, c.Partial = c.Past[:2], true
		}
		counters[name] = c
	}
	v.State.Counters = counters
	return v
}

// TestStoresMayKeepHistoryElsewhere holds that the engine asks for the totals that a decision needs, and for no more.
func TestStoresMayKeepHistoryElsewhere(t *testing.T) {
	harness := storetest.Harness{
		Open: func(_ testing.TB, clock func() time.Time) headroom.Store { return elsewhere{memstore.New(clock)} },

		Checks: 30,
	}
	storetest.Run(t, harness)
	t.Run("model", func(t *testing.T) { storetest.Model(t, harness) })
}

// crowded is a store in which others are always faster.
type crowded struct{ headroom.Store }

func (s crowded) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	v, err := s.Load(ctx, headroom.Query{Key: c.Key, IDs: []string{c.Records[0].ID}})
	return v, false, err
}

func TestContentionEndsWithTheCallersPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := headroom.New(crowded{memstore.New(nil)}, headroom.Lumcast(), headroom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		d, err := e.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 1})
		if !reflect.DeepEqual(d, headroom.Decision{}) || !errors.Is(err, headroom.ErrContended) && !errors.Is(err, headroom.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v: want an error of the context's", d, err)
		}
		if waited := time.Since(began); waited > 10*time.Millisecond {
			t.Errorf("it waited %s, longer than its caller", waited)
		}
		began = time.Now()
		if _, err := e.Deduct(t.Context(), headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 1}); !errors.Is(err, headroom.ErrContended) {
			t.Errorf("%v: want %s", err, headroom.CodeContended)
		}
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("it tried for %s", waited)
		}
	})
}
