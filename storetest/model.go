package storetest

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lumcast/headroom"
)

// Model plays long random sequences of operations, on the store through an engine and on a plain
// model of the rules. They deduct under both policies, hold and settle, refund, grant, charge users
// within organisations, look, change plans and repeat ids at the same and at another cost.
// Meanwhile clocks pass, stand still, fall back, run ahead and lie. The engine and the model must
// agree on every field of every decision, on every error, and on the whole history.
func Model(t *testing.T, h Harness) {
	defaults(t, "rapid.steps", "100")
	if h.Checks > 0 {
		defaults(t, "rapid.checks", strconv.Itoa(h.Checks))
	}
	w := newWorld(t, h)
	swept := 0
	rapid.Check(t, func(r *rapid.T) {
		p := newPlay(w, r)
		defer func() { swept += p.swept }()
		p.run()
	})
	if h.Sweeps {
		t.Logf("%d ids were found swept", swept)
	}
}

// ours are the flags that defaults has set. flag.Visit cannot tell them from those of the command
// line. The flags are shared by all tests of a package, which run one after another.
var ours = map[string]bool{}

// defaults sets a flag of rapid's for the length of the test, unless the command line does.
func defaults(t *testing.T, name, value string) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given && !ours[name] {
		return
	}
	ours[name] = true
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, before) })
}

// play is one random sequence. It has few subjects, meters and ids, so that they meet often.
type play struct {
	*rapid.T
	w       *world
	store   headroom.Store
	engine  *headroom.Engine
	oracle  *oracle
	prefix  string // of the subjects, which no other play shares
	holding bool   // there are holds
	step    int
	notices map[string]string // what each notice is about, by its id
	gifts   map[string]bool   // grants that were made

	now     time.Time // what a right clock shows
	written time.Time // the latest reading of the host's clock by which something was written
	seen    time.Time // the latest reading at all
	host    time.Time // what the engine's clock shows
	latest  time.Time // the latest that the store's clock ever showed
	swept   int       // ids that a sweep was seen to have removed
}

// dice draws numbers from 0 to 63, all equally likely. The ranges of rapid favour the ends.
var dice = rapid.Custom(func(r *rapid.T) (n int) {
	for range 6 {
		n *= 2
		if rapid.Bool().Draw(r, "bit") {
			n++
		}
	}
	return n
})

// one draws one of the values. A sequence that fails is shrunk towards the first of them.
func one[T any](p *play, label string, of ...T) T { return of[dice.Draw(p.T, label)%len(of)] }

// odds draws true one time in so many.
func odds(p *play, label string, of int) bool { return dice.Draw(p.T, label)%of == of-1 }

// rationed are the plans, as the model knows them.
var rationed = map[string]map[string][]ration{
	"free": {"slots": {
		{name: "day", daily: true, units: 150, carry: 100, thresholds: []int{50, 100, 250}},
		{name: "trial", units: 120, mode: headroom.Shadow, thresholds: []int{100}},
		{name: "week", units: 200, carry: 60, thresholds: []int{80, 100}},
	}, "tokens": {{name: "week", units: 1 << 60}}},
	"pro": {"slots": {
		{name: "day", daily: true, units: 80, mode: headroom.Soft},
		{name: "week", units: 300, thresholds: []int{90}},
	}},
}

// catalog returns the same plans for the engine.
func (p *play) catalog() *headroom.Catalog {
	var plans []headroom.Plan
	for name, meters := range rationed {
		plan := headroom.Plan{Name: name}
		for meter, limits := range meters {
			for _, l := range limits {
				limit := headroom.Limit{
					Meter: meter, Name: l.name, Units: l.units, Mode: l.mode, CarryOver: l.carry,
					Thresholds: l.thresholds,
				}
				if l.daily {
					limit.Period = period(p.w.T, "day")
				}
				plan.Limits = append(plan.Limits, limit)
			}
		}
		plans = append(plans, plan)
	}
	c, err := headroom.NewCatalog("free", plans, nil)
	if err == nil {
		c, err = c.WithMemory(0, map[string]headroom.Memory{"tokens": {None: true}})
	}
	if err != nil {
		p.Fatal(err)
	}
	return c
}

const ownPlan = "free+slots/week=250+tokens/week=7"

func newPlay(w *world, r *rapid.T) *play {
	p := &play{T: r, w: w, prefix: rand.Text()[:10], notices: map[string]string{}, gifts: map[string]bool{}}
	p.store = p.ownStore()
	p.holding = !odds(p, "no holds", 3)
	o := headroom.Options{Horizon: one(p, "horizon", horizon, 36*time.Hour), Clock: func() time.Time { return p.host }}
	var err error
	if p.engine, err = headroom.New(p.store, p.catalog(), o); err != nil {
		r.Fatal(err)
	}
	plans := maps.Clone(rationed)
	plans[ownPlan] = map[string][]ration{"slots": slices.Clone(plans["free"]["slots"]), "tokens": {{name: "week", units: 7}}}
	plans[ownPlan]["slots"][2].units = 250
	p.oracle = &oracle{
		third: p.w.h.HostClock,
		plans: plans, counters: plans["free"], horizon: o.Horizon, stored: map[string]string{}, books: map[headroom.Key]*book{},
	}
	p.now = base.Add(one(p, "begins", 0, 3*day, 6*day-10*time.Hour-time.Second))
	p.accept()
	return p
}

