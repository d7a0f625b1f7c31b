package embedded

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumcast/headroom"
)

// A clock that is a year ahead for one call costs an error that names its remedy; after that the
// units are where they belong (CASES 21).
func TestOneBadClockPoisonsNobody(t *testing.T) {
	present := monday.Add(36 * time.Hour)
	clock := &hand{present}
	s := open(t, vfs.NewMem(), "db", clock.read)
	e := engine(t, s, 200)
	clock.now = present.AddDate(0, 0, -7)
	deduct(t, e, "ann", "last week", 7)
	clock.now = present
	deduct(t, e, "ann", "before", 190)
	clock.now = present.AddDate(1, 0, 0)
	deduct(t, e, "ann", "ahead", 5)
	clock.now = present.Add(time.Minute)
	for range 2 {
		_, err := e.Deduct(t.Context(), headroom.Request{Subject: "ann", Meter: "slots", Operation: "after", Cost: 5})
		if !errors.Is(err, headroom.ClockUntrusted) || !strings.Contains(fmt.Sprint(err), "headroom clock accept") {
			t.Fatal(err)
		}
	}
	if _, err := s.Load(t.Context(), headroom.Query{Key: slots("somebody else")}); !errors.Is(err, headroom.ClockUntrusted) {
		t.Error(err)
	}
	status, err := s.Clock(t.Context())
	if want := (ClockStatus{Now: clock.now, HighWater: present.AddDate(1, 0, 0)}); err != nil || status != want {
		t.Errorf("%+v, %v, want %+v", status, err, want)
	}

	if err := s.AcceptClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, err := s.Clock(t.Context()); err != nil || !status.Trusted || !status.HighWater.Equal(clock.now) {
		t.Errorf("%+v, %v", status, err)
	}
	u, err := e.Usage(t.Context(), headroom.UsageRequest{Subject: "ann", Meter: "slots"})
	if err != nil || u.Limits[0].Used != 195 || u.Limits[0].Window.Key != "2026-W23" {
		t.Errorf("%+v, %v", u, err)
	}
	for _, c := range []struct {
		operation string
		cost      int64
		want      headroom.Decision
	}{
		{"after", 6, headroom.Decision{Reason: headroom.ReasonOverLimit, Used: 195}},
		{"ahead", 5, headroom.Decision{Allowed: true, Reason: headroom.ReasonAdmitted, Replay: true, Used: 195}},
		{"after", 5, headroom.Decision{Allowed: true, Reason: headroom.ReasonAdmitted, Used: 200}},
	} {
		d := deduct(t, e, "ann", c.operation, c.cost)
		if d.Allowed != c.want.Allowed || d.Reason != c.want.Reason || d.Replay != c.want.Replay || d.Used != c.want.Used || !d.Replay && d.Window.Key != "2026-W23" {
			t.Errorf("%s: %+v, want %+v", c.operation, d, c.want)
		}
	}
	u, err = e.Usage(t.Context(), headroom.UsageRequest{Subject: "ann", Meter: "slots"})
	if err != nil || len(u.Limits[0].History) != 1 || u.Limits[0].History[0].Units != 7 {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestClockMayLagByTheTolerance(t *testing.T) {
	clock := &hand{monday}
	s := open(t, vfs.NewMem(), "db", clock.read)
	e := engine(t, s, 200)
	deduct(t, e, "ann", "a", 1)
	clock.now = monday.Add(-headroom.ClockTolerance)
	deduct(t, e, "ann", "b", 1)
	clock.now = clock.now.Add(-1)
	if _, err := s.Load(t.Context(), headroom.Query{Key: slots("ann")}); !errors.Is(err, headroom.ClockUntrusted) {
		t.Error(err)
	}
}

// Go's monotonic reading would hide that the host's clock was set back.
func TestOnlyTheWallClockCounts(t *testing.T) {
	s := open(t, vfs.NewMem(), "db", time.Now)
	if now := s.clock.now(); now != now.Round(0) || now.Location() != time.UTC {
		t.Error(now)
	}
}

// Only what was written by a clock can be harmed by the next one: a wrong reading that wrote
// nothing is forgotten.
func TestReadingThatWroteNothingMovesNoMark(t *testing.T) {
	clock := &hand{monday}
	s := open(t, vfs.NewMem(), "db", clock.read)
	e := engine(t, s, 200)
	deduct(t, e, "ann", "a", 190)
	clock.now = monday.AddDate(1, 0, 0)
	if _, err := s.Load(t.Context(), headroom.Query{Key: slots("ann")}); err != nil {
		t.Error(err)
	}
	if d := deduct(t, e, "ann", "b", 201); d.Reason != headroom.ReasonNeverFits {
		t.Errorf("%+v", d)
	}
	clock.now = monday
	if d := deduct(t, e, "ann", "c", 10); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

func TestTheCallersTimeTakesThePlaceOfTheClock(t *testing.T) {
	clock := &hand{monday}
	s := open(t, vfs.NewMem(), "db", clock.read)
	e := engine(t, s, 200)
	deduct(t, e, "ann", "a", 1)
	for i, now := range []time.Time{monday.AddDate(-30, 0, 0), monday.AddDate(30, 0, 0), monday} {
		r := headroom.Request{Subject: "ben", Meter: "slots", Operation: fmt.Sprint(i), Cost: 1, Now: now}
		if _, err := e.Deduct(t.Context(), r); err != nil {
			t.Error(err)
		}
		if v, err := s.Load(t.Context(), headroom.Query{Key: slots("ben"), Now: now}); err != nil || !v.Now.Equal(now) {
			t.Errorf("%+v, %v", v, err)
		}
	}
	if status, err := s.Clock(t.Context()); err != nil || !status.HighWater.Equal(monday) || !status.Trusted {
		t.Errorf("%+v, %v", status, err)
	}
}

// The mark on disk is coarse within a window, and never before the start of a window that was
// opened: after a power cut a clock that was set back is still found out.
func TestTheMarkSurvivesAPowerCut(t *testing.T) {
	mem, clock := vfs.NewCrashableMem(), &hand{monday.Add(-time.Second)}
	s := open(t, mem, "db", clock.read)
	e := engine(t, s, 200)
	kept := func() time.Time {
		crashed := open(t, mem.CrashClone(vfs.CrashCloneCfg{}), "db", clock.read)
		defer closeStore(t, crashed)
		return crashed.clock.kept
	}
	for _, step := range []struct{ reading, mark time.Time }{
		{monday.Add(-time.Second), monday.Add(-time.Second)}, // the first
		{monday, monday}, // a turn, though only a second has passed
		{monday.Add(markStep), monday},
		{monday.Add(markStep + 1), monday.Add(markStep + 1)},
		{monday, monday.Add(markStep + 1)},
	} {
		clock.now = step.reading
		deduct(t, e, "ann", step.reading.String(), 1)
		if got := kept(); !got.Equal(step.mark) {
			t.Errorf("after a deduction at %s the mark on disk is %s, want %s", step.reading, got, step.mark)
		}
	}
	clock.now = monday.Add(-time.Hour)
	if err := s.AcceptClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := kept(); !got.Equal(clock.now) {
		t.Errorf("the accepted mark on disk is %s", got)
	}
}

// The clock of one process may be read by a subject whose window another reading opened: the mark
// holds for all of them.
func TestMarkReachesTheStartOfEveryOpenedWindow(t *testing.T) {
	clock := &hand{monday}
	s := open(t, vfs.NewMem(), "db", clock.read)
	next := headroom.ISOWeek(monday.AddDate(0, 0, 7))
	// Decided by a reading of next week, committed after the clock was set back.
	c := headroom.Change{Key: slots("ann"), Plan: "free", PlanOrNone: true, Rotate: monday, Records: charged(1), Steps: []headroom.Step{{Limit: "week", To: next, Add: 1, Opens: true}}}
	if _, ok, err := s.Commit(t.Context(), c); !ok || err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), headroom.Query{Key: slots("ann")}); !errors.Is(err, headroom.ClockUntrusted) {
		t.Error(err)
	}
}

// A reading is compared with the mark of its moment. Another goroutine's later reading, after the
// host has slept, makes nobody's earlier one a clock that was set back: the clock is read under the
// mark's lock.
func TestReadingAndMarkAreOfOneMoment(t *testing.T) {
	var s *Store
	reads := 0
	s = open(t, vfs.NewMem(), "db", func() time.Time {
		if s != nil {
			if reads++; s.clock.mu.TryLock() {
				s.clock.mark = monday.AddDate(0, 0, 1) // another has read the clock, and wrote
				s.clock.mu.Unlock()
			}
		}
		return monday
	})
	if _, err := s.Load(t.Context(), headroom.Query{Key: slots("ann")}); err != nil || reads == 0 {
		t.Errorf("%d readings, %v", reads, err)
	}
}
