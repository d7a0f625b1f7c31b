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
		if labels, err := s.labels(); err != nil || len(labels) != min(n+1, sweepYounger) {
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
	if labels, err := s.labels(); err != nil || len(labels) != 3 {
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
	if labels, err := s.labels(); err != nil || len(labels) != 9 {
		t.Errorf("generations %v, %v", labels, err)
	}
}

// A log of long ago that is replayed at its own time is remembered, however much the clock is used in between.
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
