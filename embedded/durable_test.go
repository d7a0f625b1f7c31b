package embedded

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/proof/report"
)

// orderedChild, when set, makes of the test binary a process that does what the orders on its
// standard input say.
const orderedChild = "HEADROOM_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(orderedChild) != "" {
		status := 0
		if err := obey(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
		// Without the hooks of os.Exit: under `go test -cover` one of them writes a file, which a child
		// that may write no more, or has become another user, cannot do, and says so.
		syscall.Exit(status)
	}
	os.Exit(m.Run())
}

// orders are what a child does: it opens the store in Dir, puts it under load, closes it, and
// begins anew, until something fails or it is killed.
type orders struct {
	Dir      string
	Prefix   string        // of the ids
	MemTable uint64        // as in Options
	Horizon  time.Duration // as in headroom.Options
	Clock    time.Time     // what its clock shows at least
	Repeat   []step
	Steps    int // of each writer between opening and closing; 0: until one fails

	User     int   // the user that it becomes; 0: none
	FileSize int64 // bytes that no file may grow past; 0: any
}

// What a child says: these words, and lines that begin with one of the marks.
const (
	opening, opened, closing = "opening", "open", "closing"

	begunMark, doneMark, nothingMark, failedMark = "?", "!", "-", "failed"
)

// teller tells the parent, one write a line: a line that was written is whole.
type teller struct{}

func (teller) begun(p step, at time.Time) {
	fmt.Println(begunMark, p, strconv.FormatInt(at.UnixNano(), 10))
}

func (teller) answered(p step, done bool) {
	if done {
		fmt.Println(doneMark, p)
	} else {
		fmt.Println(nothingMark, p)
	}
}

func (p step) String() string {
	return fmt.Sprintf("%c/%s/%s/%s/%d", p.Kind, p.Subject, p.ID, p.Of, p.Cost)
}

func parseStep(text string) (step, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 5 || len(parts[0]) != 1 {
		return step{}, fmt.Errorf("%q is no step", text)
	}
	cost, err := strconv.ParseInt(parts[4], 10, 64)
	return step{headroom.Kind(parts[0][0]), parts[1], parts[2], parts[3], cost}, err
}

// obey is the child. What the store fails with goes to the parent; an error that it returns is a
// fault of the test.
func obey() error {
	var o orders
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	if err := o.restrain(); err != nil {
		return err
	}
	clock := movingFrom(o.Clock)
	for cycle := 0; ; cycle++ {
		fmt.Println(opening)
		s, err := Open(o.Dir, Options{Clock: clock.read, memTable: o.MemTable})
		if err == nil {
			clock.reach(s.clock.mark)
			fmt.Println(opened)
			err = o.load(s, clock, cycle)
			fmt.Println(closing)
			err = errors.Join(err, s.Close())
		}
		if err != nil {
			for _, err := range unjoined(err) {
				fmt.Println(failedMark, string(headroom.CodeOf(err)), strconv.Quote(err.Error()))
			}
			return nil
		}
	}
}

func (o orders) load(s *Store, clock *moving, cycle int) error {
	e, err := loadEngine(s, o.Horizon)
	if err != nil {
		return err
	}
	l := load{engine: e, clock: clock, prefix: fmt.Sprintf("%s-%d", o.Prefix, cycle), book: teller{}}
	if cycle == 0 {
		l.repeat = o.Repeat
	}
	if o.Steps > 0 {
		l.steps = 1 + rand.N(o.Steps)
	}
	return l.run()
}

// unjoined returns the errors that errors.Join put together.
func unjoined(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, unjoined(err)...)
	}
	return all
}

// child is a running process under orders.
type child struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr strings.Builder
	stage  string   // the last that it told
	failed []string // "CODE MESSAGE" of each failure
}

func start(t *testing.T, o orders) *child {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(program)}
	c.cmd.Env = append(os.Environ(), orderedChild+"=1")
	c.cmd.Stdin, c.cmd.Stderr = bytes.NewReader(text), &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	return c
}

// listen enters what the child says into the book until it says no more. each is called before each
// line, with its number and the stage.
func (c *child) listen(t *testing.T, b *book, each func(line int, stage string)) {
	t.Helper()
	for n := 0; ; n++ {
		each(n, c.stage)
		if !c.lines.Scan() {
			return
		}
		line := c.lines.Text()
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case opening, opened, closing:
			c.stage = line
			continue
		case failedMark:
			c.failed = append(c.failed, rest)
			continue
		}
		text, at, _ := strings.Cut(rest, " ")
		p, err := parseStep(text)
		if err != nil {
			t.Fatal(err)
		}
		if mark == begunMark {
			nanos, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			b.begun(p, time.Unix(0, nanos).UTC())
		} else {
			b.answered(p, mark == doneMark)
		}
	}
}

// killsOfALife is how many kills one directory goes through before a new one takes its place, so
// that what is checked after each stays small.
const killsOfALife = 25

