package embedded

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumcast/headroom"
)

const epoch = headroom.DefaultHorizon

// reopen opens the store again, which sweeps.
func reopen(t *testing.T, s *Store, mem vfs.FS, clock *hand) *Store {
	t.Helper()
	closeStore(t, s)
	return open(t, mem, "db", clock.read)
}

func TestIdsAreRememberedForTheHorizonAndSweptLongAfter(t *testing.T) {
	mem, clock := vfs.NewMem(), &hand{monday}
	s := open(t, mem, "db", clock.read)
	for n := range 10 {
		clock.now = monday.Add(time.Duration(n) * epoch)
		deduct(t, engine(t, s, 200), "ann", fmt.Sprint(n), 1)
		s = reopen(t, s, mem, clock)
		if n > 0 {
			clock.now = clock.now.Add(-1) // one horizon after the one before, at most
			if d := deduct(t, engine(t, s, 200), "ann", fmt.Sprint(n-1), 1); !d.Replay {
				t.Errorf("%d is forgotten after %s", n-1, epoch-1)
			}
		}
		if labels, err := s.labels(byClock); err != nil || len(labels) != min(n+1, sweepYounger) {
			t.Errorf("%d generations after %d, %v", len(labels), n+1, err)
		}
	}
}

// A clock that is wrong, even for several runs, sweeps nothing that the right one remembers.
func TestAWrongClockForgetsNoId(t *testing.T) {
	mem, clock := vfs.NewMem(), &hand{monday}
	s := open(t, mem, "db", clock.read)
	deduct(t, engine(t, s, 200), "ann", "a", 1)
	deduct(t, engine(t, s, 200), "ben", "b", 1)
	clock.now = monday.Add(epoch)
	deduct(t, engine(t, s, 200), "ann", "c", 1)
	clock.now = monday.AddDate(1, 0, 0)
	for n := range 3 {
		s = reopen(t, s, mem, clock)
		deduct(t, engine(t, s, 200), "ann", fmt.Sprint("ahead", n), 1)
	}
	clock.now = monday.Add(epoch)
	s = reopen(t, s, mem, clock)
	if err := s.AcceptClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s, mem, clock)
	for _, op := range [][2]string{{"ann", "c"}, {"ann", "ahead0"}, {"ben", "b"}} {
		if d := deduct(t, engine(t, s, 200), op[0], op[1], 1); !d.Replay {
			t.Errorf("%v is forgotten", op)
		}
	}
	if labels, err := s.labels(byClock); err != nil || len(labels) != 3 {
		t.Errorf("generations %v, %v", labels, err)
	}
}

// The reading at the time of the sweep counts for no more than what was written before.
func TestAWrongClockAtOpeningForgetsNoId(t *testing.T) {
	mem, clock := vfs.NewMem(), &hand{monday}
	s := open(t, mem, "db", clock.read)
	long := headroom.Change{Key: slots("ben"), PlanOrNone: true, Rotate: monday, Horizon: 12 * epoch, Records: charged(0)}
	if _, ok, err := s.Commit(t.Context(), long); !ok || err != nil {
		t.Fatal(err)
	}
	for n := range 8 {
		clock.now = monday.Add(time.Duration(n) * epoch)
		deduct(t, engine(t, s, 200), "ann", fmt.Sprint(n), 1)
	}
	clock.now = monday.AddDate(10, 0, 0)
	s = reopen(t, s, mem, clock)
	if labels, err := s.labels(byClock); err != nil || len(labels) != 9 {
		t.Errorf("generations %v, %v", labels, err)
	}
}

// A log of long ago that is replayed at its own time is remembered, however much the clock is used
// in between.
func TestAReplayedLogIsNotSwept(t *testing.T) {
	mem, clock := vfs.NewMem(), &hand{monday}
	s := open(t, mem, "db", clock.read)
	replay := func() (replayed int) {
		e := engine(t, s, 200)
		for n := range 5 {
			r := headroom.Request{Subject: fmt.Sprint("user", n), Meter: "slots", Operation: "old", Cost: 1, Now: monday.AddDate(-30, 0, 0).Add(time.Duration(n) * epoch)}
			d, err := e.Deduct(t.Context(), r)
			if err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			if d.Replay {
				replayed++
			}
		}
		return replayed
	}
	if n := replay(); n != 0 {
		t.Errorf("%d of a new log were replays", n)
	}
	for n := range 6 {
		clock.now = monday.Add(time.Duration(n) * epoch)
		deduct(t, engine(t, s, 200), "ann", fmt.Sprint(n), 1)
		s = reopen(t, s, mem, clock)
	}
	if n := replay(); n != 5 {
		t.Errorf("%d of 5 were replays", n)
	}
}

