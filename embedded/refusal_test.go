//go:build linux || darwin

package embedded

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/proof/report"
)

// What a real kernel refuses to a real process. A full disk needs rights that a test does not have,
// but a limit on the size of files is there for everybody, and a write past it fails in the same
// place.

// restrain takes from this process what the orders say.
func (o orders) restrain() error {
	if o.FileSize > 0 {
		signal.Ignore(syscall.SIGXFSZ) // which else ends the process
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(o.FileSize), Max: uint64(o.FileSize)}); err != nil {
			return err
		}
	}
	if o.User == 0 {
		return nil
	}
	// The group first: another user may not change it.
	if err := syscall.Setgid(o.User); err != nil {
		return err
	}
	return syscall.Setuid(o.User)
}

// nobody is the user that root becomes where root may do too much.
const nobody = 65534

// unprivileged gives dir to a user whom permissions bind, and returns that user; 0 if it is the one
// of this process.
func unprivileged(t *testing.T, dir string) int {
	t.Helper()
	if os.Getuid() != 0 {
		return 0
	}
	// The folder above is the test's own, and for root alone. The engine reads it, to sync that dir is
	// there.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, dir) {
		if err := os.Lchown(name, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return nobody
}

// refusedAll holds that each failure of a child has one of the codes, and names the cause.
func (c *child) refusedAll(t *testing.T, cause error, codes ...headroom.Code) {
	t.Helper()
	if err := c.cmd.Wait(); err != nil || c.stderr.Len() > 0 || len(c.failed) == 0 {
		t.Fatalf("%v, %s, %q", err, c.stderr.String(), c.failed)
	}
	for _, failed := range c.failed {
		code, message, _ := strings.Cut(failed, " ")
		text, err := strconv.Unquote(message)
		known := false
		for _, want := range codes {
			known = known || code == string(want)
		}
		if err != nil || !known || !strings.Contains(text, cause.Error()) {
			t.Errorf("code %s: %s; want one of %v, and %q", code, text, codes, cause)
		}
	}
}

// A file that may not grow fails the write to it, wherever in the life of the store that is.
func TestFilesThatMayNotGrow(t *testing.T) {
	const horizon = 3650 * 24 * time.Hour
	began, faults, answers := time.Now(), report.Of(3, 150), 0
	done := 0
	defer func() {
		report.Add(t, report.Row{
			Part: "killed processes", Name: "full disk (RLIMIT_FSIZE)", Count: int64(done), Unit: "faults", Took: time.Since(began), Note: fmt.Sprintf("the kernel's, in real processes; %d acknowledged", answers),
		})
	}()
	for n := range faults {
		dir, b := t.TempDir(), newBook()
		b.latest = monday
		for round := range 2 { // opening what the first has left fails in other places
			done++
			most := 1 + rand.Int64N([]int64{100, 2_000, 40_000}[n%3])
			c := start(t, orders{Dir: dir, Prefix: fmt.Sprint(round), MemTable: 64 << 10, Horizon: horizon, Clock: b.latest, Repeat: b.repeats(), FileSize: most})
			c.listen(t, b, func(int, string) {})
			c.refusedAll(t, syscall.EFBIG, headroom.Unavailable, headroom.OutcomeUnknown)
			s := open(t, copied(t, dir), "db", movingFrom(b.latest).read)
			b.check(t, s, horizon)
			closeStore(t, s)
			if t.Failed() {
				t.Fatalf("files of at most %d bytes", most)
			}
		}
		answers += b.answers
		report.Step("files that may not grow", int64(n+1), int64(faults))
	}
}

// A directory that is or becomes read-only, for a user whom that binds, gives errors, and keeps
// what was acknowledged.
func TestReadOnlyDirectory(t *testing.T) {
	const horizon = 3650 * 24 * time.Hour
	began, rounds, answers, errs := time.Now(), report.Of(1, 25), 0, 0
	done := 0
	defer func() {
		report.Add(t, report.Row{
			Part: "killed processes", Name: "read-only directory", Count: int64(done), Unit: "faults", Took: time.Since(began),
			Note: fmt.Sprintf("under load, then at opening, as user %d; %d acknowledged, %d errors", cmp.Or(os.Getuid(), nobody), answers, errs),
		})
	}()
	for n := range rounds {
		dir, b := t.TempDir(), newBook()
		b.latest = monday
		o := orders{Dir: dir, MemTable: 64 << 10, Horizon: horizon, Clock: monday, User: unprivileged(t, dir)}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		// Files that are open go on to be written: the next one cannot be made.
		c, after, locked := start(t, o), 1+rand.N(200), false
		c.listen(t, b, func(line int, stage string) {
			if !locked && line >= after && stage == opened {
				locked = true
				if err := os.Chmod(dir, 0o555); err != nil {
					t.Error(err)
				}
			}
		})
		done++
		c.refusedAll(t, syscall.EACCES, headroom.Unavailable, headroom.OutcomeUnknown)
		errs += len(c.failed)
		// Nor can it be opened.
		c = start(t, o)
		c.listen(t, b, func(int, string) {})
		done++
		c.refusedAll(t, syscall.EACCES, headroom.Rejected)
		errs += len(c.failed)
		s := open(t, copied(t, dir), "db", movingFrom(b.latest).read)
		b.check(t, s, horizon)
		closeStore(t, s)
		answers += b.answers
		report.Step("read-only directory", int64(n+1), int64(rounds))
	}
	if answers < 10*rounds {
		t.Errorf("only %d acknowledged operations", answers)
	}
}
