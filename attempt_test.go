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
)

// crowded is a store in which others are always faster.
type crowded struct{ headroom.Store }

func (s crowded) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	v, err := s.Load(ctx, headroom.Query{Key: c.Key, IDs: []string{c.Records[0].ID}})
	return v, false, err
}

func TestContentionEndsWithTheCallersPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := headroom.New(crowded{memstore.New(nil)}, headroom.DefaultCatalog(), headroom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		d, err := e.Deduct(ctx, headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 1})
		if !reflect.DeepEqual(d, headroom.Decision{}) || !errors.Is(err, headroom.Contended) && !errors.Is(err, headroom.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v: want an error of the context's", d, err)
		}
		if waited := time.Since(began); waited > 10*time.Millisecond {
			t.Errorf("it waited %s, longer than its caller", waited)
		}
		began = time.Now()
		if _, err := e.Deduct(t.Context(), headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 1}); !errors.Is(err, headroom.Contended) {
			t.Errorf("%v: want %s", err, headroom.Contended)
		}
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("it tried for %s", waited)
		}
	})
}
