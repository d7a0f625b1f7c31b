package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func id(i int64) string { return fmt.Sprintf("operation-%d", i) }

// epoch is the label of the generation of ids that is the younger one at t. Its seconds tell the
// horizon. No seconds stand for 15 days and one second for an hour. Each further second stands for
// a quarter more, cut to whole minutes.
func epoch(t time.Time, horizon time.Duration) time.Time {
	seconds, told := int64(horizon/time.Second), int64(0)
	if horizon != 15*day {
		told = 1
		for minutes := int64(60); minutes*60 < seconds; minutes += minutes / 4 {
			told++
		}
	}
	return time.Unix((t.Unix()-told)/seconds*seconds+told, 0).UTC()
}

func repeatIsReplay(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("a", 30, 30)
	a.replay("a", 30, 30)
	a.admit("b", 170, 200)
	a.replay("a", 30, 200)
	a.replay("b", 170, 200)
	a.w.set(base.Add(day))
	a.replay("a", 30, 200, record)
	a.replay("a", 30, 200, says("free"))
	a.uses(200)

	r := a.request("a", 30)
	want := a.want(r, headroom.ReasonAdmitted, 200)
	want.Replay = true
	d, err := a.engine.Preflight(t.Context(), r)
	a.check("preflight", r, d, want, err)
	d, err = a.engine.Preflight(t.Context(), a.request("a", 31))
	a.failed("preflight", r, d, err, headroom.Conflict)
}

func idStandsForOneWork(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("a", 30, 30)
	a.fail("a", 31, headroom.Conflict)
	a.fail("a", 0, headroom.Conflict)
	a.fail("a", 500, headroom.Conflict)
	a.fail("a", 500, headroom.Conflict, record)
	a.admit("z", 0, 30)
	a.fail("z", 1, headroom.Conflict)
	a.replay("z", 0, 30)
	a.replay("a", 30, 30)
	a.uses(30)
}

func refusalIsNotRemembered(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("a", 150, 150)
	a.refuse("b", 100, 150)
	a.refuse("b", 60, 150)
	a.admit("b", 50, 200)
	a.refuse("c", 100, 200)
	a.w.set(monday)
	a.admit("c", 100, 100)
	a.replay("c", 100, 100)
}

func redeliveryAfterTheTurn(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	w.set(monday.Add(-time.Second))
	a.admit("late", 200, 200)
	w.set(monday)
	last := a.in(base)
	last.replay("late", 200, 0)
	a.admit("new", 10, 10)
	last.replay("late", 200, 10)
	last.fail("late", 199, headroom.Conflict)
	w.set(monday.Add(week - time.Second))
	last.replay("late", 200, 10, began(monday.Add(-time.Second)))
	a.uses(10, total(base, 200))
	w.set(monday.Add(week))
	a.admit("newer", 20, 20)
	last.replay("late", 200, 20)
	a.uses(20, total(monday, 10), total(base, 200))
}

