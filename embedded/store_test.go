package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/lumcast/headroom"
)

// monday is the start of 2026-W23.
var monday = time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)

// hand is a clock that is set by hand.
type hand struct{ now time.Time }

func (h *hand) read() time.Time { return h.now }

// open opens the store in dir on a file system, and closes it with the test unless the test has.
func open(t testing.TB, fs vfs.FS, dir string, read func() time.Time) *Store {
	t.Helper()
	s, err := Open(dir, Options{Clock: read, fs: fs, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openSmall opens the store in "db" with little room for recent writes, so that tables are written
// early, on the clock of a Monday.
func openSmall(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open("db", Options{Clock: (&hand{monday}).read, fs: fs, memTable: 64 << 10, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// engine returns an engine on s with so many units a week, that reads the store's clock.
func engine(t testing.TB, s *Store, units int64) *headroom.Engine {
	t.Helper()
	catalog, err := headroom.DefaultCatalog().WithUnits("slots", units)
	if err != nil {
		t.Fatal(err)
	}
	e, err := headroom.New(s, catalog, headroom.Options{Clock: s.clock.read})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func deduct(t testing.TB, e *headroom.Engine, subject, operation string, cost int64) headroom.Decision {
	t.Helper()
	d, err := e.Deduct(context.Background(), headroom.Request{Subject: subject, Meter: "slots", Operation: operation, Cost: cost})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func slots(subject string) headroom.Key { return headroom.Key{Subject: subject, Meter: "slots"} }

// used is the count of the weekly limit.
func used(t testing.TB, s *Store, subject string) int64 {
	t.Helper()
	v, err := s.Load(context.Background(), headroom.Query{Key: slots(subject), Now: monday})
	if err != nil {
		t.Fatal(err)
	}
	return v.State.Counters["week"].Count
}

func TestWhatIsStoredOutlivesTheProcess(t *testing.T) {
	dir, clock := t.TempDir(), &hand{monday}
	s := open(t, nil, dir, clock.read)
	e := engine(t, s, 200)
	if err := s.SetPlan(t.Context(), "ann", "free"); err != nil {
		t.Fatal(err)
	}
	deduct(t, e, "ann", "a", 30)
	clock.now = clock.now.AddDate(0, 0, 7)
	deduct(t, e, "ann", "b", 40)
	before, err := s.Load(t.Context(), headroom.Query{Key: slots("ann"), IDs: []string{"a"}, History: true})
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)

	s = open(t, nil, dir, clock.read)
	after, err := s.Load(t.Context(), headroom.Query{Key: slots("ann"), IDs: []string{"a"}, History: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v %+v", after.State, after.Records), fmt.Sprintf("%+v %+v", before.State, before.Records); got != want {
		t.Errorf("after:  %s\nbefore: %s", got, want)
	}
	week := after.State.Counters["week"]
	if after.State.Plan != "free" || week.Count != 40 || len(week.Past) != 1 || week.Past[0].Units != 30 || week.Partial || after.Records["a"].Cost != 30 {
		t.Errorf("%+v %+v", after.State, after.Records)
	}
}

// A deduction within a window neither reads nor writes the history: a load without it says that
// there is more.
func TestHistoryIsReadOnlyWhenAskedFor(t *testing.T) {
	clock := &hand{monday}
	s := open(t, vfs.NewMem(), "db", clock.read)
	e := engine(t, s, 200)
	for week := range 60 {
		clock.now = monday.AddDate(0, 0, 7*week)
		deduct(t, e, "ann", fmt.Sprint("op", week), int64(week+1))
	}
	v, err := s.Load(t.Context(), headroom.Query{Key: slots("ann")})
	if c := v.State.Counters["week"]; err != nil || !c.Partial || len(c.Past) != 0 || c.Count != 60 {
		t.Errorf("%+v, %v", c, err)
	}
	v, err = s.Load(t.Context(), headroom.Query{Key: slots("ann"), History: true})
	c := v.State.Counters["week"]
	if err != nil || c.Partial || len(c.Past) != headroom.HistoryWindows || c.Past[0].Units != 59 || c.Past[51].Units != 8 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestSecondOpenerIsToldThatTheStoreIsLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, nil, dir, nil)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	t.Chdir(filepath.Dir(dir))
	for _, name := range []string{dir, filepath.Base(dir), link, dir + "/."} {
		_, err := Open(name, Options{})
		if !errors.Is(err, headroom.Locked) || !strings.Contains(fmt.Sprint(err), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	closeStore(t, s)
	open(t, nil, link, nil)
}

func TestNamesCannotCollide(t *testing.T) {
	s := open(t, vfs.NewMem(), "db", nil)
	names := []headroom.Key{{Subject: "a", Meter: "b_c"}, {Subject: "a_b", Meter: "c"}, {Subject: "a", Meter: "b\x00c"}, {Subject: "a\x00b", Meter: "c"}, {Subject: "ab", Meter: "c"}, {Subject: "a", Meter: "bc"},
		{Subject: "é", Meter: "c"}, {Subject: "e\u0301", Meter: "c"}, {Subject: strings.Repeat("\x01", 128), Meter: "c"}, {Subject: strings.Repeat("\x01", 129), Meter: "c"}, {Subject: "\x01\x01", Meter: "\x01"}, {Subject: "\x01", Meter: "\x01\x01"}}
	window := headroom.ISOWeek(monday)
	for i, k := range names {
		c := headroom.Change{Key: k, Now: monday, Plan: "free", PlanOrNone: true, Rotate: monday, Horizon: headroom.DefaultHorizon,
			Records: charged(int64(i)), Steps: []headroom.Step{{Limit: "week", To: window, Add: int64(i), Opens: true}}}
		if v, ok, err := s.Commit(t.Context(), c); !ok || err != nil {
			t.Fatalf("%q: %+v, %v", k, v, err)
		}
	}
	for i, k := range names {
		v, err := s.Load(t.Context(), headroom.Query{Key: k, IDs: []string{"op"}})
		if err != nil || v.State.Counters["week"].Count != int64(i) || v.Records["op"].Cost != int64(i) {
			t.Errorf("%q: %+v, %v", k, v, err)
		}
	}
}

// A plan belongs to the subject: the guard of every meter sees it.
func TestPlanIsSharedByTheMetersOfASubject(t *testing.T) {
	s := open(t, vfs.NewMem(), "db", nil)
	c := headroom.Change{Key: slots("ann"), Now: monday, Plan: "free", PlanOrNone: true, Rotate: monday, Records: charged(0)}
	if err := s.SetPlan(t.Context(), "ann", "pro"); err != nil {
		t.Fatal(err)
	}
	if v, ok, err := s.Commit(t.Context(), c); ok || err != nil || v.State.Plan != "pro" {
		t.Errorf("committed on another plan: %+v, %v", v, err)
	}
	if err := s.SetPlan(t.Context(), "ann", ""); err != nil {
		t.Fatal(err)
	}
	if v, ok, err := s.Commit(t.Context(), c); !ok || err != nil || v.State.Plan != "" {
		t.Errorf("refused without a plan: %+v, %v", v, err)
	}
}

func TestNothingIsAskedOfAClosedStore(t *testing.T) {
	s := open(t, vfs.NewMem(), "db", nil)
	closeStore(t, s)
	closeStore(t, s)
	checkAllFail(t, s, t.Context(), headroom.Unavailable)
}

func TestNothingIsWrittenAfterTheCallerHasGone(t *testing.T) {
	s := open(t, vfs.NewMem(), "db", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	checkAllFail(t, s, ctx, headroom.Unavailable)
	if ops := audit(t, s); len(ops) != 0 {
		t.Error(ops)
	}
}

// checkAllFail asks everything of s.
func checkAllFail(t *testing.T, s *Store, ctx context.Context, want error) {
	t.Helper()
	_, loadErr := s.Load(ctx, headroom.Query{Key: slots("ann")})
	_, _, commitErr := s.Commit(ctx, headroom.Change{Key: slots("ann"), PlanOrNone: true, Rotate: monday, Records: charged(0)})
	_, clockErr := s.Clock(ctx)
	for i, err := range []error{loadErr, commitErr, s.SetPlan(ctx, "ann", "free"), clockErr, s.AcceptClock(ctx)} {
		if !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
}

func TestNewerFormatsAreRefused(t *testing.T) {
	t.Run("of the store", func(t *testing.T) {
		mem := vfs.NewMem()
		s := open(t, mem, "db", nil)
		if err := s.db.Set([]byte{tableFormat}, append(encodeFormat(storeFormat+1), "more"...), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		checkNotOpened(t, mem, headroom.Unreadable, "newer version")
	})
	t.Run("of the engine", func(t *testing.T) {
		mem := vfs.NewMem()
		closeStore(t, open(t, mem, "db", nil))
		m, _, err := atomicfs.LocateMarker(mem, "db", "format-version")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(m.Move("9999"), m.Close()); err != nil {
			t.Fatal(err)
		}
		checkNotOpened(t, mem, headroom.Unreadable, "newer version")
	})
	t.Run("of somebody else", func(t *testing.T) {
		mem := vfs.NewMem()
		db, err := pebble.Open("db", &pebble.Options{FS: mem, Logger: engineLog{&disk{}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Set([]byte("k"), []byte("v"), pebble.Sync), db.Close()); err != nil {
			t.Fatal(err)
		}
		checkNotOpened(t, mem, headroom.Unreadable, "not Headroom's")
	})
}

// checkNotOpened checks that opening "db" fails with want and a message that names the directory.
func checkNotOpened(t *testing.T, fs vfs.FS, want error, says string) {
	t.Helper()
	s, err := Open("db", Options{fs: fs})
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), says) || !strings.Contains(fmt.Sprint(err), "db") {
		t.Errorf("%v, want %v that says %q", err, want, says)
	}
}

func TestDirectoryThatCannotBeUsed(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EROFS, syscall.ENOSPC} {
		want := error(headroom.Rejected)
		if errno == syscall.ENOSPC {
			want = headroom.Unavailable
		}
		for _, kind := range []errorfs.OpKind{errorfs.OpMkdirAll, errorfs.OpLock, errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpRename} {
			t.Run(fmt.Sprint(errno, kind), func(t *testing.T) {
				mem := vfs.NewMem()
				inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind == kind {
						return &fs.PathError{Op: "test", Path: op.Path, Err: errno}
					}
					return nil
				})
				checkNotOpened(t, errorfs.Wrap(mem, inject), want, errno.Error())
				closeStore(t, open(t, mem, "db", nil)) // nothing bad is left behind
			})
		}
	}
	t.Run("none", func(t *testing.T) {
		if _, err := Open("", Options{}); !errors.Is(err, headroom.Invalid) {
			t.Error(err)
		}
	})
	t.Run("a file", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(name, Options{}); !errors.Is(err, headroom.Rejected) {
			t.Error(err)
		}
		if _, err := Open(filepath.Join(name, "db"), Options{}); !errors.Is(err, headroom.Rejected) {
			t.Error(err)
		}
	})
}

func TestDamagedRowsAreAnError(t *testing.T) {
	clock := &hand{monday}
	s := open(t, vfs.NewMem(), "db", clock.read)
	e := engine(t, s, 200)
	deduct(t, e, "ann", "a", 30)
	clock.now = clock.now.AddDate(0, 0, 7)
	deduct(t, e, "ann", "b", 40)
	g := generation{byClock, time.Unix(clock.now.Unix()/(15*86400)*15*86400, 0)}
	for _, key := range [][]byte{stateKey(slots("ann")), historyKey(slots("ann"), "week"), opKey(g, slots("ann"), "b")} {
		row, closer, err := s.db.Get(key)
		if err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		good := append([]byte(nil), row...)
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range good {
			// Cut short, and with a byte turned.
			for _, bad := range [][]byte{good[:i], append(append(append([]byte(nil), good[:i]...), good[i]^0xff), good[i+1:]...)} {
				if err := s.db.Set(key, bad, pebble.NoSync); err != nil {
					t.Fatal(err)
				}
				_, err := s.Load(t.Context(), headroom.Query{Key: slots("ann"), IDs: []string{"b"}, History: true})
				if err != nil && !errors.Is(err, headroom.Unreadable) {
					t.Errorf("%q: %v", bad, err)
				}
				if err == nil && len(bad) < len(good) && key[0] != tableOps {
					t.Errorf("read %q, which was cut short", bad)
				}
			}
		}
		if err := s.db.Set(key, good, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Delete(historyKey(slots("ann"), "week"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), headroom.Query{Key: slots("ann"), History: true}); !errors.Is(err, headroom.Unreadable) {
		t.Errorf("the history is gone: %v", err)
	}
}

// charged is what a change does that charges the operation "op".
func charged(cost int64) []headroom.RecordStep {
	return []headroom.RecordStep{{ID: "op", Is: &headroom.Record{Kind: headroom.KindDeduct, Cost: cost}}}
}
