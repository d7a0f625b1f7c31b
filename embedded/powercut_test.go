package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/proof/report"
)

// failing lets a number of writes to the disk pass, and fails those after it.
type failing struct {
	err  error
	once bool // only one fails
	left atomic.Int64
}

// disk is a file system that fails so. Of data that it fails to write it writes a part.
func (f *failing) disk(under vfs.FS) vfs.FS {
	return errorfs.Wrap(partly{under, f}, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileClose {
			return nil
		}
		return f.fail(op.Path)
	}))
}

func (f *failing) fail(path string) error {
	if left := f.left.Add(-1); left >= 0 || f.once && left < -1 {
		return nil
	}
	return &fs.PathError{Op: "test", Path: path, Err: f.err}
}

type partly struct {
	vfs.FS
	failing *failing
}

type partlyWritten struct {
	vfs.File
	path    string
	failing *failing
}

func (p partly) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	return partlyWritten{f, name, p.failing}, err
}

func (p partly) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.ReuseForWrite(oldname, newname, category)
	return partlyWritten{f, newname, p.failing}, err
}

func (f partlyWritten) Write(p []byte) (int, error) {
	if err := f.failing.fail(f.path); err != nil {
		n, _ := f.File.Write(p[:rand.N(len(p)+1)])
		return n, err
	}
	return f.File.Write(p)
}

// underLoad opens the store in "db" and loads it until the disk fails. It returns what opening, or
// each of the writers, failed with. That may be nothing if only one write fails: the engine can do
// without some.
func (f *failing) underLoad(t *testing.T, under vfs.FS, b *book, prefix string, horizon time.Duration) []error {
	t.Helper()
	clock := movingFrom(b.latest)
	s, err := Open("db", Options{Clock: clock.read, fs: f.disk(under), memTable: 64 << 10})
	if err != nil {
		return []error{err}
	}
	clock.reach(s.clock.mark)
	e, err := loadEngine(s, horizon)
	if err == nil {
		l := load{engine: e, clock: clock, prefix: prefix, repeat: b.repeats(), book: b}
		if f.once {
			l.steps = 50
		}
		err = l.run()
	}
	if err == nil {
		closeStore(t, s)
		return nil
	}
	checkAllFail(t, s, t.Context(), headroom.Unavailable)
	closeStore(t, s)
	return unjoined(err)
}

// A power cut at any write loses what was not synced, or any part of it, in whole blocks or torn at
// any byte.
func TestAcknowledgedOperationsSurviveAPowerCut(t *testing.T) {
	const cutsOfALife, horizon = 20, 3650 * 24 * time.Hour
	began, cuts := time.Now(), report.Of(8, 300)
	done, answers, unanswered := 0, 0, 0
	defer func() {
		report.Add(t, report.Row{
			Part: "killed processes", Name: "power cuts", Count: int64(2 * done), Unit: "cuts", Took: time.Since(began),
			Note: fmt.Sprintf("%d acknowledged, %d unacknowledged; half of the cuts lost blocks, half tore files at a byte", answers, unanswered),
		})
	}()
	var mem *vfs.MemFS
	var b *book
	for n := range cuts {
		done++
		if n%cutsOfALife == 0 {
			mem, b = vfs.NewCrashableMem(), newBook()
			b.latest = monday
		}
		cut := &failing{err: syscall.EIO}
		cut.left.Store(rand.Int64N(int64(report.Of(150, 600))))
		before := b.answers
		for _, err := range cut.underLoad(t, mem, b, fmt.Sprint(n), horizon) {
			if !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
		}
		answers, unanswered = answers+b.answers-before, unanswered+len(b.unanswered)
		// Nothing reaches the disk after the cut, so it can be looked at in more than one way. The store
		// goes on from one of them, as the cut has left it: what is checked are copies.
		rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
		left := map[string]*vfs.MemFS{"of blocks": crashed(mem, rng), "torn": torn(t, mem, rng)}
		for kind, fs := range left {
			s := open(t, duplicate(t, fs), "db", movingFrom(b.latest).read)
			b.check(t, s, horizon)
			closeStore(t, s)
			if t.Failed() {
				t.Fatalf("cut %d, %s", n, kind)
			}
		}
		mem = left[[]string{"of blocks", "torn"}[n%2]]
		report.Step("power cuts", int64(n+1), int64(cuts))
	}
}

// crashed returns what a cut leaves of a file system: of what was not synced, any blocks of 4 KB
// and any folder entries.
func crashed(mem *vfs.MemFS, rng *rand.Rand) *vfs.MemFS {
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
}

// torn is as crashed, but what was not synced of a file is torn at any byte: after it comes what
// was there before, or nothing, or zeros, or anything.
func torn(t *testing.T, mem *vfs.MemFS, rng *rand.Rand) *vfs.MemFS {
	left, synced, whole := crashed(mem, rng), mem.CrashClone(vfs.CrashCloneCfg{}), mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
	before, all, kept := files(t, synced), files(t, whole), files(t, left)
	for name := range kept {
		if path.Base(name) == voucherFile {
			continue // it takes the place of the one before by a rename, whole or not at all
		}
		if was, ok := before[name]; ok {
			kept[name] = tear(was, all[name], rng)
		}
	}
	return written(t, kept)
}

// duplicate copies a file system.
func duplicate(t *testing.T, mem *vfs.MemFS) *vfs.MemFS { return written(t, files(t, mem)) }

// written returns a file system with such files in "db", all of them synced.
func written(t *testing.T, files map[string][]byte) *vfs.MemFS {
	t.Helper()
	after := vfs.NewCrashableMem()
	for name, content := range files {
		write(t, after, name, content)
	}
	if len(files) == 0 {
		return after
	}
	for _, dir := range []string{"db", "/"} {
		d, err := after.OpenDir(dir)
		if err == nil {
			err = errors.Join(d.Sync(), d.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return after
}

// tear returns what a cut leaves of a file that had the content was when it was synced last, and
// is.
func tear(was, is []byte, rng *rand.Rand) []byte {
	same := 0
	for same < min(len(was), len(is)) && was[same] == is[same] {
		same++
	}
	if same == len(is) {
		return is
	}
	at := same + rng.IntN(len(is)-same)
	out := bytes.Clone(is[:at])
	switch rest := is[at:]; rng.IntN(4) {
	case 0:
		// nothing
	case 1:
		out = append(out, make([]byte, len(rest))...)
	case 2:
		for range rng.IntN(len(rest) + 1) {
			out = append(out, byte(rng.Uint32()))
		}
	default:
		out = append(out, rest...)
		out[at] ^= byte(1 + rng.IntN(255))
	}
	if len(out) < len(was) {
		out = append(out, was[len(out):]...)
	}
	return out
}

// files are those in "db".
func files(t *testing.T, mem *vfs.MemFS) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	names, err := mem.List("db")
	if errors.Is(err, fs.ErrNotExist) {
		return all // the folder itself was lost
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		all[name] = read(t, mem, name)
	}
	return all
}
