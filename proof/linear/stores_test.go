package linear_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/embedded"
	"github.com/lumcast/headroom/internal/enginetest"
)

// catalog returns a catalog with the plans in limits.
func catalog(t *testing.T) *headroom.Catalog {
	t.Helper()
	plan := func(name string) headroom.Plan {
		return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: meter, Name: "week", Units: limits[name]}}}
	}
	c, err := headroom.NewCatalog("free", []headroom.Plan{plan("free"), plan("pro")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newWorld returns a world without stores.
func newWorld(name string, seed uint64) *world {
	w := &world{name: name, seed: seed, clients: 5, calls: 6, atOnce: 64, idle: func() {}}
	w.clock.Store(monday.Unix() - int64(turn))
	return w
}

// add adds an engine on a store, as one more process.
func (w *world) add(t *testing.T, s headroom.Store) {
	t.Helper()
	e, err := headroom.New(s, catalog(t), headroom.Options{Clock: w.now})
	if err != nil {
		t.Fatal(err)
	}
	w.engines = append(w.engines, e)
}

// onEmbedded returns a world on an embedded store.
func onEmbedded(t *testing.T, seed uint64) *world {
	w := newWorld("embedded", seed)
	s, err := embedded.Open(t.TempDir(), embedded.Options{Clock: w.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w.add(t, tap{s})
	return w
}

// tap is a store on which requests meet the fault of the call to which they belong.
type tap struct{ headroom.Store }

var errLost = headroom.Errorf(headroom.OutcomeUnknown, nil, "the answer was lost")

func (s tap) Load(ctx context.Context, q headroom.Query) (v headroom.View, err error) {
	return v, s.meet(ctx, false, func(ctx context.Context) (bool, error) {
		v, err = s.Store.Load(ctx, q)
		return false, err
	})
}

func (s tap) Commit(ctx context.Context, c headroom.Change) (v headroom.View, done bool, err error) {
	return v, done, s.meet(ctx, true, func(ctx context.Context) (bool, error) {
		v, done, err = s.Store.Commit(ctx, c)
		return done, err
	})
}

func (s tap) SetPlan(ctx context.Context, subject, plan string) error {
	return s.meet(ctx, true, func(ctx context.Context) (bool, error) { return true, s.Store.SetPlan(ctx, subject, plan) })
}

// meet calls the store, with the fault that strikes the request. call reports whether it has
// written.
func (s tap) meet(ctx context.Context, writes bool, call func(context.Context) (bool, error)) error {
	t := traced(ctx)
	if !t.strikes() {
		_, err := call(ctx)
		return err
	}
	switch t.kind {
	case drop:
		if !writes {
			return headroom.Errorf(headroom.Unavailable, nil, "the request was lost")
		}
		return errLost
	case lose, leave:
		if t.kind == leave {
			t.cancel()
		}
		written, err := call(context.WithoutCancel(ctx))
		if err != nil || !writes {
			return headroom.Errorf(headroom.Unavailable, err, "the answer was lost")
		}
		if written {
			t.lost.Add(1)
		}
		return errLost
	}
	_, err := call(ctx)
	t.cancel()
	return err
}

var tables atomic.Int64

// onDynamo returns a world on two stores that share the tables of an engine, as two processes
// would. The SDK of one sends a request up to three times, and that of the other once.
func onDynamo(t *testing.T, engine string, seed uint64) *world {
	w := newWorld(engine, seed)
	w.atOnce = 16 // with more the engines get slower
	wire := &wire{clock: w.now, to: &http.Transport{MaxIdleConnsPerHost: 512}}
	w.idle = wire.under.Wait
	table := fmt.Sprintf("linear-%d", tables.Add(1))
	for _, attempts := range []int{3, 1} {
		s, err := dynamostore.New(enginetest.Client(t, engine, wire, attempts),
			dynamostore.Options{Table: table, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = s.CreateTables(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		w.add(t, s)
	}
	return w
}

// wire carries requests to an engine. It lets them meet the fault of the call to which they belong,
// and sets the Date of the answers.
type wire struct {
	clock func() time.Time
	to    *http.Transport
	under sync.WaitGroup // requests that nobody waits for
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	t := traced(r.Context())
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	// A request may go on after its caller has gone, so it must own what it sends.
	pass := func(ctx context.Context) (*http.Response, error) {
		on := r.Clone(ctx)
		on.Body = io.NopCloser(bytes.NewReader(body))
		return w.to.RoundTrip(on)
	}
	write := strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem")
	strikes := t.strikes()
	lost := func() {
		if write {
			t.lost.Add(1)
		}
	}
	switch {
	case strikes && t.kind == drop:
		return nil, io.ErrUnexpectedEOF
	case strikes && t.kind == leave:
		lost()
		t.late.Store(true)
		w.under.Go(func() {
			if answer, err := pass(context.WithoutCancel(r.Context())); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
		t.cancel()
		return nil, r.Context().Err()
	}
	answer, err := pass(r.Context())
	if err != nil {
		if t != nil {
			lost()
			t.late.Store(true)
		}
		return nil, err
	}
	answer.Header.Set("Date", w.clock().Format(http.TimeFormat))
	switch {
	case strikes && t.kind == lose:
		lost()
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return nil, io.ErrUnexpectedEOF
	case strikes && t.kind == cancel:
		// The answer has arrived, but the context is over.
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return nil, err
		}
		answer.Body = io.NopCloser(bytes.NewReader(text))
		t.cancel()
	}
	return answer, nil
}
