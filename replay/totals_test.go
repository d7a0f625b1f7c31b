package replay_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/embedded"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/replay"
)

// totals are the units charged, by subject and week.
type totals map[string]map[string]int64

// usageLog is the real log, read without the code under test.
type usageLog struct {
	header []string
	rows   [][]string
}

func realLog(t *testing.T) usageLog {
	t.Helper()
	file, err := os.Open("../examples/nasa-ipsc-1993/usage.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"completed_at", "subject", "operation", "quality", "duration_seconds"}; !slices.Equal(rows[0], want) {
		t.Fatalf("columns %v", rows[0])
	}
	return usageLog{header: rows[0], rows: rows[1:]}
}

// slice returns the rows of the first subjects by name, about n.
func (l usageLog) slice(n int) usageLog {
	counts := map[string]int{}
	for _, row := range l.rows {
		counts[row[1]]++
	}
	chosen := map[string]bool{}
	for _, subject := range slices.Sorted(maps.Keys(counts)) {
		if counts[subject] <= n {
			chosen[subject] = true
			n -= counts[subject]
		}
	}
	part := usageLog{header: l.header}
	for _, row := range l.rows {
		if chosen[row[1]] {
			part.rows = append(part.rows, row)
		}
	}
	return part
}

// twice returns the log with every row in it twice. Half of the rows come again at once, the others
// at the end of their week.
func (l usageLog) twice() usageLog {
	twice := usageLog{header: l.header}
	var again [][]string
	for i, row := range l.rows {
		if i > 0 && weekOf(row[0]) != weekOf(l.rows[i-1][0]) {
			twice.rows, again = append(twice.rows, again...), nil
		}
		twice.rows = append(twice.rows, row)
		if i%2 == 0 {
			twice.rows = append(twice.rows, row)
		} else {
			again = append(again, row)
		}
	}
	twice.rows = append(twice.rows, again...)
	return twice
}

func (l usageLog) text() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(l.header) // to memory, and WriteAll tells
	if err := w.WriteAll(l.rows); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// end is the time of the last row.
