package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// base is when a test begins: a Tuesday, far enough from now that no store takes a row's time to live for over.
var base = time.Date(2031, time.May, 27, 10, 0, 0, 0, time.UTC)

// monday is the turn of the week after base.
var monday = time.Date(2031, time.June, 2, 0, 0, 0, 0, time.UTC)

const (
	day     = 24 * time.Hour
	week    = 7 * day
	year    = 364 * day
	horizon = headroom.DefaultHorizon
	meter   = "slots"
)

// world is where one test happens: a store, and the time.
type world struct {
	*testing.T
	h     Harness
	store headroom.Store
	clock atomic.Pointer[time.Time]
	lie   atomic.Pointer[func(time.Time) time.Time] // what a reading shows instead
}

func newWorld(t *testing.T, h Harness) *world {
	w := &world{T: t, h: h}
	w.set(base)
	w.store = h.Open(t, w.now)
	return w
}

// Run runs f as a subtest. Until it ends, what fails about the world fails in it.
func (w *world) Run(name string, f func(*testing.T)) bool {
	outer := w.T
	defer func() { w.T = outer }()
	return outer.Run(name, func(t *testing.T) {
		w.T = t
		f(t)
	})
}

func (w *world) now() time.Time {
	t := *w.clock.Load()
	if lie := w.lie.Load(); lie != nil {
		t = (*lie)(t)
	}
	return t
}

func (w *world) set(t time.Time) { w.clock.Store(&t) }

// back sets the clock to t after it was wrong, and has a store that cannot know which reading was wrong accept it.
func (w *world) back(t time.Time) {
	w.Helper()
	w.set(t)
	if w.h.HostClock {
		if err := w.h.Accept(w.Context(), w.store); err != nil {
			w.Fatalf("accept the clock: %v", err)
		}
	}
}

// catalog has one plan for each of the names, and in it one limit a week.
func (w *world) catalog(units int64, more ...headroom.Plan) *headroom.Catalog {
	w.Helper()
	plans := append([]headroom.Plan{weekly("free", units)}, more...)
	c, err := headroom.NewCatalog("free", plans, nil)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// weekly is a plan with one limit a week.
func weekly(name string, units int64) headroom.Plan {
	return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: meter, Name: "week", Units: units}}}
}

