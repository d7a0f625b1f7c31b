package headroom

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
	"unicode/utf8"
)

// DefaultHorizon is how long operation ids are remembered unless Options say otherwise: longer than a queue keeps a message and than a state machine can be redriven, both 14 days on AWS.
const DefaultHorizon = 15 * 24 * time.Hour

// Lengths in bytes that names may have.
const (
	MaxSubject   = 1024
	MaxMeter     = 256
	MaxOperation = 256
)

// maxTries bounds how often a decision is made anew because others wrote in between. A try fails only when a window turns, a plan changes or ids move, never because another writer added to the count.
const maxTries = 24

// Options are the settings of an Engine. The zero value is a good one.
type Options struct {
	Clock      func() time.Time // the host's clock, a first guess that the store's own time corrects. Nil: time.Now
	Horizon    time.Duration    // how long operation ids are remembered, in whole minutes. Zero: DefaultHorizon. It may be raised at any time; after it is lowered, ids may be forgotten up to one new horizon early, once
	LetThrough bool             // Preflight answers "allowed, unchecked" where the store fails. Deduct never does
}

// Policy says what to do with a cost that does not fit.
type Policy byte

const (
	OverRefuse Policy = iota // refuse it and change nothing
	OverRecord               // charge it past the limit, since the work is done
)

// Request asks to spend.
type Request struct {
	Subject   string // who: non-empty UTF-8 of at most MaxSubject bytes
	Meter     string // of what: non-empty UTF-8 of at most MaxMeter bytes, a meter of the catalog
	Operation string // id of the piece of work, at most MaxOperation bytes of UTF-8, charged at most once. Preflight takes it if there is one already
	Cost      int64  // units, at least 0

	Plan  string    // plan of a subject that has none stored. Empty: the catalog's default
	Began time.Time // when the operation began, by whatever clock gave it its id. Zero: unknown, and then an id older than the horizon cannot be told from a new one
	Over  Policy    // what Deduct does with a cost that does not fit

	// Now takes the place of every clock: to replay a log, and in tests. A server must not fill it in from the network.
	Now time.Time
	// SkipClosed refuses a request whose window (that of Now) is over for the subject, where it would else be charged to the stored window: a log replayed from its start charges nothing twice.
	SkipClosed bool
}

func (r Request) key() Key { return Key{Subject: r.Subject, Meter: r.Meter} }

// Engine decides who may spend and records what was spent. It holds no state of its own beside its store: any number of engines, in any number of processes, may share one store that allows it.
type Engine struct {
	store Store
	rules rules
	opts  Options
}

// New returns an engine on a store, by the plans of a catalog.
func New(store Store, catalog *Catalog, opts Options) (*Engine, error) {
	if store == nil || catalog == nil {
		return nil, invalid("an engine needs a store and a catalog")
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.Horizon == 0 {
		opts.Horizon = DefaultHorizon
	}
	if opts.Horizon < time.Minute || opts.Horizon%time.Minute != 0 {
		return nil, invalid("horizon %s: want whole minutes, at least one", opts.Horizon)
	}
	return &Engine{store: store, rules: rules{catalog: catalog, horizon: opts.Horizon}, opts: opts}, nil
}

// Preflight says whether r would be admitted now. It is a best-effort look before the work: it writes nothing, may see a state that is a little old, and binds nobody.
func (e *Engine) Preflight(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, r.Operation != ""); err != nil {
		return Decision{}, err
	}
	v, err := e.store.Load(ctx, Query{Key: r.key(), Operation: r.Operation, Now: r.Now, Weak: true})
	if err == nil {
		var d Decision
		if _, d, err = e.decide(ctx, v, r); err == nil {
			return d, nil
		}
	}
	var failure *Error
	if e.opts.LetThrough && errors.As(err, &failure) && failure.transient() {
		return Decision{Allowed: true, Reason: ReasonUnchecked, Cost: r.Cost, Plan: r.Plan, Limit: Unlimited, Remaining: Unlimited}, nil
	}
	return Decision{}, err
}

