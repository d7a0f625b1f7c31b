package headroom

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
	"unicode/utf8"
)

// Lengths in bytes that names may have.
const (
	MaxSubject   = 1024
	MaxMeter     = 256
	MaxOperation = 256
)

// maxTries bounds how often a decision is made anew because others wrote in between. A try fails when a window turns, a plan changes, a threshold lies between, or the last units go to others; never only because another writer added to the count or drew on a grant, unless a charge is split between plan and grants or units are carried over.
const maxTries = 24

// mostCleared bounds how many writes only clear the way for one decision, beside its tries. It is more than take
// back all that HistoryWindows windows of many limits count, and clear MaxHolds holds away.
const mostCleared = 100

// Options are the settings of an Engine. The zero value is a good one.
type Options struct {
	Clock      func() time.Time // the host's clock, a first guess that the store's own time corrects. Nil: time.Now
	Horizon    time.Duration    // how long operation ids are remembered, in whole minutes, in meters for which the catalog gives no time. Zero: see Catalog.WithMemory. Changed, it holds for what is charged once every engine has it; what was charged before is remembered as was promised then
	Logger     *slog.Logger     // hears of debts that are dropped, since they are older than ids are remembered. Nil: slog.Default()
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
	Operation string // id of the piece of work, at most MaxOperation bytes of UTF-8, charged at most once. Preflight takes it if there is one already; Deduct needs it, unless the meter's Memory says otherwise
	Cost      int64  // units, at least 0

	Plan  string    // plan of a subject that has none stored. Empty: the catalog's default
	Began time.Time // when the operation began, by whatever clock gave it its id. Zero: unknown, and then an id older than the horizon cannot be told from a new one
	Over  Policy    // what Deduct and Settle do with a cost that does not fit

	// Seen is the plan that the caller saw stored a while ago: a first guess, which saves a request if it is still right. What is stored decides.
	Seen string
	// AnyPlan decides under the catalog's default where the plan that counts is not in the catalog, which would else be an error.
	AnyPlan bool
	// Renew has Hold take a hold anew that has expired or was released, under the same operation and at the same cost. False: a repeat of it is a replay, which holds nothing.
	Renew bool

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

// New returns an engine on a store, by the plans of a catalog. Where the store has a method MostLimits() int, that
// is how many limits of one meter all plans together may have, and ErrInvalid names it.
func New(store Store, catalog *Catalog, opts Options) (*Engine, error) {
	if store == nil || catalog == nil {
		return nil, invalid("an engine needs a store and a catalog")
	}
	if store, ok := store.(interface{ MostLimits() int }); ok {
		if err := catalog.within(store.MostLimits()); err != nil {
			return nil, err
		}
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Horizon != 0 {
		var err error
		if catalog, err = catalog.WithMemory(opts.Horizon, catalog.memory); err != nil {
			return nil, err
		}
	}
	return &Engine{store: store, rules: rules{catalog: catalog}, opts: opts}, nil
}

// Preflight says whether r would be admitted now. It is a best-effort look before the work: it writes nothing, may see a state that is a little old, and binds nobody.
// Since it writes nothing, it is the one look that leaves debts as they are: see DeductWithin.
func (e *Engine) Preflight(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, r.Operation != ""); err != nil {
		return Decision{}, err
	}
	q := query(r)
	q.Weak = true
	v, err := e.store.Load(ctx, q)
	if err == nil {
		var d Decision
		if d, err = e.preflight(ctx, v, q, r); err == nil {
			return d, nil
		}
	}
	var failure *Error
	if e.opts.LetThrough && errors.As(err, &failure) && failure.transient() {
		return Decision{Allowed: true, Reason: ReasonUnchecked, Cost: r.Cost, Plan: r.Plan, Limit: Unlimited, Remaining: Unlimited}, nil
	}
	return Decision{}, err
}

func (e *Engine) preflight(ctx context.Context, v View, q Query, r Request) (Decision, error) {
	answer, v, err := e.decide(ctx, v, q, func(v View) (verdict, error) { return e.rules.ask(v, r) })
	if err != nil || answer.change == nil {
		return answer.decision, err
	}
	plan, standings, err := e.rules.look(v, r)
	return decided(v, plan, standings, r.Cost, cmp.Or(answer.decision.Reason, ReasonAdmitted), false), err
}

// Deduct charges r once, if the units are there. Call it after the work has succeeded, and call it again with the same Operation whenever the outcome is not known: a repeat is answered with the first decision.
//
// An error means that nothing was decided. After ErrOutcomeUnknown the charge may have been made; after every other error it was not.
func (e *Engine) Deduct(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, r.Operation != "" || e.rules.catalog.NeedsID(r.Meter)); err != nil {
		return Decision{}, err
	}
	if r.Operation == "" {
		r.Began = time.Time{} // no id could have been forgotten since
	}
	d, err := e.run(ctx, e.guess(r), query(r), e.rules.deduct(r))
	if r.Operation != "" || err == nil {
		return d, err
	}
	var failure *Error
	if errors.As(err, &failure) && failure.Code == CodeOutcomeUnknown {
		return d, Errorf(CodeOutcomeUnknown, failure.Err, "the charge may or may not have been made, and it has no operation id: to ask again may charge twice")
	}
	return d, err
}

