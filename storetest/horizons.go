package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// billed returns a catalog with one meter for each kind of window. The meter has the name of the
// window, and a limit of so many units in it.
func (w *world) billed(units int64, windows ...string) *headroom.Catalog {
	w.Helper()
	plan := headroom.Plan{Name: "free"}
	for _, name := range windows {
		plan.Limits = append(plan.Limits, headroom.Limit{Meter: name, Name: name, Units: units, Period: period(w.T, name)})
	}
	c := w.limited(plan.Limits...)
	return c
}

// spend charges units to a meter. It checks how much is used afterwards, and whether the answer is
// a replay.
func (a account) spend(meter, id string, cost, used int64, replay bool) {
	a.w.Helper()
	d, err := a.engine.Deduct(a.w.Context(), headroom.Request{Subject: a.subject, Meter: meter, Operation: id, Cost: cost})
	if err != nil || !d.Allowed || d.Replay != replay || d.Used != used {
		a.w.Fatalf("deduct %q of %s at %s: %s, %v: want %d used, replay %t", id, meter, a.w.now(), text(d), err, used, replay)
	}
}

// busy charges one unit n times, under n ids, at equal distances from now until end.
func (a account) busy(meter string, n int, end time.Time) {
	a.w.Helper()
	from := a.w.now()
	for i := range n {
		a.w.set(from.Add(end.Sub(from) / time.Duration(n) * time.Duration(i)).Truncate(time.Second))
		r := headroom.Request{Subject: a.subject, Meter: meter, Operation: fmt.Sprint(a.w.now().Unix()), Cost: 1}
		if _, err := a.engine.Deduct(a.w.Context(), r); err != nil {
			a.w.Fatal(err)
		}
	}
	a.w.set(end)
}

func asLongAsTheWindow(t *testing.T, h Harness) {
	for _, busy := range []bool{false, true} {
		w := newWorld(t, h)
		first := time.Date(2031, time.July, 1, 0, 0, 0, 0, time.UTC)
		w.set(first)
		a := w.accountOn(w.billed(1000, "month"), 1000)
		a.spend("month", "job", 30, 30, false)
		a.spend("month", "other", 20, 50, false)
		used := int64(50)
		if busy {
			a.busy("month", 60, first.AddDate(0, 0, 30))
			used += 60
		}
		w.set(time.Date(2031, time.July, 31, 23, 59, 59, 0, time.UTC))
		a.spend("month", "job", 30, used, true)
		d, err := a.engine.Refund(t.Context(),
			headroom.RefundRequest{Subject: a.subject, Meter: "month", Operation: "other", ID: "refund", Began: first})
		if err != nil || d.Used != used-20 || d.Reason != headroom.ReasonRefunded {
			t.Fatalf("refund on the last day of the month: %s, %v", text(d), err)
		}
		a.spend("month", "job", 30, used-20, true)
	}
}

func longestHorizon(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(1 << 40)
	longest := time.Duration(1<<63 - 1).Truncate(time.Minute)
	for _, forever := range []time.Duration{headroom.MaxHorizon + time.Minute, 150 * 365 * day, longest} {
		if _, err := headroom.New(w.store, a.catalog, headroom.Options{Horizon: forever}); err == nil {
			t.Errorf("a horizon of %s is taken", forever)
		}
	}
	a = a.on(a.catalog, headroom.Options{Horizon: headroom.MaxHorizon})
	a.busy(meter, 60, base.Add(time.Hour))
	first := fmt.Sprint(base.Unix())
	for _, later := range []time.Duration{time.Hour, 400 * day, headroom.MaxHorizon} {
		w.set(base.Add(later))
		used := a.limits()[0].Used
		a.spend(meter, first, 1, used, true)
		a.spend(meter, fmt.Sprint("new ", later), 1, used+1, false)
		a.spend(meter, first, 1, used+1, true)
	}
}

