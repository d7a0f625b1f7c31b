package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// account returns a new subject on a plan of so many units a week.
func (w *world) account(units int64) account {
	w.Helper()
	return w.accountOn(w.catalog(units), units)
}

// account is a subject and a meter, with what a test expects of them. Its methods ask the engine,
// and check every field of the answer.
type account struct {
	w       *world
	catalog *headroom.Catalog
	engine  *headroom.Engine
	subject string
	meter   string
	plan    string // expected in decisions
	limit   int64  // expected in decisions
	window  headroom.Window
	held    int64         // expected to be held
	granted int64         // expected to be left of grants
	lasting time.Duration // how long holds last; zero is an hour
}

// on returns the account as an engine with another catalog and other options sees it, on the same
// store.
func (a account) on(c *headroom.Catalog, o headroom.Options) account {
	a.w.Helper()
	a.catalog, a.engine = c, a.w.engine(a.w.store, c, o)
	return a
}

// by returns the account as another host sees it, whose clock shows a time of its own. The store's
// clock does not change.
func (a account) by(clock time.Time) account {
	a.w.Helper()
	return a.on(a.catalog, headroom.Options{Clock: func() time.Time { return clock }})
}

// under returns the account with another plan and limit expected.
func (a account) under(plan string, limit int64) account { a.plan, a.limit = plan, limit; return a }

// in returns the account with the week that holds t expected, whatever the clock shows.
func (a account) in(t time.Time) account { a.window = headroom.ISOWeek(t); return a }

// of returns the account of another subject.
func (a account) of(subject string) account { a.subject = subject; return a }

// mod changes a request.
type mod func(*headroom.Request)

func record(r *headroom.Request) { r.Over = headroom.RecordOverLimit }

func skipClosed(r *headroom.Request) { r.SkipClosed = true }

func at(t time.Time) mod { return func(r *headroom.Request) { r.Now = t } }

func began(t time.Time) mod { return func(r *headroom.Request) { r.Began = t } }

func says(plan string) mod { return func(r *headroom.Request) { r.Plan = plan } }

func (a account) request(id string, cost int64, mods ...mod) headroom.Request {
	r := headroom.Request{Subject: a.subject, Meter: a.meter, Operation: id, Cost: cost}
	for _, m := range mods {
		m(&r)
	}
	return r
}

// want returns the decision that is expected for r.
func (a account) want(r headroom.Request, reason headroom.Reason, used int64) headroom.Decision {
	d := headroom.Decision{
		Allowed: reason != headroom.ReasonOverLimit && reason != headroom.ReasonNeverFits &&
			reason != headroom.ReasonClosed,
		Reason:    reason,
		Plan:      a.plan,
		Cost:      r.Cost,
		LimitName: "week",
		Used:      used,
		Held:      a.held,
		Limit:     a.limit,
		Remaining: max(0, a.limit-used-a.held),
		Window:    a.window,
		Granted:   a.granted,
	}
	if now := r.Now; d.Window.IsZero() {
		if now.IsZero() {
			now = a.w.now()
		}
		d.Window = headroom.ISOWeek(now)
	}
	return d
}

func (a account) check(call string, r headroom.Request, got, want headroom.Decision, err error) {
	a.w.Helper()
	if err != nil {
		a.w.Fatalf("%s %q: %v", call, r.Operation, err)
	}
	if text(got) != text(want) {
		a.w.Fatalf("%s %q at %s:\n got %s\nwant %s", call, r.Operation, a.w.now().Format(time.RFC3339), text(got), text(want))
	}
	if got.Subject != a.subject || got.Meter != a.meter {
		a.w.Errorf("%s %q of %q, meter %q, is answered for %q, meter %q", call, r.Operation, a.subject, a.meter, got.Subject, got.Meter)
	}
	a.agrees(got)
}

// agrees checks that a decision says the same about the strictest limit in its own fields and in
// Limits. Only the window may differ: a repeat names that of the first decision, and a hold that in
// which it was made.
func (a account) agrees(d headroom.Decision) {
	a.w.Helper()
	for i, l := range d.Limits {
		if i > 0 && l.Name <= d.Limits[i-1].Name {
			a.w.Errorf("the limits are not sorted by name: %s", full(d))
		}
		if l.Name != d.LimitName {
			continue
		}
		if l.Used != d.Used || l.Held != d.Held || l.Limit != d.Limit || l.Remaining != d.Remaining ||
			!d.Replay && d.Window.Start.After(l.Window.Start) {
			a.w.Errorf("the strictest limit and the decision disagree: %s", full(d))
		}
		return
	}
	if d.LimitName != "" {
		a.w.Errorf("the strictest limit is not among all: %s", full(d))
	}
}

// deduct deducts, and expects a decision with the given reason, after which so much is used.
func (a account) deduct(id string, cost int64, reason headroom.Reason, used int64, mods ...mod) {
	a.w.Helper()
	r := a.request(id, cost, mods...)
	d, err := a.engine.Deduct(a.w.Context(), r)
	a.check("deduct", r, d, a.want(r, reason, used), err)
}

// admit deducts, and expects that the cost is charged, after which so much is used.
func (a account) admit(id string, cost, used int64, mods ...mod) {
	a.w.Helper()
	a.deduct(id, cost, headroom.ReasonAdmitted, used, mods...)
}

// refuse deducts, and expects a refusal because too few units are left in this window, of which so
// much is used.
func (a account) refuse(id string, cost, used int64, mods ...mod) {
	a.w.Helper()
	a.deduct(id, cost, headroom.ReasonOverLimit, used, mods...)
}

