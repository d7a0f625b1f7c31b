package headroom

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// maxTries bounds how often one request is decided, because other writers came in between. A try
// fails if a window turns, a plan changes, a threshold is crossed, or the last units go to others.
// It does not fail only because others add to the same count or draw on the same grant, with two
// exceptions: a charge that is split between plan and grants, and the opening of a window into
// which units are carried over.
const maxTries = 24

// maxClearings bounds how many writes that only clear the way come beside the tries. It is more
// than it takes to fold back HistoryWindows windows of many limits and to clear away MaxHolds
// holds.
const maxClearings = 100

// attempt carries one request through: decide, commit the change, and if its guard does not hold,
// decide again from what is stored.
type attempt struct {
	engine *Engine
	query  Query
	intent intent

	view      View
	stored    bool   // view is what the store has shown; else it is a guess
	unsure    bool   // something that was sent may yet be written
	unmet     string // what the guard of the last change found
	tries     int
	clearings int
}

// start is where an attempt begins: with a guess, with what was seen in the store before, or, if
// both are nil, with a look.
type start struct{ guess, seen *View }

// attempt decides and commits, until there is an answer. It returns the last view of what is stored
// too, if there was one.
func (e *Engine) attempt(ctx context.Context, from start, q Query, decide intent) (Decision, View, error) {
	a := attempt{engine: e, query: q, intent: decide, stored: from.guess == nil}
	if first := cmp.Or(from.guess, from.seen); first != nil {
		a.view = *first
	} else if err := a.look(ctx); err != nil {
		return Decision{}, a.view, err
	}
	for ; a.tries < maxTries; a.tries++ {
		err := pause(ctx, a.tries)
		var d Decision
		var over bool
		if err == nil {
			d, over, err = a.try(ctx)
		}
		if over || err != nil {
			d, err = a.certain(d, err)
			return d.of(q.Key, err), a.view, err
		}
	}
	e.opts.Logger.Warn("headroom: others won every try", "subject", q.Key.Subject, "meter", q.Key.Meter, "unmet", a.unmet)
	d, err := a.certain(Decision{}, Errorf(Contended, nil,
		"others changed the state of %q %d times in a row; nothing was decided, try again",
		q.Key.Subject, maxTries))
	return d, a.view, err
}

// of returns the decision as that of a key, or none if there is an error.
func (d Decision) of(key Key, err error) Decision {
	if err != nil {
		return Decision{}
	}
	d.Subject, d.Meter = key.Subject, key.Meter
	return d
}

// look loads what is stored.
func (a *attempt) look(ctx context.Context) (err error) {
	a.stored = true
	a.view, err = a.engine.store.Load(ctx, a.query)
	return err
}

// try decides once and commits what that comes to. It reports whether there is an answer.
func (a *attempt) try(ctx context.Context) (Decision, bool, error) {
	answer, err := a.verdict(ctx)
	if err != nil || answer.change == nil {
		return answer.decision, true, err
	}
	var done bool
	if a.view, done, err = a.engine.store.Commit(ctx, *answer.change); err != nil {
		return Decision{}, true, err
	}
	a.stored = true
	if !done {
		a.unmet = answer.change.Unmet(a.view)
	}
	if answer.clears() {
		if done && a.clearings < maxClearings {
			a.clearings++
			a.tries-- // nobody was in the way
		}
		return Decision{}, false, a.look(ctx)
	}
	a.unsure = a.unsure || a.view.Unsure
	if a.unsure && answer.promise.unremembered {
		// No id would keep a second write from charging again.
		return Decision{}, true, Errorf(OutcomeUnknown, nil, "an attempt to write was lost on its way")
	}
	if !done {
		return Decision{}, false, nil
	}
	return a.finish(ctx, *answer.change, answer.promise), true, nil
}

// verdict decides the intent. A guess is good enough to try a write, whose guard finds out what is
// wrong with it. But only what is stored can refuse a request, and only what is stored says that
// neither the plan nor a grant has the units.
func (a *attempt) verdict(ctx context.Context) (verdict, error) {
	answer, err := a.decide(ctx)
	if a.stored || err == nil && answer.change != nil && answer.promise.reason != ReasonRecorded {
		return answer, err
	}
	if err := a.look(ctx); err != nil {
		return verdict{}, err
	}
	return a.decide(ctx)
}

// decide decides the intent once, with the whole history at hand if that is needed.
func (a *attempt) decide(ctx context.Context) (answer verdict, err error) {
	answer, a.view, err = a.engine.decide(ctx, a.view, a.query, a.intent)
	return answer, err
}

// finish returns the answer once the change is done. From here on nothing can fail: the decision
// stands, whether or not its figures can be read.
func (a *attempt) finish(ctx context.Context, done Change, p promise) Decision {
	a.engine.refile(ctx, done, a.view)
	d, complete := a.engine.rules.keep(p, done.Key, a.view)
	if !complete {
		q := a.query
		q.History = true
		if v, err := a.engine.store.Load(ctx, q); err == nil {
			d, _ = a.engine.rules.keep(p, done.Key, v)
		}
	}
	return d
}

// certain returns the answer to a request, unless that is doubtful: nothing was charged so far, but
// something that was sent may yet be written, if the units are there by then. That is an unknown
// outcome.
func (a *attempt) certain(d Decision, err error) (Decision, error) {
	// An id that stands for something else, or for nothing that could be ended, keeps a late write
	// from taking effect.
	sure := err == nil && d.Allowed || errors.Is(err, Conflict) || errors.Is(err, NotFound) || errors.Is(err, Expired)
	if !a.unsure || sure || errors.Is(err, OutcomeUnknown) {
		return d, err
	}
	return Decision{}, Errorf(OutcomeUnknown, err,
		"an attempt to write was lost on its way and may yet take effect: repeat the same operation id")
}

// decide decides an intent. If the decision needs the whole history, decide loads it and decides
// again. It returns the view that was decided from, too.
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

// pause waits a little before a later try, so that writers that lose to one another fall apart.
func pause(ctx context.Context, try int) error {
	if try < 3 {
		return nil
	}
	wait := time.NewTimer(rand.N(time.Millisecond << min(try, 7)))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return Errorf(Contended, ctx.Err(), "gave up after %d tries; nothing was written", try)
	case <-wait.C:
		return nil
	}
}

// guess returns the view that most requests will find: the subject is on the expected plan, in the
// window of the host's clock, and has all its units. If something is different, the guard of the
// first write finds out.
//
// It returns nil for an operation that began long ago. Only the store's time can say whether that
// is too old, and it must do so before anything is written.
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

// maxRefiles bounds how often ids are filed anew, because other writers came in between.
const maxRefiles = 3

// refile moves the ids of a change that is done into the present generation, if by the store's time
// the one they lie in is over. That happens on a guess, if the host's clock lags, and the ids would
// be forgotten too early by as much. If it fails, the decision stands all the same.
func (e *Engine) refile(ctx context.Context, done Change, v View) {
	if _, due := v.State.rotation(v.Now, e.rules.catalog.Horizon(done.Key.Meter)); !due {
		return
	}
	for range maxRefiles {
		again := e.rules.begin(v, done.Key, done.Now)
		if again.Records = v.refiled(); len(again.Records) == 0 {
			return
		}
		var ok bool
		var err error
		if v, ok, err = e.store.Commit(ctx, again); ok || err != nil {
			return
		}
	}
}