// Hold reserves r.Cost, an estimate, for as long as lasts, in whole seconds. Its units come back when it is released or when that time is over, whatever became of the caller.
// A repeat of the same Operation is answered with the first decision, and moves no expiry: see Extend, and Renew of Request. Decision.Expires tells whether a hold is live. r.Over is not looked at: nothing is held past a limit.
func (e *Engine) Hold(ctx context.Context, r Request, lasts time.Duration) (Decision, error) {
	if err := cmp.Or(e.validate(r, true), checkLasts("hold", lasts)); err != nil {
		return Decision{}, err
	}
	// No guess: a hold ends by the store's time, not by what the host's clock shows.
	decide := e.rules.hold
	if r.Renew {
		decide = e.rules.holdAgain
	}
	return e.run(ctx, nil, query(r), decide(r, lasts))
}

// Settle charges r.Cost, the true cost of a held operation, and ends the hold. What was held is there for it; what exceeds it is charged if it fits, and otherwise by the policy r.Over.
// Of a hold that has expired or was released, it is a plain deduction under that policy. An operation that is not known is ErrNotFound.
func (e *Engine) Settle(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, true); err != nil {
		return Decision{}, err
	}
	return e.run(ctx, nil, query(r), e.rules.settle(r))
}

// Release gives back the units of a hold whose work was not done. r.Cost is not looked at.
func (e *Engine) Release(ctx context.Context, r Request) (Decision, error) {
	if err := e.validate(r, true); err != nil {
		return Decision{}, err
	}
	return e.run(ctx, nil, query(r), e.rules.release(r))
}

// Extend makes a live hold last from now on as long as lasts. r.Cost is not looked at.
func (e *Engine) Extend(ctx context.Context, r Request, lasts time.Duration) (Decision, error) {
	if err := cmp.Or(e.validate(r, true), checkLasts("hold", lasts)); err != nil {
		return Decision{}, err
	}
	return e.run(ctx, nil, query(r), e.rules.extend(r, lasts))
}

// RefundRequest asks that units of a charge come back.
type RefundRequest struct {
	Subject, Meter string
	Operation      string    // the charge
	ID             string    // id of the refund, given back at most once. It must not be the id of anything else
	Units          int64     // at least 0; 0 is all that is left of the charge
	Began          time.Time // as in Request, of the charge: of one that is not known it tells ErrTooOld from ErrNotFound
	Now            time.Time // as in Request
}

// Refund gives back units of a charge, once for each r.ID and never more than was charged. In a window that has closed it corrects the history and gives the present one nothing.
func (e *Engine) Refund(ctx context.Context, r RefundRequest) (Decision, error) {
	of := Request{Subject: r.Subject, Meter: r.Meter, Operation: r.Operation, Cost: r.Units, Began: r.Began, Now: r.Now}
	if err := cmp.Or(e.validate(of, true), checkText("id of the refund", r.ID, MaxOperation)); err != nil {
		return Decision{}, err
	}
	if r.ID == r.Operation {
		return Decision{}, invalid("the refund of operation %q needs an id of its own", r.ID)
	}
	return e.run(ctx, nil, Query{Key: of.key(), IDs: []string{r.ID, r.Operation}, Now: r.Now}, e.rules.refund(r))
}

