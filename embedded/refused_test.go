//go:build linux || darwin

package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/lumcast/headroom"
)

// A commit that the disk refuses is an error that leaves its outcome open, never a yes. From then on the store
// answers nothing, and once it is opened again the operation is there once or not at all, and can be repeated.
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
		if d, err := e.Deduct(t.Context(), r); !errors.Is(err, headroom.ErrOutcomeUnknown) || !errors.Is(err, syscall.EIO) || d.Allowed {
			t.Errorf("%v: %+v, %v", kind, d, err)
		}
		checkAllFail(t, s, t.Context(), headroom.ErrUnavailable)
		if err := s.SetPlan(t.Context(), "ann", "free"); !errors.Is(err, headroom.ErrUnavailable) {
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

// A batch that the engine itself refuses was written nowhere that is known: the outcome is open, and the
// store stops, since what the engine has in memory may differ from what is on disk.
func TestBatchThatTheEngineRefuses(t *testing.T) {
	mem, clock := vfs.NewMem(), &hand{monday}
	s := open(t, mem, "db", clock.read)
	deduct(t, engine(t, s, 200), "ann", "a", 50)
	refusal := errors.New("refused")
	b := s.db.NewBatch()
	if err := s.sync(b, make(pending), refusal); !errors.Is(err, headroom.ErrOutcomeUnknown) || !errors.Is(err, refusal) {
		t.Error(err)
	}
	checkAllFail(t, s, t.Context(), headroom.ErrUnavailable)
	closeStore(t, s)
	if n := used(t, open(t, mem, "db", clock.read), "ann"); n != 50 {
		t.Errorf("%d are used", n)
	}
}

// Names of subjects are nobody's business: the folders that a store makes are closed to other users.
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
