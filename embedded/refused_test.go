//go:build linux || darwin

package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/lumcast/headroom"
)

// A commit that the disk refuses is an error that leaves its outcome open, never a yes. From then
// on the store answers nothing, and once it is opened again the operation is there once or not at
// all, and can be repeated.
func TestCommitThatFailsIsNoYes(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
		var full atomic.Bool
		mem, clock := vfs.NewMem(), &hand{monday}
		failing := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full.Load() && op.Kind == kind && strings.HasSuffix(op.Path, ".log") {
				return &fs.PathError{Op: "test", Path: op.Path, Err: syscall.EIO}
			}
			return nil
		}))
		s := open(t, failing, "db", clock.read)
		e := engine(t, s, 200)
		deduct(t, e, "ann", "a", 50)
		full.Store(true)
		r := headroom.Request{Subject: "ann", Meter: "slots", Operation: "b", Cost: 50}
		if d, err := e.Deduct(t.Context(), r); !errors.Is(err, headroom.OutcomeUnknown) || !errors.Is(err, syscall.EIO) || d.Allowed {
			t.Errorf("%v: %+v, %v", kind, d, err)
		}
		checkAllFail(t, s, t.Context(), headroom.Unavailable)
		if err := s.SetPlan(t.Context(), "ann", "free"); !errors.Is(err, headroom.Unavailable) {
			t.Error(err)
		}
		closeStore(t, s)
		s = open(t, mem, "db", clock.read)
		if n := used(t, s, "ann"); n != 50 && n != 100 {
			t.Errorf("%v: %d are used", kind, n)
		}
		if d := deduct(t, engine(t, s, 200), "ann", "b", 50); !d.Allowed || d.Used != 100 {
			t.Errorf("%v: repeated: %+v", kind, d)
		}
	}
}

// A batch that the engine itself refuses, before or after it was applied, may be on disk or not:
// the outcome is open, never a yes. The store stops, since what the engine has in memory may differ
// from what is on disk. Who waits for that batch gets no answer from it. Opened again, the store
// has it whole or not at all.
func TestBatchThatTheEngineRefuses(t *testing.T) {
	refusal := errors.New("refused")
	whole := func(s *Store, b *pebble.Batch) error { return s.db.ApplyNoSyncWait(b, pebble.Sync) }
	for how, write := range map[string]func(*Store, *pebble.Batch) error{
		"before it is applied":   func(*Store, *pebble.Batch) error { return refusal },
		"after it is applied":    func(s *Store, b *pebble.Batch) error { return errors.Join(whole(s, b), b.SyncWait(), refusal) },
		"before it is on disk":   func(s *Store, b *pebble.Batch) error { return errors.Join(whole(s, b), refusal) },
		"with a marked database": func(s *Store, b *pebble.Batch) error { return fmt.Errorf("%w: %w", pebble.ErrCorruption, refusal) },
	} {
		for verb, c := range map[string]struct {
			call   func(s *Store, e *headroom.Engine) error
			repeat func(t *testing.T, s *Store, e *headroom.Engine) // after the store is opened again
		}{
			"commit": {func(_ *Store, e *headroom.Engine) error {
				d, err := e.Deduct(t.Context(), headroom.Request{Subject: "ann", Meter: "slots", Operation: "b", Cost: 50})
				if d.Allowed {
					t.Error("a silent yes")
				}
				return err
			}, func(t *testing.T, s *Store, e *headroom.Engine) {
				if n := used(t, s, "ann"); n != 50 && n != 100 {
					t.Errorf("%d are used", n)
				}
				if d := deduct(t, e, "ann", "b", 50); d.Used != 100 {
					t.Errorf("repeated: %+v", d)
				}
			}},
			"set plan": {func(s *Store, _ *headroom.Engine) error { return s.SetPlan(t.Context(), "ann", "free") },
				func(t *testing.T, s *Store, _ *headroom.Engine) {
					if err := s.SetPlan(t.Context(), "ann", "free"); err != nil {
						t.Error(err)
					}
				}},
			"accept the clock": {func(s *Store, _ *headroom.Engine) error { return s.AcceptClock(t.Context()) },
				func(t *testing.T, s *Store, _ *headroom.Engine) {
					if err := s.AcceptClock(t.Context()); err != nil {
						t.Error(err)
					}
				}},
			"forget": {func(_ *Store, e *headroom.Engine) error { _, err := e.Forget(t.Context(), "ann", nil); return err },
				func(t *testing.T, s *Store, e *headroom.Engine) {
					if n := used(t, s, "ann"); n != 0 && n != 50 {
						t.Errorf("%d are used", n)
					}
					if _, err := e.Forget(t.Context(), "ann", nil); err != nil || used(t, s, "ann") != 0 {
						t.Errorf("%v, %d are used", err, used(t, s, "ann"))
					}
				}},
		} {
			t.Run(verb+" "+how, func(t *testing.T) {
				mem, clock := vfs.NewMem(), &hand{monday}
				s := open(t, mem, "db", clock.read)
				e := engine(t, s, 200)
				deduct(t, e, "ann", "a", 50)
				var waiting sync.WaitGroup
				s.write = func(b *pebble.Batch) error {
					if verb != "accept the clock" { // which shows in no answer
						waiting.Go(func() {
							if v, err := s.Load(t.Context(), headroom.Query{Key: slots("ann")}); !errors.Is(err, headroom.Unavailable) {
								t.Errorf("who waits for the batch sees %+v, %v", v, err)
							}
						})
					}
					return write(s, b)
				}
				defer waiting.Wait()
				if err := c.call(s, e); !errors.Is(err, headroom.OutcomeUnknown) || !errors.Is(err, refusal) {
					t.Error(err)
				}
				waiting.Wait()
				checkAllFail(t, s, t.Context(), headroom.Unavailable)
				if _, err := e.Deduct(t.Context(), headroom.Request{Subject: "ann", Meter: "slots", Operation: "a", Cost: 50}); !errors.Is(err, headroom.Unavailable) {
					t.Errorf("a repeat is answered by a store that has stopped: %v", err)
				}
				closeStore(t, s)
				s = open(t, mem, "db", clock.read)
				c.repeat(t, s, engine(t, s, 200))
			})
		}
	}
}

// Names of subjects are nobody's business: the folders that a store makes are closed to other
// users.
func TestFoldersAreClosedToOthers(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b")
	s := open(t, nil, dir, nil)
	closeStore(t, s)
	for _, name := range []string{dir, filepath.Dir(dir)} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o700 {
			t.Errorf("%s has the mode %o", name, mode)
		}
	}
}
