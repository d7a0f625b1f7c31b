package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// row is one piece of finished work.
type row struct {
	subject int
	cost    int64
	at      time.Time
}

// log is the work of a few subjects over some months, in order of time.
func log() (rows []row) {
	random := rand.New(rand.NewPCG(1993, 128))
	now := base
	for range 100 {
		now = now.Add(time.Duration(random.IntN(32*3600)) * time.Second)
		rows = append(rows, row{random.IntN(4), int64(random.IntN(70)), now})
	}
	return rows
}

func logReplayed(t *testing.T, h Harness) {
	w := newWorld(t, h)
	type sums struct{ admitted, refused, replayed, late, charged int64 }
	play := func(a account, rows []row) (s sums) {
		for i, r := range rows {
			d, err := a.of(fmt.Sprint(a.subject, r.subject)).engine.Deduct(t.Context(), headroom.Request{
				Subject: fmt.Sprint(a.subject, r.subject), Meter: meter, Operation: fmt.Sprint("row ", i),
				Cost: r.cost, Now: r.at, Began: r.at, SkipClosed: true,
			})
			switch {
			case err != nil:
				t.Fatalf("row %d: %v", i, err)
			case d.Replay:
				s.replayed++
			case d.Allowed:
				s.admitted++
				s.charged += d.Cost
			case d.Reason == headroom.ReasonClosed:
				s.late++
			default:
				s.refused++
			}
		}
		return s
	}
	end := func(a account, rows []row) (s string) {
		for i := range 4 {
			u, err := a.engine.Usage(t.Context(),
				headroom.UsageRequest{Subject: fmt.Sprint(a.subject, i), Meter: meter, Now: rows[len(rows)-1].at})
			if err != nil {
				t.Fatal(err)
			}
			s += usageText(u.Limits...) + "\n"
		}
		return s
	}

	rows := log()
	undisturbed := w.account(100)
	first := play(undisturbed, rows)
	want := end(undisturbed, rows)
	if first.replayed+first.late != 0 || first.refused == 0 {
		t.Fatalf("the first run: %+v", first)
	}
	killed := w.account(100)
	half := play(killed, rows[:len(rows)/2])
	again := play(killed, rows)
	if got := end(killed, rows); got != want {
		t.Errorf("after a kill half-way and a replay from the start:\n%swant\n%s", got, want)
	}
	if half.charged+again.charged != first.charged || half.admitted+again.admitted != first.admitted || again.late == 0 ||
		again.replayed == 0 {
		t.Errorf("half %+v and all again %+v do not make up %+v", half, again, first)
	}
}

func skipsClosed(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("last", 100, 100, skipClosed, at(base))
	a.admit("this", 20, 20, skipClosed, at(monday))
	before := a.stored("late")
	for _, cost := range []int64{0, 1, 300} {
		for _, now := range []time.Time{base, monday.Add(-time.Second), base.Add(-year)} {
			a.in(monday).deduct("late", cost, headroom.ReasonClosed, 20, skipClosed, at(now))
		}
	}
	if after := a.stored("late"); after != before {
		t.Errorf("late requests changed\n%sto\n%s", before, after)
	}
	a.in(base).replay("last", 100, 20, skipClosed, at(monday))
	a.in(base).replay("last", 100, 20, skipClosed, at(base))
	a.admit("late", 1, 21, skipClosed, at(monday))
}
