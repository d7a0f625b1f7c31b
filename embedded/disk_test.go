package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/proof/report"
)

// A disk that fails under load stops the store, not the process. Every call is answered, what was
// acknowledged is there when the store is opened again, and what was not is there once or not at
// all.
func TestDiskThatFailsUnderLoad(t *testing.T) {
	const horizon = 3650 * 24 * time.Hour
	named := func(kind errorfs.OpKind, prefix, suffix string) func(errorfs.Op) bool {
		return func(op errorfs.Op) bool {
			base := path.Base(op.Path)
			return op.Kind == kind && strings.HasPrefix(base, prefix) && strings.HasSuffix(base, suffix)
		}
	}
	for name, hit := range map[string]func(errorfs.Op) bool{
		"writing the log": named(errorfs.OpFileWrite, "", ".log"),
		"syncing the log": named(errorfs.OpFileSyncData, "", ".log"),
		"making a log": func(op errorfs.Op) bool { // a new one, or of one that is needed no more
			return (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite) && strings.HasSuffix(op.Path, ".log")
		},
		"making a table":        named(errorfs.OpCreate, "", ".sst"),
		"writing a table":       named(errorfs.OpFileWrite, "", ".sst"),
		"syncing a table":       named(errorfs.OpFileSyncData, "", ".sst"),
		"writing the manifest":  named(errorfs.OpFileWrite, "MANIFEST", ""),
		"syncing the manifest":  named(errorfs.OpFileSync, "MANIFEST", ""),
		"syncing the directory": named(errorfs.OpFileSync, "db", ""),
		"everything":            func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite },
	} {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			mem := vfs.NewMem()
			failing := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if full.Load() && hit(op) {
					return &fs.PathError{Op: "test", Path: op.Path, Err: syscall.ENOSPC}
				}
				return nil
			}))
			b := newBook()
			b.latest = monday
			clock := movingFrom(monday)
			s, err := Open("db", Options{Clock: clock.read, fs: failing, memTable: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			e, err := loadEngine(s, horizon)
			if err != nil {
				t.Fatal(err)
			}
			l := load{engine: e, clock: clock, prefix: "op", book: b, steps: 10}
			if err := l.run(); err != nil {
				t.Fatal(err)
			}
			full.Store(true)
			l.prefix, l.steps = "more", 0
			for _, err := range unjoined(l.run()) {
				if !errors.Is(err, headroom.OutcomeUnknown) && !errors.Is(err, headroom.Unavailable) || !errors.Is(err, syscall.ENOSPC) {
					t.Error(err)
				}
			}
			checkAllFail(t, s, t.Context(), headroom.Unavailable)
			closeStore(t, s)
			// As long as the disk fails, the store may open and stop again, or be refused.
			if s, err := Open("db", Options{fs: failing}); err == nil {
				closeStore(t, s)
			} else if !errors.Is(err, headroom.Unavailable) || !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
			s = open(t, mem, "db", clock.read)
			b.check(t, s, horizon)
		})
	}
}

// A disk that is full at the nth write, for this write or for good, stops the store; a part of the
// write may have been done. Nothing acknowledged is lost, and once there is room the store goes on.
func TestFullDiskAtAnyWrite(t *testing.T) {
	const horizon, faultsOfALife = 3650 * 24 * time.Hour, 25
	began, faults, answers := time.Now(), report.Of(8, 800), 0
	done := 0
	var mem *vfs.MemFS
	b := newBook()
	defer func() {
		report.Add(t, report.Row{
			Part: "killed processes", Name: "full disk", Count: int64(done), Unit: "faults", Took: time.Since(began),
			Note: fmt.Sprintf("ENOSPC at each write up to the %dth, half of them for once; %d acknowledged", faults/2, answers+b.answers),
		})
	}()
	for n := range faults {
		done++
		if n%faultsOfALife == 0 {
			answers += b.answers
			mem, b = vfs.NewMem(), newBook()
			b.latest = monday
		}
		at := int64(n / 2)
		if !report.Long() {
			at = rand.Int64N(150)
		}
		full := &failing{err: syscall.ENOSPC, once: n%2 == 0}
		full.left.Store(at)
		for _, err := range full.underLoad(t, mem, b, fmt.Sprint(n), horizon) {
			if !errors.Is(err, headroom.OutcomeUnknown) && !errors.Is(err, headroom.Unavailable) || !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
		}
		s := open(t, mem, "db", movingFrom(b.latest).read)
		b.check(t, s, horizon)
		closeStore(t, s)
		if t.Failed() {
			t.Fatalf("the %dth write", at)
		}
		report.Step("full disk", int64(n+1), int64(faults))
	}
}