// A process that is never restarted keeps the ids of some horizons, not of its whole life (a year
// here): neither its rows grow all year, nor its files.
func TestRunningStoreForgetsOldIds(t *testing.T) {
	const ids, horizon = 20, 24 * time.Hour
	const memTable = 64 << 10 // bytes; it is full some fifty times in the year
	mem, clock := vfs.NewMem(), &hand{monday}
	s, err := Open("db", Options{Clock: clock.read, fs: mem, memTable: memTable})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e, err := loadEngine(s, horizon)
	if err != nil {
		t.Fatal(err)
	}
	most, largest := 0, [2]int64{} // of each half of the year
	for day := range 365 {
		clock.now = monday.Add(time.Duration(day) * horizon)
		for n := range ids {
			deduct(t, e, fmt.Sprint("user", n%7), fmt.Sprint(day, "-", n), 1)
		}
		rows := 0
		each(t, s, tableOps, func(_, _ []byte) { rows++ })
		most = max(most, rows)
		half := day / 183
		largest[half] = max(largest[half], sizeOf(t, mem, "db"))
		// What was charged a horizon ago, at most, is remembered.
		if day > 0 {
			clock.now = clock.now.Add(-1)
			if d := deduct(t, e, "user3", fmt.Sprint(day-1, "-", 3), 1); !d.Replay {
				t.Fatalf("day %d: the id of the day before is forgotten", day)
			}
			clock.now = clock.now.Add(1)
		}
	}
	written := s.db.Metrics().WAL.BytesWritten
	t.Logf("%d ids in a year, at most %d rows; %d bytes written, at most %d on disk in the first half, %d in the second",
		365*ids, most, written, largest[0], largest[1])
	if limit := int64(8 * memTable); max(largest[0], largest[1]) > limit || written < 2*uint64(limit) {
		t.Errorf("%d and %d bytes on disk after %d were written: want at most %d", largest[0], largest[1], written, limit)
	}
	if limit := (sweepHorizons + 2) * (ids + 1); most > limit {
		t.Errorf("%d rows of ids, more than %d", most, limit)
	}
}

// Meters with horizons of their own begin many generations by one wrong reading: they count for
// one.
func TestOneWrongReadingBeginsOneGeneration(t *testing.T) {
	at := func(days ...int) (labels []time.Time) {
		for _, day := range days {
			labels = append(labels, monday.AddDate(0, 0, day))
		}
		return labels
	}
	for _, c := range []struct {
		labels  []time.Time
		present int // days
		want    int
	}{
		{at(0, 10, 20, 30, 40), 41, 2},                // of 0 and 10 three horizons are over
		{at(0, 10), 1000, 0},                          // too few came after
		{at(0, 10, 991, 993, 995, 997, 999), 1000, 0}, // a wrong reading, of five meters
		{at(0, 10, 20, 991, 993, 995, 997, 999), 1000, 1},
		{at(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33), 33, 1},
		{nil, 0, 0},
	} {
		if got := swept(c.labels, monday.AddDate(0, 0, c.present), 10*24*time.Hour); got != c.want {
			t.Errorf("of %v at day %d %d go, want %d", c.labels, c.present, got, c.want)
		}
	}
}

// The longest horizon that was ever asked for holds on, also when the store is opened again and
// asked for a shorter one: what was promised by the longer one is remembered.
func TestHorizonIsNeverLowered(t *testing.T) {
	mem, clock := vfs.NewMem(), &hand{monday}
	s := open(t, mem, "db", clock.read)
	for _, c := range []struct{ asked, kept time.Duration }{{epoch, epoch}, {4 * epoch, 4 * epoch}, {epoch, 4 * epoch}} {
		e, err := loadEngine(s, c.asked)
		if err != nil {
			t.Fatal(err)
		}
		clock.now = clock.now.Add(epoch)
		deduct(t, e, "ann", clock.now.String(), 1)
		s = reopen(t, s, mem, clock)
		if s.clock.horizon != c.kept {
			t.Errorf("asked for %s, %s is kept, want %s", c.asked, s.clock.horizon, c.kept)
		}
	}
}

// sizeOf is how many bytes the files of a directory have.
func sizeOf(t *testing.T, fs vfs.FS, dir string) (sum int64) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		// The engine may have removed it by now.
		if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil {
			sum += info.Size()
		}
	}
	return sum
}