// replay repeats an operation that was admitted, and expects its first decision with what is used
// today.
func (a account) replay(id string, cost, used int64, mods ...mod) {
	a.w.Helper()
	a.repeat(id, cost, headroom.ReasonAdmitted, used, mods...)
}

// repeat is like replay, for a first decision with another reason.
func (a account) repeat(id string, cost int64, reason headroom.Reason, used int64, mods ...mod) {
	a.w.Helper()
	r := a.request(id, cost, mods...)
	d, err := a.engine.Deduct(a.w.Context(), r)
	want := a.want(r, reason, used)
	want.Replay = true
	a.check("repeat", r, d, want, err)
}

// preflight asks for a preflight, and expects a decision with the given reason that shows so much
// used.
func (a account) preflight(id string, cost int64, reason headroom.Reason, used int64, mods ...mod) {
	a.w.Helper()
	r := a.request(id, cost, mods...)
	d, err := a.engine.Preflight(a.w.Context(), r)
	a.check("preflight", r, d, a.want(r, reason, used), err)
}

// fail deducts, and expects an error.
func (a account) fail(id string, cost int64, target headroom.Code, mods ...mod) {
	a.w.Helper()
	r := a.request(id, cost, mods...)
	d, err := a.engine.Deduct(a.w.Context(), r)
	a.failed("deduct", r, d, err, target)
}

// failed checks that a call returned the error, and no decision beside it.
func (a account) failed(call string, r headroom.Request, d headroom.Decision, err error, target headroom.Code) {
	a.w.Helper()
	if headroom.CodeOf(err) == "" || !errors.Is(err, target) {
		a.w.Fatalf("%s %q: error %v, want one with the code %s", call, r.Operation, err, string(target))
	}
	if full(d) != full(headroom.Decision{}) {
		a.w.Fatalf("%s %q: decided %q beside the error %v", call, r.Operation, text(d), err)
	}
}

// limits returns the usage of each limit of the account.
func (a account) limits() []headroom.LimitUsage {
	a.w.Helper()
	u, err := a.engine.Usage(a.w.Context(), headroom.UsageRequest{Subject: a.subject, Meter: a.meter})
	if err != nil {
		a.w.Fatalf("usage: %v", err)
	}
	if u.Subject != a.subject || u.Meter != a.meter || u.Plan != a.plan {
		a.w.Fatalf("usage is of %q, %q on plan %q: want %q, %q on %q", u.Subject, u.Meter, u.Plan, a.subject, a.meter, a.plan)
	}
	return u.Limits
}

// uses checks how much is used in the present window, and what the totals of the closed windows
// are, the latest first.
func (a account) uses(used int64, past ...headroom.WindowTotal) {
	a.w.Helper()
	got := a.limits()
	want := headroom.LimitUsage{
		LimitState: headroom.LimitState{
			Name: "week", Window: a.want(headroom.Request{}, "", 0).Window, Used: used, Held: a.held, Limit: a.limit,
			Remaining: max(0, a.limit-used-a.held),
		},
		History: past,
	}
	if len(got) != 1 || usageText(got[0]) != usageText(want) {
		a.w.Fatalf("usage at %s:\n got %s\nwant %s", a.w.now().Format(time.RFC3339), usageText(got...), usageText(want))
	}
}

// total is the total of the closed week that holds t.
func total(t time.Time, units int64) headroom.WindowTotal {
	return headroom.WindowTotal{Window: headroom.ISOWeek(t), Units: units}
}

func (a account) setPlan(plan string) {
	a.w.Helper()
	if err := a.engine.SetPlan(a.w.Context(), a.subject, plan); err != nil {
		a.w.Fatalf("set plan %q: %v", plan, err)
	}
}

// stored shows all that the store has for the account.
func (a account) stored(operations ...string) (s string) {
	a.w.Helper()
	v, err := a.w.store.Load(a.w.Context(),
		headroom.Query{Key: headroom.Key{Subject: a.subject, Meter: a.meter}, IDs: operations, History: true, Now: base})
	if err != nil {
		a.w.Fatalf("load: %v", err)
	}
	s = fmt.Sprintf("plan %q, ids of %d and %d;", v.State.Plan, v.State.Epoch.Unix(), v.State.EpochBefore.Unix())
	for _, name := range slices.Sorted(maps.Keys(v.State.Counters)) {
		c := v.State.Counters[name]
		s += fmt.Sprintf(" %s: %d in %s", name, c.Count, span(c.Window))
		if c.Carried != 0 {
			s += fmt.Sprintf(", %d carried over", c.Carried)
		}
		for _, t := range c.Past {
			s += fmt.Sprintf(", %d in %d", t.Units, t.Start.Unix())
		}
	}
	for _, b := range v.State.Buckets {
		s += fmt.Sprintf("; %s: %d%s", bucketText(b.BucketKey), b.Units, inText(b.In))
	}
	for _, id := range slices.Sorted(maps.Keys(v.State.Grants)) {
		g := v.State.Grants[id]
		s += fmt.Sprintf("; %s grants %d, %d used, until %s", id, g.Units, g.Used, g.Expires.UTC().Format(time.RFC3339))
	}
	for _, id := range slices.Sorted(maps.Keys(v.State.Debts)) {
		s += fmt.Sprintf("; %s owes %s", id, v.State.Debts[id])
	}
	for _, id := range slices.Sorted(maps.Keys(v.Records)) {
		s += fmt.Sprintf("; %s is %s", id, v.Records[id])
	}
	return s + "\n"
}