func (w *world) engine(store headroom.Store, c *headroom.Catalog, o headroom.Options) *headroom.Engine {
	w.Helper()
	if o.Clock == nil {
		o.Clock = w.now
	}
	e, err := headroom.New(store, c, o)
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// account returns a subject that nobody has seen, on a plan of so many units a week.
func (w *world) account(units int64) account {
	w.Helper()
	return w.accountOn(w.catalog(units), units)
}

// accountOn returns a subject that nobody has seen, on a default plan "free" of so many units a week.
func (w *world) accountOn(c *headroom.Catalog, units int64) account {
	w.Helper()
	return account{w: w, catalog: c, engine: w.engine(w.store, c, headroom.Options{}), subject: "s" + rand.Text()[:10], meter: meter, plan: "free", limit: units}
}

// account is a subject and a meter as a test sees them. Its methods check every field of what comes back.
type account struct {
	w       *world
	catalog *headroom.Catalog
	engine  *headroom.Engine
	subject string
	meter   string
	plan    string // that decisions are expected to name
	limit   int64  // that decisions are expected to name
	window  headroom.Window
	held    int64         // that decisions are expected to show as held,
	granted int64         // and as left of grants
	lasting time.Duration // of holds; zero: an hour
}

// on is the account as another engine on the same store sees it.
func (a account) on(c *headroom.Catalog, o headroom.Options) account {
	a.w.Helper()
	a.catalog, a.engine = c, a.w.engine(a.w.store, c, o)
	return a
}

// by is the account as an engine with another host's clock sees it, the store's being what it is.
func (a account) by(clock time.Time) account {
	a.w.Helper()
	return a.on(a.catalog, headroom.Options{Clock: func() time.Time { return clock }})
}

// under is the account expected to be on another plan.
func (a account) under(plan string, limit int64) account { a.plan, a.limit = plan, limit; return a }

// in is the account expected to stand in the week that holds t, whatever the clock says.
func (a account) in(t time.Time) account { a.window = headroom.ISOWeek(t); return a }

// of is the account expected to be of another subject.
func (a account) of(subject string) account { a.subject = subject; return a }

// mod changes a request.
type mod func(*headroom.Request)

func record(r *headroom.Request)     { r.Over = headroom.OverRecord }
func skipClosed(r *headroom.Request) { r.SkipClosed = true }
func at(t time.Time) mod             { return func(r *headroom.Request) { r.Now = t } }
func began(t time.Time) mod          { return func(r *headroom.Request) { r.Began = t } }
func says(plan string) mod           { return func(r *headroom.Request) { r.Plan = plan } }

func (a account) request(id string, cost int64, mods ...mod) headroom.Request {
	r := headroom.Request{Subject: a.subject, Meter: a.meter, Operation: id, Cost: cost}
	for _, m := range mods {
		m(&r)
	}
	return r
}

// text shows every field of a decision but for the standing of each limit.
func text(d headroom.Decision) string {
	verb, replay := "refused", ""
	if d.Allowed {
		verb = "allowed"
	}
	if d.Replay {
		replay = "replay, "
	}
	s := fmt.Sprintf("%s (%s%s) %d on plan %q: %d used and %d held of %d by %q, %d left, in %s", verb, replay, d.Reason, d.Cost, d.Plan, d.Used, d.Held, d.Limit, d.LimitName, d.Remaining, span(d.Window))
	if d.Unremembered {
		s += ", not remembered"
	}
	if d.Granted != 0 {
		s += fmt.Sprintf(", %d granted", d.Granted)
	}
	for _, n := range d.Crossed {
		s += fmt.Sprintf(", crossed %d%% of %q in %s (notice %s)", n.Percent, n.Limit, span(n.Window), n.ID)
	}
	return s
}

// full shows every field of a decision.
func full(d headroom.Decision) string {
	s := text(d)
	if !d.Expires.IsZero() {
		s += "; held until " + short(d.Expires)
	}
	for _, l := range d.Limits {
		s += "; " + limitText(l)
	}
	return s
}

func limitText(l headroom.LimitState) string {
	s := fmt.Sprintf("%s: %d used and %d held of %d, %d left, in %s", l.Name, l.Used, l.Held, l.Limit, l.Remaining, span(l.Window))
	if l.Mode != headroom.Hard {
		s = l.Mode.String() + " " + s
	}
	if l.Over {
		s += " (over)"
	}
	return s
}

func span(w headroom.Window) string {
	return fmt.Sprintf("%s (%s to %s)", w.Key, w.Start.UTC().Format(time.RFC3339), w.End.UTC().Format(time.RFC3339))
}

// want is the decision expected on r.
func (a account) want(r headroom.Request, reason headroom.Reason, used int64) headroom.Decision {
	d := headroom.Decision{
		Allowed: reason != headroom.ReasonOverLimit && reason != headroom.ReasonNeverFits && reason != headroom.ReasonClosed, Reason: reason, Plan: a.plan, Cost: r.Cost,
		LimitName: "week", Used: used, Held: a.held, Limit: a.limit, Remaining: max(0, a.limit-used-a.held), Window: a.window, Granted: a.granted,
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
	a.agrees(got)
}

// agrees expects that a decision says of the strictest limit what it says of all. Only the window may be another: of a repeat, or an earlier one, to which a hold belongs.
func (a account) agrees(d headroom.Decision) {
	a.w.Helper()
	for i, l := range d.Limits {
		if i > 0 && l.Name <= d.Limits[i-1].Name {
			a.w.Errorf("the limits are not sorted by name: %s", full(d))
		}
		if l.Name != d.LimitName {
			continue
		}
		if l.Used != d.Used || l.Held != d.Held || l.Limit != d.Limit || l.Remaining != d.Remaining || !d.Replay && d.Window.Start.After(l.Window.Start) {
			a.w.Errorf("the strictest limit and the decision disagree: %s", full(d))
		}
		return
	}
	if d.LimitName != "" {
		a.w.Errorf("the strictest limit is not among all: %s", full(d))
	}
}

// deduct expects a decision of the given reason, after which so much is used.
func (a account) deduct(id string, cost int64, reason headroom.Reason, used int64, mods ...mod) {
	a.w.Helper()
	r := a.request(id, cost, mods...)
	d, err := a.engine.Deduct(a.w.Context(), r)
	a.check("deduct", r, d, a.want(r, reason, used), err)
}

// admit expects that cost is charged, after which so much is used.
func (a account) admit(id string, cost, used int64, mods ...mod) {
	a.w.Helper()
	a.deduct(id, cost, headroom.ReasonAdmitted, used, mods...)
}

// refuse expects that cost is refused for want of units in this window, of which so much is used.
func (a account) refuse(id string, cost, used int64, mods ...mod) {
	a.w.Helper()
	a.deduct(id, cost, headroom.ReasonOverLimit, used, mods...)
}

// replay expects the answer to a repeat of an operation that was admitted, of today's use.
func (a account) replay(id string, cost, used int64, mods ...mod) {
	a.w.Helper()
	a.repeat(id, cost, headroom.ReasonAdmitted, used, mods...)
}

// repeat is replay with the reason that the first decision had.
func (a account) repeat(id string, cost int64, reason headroom.Reason, used int64, mods ...mod) {
	a.w.Helper()
	r := a.request(id, cost, mods...)
	d, err := a.engine.Deduct(a.w.Context(), r)
	want := a.want(r, reason, used)
	want.Replay = true
	a.check("repeat", r, d, want, err)
}

// preflight expects a decision of the given reason, of what is used without it.
func (a account) preflight(id string, cost int64, reason headroom.Reason, used int64, mods ...mod) {
	a.w.Helper()
	r := a.request(id, cost, mods...)
	d, err := a.engine.Preflight(a.w.Context(), r)
	a.check("preflight", r, d, a.want(r, reason, used), err)
}

// fail expects an error.
func (a account) fail(id string, cost int64, target *headroom.Error, mods ...mod) {
	a.w.Helper()
	r := a.request(id, cost, mods...)
	d, err := a.engine.Deduct(a.w.Context(), r)
	a.failed("deduct", r, d, err, target)
}

// failed expects that a call answered with an error, and with no decision beside it.
func (a account) failed(call string, r headroom.Request, d headroom.Decision, err error, target *headroom.Error) {
	a.w.Helper()
	var failure *headroom.Error
	if !errors.As(err, &failure) || !errors.Is(err, target) {
		a.w.Fatalf("%s %q: error %v, want one with the code %s", call, r.Operation, err, target.Code)
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

// uses expects that so much is used in the present window, and in those before it, the latest first, so much as past says.
func (a account) uses(used int64, past ...headroom.WindowTotal) {
	a.w.Helper()
	got := a.limits()
	want := headroom.LimitUsage{LimitState: headroom.LimitState{Name: "week", Window: a.want(headroom.Request{}, "", 0).Window, Used: used, Held: a.held, Limit: a.limit, Remaining: max(0, a.limit-used-a.held)}, History: past}
	if len(got) != 1 || usageText(got[0]) != usageText(want) {
		a.w.Fatalf("usage at %s:\n got %s\nwant %s", a.w.now().Format(time.RFC3339), usageText(got...), usageText(want))
	}
}

// total is what was charged in the closed week that holds t.
func total(t time.Time, units int64) headroom.WindowTotal {
	return headroom.WindowTotal{Window: headroom.ISOWeek(t), Units: units}
}

func usageText(all ...headroom.LimitUsage) (s string) {
	for _, l := range all {
		s += limitText(l.LimitState)
		for _, t := range l.History {
			s += fmt.Sprintf("; %d in %s", t.Units, span(t.Window))
			if t.Unknown {
				s += " (unknown)"
			}
		}
	}
	return s
}

func (a account) setPlan(plan string) {
	a.w.Helper()
	if err := a.engine.SetPlan(a.w.Context(), a.subject, plan); err != nil {
		a.w.Fatalf("set plan %q: %v", plan, err)
	}
}

// tap is a store that a test listens to or interferes with.
type tap struct {
	headroom.Store
	loads, commits, applied atomic.Int64

	load   func() error                                                                        // runs before each Load
	loaded func(headroom.Query, headroom.View) headroom.View                                   // changes what Load brings
	commit func(context.Context, headroom.Change, headroom.Store) (headroom.View, bool, error) // takes the place of Commit
}

func (s *tap) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	s.loads.Add(1)
	if s.load != nil {
		if err := s.load(); err != nil {
			return headroom.View{}, err
		}
	}
	v, err := s.Store.Load(ctx, q)
	if err == nil && s.loaded != nil {
		v = s.loaded(q, v)
	}
	return v, err
}

func (s *tap) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	s.commits.Add(1)
	commit := s.commit
	if commit == nil {
		commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			return to.Commit(ctx, c)
		}
	}
	v, done, err := commit(ctx, c, s.Store)
	if done {
		s.applied.Add(1)
	}
	return v, done, err
}

// tapped returns a tap on the world's store, and the account as an engine on the tap sees it.
func (a account) tapped(o headroom.Options) (*tap, account) {
	a.w.Helper()
	s := &tap{Store: a.w.store}
	a.engine = a.w.engine(s, a.catalog, o)
	return s, a
}

// ids are the ids that a change names.
func ids(c headroom.Change) (ids []string) {
	for _, r := range c.Records {
		ids = append(ids, r.ID)
	}
	return ids
}

// stored is all that the store has of the account, as text.
func (a account) stored(operations ...string) (s string) {
	a.w.Helper()
	v, err := a.w.store.Load(a.w.Context(), headroom.Query{Key: headroom.Key{Subject: a.subject, Meter: a.meter}, IDs: operations, History: true, Now: base})
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
	for _, id := range slices.Sorted(maps.Keys(v.State.Holds)) {
		s += fmt.Sprintf("; %s holds %s", id, v.State.Holds[id])
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
