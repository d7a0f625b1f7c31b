package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/lumcast/headroom"
)

// codes are the failures that a store can have. Those that are transient may let a preflight
// through.
var codes = []struct {
	code      headroom.Code
	transient bool
}{
	{
		headroom.Throttled, true,
	},
	{headroom.Contended, true},
	{headroom.Unavailable, true},
	{headroom.OutcomeUnknown, true},
	{headroom.Rejected, true},
	{headroom.Unreadable, false},
	{headroom.Locked, false},
	{headroom.ClockUntrusted, false},
	{headroom.Invalid, false},
}

func failsBefore(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, c := range codes {
		w.Run(string(c.code), func(t *testing.T) {
			cause := errors.New("the cause")
			failure := headroom.Errorf(c.code, cause, "the store failed")
			a := w.account(200)
			a.admit("before", 190, 190)
			before := a.stored("id")
			s, tapped := a.tapped(headroom.Options{LetThrough: true})
			fails := func(call string, id string, cost int64, mods ...mod) {
				t.Helper()
				r := a.request(id, cost, mods...)
				d, err := tapped.engine.Deduct(t.Context(), r)
				tapped.failed(call, r, d, err, c.code)
				if !errors.Is(err, cause) {
					t.Errorf("%s: the error %v does not lead to its cause", call, err)
				}
			}

			s.commit = func(context.Context, headroom.Change, headroom.Store) (headroom.View, bool, error) {
				return headroom.View{}, false, failure
			}
			fails("a deduction that fits", "id", 10)
			fails("a deduction that does not fit", "id", 11)
			fails("a deduction past the limit", "id", 11, record)
			fails("a repeat", "before", 190)

			s.load = func() error { return failure }
			fails("a deduction that never fits", "id", 201)
			fails("an old deduction", "id", 1, began(base.Add(-horizon)))
			if _, err := tapped.engine.Usage(t.Context(),
				headroom.UsageRequest{Subject: a.subject, Meter: a.meter}); !errors.Is(
				err,
				c.code,
			) {
				t.Errorf("usage: error %v, want %q", err, string(c.code))
			}

			// The first guess is wrong, the store says so, and then it fails.
			w.set(monday)
			defer w.back(base)
			s.commit = func(ctx context.Context, change headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				if s.commits.Load()%2 == 0 {
					return headroom.View{}, false, failure
				}
				return to.Commit(ctx, change)
			}
			s.commits.Store(0)
			fails("a deduction that opens a window", "id", 10)
			if after := a.stored("id"); after != before {
				t.Errorf("failures changed\n%sto\n%s", before, after)
			}
			s.commit, s.load = nil, nil
			tapped.admit("id", 10, 10)
		})
	}
}

func failsAfter(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for name, try := range map[string]struct {
		used, cost, after int64
		reason            headroom.Reason
		mods              []mod
	}{
		"the first of a window": {0, 10, 10, headroom.ReasonAdmitted, nil},
		"the last units":        {190, 10, 200, headroom.ReasonAdmitted, nil},
		"past the limit":        {190, 20, 210, headroom.ReasonRecorded, []mod{record}},
		"nothing":               {200, 0, 200, headroom.ReasonAdmitted, nil},
	} {
		w.Run(name, func(t *testing.T) {
			a := w.account(200)
			if try.used > 0 {
				a.admit("before", try.used, try.used)
			}
			s, tapped := a.tapped(headroom.Options{LetThrough: true})
			s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
				v, done, err := to.Commit(ctx, c)
				if done {
					return headroom.View{}, false, headroom.Errorf(headroom.OutcomeUnknown,
						context.DeadlineExceeded, "the answer was lost")
				}
				return v, done, err
			}
			tapped.fail("id", try.cost, headroom.OutcomeUnknown, try.mods...)
			tapped.repeat("id", try.cost, try.reason, try.after, try.mods...)
			tapped.fail("id", try.cost+1, headroom.Conflict, try.mods...)
			tapped.uses(try.after)
			a.repeat("id", try.cost, try.reason, try.after)
			a.uses(try.after)
		})
	}
}