// GrantRequest asks that a subject gets units beside those of its plan.
type GrantRequest struct {
	Subject, Meter string
	ID             string // granted at most once. It must not be the id of anything else
	Units          int64  // at least 1

	// When what is left of it is gone, in whole seconds: one of the two is given.
	// A repeat with Lasts keeps the expiry of the first. It is known for as long as the grant lives and its id is remembered: whoever may ask again after the horizon gives Expires, which then is over.
	Expires time.Time
	Lasts   time.Duration // from now on, at least a second

	Now time.Time // as in Request
}

// Grant adds units, once for each r.ID. They are drawn on when those of the plan are used up, the grant that expires first before any other; the end of a window never moves for them.
func (e *Engine) Grant(ctx context.Context, r GrantRequest) (Decision, error) {
	of := Request{Subject: r.Subject, Meter: r.Meter, Operation: r.ID, Cost: r.Units, Now: r.Now}
	if err := cmp.Or(e.validate(of, true), checkTime(r.Expires)); err != nil {
		return Decision{}, err
	}
	if r.Expires.IsZero() == (r.Lasts == 0) {
		return Decision{}, invalid("grant %q: want either when it expires or how long it lasts", r.ID)
	}
	if r.Expires.IsZero() {
		if err := checkLasts("grant", r.Lasts); err != nil {
			return Decision{}, err
		}
	}
	if r.Units < 1 {
		return Decision{}, invalid("grant %q of %d units: want at least 1", r.ID, r.Units)
	}
	return e.run(ctx, nil, Query{Key: of.key(), IDs: []string{r.ID}, Now: r.Now}, e.rules.grant(r))
}

// run decides and commits, until the decision is final, and finishes the debts that it sees. It begins with guess, which nobody has seen in the store, or, if that is nil, with a look.
func (e *Engine) run(ctx context.Context, guess *View, q Query, decide intent) (Decision, error) {
	d, v, err := e.attempt(ctx, start{guess: guess}, q, decide)
	e.finishSeen(ctx, q, v)
	return d, err
}

// start is where an attempt begins: with a guess, with what was seen in the store, or with a look.
type start struct{ guess, seen *View }

// attempt is run without the debts. It returns the last view of what is stored too, if there was one.
func (e *Engine) attempt(ctx context.Context, from start, q Query, decide intent) (Decision, View, error) {
	var v View
	var err error
	unsure := false             // something that was sent may yet be written
	stored := from.guess == nil // v shows what is stored
	switch {
	case !stored:
		v = *from.guess
	case from.seen != nil:
		v = *from.seen
	default:
		v, err = e.store.Load(ctx, q)
	}
	for try, cleared := 0, 0; err == nil && try < maxTries; try++ {
		if err = pause(ctx, try); err != nil {
			break
		}
		var answer verdict
		answer, v, err = e.decide(ctx, v, q, decide)
		if !stored && (err != nil || answer.change == nil || answer.decision.Reason == ReasonRecorded) {
			// Only what is stored can refuse, and only what is stored says that no grant has the units.
			stored = true
			if v, err = e.store.Load(ctx, q); err != nil {
				break
			}
			answer, v, err = e.decide(ctx, v, q, decide)
		}
		if err != nil || answer.change == nil {
			d, err := certain(answer.decision, err, unsure)
			return d, v, err
		}
		var done bool
		if v, done, err = e.store.Commit(ctx, *answer.change); err != nil {
			break
		}
		unsure = unsure || v.Unsure && !answer.again
		if unsure && answer.nameless != nil {
			// No id would keep a second write from charging again.
			return Decision{}, v, Errorf(CodeOutcomeUnknown, nil, "an attempt to write was lost on its way")
		}
		if done && !answer.again {
			e.refile(ctx, *answer.change, v)
			d, whole := e.rules.committed(answer, v)
			if q.History = true; !whole {
				// The decision stands, whether or not there is an answer.
				if v, err := e.store.Load(ctx, q); err == nil {
					d, _ = e.rules.committed(answer, v)
				}
			}
			return d, v, nil
		}
		if stored = true; answer.again {
			if done && cleared < mostCleared {
				cleared++
				try-- // nobody was in the way
			}
			v, err = e.store.Load(ctx, q)
		}
	}
	if err == nil {
		err = Errorf(CodeContended, nil, "others changed the state of %q %d times in a row; nothing was decided, try again", q.Key.Subject, maxTries)
	}
	d, err := certain(Decision{}, err, unsure)
	return d, v, err
}