func (l usageLog) end(t *testing.T) time.Time {
	t.Helper()
	end, err := time.Parse(time.RFC3339, l.rows[len(l.rows)-1][0])
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// weekOf names a week by the date of its Monday. It uses other arithmetic than the code under test.
func weekOf(completed string) string {
	at, err := time.Parse(time.RFC3339, completed)
	if err != nil {
		panic(err)
	}
	const day = 24 * 60 * 60
	days := at.Unix() / day
	// 1 January 1970 was a Thursday
	return time.Unix((days-(days+3)%7)*day, 0).UTC().Format(time.DateOnly)
}

// plain computes what each subject may be charged in each week. It takes one row after another, and
// keeps nothing but a count.
func (l usageLog) plain(limit int64) (want totals, admitted, refused int64) {
	rates := map[string]int64{"standard": 1, "neural": 2, "generative": 4}
	want = totals{}
	for _, row := range l.rows {
		seconds, err := strconv.ParseInt(row[4], 10, 64)
		if err != nil {
			panic(err)
		}
		cost := rates[row[3]] * ((seconds + 59) / 60)
		subject, week := row[1], weekOf(row[0])
		if want[subject][week]+cost > limit && cost > 0 {
			refused++
			continue
		}
		admitted++
		if want[subject] == nil {
			want[subject] = map[string]int64{}
		}
		want[subject][week] += cost
	}
	return want, admitted, refused
}

// stored asks the engine for what it has charged to each subject of the log.
func (l usageLog) stored(t *testing.T, engine *headroom.Engine) totals {
	t.Helper()
	got := totals{}
	for _, row := range l.rows {
		subject := row[1]
		if got[subject] != nil {
			continue
		}
		u, err := engine.Usage(t.Context(), headroom.UsageRequest{Subject: subject, Meter: "slots", Now: l.end(t)})
		if err != nil {
			t.Fatal(err)
		}
		weeks := map[string]int64{}
		for _, total := range u.Limits[0].History {
			weeks[total.Window.Start.Format(time.DateOnly)] = total.Units
		}
		weeks[u.Limits[0].Window.Start.Format(time.DateOnly)] = u.Limits[0].Used
		maps.DeleteFunc(weeks, func(_ string, units int64) bool { return units == 0 })
		got[subject] = weeks
	}
	return got
}

func (l usageLog) check(t *testing.T, engine *headroom.Engine) {
	t.Helper()
	want, _, _ := l.plain(200)
	got := l.stored(t, engine)
	for subject, weeks := range got {
		plain := maps.Clone(want[subject])
		maps.DeleteFunc(plain, func(_ string, units int64) bool { return units == 0 })
		if len(weeks) != len(plain) {
			t.Errorf("%s: %d weeks with charges, want %d", subject, len(weeks), len(plain))
		}
		for week, units := range plain {
			if weeks[week] != units {
				t.Errorf("%s in the week of %s: %d units, want %d", subject, week, weeks[week], units)
			}
		}
	}
}

func newEngine(t *testing.T, store headroom.Store) *headroom.Engine {
	t.Helper()
	engine, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func run(ctx context.Context, t *testing.T, engine replay.Deducter, log io.Reader, workers int) (replay.Summary, error) {
	t.Helper()
	rows, err := replay.NewReader(log)
	if err != nil {
		t.Fatal(err)
	}
	return replay.Run(ctx, engine, rows, options(workers))
}

func options(workers int) replay.Options {
	prices, err := headroom.DefaultCatalog().Prices("slots")
	if err != nil {
		panic(err)
	}
	return replay.Options{Meter: "slots", Prices: prices, Workers: workers}
}

// stores are opened anew for each test. Those inside this process take the whole log. Those that
// are reached over HTTP take a part of it.
var stores = []struct {
	name  string
	slice bool
	open  func(t *testing.T) headroom.Store
}{
	{"memory", false, func(*testing.T) headroom.Store { return memstore.New(nil) }},
	{"embedded", false, func(t *testing.T) headroom.Store { return openEmbedded(t, t.TempDir()) }},
	{"dynoxide", true, func(t *testing.T) headroom.Store { return openDynamo(t, "dynoxide") }},
	{"dynalite", true, func(t *testing.T) headroom.Store { return openDynamo(t, "dynalite") }},
}

func openEmbedded(t *testing.T, dir string) headroom.Store {
	t.Helper()
	store, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func openDynamo(t *testing.T, engine string) headroom.Store {
	t.Helper()
	endpoint := enginetest.Start(t, engine)
	store, err := dynamostore.Open(t.Context(), dynamostore.Options{
		Table: strings.NewReplacer("/", ".", "=", ".").Replace(t.Name()), Region: "local", Endpoint: endpoint,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

// onEachStore calls test with each store, empty, and the log: the whole one, or about so many rows
// of it. With -short all stores take a part of the log.
func onEachStore(t *testing.T, rows int, test func(t *testing.T, store headroom.Store, log usageLog)) {
	whole := realLog(t)
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			log := whole
			if s.slice || testing.Short() {
				log = whole.slice(rows)
			}
			test(t, s.open(t), log)
		})
	}
}

func TestTotalsDoNotDependOnTheWorkers(t *testing.T) {
	for _, workers := range []int{1, 32} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			onEachStore(t, 2000, func(t *testing.T, store headroom.Store, log usageLog) {
				engine := newEngine(t, store)
				sum, err := run(t.Context(), t, engine, bytes.NewReader(log.text()), workers)
				if err != nil {
					t.Fatal(err)
				}
				_, admitted, refused := log.plain(200)
				if sum.Admitted != admitted || sum.Refused != refused || sum.Rows != admitted+refused {
					t.Errorf("admitted %d, refused %d of %d rows; want %d and %d", sum.Admitted, sum.Refused, sum.Rows, admitted, refused)
				}
				log.check(t, engine)
			})
		})
	}
}