func failsAfterWithAnyCode(t *testing.T, h Harness) {
	w := newWorld(t, h)
	for _, c := range codes {
		a := w.account(200)
		a.admit("before", 150, 150)
		s, tapped := a.tapped(headroom.Options{LetThrough: true})
		s.commit = func(ctx context.Context, change headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			v, done, err := to.Commit(ctx, change)
			if done {
				return headroom.View{}, false, headroom.Errorf(c.code, nil, "the store failed")
			}
			return v, done, err
		}
		tapped.fail("id", 40, c.code)
		tapped.replay("id", 40, 190)
		a.uses(190)
	}
}

func letThrough(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("before", 200, 200)
	strict, strictly := a.tapped(headroom.Options{})
	lenient, leniently := a.tapped(headroom.Options{LetThrough: true})
	r := a.request("id", 10, says("free"))
	for _, c := range codes {
		failure := headroom.Errorf(c.code, nil, "the store failed")
		strict.load, lenient.load = func() error { return failure }, func() error { return failure }
		d, err := strictly.engine.Preflight(t.Context(), r)
		strictly.failed("preflight", r, d, err, c.code)
		d, err = leniently.engine.Preflight(t.Context(), r)
		if !c.transient {
			leniently.failed("lenient preflight", r, d, err, c.code)
			continue
		}
		want := headroom.Decision{
			Allowed: true, Reason: headroom.ReasonUnchecked, Plan: "free", Cost: 10, Limit: headroom.Unlimited,
			Remaining: headroom.Unlimited,
		}
		if err != nil || full(d) != full(want) {
			t.Errorf("lenient preflight on %q: %s, %v", string(c.code), text(d), err)
		}
	}
	// When the store answers, its answer counts.
	lenient.load = nil
	leniently.preflight("", 10, headroom.ReasonOverLimit, 200)
	bad := a.request("id", -1)
	d, err := leniently.engine.Preflight(t.Context(), bad)
	leniently.failed("lenient preflight", bad, d, err, headroom.Invalid)
	conflict := a.request("before", 1)
	d, err = leniently.engine.Preflight(t.Context(), conflict)
	leniently.failed("lenient preflight", conflict, d, err, headroom.Conflict)
}

func cancelled(t *testing.T, h Harness) {
	a := newWorld(t, h).account(200)
	a.admit("before", 10, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, cost := range []int64{10, 191, 201} {
		for _, v := range []verb{deduct, preflight} {
			d, err := do(ctx, a.engine, v, a.request(id(int64(i)), cost), 0)
			if headroom.CodeOf(err) == "" || full(d) != full(headroom.Decision{}) {
				t.Errorf("%s of %d: %s, %v: want an error with a code", v, cost, text(d), err)
			}
		}
	}
	if err := a.engine.SetPlan(ctx, a.subject, "free"); headroom.CodeOf(err) == "" {
		t.Errorf("set plan: %v: want an error with a code", err)
	}
	if _, err := a.engine.Usage(ctx, headroom.UsageRequest{Subject: a.subject, Meter: a.meter}); headroom.CodeOf(err) == "" {
		t.Errorf("usage: %v: want an error with a code", err)
	}
	a.uses(10)
}

func setPlanFails(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.accountOn(w.catalog(200, weekly("pro", 300)), 200)
	e := w.engine(brokenPlans{a.w.store}, a.catalog, headroom.Options{LetThrough: true})
	if err := e.SetPlan(t.Context(), a.subject, "pro"); !errors.Is(err, headroom.Unavailable) {
		t.Errorf("set plan: %v, want %s", err, headroom.Unavailable)
	}
	a.uses(0)
}

// brokenPlans is a store that fails to store a plan.
type brokenPlans struct{ headroom.Store }

func (brokenPlans) SetPlan(context.Context, string, string) error {
	return headroom.Errorf(headroom.Unavailable, nil, "the store failed")
}