func rememberedForTheHorizon(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	turn := epoch(base, horizon).Add(horizon)
	// The worst case is an id that is used just before its generation ends, while others go on
	// writing.
	w.set(turn.Add(-time.Second))
	a.admit("old", 10, 10, began(w.now()))
	for i := range int64(15) {
		w.set(turn.Add(time.Duration(i) * day))
		if _, err := a.engine.Deduct(t.Context(), a.request(id(i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	w.set(turn.Add(-time.Second).Add(horizon))
	used := a.limits()[0].Used
	a.in(turn.Add(-time.Second)).replay("old", 10, used, began(turn.Add(-time.Second)))
	a.admit("other", 1, used+1)
	a.in(turn.Add(-time.Second)).replay("old", 10, used+1)
}

func forgottenAfterTwoHorizons(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	turn := epoch(base, horizon).Add(horizon)
	w.set(turn.Add(-time.Second))
	a.admit("old", 10, 10)
	// While nobody writes, nothing is forgotten, however late it is.
	w.set(turn.Add(horizon))
	a.in(turn.Add(-time.Second)).replay("old", 10, 0)
	a.admit("first", 1, 1)
	a.in(turn.Add(-time.Second)).replay("old", 10, 1)
	w.set(turn.Add(2 * horizon))
	a.admit("second", 1, 1)
	a.admit("old", 10, 11)
	v, err := w.store.Load(t.Context(), headroom.Query{Key: headroom.Key{Subject: a.subject, Meter: a.meter}})
	if err != nil || !v.State.Epoch.Equal(turn.Add(2*horizon)) || !v.State.EpochBefore.Equal(turn.Add(horizon)) {
		t.Errorf("generations of ids of %s and %s, %v: want %s and %s", v.State.Epoch, v.State.EpochBefore, err,
			turn.Add(2*horizon), turn.Add(horizon))
	}
	a.replay("old", 10, 11)
	a.in(turn.Add(horizon)).replay("first", 1, 11)
}

func horizonsOfAnyLength(t *testing.T, h Harness) {
	for _, horizon := range []time.Duration{time.Hour, 60 * day} {
		t.Run(horizon.String(), func(t *testing.T) {
			w := newWorld(t, h)
			a := w.account(200)
			a = a.on(a.catalog, headroom.Options{Horizon: horizon})
			turn := epoch(base, horizon).Add(horizon)
			then := turn.Add(-time.Second)
			w.set(then)
			a.admit("old", 10, 10, began(then))
			for i := range int64(8) {
				w.set(turn.Add(horizon / 10 * time.Duration(i)))
				if _, err := a.engine.Deduct(t.Context(), a.request(id(i), 1)); err != nil {
					t.Fatal(err)
				}
			}
			w.set(then.Add(horizon))
			a.in(then).replay("old", 10, a.limits()[0].Used, began(then))
			w.set(turn.Add(horizon))
			used := a.limits()[0].Used + 1
			a.admit("other", 1, used)
			a.fail("old", 10, headroom.TooOld, began(then))
			a.admit("old", 10, used+10)
		})
	}
}

func horizonRaised(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	long := a.on(a.catalog, headroom.Options{Horizon: 4 * horizon})
	turn := epoch(base, 4*horizon).Add(4 * horizon)
	then := turn.Add(-time.Second)
	w.set(then)
	a.admit("old", 10, 10)
	for i := range int64(16) {
		w.set(turn.Add(horizon / 4 * time.Duration(i)))
		if _, err := long.engine.Deduct(t.Context(), a.request(id(i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	w.set(then.Add(4 * horizon))
	long.in(then).replay("old", 10, long.limits()[0].Used, began(then))
}

func filedByTheStore(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	turn := epoch(base, horizon).Add(horizon)
	for turn.Weekday() != time.Thursday { // so that the week goes on
		turn = turn.Add(horizon)
	}
	w.set(turn.Add(-time.Hour))
	a.in(turn).admit("before", 1, 1)
	late := turn.Add(2 * day)
	w.set(late)
	a.by(turn.Add(-time.Minute)).in(turn).admit("late", 10, 11)
	a.in(turn).replay("late", 10, 11)
	a.in(turn).admit("after", 1, 12)
	w.set(turn.Add(horizon))
	a.admit("the next generation", 1, 1)
	w.set(late.Add(horizon - time.Second))
	a.in(turn).replay("late", 10, 1)
}

func tooOld(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("known", 10, 10, began(base.Add(-horizon)))
	before := a.stored("x")
	a.fail("x", 10, headroom.TooOld, began(base.Add(-horizon-time.Second)))
	a.fail("x", 10, headroom.TooOld, began(base.Add(-year)), record)
	r := a.request("x", 10, began(base.Add(-year)))
	d, err := a.engine.Preflight(t.Context(), r)
	a.failed("preflight", r, d, err, headroom.TooOld)
	if after := a.stored("x"); after != before {
		t.Errorf("an error changed\n%sto\n%s", before, after)
	}
	// An operation that is remembered gets its answer, however old it is.
	w.set(base.Add(time.Second))
	a.replay("known", 10, 10, began(base.Add(-horizon)))
	a.replay("known", 10, 10, began(base.Add(-year)))
	a.fail("known", 11, headroom.Conflict, began(base.Add(-year)))
	// Work that says it begins in the future is not refused.
	a.admit("future", 10, 20, began(base.Add(day)))
	if !h.HostClock {
		// The store's time says what is too old. The host's clock does not count.
		ahead, behind := a.by(base.Add(2*horizon)), a.by(base.Add(-2*horizon))
		ahead.admit("young", 10, 30, began(base.Add(-day)))
		behind.fail("ancient", 10, headroom.TooOld, began(base.Add(-horizon-time.Second)))
		a.by(base.Add(-day)).fail("ancient too", 10, headroom.TooOld, began(base.Add(-horizon)))
	}
}

func idsOfOneSubject(t *testing.T, h Harness) {
	w := newWorld(t, h)
	c := w.catalog(200, headroom.Plan{Name: "more", Limits: []headroom.Limit{{Meter: "slots2", Name: "week", Units: 200}}})
	a := w.accountOn(c, 200)
	other := a
	other.meter, other.limit = "slots2", headroom.Unlimited
	a.admit("id", 10, 10)
	other.admit("id", 20, 20)
	a.of(a.subject+"2").admit("id", 30, 30)
	a.replay("id", 10, 10)
	other.replay("id", 20, 20)
	a.of(a.subject+"2").replay("id", 30, 30)
}

// many is a number of ids that no store can keep in one place with the count.
const many = 200

func hundredsOfIDs(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(10 * many)
	for i := range int64(many) {
		w.set(base.Add(time.Duration(i) * time.Second))
		a.admit(id(i), i%7, weeklySum(i+1))
		if i%40 == 0 {
			a.replay(id(i/2), (i/2)%7, weeklySum(i+1))
		}
	}
	for i := range int64(many) {
		a.replay(id(i), i%7, weeklySum(many))
	}
	a.fail(id(3), 4, headroom.Conflict)
	w.set(monday)
	a.admit("new", 1, 1)
	for _, i := range []int64{0, 1, many / 2, many - 1} {
		a.in(base).replay(id(i), i%7, 1)
	}
	a.uses(1, total(base, weeklySum(many)))
}

// weeklySum is what the first n of these ids cost together.
func weeklySum(n int64) (sum int64) {
	for i := range n {
		sum += i % 7
	}
	return sum
}

func idsInTwoGenerations(t *testing.T, h Harness) {
	const each = 30
	w := newWorld(t, h)
	a := w.account(1000)
	turn := epoch(base, horizon).Add(horizon)
	w.set(turn.Add(-time.Hour))
	older := a.in(w.now())
	for i := range int64(each) {
		a.admit("older "+id(i), 1, i+1)
	}
	w.set(turn.Add(10 * day))
	younger := a.in(w.now())
	for i := range int64(each) {
		a.admit("younger "+id(i), 1, i+1)
	}
	for i := range int64(each) {
		older.replay("older "+id(i), 1, each)
		younger.replay("younger "+id(i), 1, each)
	}
	w.set(turn.Add(horizon))
	a.admit("turns", 1, 1)
	for i := range int64(each) {
		younger.replay("younger "+id(i), 1, 1+i)
		a.admit("older "+id(i), 1, 2+i)
	}
	for i := range int64(each) {
		a.replay("older "+id(i), 1, 1+each)
	}
}

func otherDeliveryWins(t *testing.T, h Harness) {
	for name, cost := range map[string]int64{"of the same cost": 30, "of another cost": 31} {
		t.Run(name, func(t *testing.T) {
			a := newWorld(t, h).account(200)
			s, slow := a.tapped(headroom.Options{})
			s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				if s.commits.Load() == 2 {
					a.admit("id", cost, cost)
				}
				return to.Commit(ctx, c)
			}
			if cost == 30 {
				slow.replay("id", 30, 30)
			} else {
				slow.fail("id", 30, headroom.Conflict)
			}
			a.uses(cost)
		})
	}
}

func answerLost(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, used := range map[string]int64{"the last units": 170, "the first of a window": 0} {
		w.Run(name, func(t *testing.T) {
			a := w.account(200)
			if used > 0 {
				a.admit("before", used, used)
			}
			s, lossy := a.tapped(headroom.Options{})
			s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				if v, done, err := to.Commit(ctx, c); err != nil || !done {
					return v, done, err
				}
				return to.Commit(ctx, c)
			}
			lossy.replay("id", 30, used+30)
			a.uses(used + 30)
		})
	}
}

func messageComesAgain(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("others", 180, 180)
	a.preflight("job", 20, headroom.ReasonAdmitted, 180)
	a.admit("job", 20, 200)
	r := a.request("job", 20)
	want := a.want(r, headroom.ReasonAdmitted, 200)
	want.Replay = true
	d, err := a.engine.Preflight(t.Context(), r)
	a.check("preflight", r, d, want, err)
	a.preflight("", 20, headroom.ReasonOverLimit, 200)
	a.replay("job", 20, 200)
	a.uses(200)
}

func repeatAfterPlanLowered(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("less", 50)), 200)
	a.admit("big", 100, 100)
	a.setPlan("less")
	less := a.under("less", 50)
	less.replay("big", 100, 100)
	less.replay("big", 100, 100, record)
	less.deduct("other", 100, headroom.ReasonNeverFits, 100)
	less.uses(100)
}