// A killed process loses nothing that was acknowledged, and of what was not, nothing is there
// twice: whenever it is killed, while opening, under load, as a table is written, as old ids are
// swept, or while closing. No restart finds a store that was closed: each begins with what the last
// kill left. What is checked is a copy.
func TestAcknowledgedOperationsSurviveAKill(t *testing.T) {
	began, kills := time.Now(), report.Of(10, 520)
	at, done, answers, unanswered := map[string]int{}, 0, 0, 0
	defer func() {
		report.Add(t, report.Row{
			Part: "killed processes", Name: "SIGKILL under load", Count: int64(done), Unit: "kills", Took: time.Since(began),
			Note: fmt.Sprintf("%d acknowledged, %d unacknowledged; killed while starting %d, opening %d, under load %d, closing %d", answers, unanswered, at[""], at[opening], at[opened], at[closing]),
		})
	}()
	var l *life
	for n := range kills {
		if n%killsOfALife == 0 {
			l = newLife(t, n/killsOfALife)
		}
		done++
		at[l.kill(t, n)]++
		unanswered += len(l.book.unanswered)
		if n%killsOfALife == killsOfALife-1 || n == kills-1 {
			l.end(t)
			answers += l.book.answers
		}
		report.Step("SIGKILL under load", int64(n+1), int64(kills))
		if t.Failed() {
			break
		}
	}
	if answers < 10*kills {
		t.Errorf("only %d acknowledged operations", answers)
	}
}

// life is what becomes of one directory.
type life struct {
	dir     string
	book    *book
	horizon time.Duration
}

func newLife(t *testing.T, n int) *life {
	l := &life{dir: t.TempDir(), book: newBook(), horizon: 3650 * 24 * time.Hour}
	l.book.latest = monday
	if n%2 == 1 {
		l.horizon = 4 * 24 * time.Hour // ids are forgotten, and swept at each opening
	}
	return l
}

// kill runs a child and kills it. It returns the stage in which that was.
func (l *life) kill(t *testing.T, n int) string {
	t.Helper()
	o := orders{Dir: l.dir, Prefix: fmt.Sprint(n), Horizon: l.horizon, Clock: l.book.latest, Repeat: l.book.repeats(), Steps: 20}
	if rand.N(4) > 0 {
		o.MemTable = 64 << 10 // tables are written all the time
	}
	c := start(t, o)
	kill := func(wait time.Duration) { time.AfterFunc(wait, func() { _ = c.cmd.Process.Kill() }) }
	var when func(line int, stage string) bool
	var wait time.Duration
	switch at := rand.N(8); at {
	case 0: // by the clock, from the first instruction on
		kill(rand.N(200 * time.Millisecond))
		when = func(int, string) bool { return false }
	case 1, 2, 3, 4, 5: // after some lines
		after := rand.N(1000)
		when = func(line int, _ string) bool { return line >= after }
	default: // as it opens or closes, for the first time or later
		stage, times, last := []string{opening, closing}[at-6], 1+rand.N(4), ""
		when = func(_ int, now string) bool {
			if now != last && now == stage {
				times--
			}
			last = now
			return times <= 0
		}
		wait = rand.N(5 * time.Millisecond)
	}
	killed := false
	c.listen(t, l.book, func(line int, stage string) {
		if !killed && when(line, stage) {
			killed = true
			kill(wait)
		}
	})
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() || c.stderr.Len() > 0 || len(c.failed) > 0 {
		t.Fatalf("the child was not killed: %v, %s, %q", err, c.stderr.String(), c.failed)
	}
	s := open(t, copied(t, l.dir), "db", movingFrom(l.book.latest).read)
	l.book.check(t, s, l.horizon)
	closeStore(t, s)
	return c.stage
}

// end opens what the last kill has left. All that was done sent again changes nothing.
func (l *life) end(t *testing.T) {
	t.Helper()
	clock := movingFrom(l.book.latest)
	s := open(t, nil, l.dir, clock.read)
	clock.reach(s.clock.mark)
	e, err := loadEngine(s, l.horizon)
	if err != nil {
		t.Fatal(err)
	}
	before := audit(t, s)
	for id, k := range l.book.ids {
		if k.is.kind != headroom.KindDeduct || k.may != nil || s.clock.mark.Sub(k.last) >= l.horizon {
			continue
		}
		d, err := e.Deduct(t.Context(), headroom.Request{Subject: id[0], Meter: "slots", Operation: id[1], Cost: k.is.cost})
		if err != nil || !d.Replay {
			t.Errorf("%v was charged twice: %+v, %v", id, d, err)
		}
	}
	if after := audit(t, s); len(after) != len(before) {
		t.Errorf("%d ids are remembered, %d were before all was sent again", len(after), len(before))
	}
	closeStore(t, s)
}

// copied returns a file system with the files of dir in "db".
func copied(t *testing.T, dir string) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		b, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		write(t, mem, entry.Name(), b)
	}
	return mem
}