func TestEveryRowSentTwiceIsChargedOnce(t *testing.T) {
	onEachStore(t, 1000, func(t *testing.T, store headroom.Store, log usageLog) {
		engine := newEngine(t, store)
		twice := log.twice()
		if len(twice.rows) != 2*len(log.rows) {
			t.Fatalf("%d rows, want twice %d", len(twice.rows), len(log.rows))
		}
		sum, err := run(t.Context(), t, engine, bytes.NewReader(twice.text()), 32)
		if err != nil {
			t.Fatal(err)
		}
		if _, admitted, _ := log.plain(200); sum.Admitted != admitted || sum.Replayed != admitted {
			t.Errorf("admitted %d and replayed %d, want %d of each", sum.Admitted, sum.Replayed, admitted)
		}
		log.check(t, engine)
	})
}

// halfway cancels after a number of decisions.
type halfway struct {
	*headroom.Engine
	left   atomic.Int64
	cancel context.CancelFunc
}

func (h *halfway) Deduct(ctx context.Context, r headroom.Request) (headroom.Decision, error) {
	if h.left.Add(-1) == 0 {
		h.cancel()
	}
	return h.Engine.Deduct(ctx, r)
}

func TestAStoppedReplayIsReplayedFromItsStart(t *testing.T) {
	onEachStore(t, 1000, func(t *testing.T, store headroom.Store, log usageLog) {
		engine := newEngine(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := &halfway{Engine: engine, cancel: cancel}
		stopped.left.Store(int64(len(log.rows) / 2))
		first, err := run(ctx, t, stopped, bytes.NewReader(log.text()), 32)
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		second, err := run(t.Context(), t, engine, bytes.NewReader(log.text()), 32)
		if err != nil {
			t.Fatal(err)
		}
		if _, admitted, _ := log.plain(200); first.Admitted+second.Admitted != admitted {
			t.Errorf("admitted %d and %d, want %d together", first.Admitted, second.Admitted, admitted)
		}
		log.check(t, engine)
	})
}

const childStore = "HEADROOM_REPLAY_CHILD"

// TestMain turns the test binary into a program that replays its standard input, if a test asks for
// it.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childStore); dir != "" {
		child(dir)
	}
	// The engines want some signature, whatever the keys.
	os.Setenv("AWS_ACCESS_KEY_ID", "test")
	os.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	os.Exit(m.Run())
}

// child replays standard input on an embedded store and prints a line after each row, until it is
// killed.
func child(dir string) {
	store, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		panic(err)
	}
	engine, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{})
	if err != nil {
		panic(err)
	}
	log, err := replay.NewReader(os.Stdin)
	if err != nil {
		panic(err)
	}
	opts := options(32)
	opts.Done = func() { os.Stdout.WriteString(".") }
	_, err = replay.Run(context.Background(), engine, log, opts)
	panic(fmt.Sprint("the log ended before the kill: ", err))
}

func TestAKilledReplayIsReplayedFromItsStart(t *testing.T) {
	log := realLog(t)
	dir := t.TempDir()
	killAfter(t, dir, log, len(log.rows)/2)
	engine := newEngine(t, openEmbedded(t, dir))
	sum, err := run(t.Context(), t, engine, bytes.NewReader(log.text()), 32)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Replayed == 0 || sum.Late == 0 || sum.Admitted == 0 {
		t.Errorf("nothing was left of the killed replay, or nothing to do after it: %+v", sum.Tally)
	}
	log.check(t, engine)
}

// killAfter starts a process that replays the log, and kills it after n rows, while it works. The
// process never gets the whole log, so that it cannot end by itself.
func killAfter(t *testing.T, dir string, log usageLog, n int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), childStore+"="+dir)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	given := usageLog{header: log.header, rows: log.rows[:n+(len(log.rows)-n)/2]}
	go stdin.Write(given.text()) // fails when the child is killed
	if _, err := io.CopyN(io.Discard, stdout, int64(n)); err != nil {
		t.Fatalf("the child ended early: %v", err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); command.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v", err)
	}
}