// Deduct charges r once, if the units are there. Call it after the work has succeeded, and call it again with the same Operation whenever the outcome is not known: a repeat is answered with the first decision.
//
// An error means that nothing was decided. After ErrOutcomeUnknown the charge may have been made; after every other error it was not.
func (e *Engine) Deduct(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, true); err != nil {
		return Decision{}, err
	}
	v, stored, err := e.assume(r), false, error(nil)
	if now := v.Now; !r.Began.IsZero() && now.Sub(r.Began) > e.opts.Horizon/2 {
		// An old operation: whether it is too old is for the store's time to say, before anything is written.
		if v, err = e.load(ctx, r); err != nil {
			return Decision{}, err
		}
		stored = true
	}
	for try := range maxTries {
		if err := pause(ctx, try); err != nil {
			return Decision{}, err
		}
		c, d, err := e.decide(ctx, v, r)
		if c == nil && !stored {
			// Only what is stored can refuse.
			if v, err = e.load(ctx, r); err != nil {
				return Decision{}, err
			}
			stored = true
			c, d, err = e.decide(ctx, v, r)
		}
		if c == nil || err != nil {
			return d, err
		}
		after, done, err := e.store.Commit(ctx, *c)
		if err != nil {
			return Decision{}, err
		}
		if done {
			return e.rules.committed(*c, after), nil
		}
		v, stored = after, true
	}
	return Decision{}, Errorf(CodeContended, nil, "operation %q of %q: others changed the state %d times in a row; nothing was written, try again", r.Operation, r.Subject, maxTries)
}

// assume is the view that most requests will find: a subject on the expected plan, in the window of the host's clock, with all its units. What is different, the guard of the first write finds out.
func (e *Engine) assume(r Request) View {
	now := r.Now
	if now.IsZero() {
		now = e.opts.Clock()
	}
	s := State{Counters: map[string]Counter{}, Epoch: e.rules.epoch(now)}
	for _, l := range e.rules.catalog.counters[r.Meter] {
		s.Counters[l.Name] = Counter{Window: l.Period.At(now)}
	}
	return View{State: s, Now: now}
}

func (e *Engine) load(ctx context.Context, r Request) (View, error) {
	return e.store.Load(ctx, Query{Key: r.key(), Operation: r.Operation, Now: r.Now})
}

// decide is rules.decide with the whole history at hand if it is needed.
func (e *Engine) decide(ctx context.Context, v View, r Request) (*Change, Decision, error) {
	c, d, err := e.rules.decide(v, r)
	if errors.Is(err, errNeedHistory) {
		if v, err = e.store.Load(ctx, Query{Key: r.key(), Operation: r.Operation, Now: r.Now, History: true}); err == nil {
			c, d, err = e.rules.decide(v, r)
		}
	}
	return c, d, err
}

// SetPlan stores the plan of a subject, for all its meters; it holds from the next decision on. An empty plan removes it.
func (e *Engine) SetPlan(ctx context.Context, subject, plan string) error {
	if err := checkText("subject", subject, MaxSubject); err != nil {
		return err
	}
	if _, err := e.rules.catalog.resolve(plan, ""); err != nil {
		return err
	}
	return e.store.SetPlan(ctx, subject, plan)
}

func (e *Engine) validate(r Request, operation bool) error {
	if err := checkText("subject", r.Subject, MaxSubject); err != nil {
		return err
	}
	if err := e.checkMeter(r.Meter); err != nil {
		return err
	}
	if operation {
		if err := checkText("operation id", r.Operation, MaxOperation); err != nil {
			return err
		}
	}
	if r.Cost < 0 {
		return invalid("cost %d: want at least 0", r.Cost)
	}
	if r.Over > OverRecord {
		return invalid("unknown policy %d", r.Over)
	}
	for _, t := range []time.Time{r.Now, r.Began} {
		if y := t.UTC().Year(); y < 1 || y > 9999 {
			return invalid("time %s: want a year from 1 to 9999", t)
		}
	}
	_, err := e.rules.catalog.resolve(r.Plan, "")
	return err
}

func (e *Engine) checkMeter(meter string) error {
	if err := checkName("meter", meter); err != nil {
		return err
	}
	if _, ok := e.rules.catalog.counters[meter]; !ok {
		return invalid("unknown meter %q: no plan limits it", meter)
	}
	return nil
}

func checkName(what, s string) error { return checkText(what, s, MaxMeter) }

func checkText(what, s string, most int) error {
	switch {
	case s == "":
		return invalid("%s is empty", what)
	case len(s) > most:
		return invalid("%s has %d bytes: at most %d", what, len(s), most)
	case !utf8.ValidString(s):
		return invalid("%s %q is not UTF-8", what, s)
	}
	return nil
}

// pause waits a little before a later try, so that writers that lose to one another fall apart.
func pause(ctx context.Context, try int) error {
	if try < 3 {
		return nil
	}
	wait := time.NewTimer(rand.N(time.Millisecond << min(try, 7)))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return Errorf(CodeContended, ctx.Err(), "gave up after %d tries; nothing was written", try)
	case <-wait.C:
		return nil
	}
}