// What an answer shows is on disk: a replay, a refusal or a load that has seen another's change
// waits for that change's sync.
func TestNothingIsShownBeforeItIsDurable(t *testing.T) {
	var held atomic.Pointer[gate]
	s := open(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if g := held.Load(); g != nil && op.Kind == errorfs.OpFileSyncData && strings.HasSuffix(op.Path, ".log") {
			g.pass()
		}
		return nil
	})), "db", (&hand{monday}).read)
	e := engine(t, s, 200)
	deduct(t, e, "ann", "first", 100)

	g := newGate()
	held.Store(g)
	var writer sync.WaitGroup
	writer.Go(func() { deduct(t, e, "ann", "second", 100) })
	<-g.reached
	// The change is applied, and its sync has begun. Whoever would wait for it finds that its own
	// caller has gone.
	for name, ask := range map[string]func(context.Context) error{
		"load": func(ctx context.Context) error {
			v, err := s.Load(ctx, headroom.Query{Key: slots("ann")})
			return shown(v, err)
		},
		"weak load": func(ctx context.Context) error {
			v, err := s.Load(ctx, headroom.Query{Key: slots("ann"), IDs: []string{"second"}, Weak: true})
			return shown(v, err)
		},
		"commit on a guard that does not hold": func(ctx context.Context) error {
			v, _, err := s.Commit(ctx, headroom.Change{Key: slots("ann"), Plan: "free", PlanOrNone: true, Records: []headroom.RecordStep{{ID: "second", Is: &headroom.Record{Kind: headroom.KindDeduct}}}})
			return shown(v, err)
		},
		"replay": func(ctx context.Context) error {
			d, err := e.Deduct(ctx, headroom.Request{Subject: "ann", Meter: "slots", Operation: "second", Cost: 100})
			return shown(d, err)
		},
		"refusal": func(ctx context.Context) error {
			d, err := e.Deduct(ctx, headroom.Request{Subject: "ann", Meter: "slots", Operation: "third", Cost: 1})
			return shown(d, err)
		},
	} {
		if err := ask(&gone{Context: t.Context()}); !errors.Is(err, headroom.Unavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Others need not wait.
	if n := used(t, s, "somebody else"); n != 0 {
		t.Error(n)
	}
	g.open()
	writer.Wait()

	g = newGate()
	held.Store(g)
	writer.Go(func() {
		if err := s.SetPlan(t.Context(), "ann", "free"); err != nil {
			t.Error(err)
		}
	})
	<-g.reached
	v, err := s.Load(&gone{Context: t.Context()}, headroom.Query{Key: slots("ann")})
	if err := shown(v, err); !errors.Is(err, context.Canceled) {
		t.Errorf("load of a plan: %v", err)
	}
	g.open()
	writer.Wait()
	if d := deduct(t, e, "ann", "second", 100); !d.Replay || d.Used != 200 {
		t.Errorf("%+v", d)
	}
}

func shown(what any, err error) error {
	if err == nil {
		return fmt.Errorf("answered before the sync: %+v", what)
	}
	return err
}

// gate stops those who pass until it is opened.
type gate struct {
	reached, opened chan struct{}
	once            sync.Once
}

func newGate() *gate { return &gate{reached: make(chan struct{}), opened: make(chan struct{})} }

func (g *gate) pass() {
	g.once.Do(func() { close(g.reached) })
	<-g.opened
}

func (g *gate) open() { close(g.opened) }

// gone is the context of a caller that goes as soon as somebody waits for it.
type gone struct {
	context.Context
	waited atomic.Bool
}

func (g *gone) Done() <-chan struct{} {
	g.waited.Store(true)
	done := make(chan struct{})
	close(done)
	return done
}

func (g *gone) Err() error {
	if g.waited.Load() {
		return context.Canceled
	}
	return nil
}