// ownStore returns the store of this play. A store that sweeps is opened anew for each play,
// because its sweeps depend on all subjects that it has seen.
func (p *play) ownStore() headroom.Store {
	if !p.w.h.Sweeps {
		return p.w.store
	}
	p.w.set(base)
	tb := &playsTB{TB: p.w.T, play: p}
	return p.w.h.Open(tb, p.w.now)
}

// playsTB is a testing.TB that cleans up at the end of the play and not of the test.
type playsTB struct {
	testing.TB
	play *play
}

func (tb *playsTB) Cleanup(f func()) { tb.play.Cleanup(f) }

func (tb *playsTB) TempDir() string {
	dir, err := os.MkdirTemp("", "play")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p *play) run() {
	steps := map[string]func(*rapid.T){}
	// Deductions are drawn more often than other steps.
	for _, name := range []string{"deduct", "deduct again", "deduct more", "deduct much"} {
		steps[name] = func(*rapid.T) { p.deduct() }
	}
	steps["preflight"] = func(*rapid.T) { p.preflight() }
	steps["usage"] = func(*rapid.T) { p.usage(p.key(), p.given()) }
	steps["set plan"] = func(*rapid.T) { p.setPlan() }
	steps["refund"] = func(*rapid.T) { p.refund() }
	if _, joins := p.store.(headroom.Joiner); joins {
		steps["several"], steps["several more"] = func(*rapid.T) { p.several() }, func(*rapid.T) { p.several() }
		steps["refund both"] = func(*rapid.T) { p.refundBoth() }
	}
	steps["grant"] = func(*rapid.T) { p.grant() }
	if p.holding {
		for _, v := range []verb{hold, settle, release, extend} {
			steps[string(v)] = func(*rapid.T) { p.held(v) }
		}
		steps["hold more"], steps["settle more"] = steps["hold"], steps["settle"]
		steps["within"] = func(*rapid.T) { p.within() }
	}
	for name, step := range steps {
		steps[name] = func(r *rapid.T) {
			// A longer play would fill the history. Which totals are dropped, and whether that is
			// before a refund, is left open, so the model could not say it.
			if p.step < 200 {
				step(r)
			}
		}
	}
	p.Repeat(steps)
	for key := range p.oracle.books {
		p.usage(key, p.now)
	}
}

func (p *play) key() headroom.Key {
	return headroom.Key{
		Subject: p.prefix + one(p, "subject", "a", "a", "a", "b"),
		Meter:   one(p, "meter", "slots", "slots", "slots", "slots", "tokens"),
	}
}

// costs are the usual costs of the first ids, and further ones.
var costs = []int64{
	1, 0, 5, 10, 20, 30, 40, 50, 70, 100, 1, 2, 3, 199, 200, 201, 300, 301, 1 << 53, 1<<60 - 7, math.MaxInt64 / 2,
	math.MaxInt64 - 100, math.MaxInt64,
}

func (p *play) request() headroom.Request {
	key := p.key()
	r := headroom.Request{Subject: key.Subject, Meter: key.Meter, Operation: fmt.Sprint("new ", p.step), Now: p.given()}
	if r.Cost = one(p, "cost", costs...); p.holding && r.Cost > 1<<61 {
		r.Cost = 1 << 53 // an expired hold still counts, and would make the greatest sums overflow
	}
	if n := one(p, "id", -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1, -1, -1); n >= 0 {
		// This is one of few ids, mostly at its usual cost. Long ids fill the room that a store has
		// for them.
		r.Operation = fmt.Sprint("id ", n) + strings.Repeat("-", n%3*60)
		if !odds(p, "another cost", 10) {
			r.Cost = costs[n]
		}
	}
	if odds(p, "records", 3) {
		r.Over = headroom.RecordOverLimit
	}
	r.SkipClosed = odds(p, "skips closed", 6)
	r.Plan = one(p, "caller's plan", "", "", "", "free", "pro")
	r.AnyPlan = odds(p, "any plan", 3)
	if odds(p, "began", 3) {
		r.Began = p.now.Add(
			-one(p, "age", time.Hour, 20*time.Hour, 36*time.Hour, 37*time.Hour, 8*day, horizon, horizon+time.Second, year, -day),
		)
	}
	return r
}