// certain returns the answer to a request, unless that is that nothing is charged, and something that was sent for it may yet be written: the units that are not there now can be there by then.
func certain(d Decision, err error, unsure bool) (Decision, error) {
	// An id that stands for something else, or for nothing that could be ended, keeps a late write from taking effect.
	final := err == nil && d.Allowed || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired)
	if !unsure || final || errors.Is(err, ErrOutcomeUnknown) {
		return d, err
	}
	return Decision{}, Errorf(CodeOutcomeUnknown, err, "an attempt to write was lost on its way and may yet take effect: repeat the same operation id")
}

// refiles bounds how often ids are filed anew because others wrote in between.
const refiles = 3

// refile files the ids of c, which is done, under the present generation, where they lie under one that is over by the store's time: the guess of a host whose clock lags does that, and they would be forgotten early by the lag.
// If it fails the decision stands all the same.
func (e *Engine) refile(ctx context.Context, c Change, v View) {
	if _, due := v.State.turn(v.Now, e.rules.catalog.Horizon(c.Key.Meter)); !due {
		return
	}
	for range refiles {
		again := e.rules.change(v, c.Key, c.Now)
		if again.Records = v.refiled(); len(again.Records) == 0 {
			return
		}
		var done bool
		var err error
		if v, done, err = e.store.Commit(ctx, again); done || err != nil {
			return
		}
	}
}

// decide is a decision with the whole history at hand if it is needed, and the view from which it was made.
func (e *Engine) decide(ctx context.Context, v View, q Query, decide intent) (verdict, View, error) {
	answer, err := decide(v)
	if errors.Is(err, errNeedHistory) {
		q.History = true
		if v, err = e.store.Load(ctx, q); err == nil {
			answer, err = decide(v)
		}
	}
	return answer, v, err
}

// guess is the view that most requests will find: a subject on the expected plan, in the window of the host's clock, with all its units. What is different, the guard of the first write finds out.
// Of an operation that began long ago there is none: whether it is too old is for the store's time to say, before anything is written.
func (e *Engine) guess(r Request) *View {
	now := r.Now
	if now.IsZero() {
		now = e.opts.Clock()
	}
	horizon := e.rules.catalog.Horizon(r.Meter)
	if !r.Began.IsZero() && now.Sub(r.Began) > horizon/2 {
		return nil
	}
	s := State{Counters: map[string]Counter{}, Epoch: epoch(now, horizon)}
	if r.Seen != cmp.Or(r.Plan, e.rules.catalog.fallback) {
		s.Plan = r.Seen
	}
	for _, l := range e.rules.catalog.counters[r.Meter] {
		s.Counters[l.Name] = Counter{Window: l.Period.At(now)}
	}
	return &View{State: s, Now: now}
}

func query(r Request) Query {
	q := Query{Key: r.key(), Now: r.Now}
	if r.Operation != "" {
		q.IDs = []string{r.Operation}
	}
	return q
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
	if err := cmp.Or(checkTime(r.Now), checkTime(r.Began)); err != nil {
		return err
	}
	// Whether the catalog has r.Plan matters only where no plan is stored: look finds out.
	return nil
}

// checkTime reports a time that not every format can hold.
func checkTime(t time.Time) error {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return invalid("time %s: want a year from 1 to 9999", t)
	}
	return nil
}

func checkLasts(what string, d time.Duration) error {
	if d < time.Second {
		return invalid("a %s of %s: want at least a second", what, d)
	}
	return nil
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