func horizonOfAMeter(t *testing.T, h Harness) {
	w := newWorld(t, h)
	first := time.Date(2032, time.January, 1, 0, 0, 0, 0, time.UTC)
	w.set(first)
	a := w.accountOn(w.billed(1000, "year", "week"), 1000)
	a.spend("year", "job", 30, 30, false)
	a.spend("week", "job", 30, 30, false)
	for i := range 24 { // all year long
		w.set(first.Add(time.Duration(i+1) * 15 * day))
		a.spend("year", id(int64(i)), 1, int64(31+i), false)
		a.spend("week", id(int64(i)), 1, 1, false)
	}
	w.set(time.Date(2032, time.December, 31, 23, 59, 59, 0, time.UTC))
	a.spend("year", "job", 30, 54, true)
	a.spend("week", "job", 30, 30, false) // the weekly meter has forgotten it
}

// upgrades are horizons from which and to which a meter changes: with a limit of a month that is
// added, and to a horizon that is no multiple of the other.
var upgrades = [][2]time.Duration{{15 * day, 32 * day}, {7 * day, 9 * day}}

func horizonRaisedLive(t *testing.T, h Harness) {
	for i, c := range upgrades {
		changedLive(t, h, c[0], c[1], 1+3*i)
	}
}

func horizonLoweredLive(t *testing.T, h Harness) {
	for i, c := range upgrades {
		changedLive(t, h, c[1], c[0], 1+3*i)
	}
}

// changedLive changes a horizon while a subject is busy, so many fifths into a generation. What was
// charged right before lives as long as was promised then, what is charged right after as long as
// is promised now, and labels never go back.
func changedLive(t *testing.T, h Harness, from, to time.Duration, fifths int) {
	w := newWorld(t, h)
	begin := epoch(base, from)
	w.set(begin.Add(-from))
	a := w.account(1<<40).on(w.catalog(1<<40), headroom.Options{Horizon: from})
	change := begin.Add(from/5*time.Duration(fifths) + time.Hour).Truncate(time.Second)
	a.busy(meter, 20, begin)
	a.spend(meter, "early", 1, a.limits()[0].Used+1, false)
	a.busy(meter, 5, change.Add(-time.Second))
	a.spend(meter, "before", 1, a.limits()[0].Used+1, false)
	w.set(change)
	a = a.on(a.catalog, headroom.Options{Horizon: to})
	a.spend(meter, "after", 1, a.limits()[0].Used+1, false)
	due := map[string]time.Time{"early": begin.Add(from), "before": change.Add(from - time.Second), "after": change.Add(to)}
	var label time.Time
	for i, end := 0, change.Add(2*max(from, to)); w.now().Before(end); i++ {
		w.set(w.now().Add(min(from, to) / 6).Truncate(time.Second))
		for name, until := range due {
			if !w.now().After(until) {
				a.spend(meter, name, 1, a.limits()[0].Used, true)
			}
		}
		a.spend(meter, id(int64(i)), 1, a.limits()[0].Used+1, false)
		v, err := w.store.Load(t.Context(), headroom.Query{Key: headroom.Key{Subject: a.subject, Meter: meter}})
		if err != nil || v.State.Epoch.Before(label) || v.State.Epoch.Before(v.State.EpochBefore) || v.State.Epoch.After(w.now()) {
			t.Fatalf("from %s to %s: generations of %s and %s at %s, %v", from, to, v.State.Epoch, v.State.EpochBefore, w.now(), err)
		}
		label = v.State.Epoch
	}
}

func refundTooOld(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("known", 10, 10)
	refund := func(operation, id string, began time.Time) (headroom.Decision, error) {
		return a.engine.Refund(t.Context(),
			headroom.RefundRequest{Subject: a.subject, Meter: a.meter, Operation: operation, ID: id, Began: began})
	}
	for began, target := range map[time.Time]headroom.Code{
		{}: headroom.NotFound, base.Add(-horizon): headroom.NotFound,
		base.Add(-horizon - time.Second): headroom.TooOld, base.Add(-year): headroom.TooOld,
	} {
		d, err := refund("x", "refund of x", began)
		a.failed("refund", headroom.Request{Operation: "x"}, d, err, target)
	}
	// A charge that is remembered can be refunded, however old it is.
	if d, err := refund("known", "refund", base.Add(-year)); err != nil || d.Used != 0 {
		t.Errorf("refund of what is known: %s, %v", text(d), err)
	}
	a.uses(0)
}