// takesLess lets some requests take fewer units than they ask for.
func (p *play) takesLess(r *headroom.Request) {
	if r.Cost > 0 && odds(p, "takes less", 4) {
		r.Over = headroom.RefuseOverLimit
		r.AtLeast = one(p, "at least", 1, r.Cost-r.Cost/2)
	}
}

func (p *play) deduct() {
	p.tick()
	r := p.request()
	p.takesLess(&r)
	if r.Meter == "tokens" && odds(p, "no id at all", 2) {
		r.Operation = ""
	}
	if p.prepare(r.Subject, &r) {
		p.deducts(r)
	}
}

func (p *play) deducts(r headroom.Request) (trusted bool) {
	d, err := p.engine.Deduct(context.Background(), r)
	if p.distrusted(r.Now, err) {
		return false
	}
	want := p.oracle.call(r, p.at(r.Now)).deduct(p.guess(r.Now))
	p.learn(headroom.Key{Subject: r.Subject, Meter: r.Meter}, d)
	p.compare("deduct", r, p.text(d), err, full(want.Decision), want.code)
	p.wrote(r.Now, want)
	return true
}

func (p *play) preflight() {
	p.tick()
	r := p.request()
	p.takesLess(&r)
	if !p.prepare(r.Subject, &r) {
		return
	}
	if odds(p, "no id yet", 2) {
		r.Operation = ""
	}
	d, err := p.engine.Preflight(context.Background(), r)
	if p.distrusted(r.Now, err) {
		return
	}
	c := p.oracle.call(r, p.at(r.Now))
	c.dry = true
	want := c.ask(c.now, "")
	p.learn(headroom.Key{Subject: r.Subject, Meter: r.Meter}, d) // whose process may have died
	p.compare("preflight", r, p.text(d), err, full(want.Decision), want.code)
}

func (p *play) usage(key headroom.Key, given time.Time) {
	p.tick()
	u, err := p.engine.Usage(context.Background(), headroom.UsageRequest{Subject: key.Subject, Meter: key.Meter, Now: given})
	if p.distrusted(given, err) {
		return
	}
	want, code := p.oracle.usage(key, p.at(given))
	p.compare("usage", headroom.Request{Subject: key.Subject, Meter: key.Meter, Now: given}, shown(u), err, shown(want), code)
}

// shown shows every field of a usage.
func shown(u headroom.Usage) string {
	s := fmt.Sprintf("plan %q, unseen %t, %d granted: %s", u.Plan, u.Unseen, u.Granted, usageText(u.Limits...))
	for _, id := range slices.Sorted(maps.Keys(u.Grants)) {
		g := u.Grants[id]
		s += fmt.Sprintf("; %s grants %d, %d used, until %s", id, g.Units, g.Used, short(g.Expires))
	}
	for _, h := range u.Holds {
		s += fmt.Sprintf("; %d holds until %s, %d of grants", h.Holds, short(h.Expires), h.Granted)
		for _, w := range h.Windows {
			s += fmt.Sprintf(", %d of %s from %s", w.Units, w.Limit, short(w.Start))
		}
	}
	if len(u.Debts) > 0 {
		s += fmt.Sprintf("; debts: %v", u.Debts)
	}
	return s
}

func (p *play) setPlan() {
	subject, plan := p.key().Subject, one(p, "plan", "pro", "free", "", ownPlan)
	if err := p.engine.SetPlan(context.Background(), subject, plan); err != nil {
		p.Fatalf("set plan %q: %v", plan, err)
	}
	p.oracle.stored[subject] = plan
}

// compare fails the test unless the answer and its error are those of the model.
func (p *play) compare(call string, r headroom.Request, got string, err error, want string, code headroom.Code) {
	asked := fmt.Sprintf(
		"step %d: %s of %q: %d of %s for %q, plan %q, policy %d, skips closed %t, at %s, began %s, store's clock %s, host's %s",
		p.step, call, r.Operation, r.Cost, r.Meter, strings.TrimPrefix(r.Subject, p.prefix), r.Plan, r.Over,
		r.SkipClosed, short(r.Now), short(r.Began), short(p.w.now()), short(p.host))
	p.Log(asked)
	failed := headroom.CodeOf(err)
	switch {
	case err != nil && failed == "":
		p.Fatalf("%s\nfailed without a code: %v", asked, err)
	case failed != "" && failed != code:
		p.Fatalf("%s\n got error %q: %v\nwant %s (error %q)", asked, string(failed), err, want, string(code))
	case failed == "" && code != "":
		p.Fatalf("%s\n got %s\nwant error %q", asked, got, string(code))
	case got != want:
		p.Fatalf("%s\n got %s\nwant %s", asked, got, want)
	}
}

func short(t time.Time) string {
	if t.IsZero() {
		return "no time"
	}
	return t.Format("2006-01-02 15:04:05")
}