// nameless returns the account with a meter that permits charges without an id.
func (a account) nameless(o headroom.Options) account {
	a.w.Helper()
	c, err := a.catalog.WithMemory(0, map[string]headroom.Memory{a.meter: {None: true}})
	if err != nil {
		a.w.Fatal(err)
	}
	return a.on(c, o)
}

func withoutID(t *testing.T, h Harness) {
	w := newWorld(t, h)
	strict := w.account(200)
	a := strict.nameless(headroom.Options{})
	deduct := func(cost int64, reason headroom.Reason, used int64, mods ...mod) {
		t.Helper()
		r := a.request("", cost, mods...)
		d, err := a.engine.Deduct(t.Context(), r)
		want := a.want(r, reason, used)
		want.Unremembered = want.Allowed
		a.check("deduct", r, d, want, err)
	}
	strict.fail("", 30, headroom.Invalid)
	deduct(30, headroom.ReasonAdmitted, 30)
	deduct(30, headroom.ReasonAdmitted, 60) // it is not a repeat
	deduct(0, headroom.ReasonAdmitted, 60)
	deduct(150, headroom.ReasonOverLimit, 60)
	deduct(10, headroom.ReasonAdmitted, 70, began(base.Add(-year))) // no id, nothing forgotten
	strict.fail("", 30, headroom.Invalid)
	// A charge with an id works as on any other meter.
	a.admit("job", 10, 80)
	a.replay("job", 10, 80)
	strict.replay("job", 10, 80)
	a.fail("job", 11, headroom.Conflict)
	a.fail("old", 1, headroom.TooOld, began(base.Add(-year)))
	for _, id := range []string{"", "job"} {
		d, err := a.engine.Refund(t.Context(),
			headroom.RefundRequest{Subject: a.subject, Meter: a.meter, Operation: id, ID: "refund " + id})
		if (err == nil) != (id == "job") {
			t.Errorf("refund of %q: %s, %v", id, text(d), err)
		}
	}
	a.uses(70)
	for _, verb := range []verb{hold, settle, release, extend} {
		a.fails(verb, "", 1, headroom.Invalid)
	}
	d, err := a.engine.DeductWithin(t.Context(), "org", a.request("", 1))
	a.failed("deduct within", a.request("", 1), d.User, err, headroom.Invalid)
	deduct(200, headroom.ReasonRecorded, 270, record)
	// A charge without an id opens windows and lets ids age, like any other.
	w.set(monday)
	deduct(5, headroom.ReasonAdmitted, 5)
	a.uses(5, total(base, 270))
	for i := range time.Duration(2) {
		w.set(base.Add((3 + i) * horizon))
		deduct(5, headroom.ReasonAdmitted, 5)
		deduct(5, headroom.ReasonAdmitted, 10)
	}
	a.admit("job", 20, 30)
}

// lossy is a store whose commits are lost on their way. Nobody knows whether they will take effect.
type lossy struct {
	headroom.Store
	sent int
}

func (l *lossy) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	l.sent++
	v, err := l.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs(), Now: c.Now})
	v.Unsure = true
	return v, false, err
}

func lostWithoutID(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	a.admit("job", 10, 10)
	lost := &lossy{Store: w.store}
	b := a
	b.w = &world{T: w.T, h: w.h, store: lost}
	b.w.set(base)
	b = b.nameless(headroom.Options{})
	d, err := b.engine.Deduct(t.Context(), b.request("", 30))
	b.failed("deduct", b.request("", 30), d, err, headroom.OutcomeUnknown)
	if lost.sent != 1 {
		t.Errorf("a charge without an id was sent %d times, though the first may yet take effect", lost.sent)
	}
	if strings.Contains(err.Error(), "repeat the same") {
		t.Errorf("%q: there is no id to repeat", err)
	}
	a.uses(10)
}
