package headroom

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// maxTries bounds how often one request is decided, because other writers came in between. A try
// fails if a window turns, a plan changes, a threshold is crossed, or the last units go to others.
// It does not fail only because others add to the same count or draw on the same grant, with two
// exceptions: a charge that is split between plan and grants, and the opening of a window into
// which units are carried over.
const maxTries = 24

// maxClearings bounds how many writes that only clear the way come beside the tries. It is more
// than it takes to fold back HistoryWindows windows of many limits, and to clear away what holds of
// all lengths can leave behind.
const maxClearings = 100

// attempt carries one request through: decide, commit the changes, and if a guard does not hold,
// decide again from what is stored. A request of several meters has a query, a view and a verdict
// for each.
type attempt struct {
	engine  *Engine
	queries []Query
	intent  joint

	views     []View
	stored    bool   // the views are what the store has shown; else they are a guess
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
	var views []View
	if first := cmp.Or(from.guess, from.seen); first != nil {
		views = []View{*first}
	}
	d, views, err := e.attemptAll(ctx, views, from.guess == nil, []Query{q}, decide.alone())
	if len(views) == 0 {
		views = []View{{}}
	}
	return d, views[0], err
}

// attemptAll is attempt of a request of several meters. It begins with views, which the store has
// shown if stored says so, or with a look if there are none.
func (e *Engine) attemptAll(ctx context.Context, views []View, stored bool, queries []Query, decide joint) (Decision, []View, error) {
	a := attempt{engine: e, queries: queries, intent: decide, views: slices.Clone(views), stored: stored}
	if views == nil {
		if err := a.look(ctx); err != nil {
			return Decision{}, a.views, err
		}
	}
	for ; a.tries < maxTries; a.tries++ {
		err := pause(ctx, a.tries)
		var all []Decision
		var over bool
		if err == nil {
			all, over, err = a.try(ctx)
		}
		if over || err != nil {
			d, err := a.certain(together(queries, all), err)
			return d, a.views, err
		}
	}
	key := queries[0].Key
	e.opts.Logger.Warn("headroom: others won every try", "subject", key.Subject, "meter", key.Meter, "unmet", a.unmet)
	d, err := a.certain(Decision{}, Errorf(Contended, nil,
		"others changed the state of %q %d times in a row; nothing was decided, try again",
		key.Subject, maxTries))
	return d, a.views, err
}

// together makes one decision of those about each key. It is that of the first that refuses, or
// else of the first.
func together(queries []Query, all []Decision) (d Decision) {
	var parts []Part
	allowed := true
	for i, part := range all {
		key := queries[i].Key
		part.Subject, part.Meter = key.Subject, key.Meter
		if i == 0 || allowed && !part.Allowed {
			d = part
		}
		allowed = allowed && part.Allowed
		parts = append(parts, Part{Subject: key.Subject, Meter: key.Meter, Decision: part})
	}
	if len(parts) > 1 {
		d.Parts = parts
	}
	return d
}

// look loads what is stored.
func (a *attempt) look(ctx context.Context) (err error) {
	a.stored = true
	if a.views, err = a.engine.load(ctx, a.queries); err != nil {
		a.views = make([]View, len(a.queries)) // nothing is known
	}
	return err
}

// load loads several keys, which the store joins, or one.
func (e *Engine) load(ctx context.Context, queries []Query) ([]View, error) {
	if len(queries) > 1 {
		return e.store.(Joiner).LoadAll(ctx, queries)
	}
	v, err := e.store.Load(ctx, queries[0])
	return []View{v}, err
}

// commit commits the changes of some of the keys, and takes note of what is stored then.
func (a *attempt) commit(ctx context.Context, answers []verdict) (done bool, err error) {
	var changes []Change
	var at []int
	for i, answer := range answers {
		if answer.change != nil {
			changes, at = append(changes, *answer.change), append(at, i)
		}
	}
	var views []View
	if len(changes) > 1 {
		views, done, err = a.engine.store.(Joiner).CommitAll(ctx, changes)
	} else {
		var v View
		v, done, err = a.engine.store.Commit(ctx, changes[0])
		views = []View{v}
	}
	if err != nil {
		a.views = make([]View, len(a.views)) // nothing is known
		return false, err
	}
	a.stored, a.unmet = len(changes) == len(answers), "" // what was not changed was not seen
	for i, v := range views {
		a.views[at[i]] = v
		if !done && a.unmet == "" {
			a.unmet = changes[i].Unmet(v)
		}
	}
	return done, nil
}

// try decides once and commits what that comes to. It reports whether there is an answer.
func (a *attempt) try(ctx context.Context) (all []Decision, over bool, err error) {
	answers, err := a.verdict(ctx)
	if err != nil {
		return nil, true, err
	}
	if !slices.ContainsFunc(answers, func(v verdict) bool { return v.change != nil }) {
		return a.finish(ctx, answers), true, nil
	}
	clears := slices.ContainsFunc(answers, verdict.clears)
	if clears {
		answers = onlyClearing(answers)
	}
	done, err := a.commit(ctx, answers)
	if err != nil {
		return nil, true, err
	}
	if clears {
		if done && a.clearings < maxClearings {
			a.clearings++
			a.tries-- // nobody was in the way
		}
		return nil, false, a.look(ctx)
	}
	a.unsure = a.unsure || slices.ContainsFunc(a.views, func(v View) bool { return v.Unsure })
	unremembered := slices.ContainsFunc(answers, func(v verdict) bool { return v.promise.unremembered })
	switch {
	case a.unsure && unremembered:
		// No id would keep a second write from charging again.
		return nil, true, Errorf(OutcomeUnknown, nil, "an attempt to write was lost on its way")
	case done:
		return a.finish(ctx, answers), true, nil
	case !a.stored:
		return nil, false, a.look(ctx)
	}
	return nil, false, nil
}

// onlyClearing keeps the changes of answers that only clear the way.
func onlyClearing(answers []verdict) (all []verdict) {
	for _, answer := range answers {
		if !answer.clears() {
			answer.change = nil
		}
		all = append(all, answer)
	}
	return all
}

// verdict decides the intent. A guess is good enough to try a write, whose guard finds out what is
// wrong with it. But only what is stored can refuse a request, and only what is stored says that
// neither the plan nor a grant has the units.
func (a *attempt) verdict(ctx context.Context) ([]verdict, error) {
	answers, err := a.decide(ctx)
	sure := func(v verdict) bool { return v.change == nil || v.promise.reason == ReasonRecorded }
	if a.stored || err == nil && !slices.ContainsFunc(answers, sure) {
		return answers, err
	}
	if err := a.look(ctx); err != nil {
		return nil, err
	}
	return a.decide(ctx)
}

// decide decides the intent once, with the whole history at hand if that is needed.
func (a *attempt) decide(ctx context.Context) (answers []verdict, err error) {
	answers, a.views, err = a.engine.decide(ctx, a.views, a.queries, a.intent)
	return answers, err
}

// finish returns the answers once the changes are done. From here on nothing can fail: the decision
// stands, whether or not its figures can be read.
func (a *attempt) finish(ctx context.Context, answers []verdict) (all []Decision) {
	for i, answer := range answers {
		d := answer.decision
		if answer.change != nil {
			a.engine.refile(ctx, *answer.change, a.views[i])
			d = a.figures(ctx, i, answer.change.Key, answer.promise)
		}
		all = append(all, d)
	}
	return all
}

// figures turns a promise into the decision, with the figures that are stored by now.
func (a *attempt) figures(ctx context.Context, i int, key Key, p promise) Decision {
	d, complete := a.engine.rules.keep(p, key, a.views[i])
	if !complete {
		q := a.queries[i]
		q.History = true
		if v, err := a.engine.store.Load(ctx, q); err == nil {
			d, _ = a.engine.rules.keep(p, key, v)
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
	switch {
	case a.unsure && !sure && !errors.Is(err, OutcomeUnknown):
		return Decision{}, Errorf(OutcomeUnknown, err,
			"an attempt to write was lost on its way and may yet take effect: repeat the same operation id")
	case err != nil:
		return Decision{}, err
	}
	return d, nil
}

// decide decides an intent. If the decision needs the whole history, decide loads it and decides
// again. It returns the views that were decided from, too. Holds that older programs kept come
// first.
func (e *Engine) decide(ctx context.Context, views []View, queries []Query, decide joint) ([]verdict, []View, error) {
	if answers, old := e.rules.adopting(views, queries); old {
		return answers, views, nil
	}
	answers, err := decide(views)
	if errors.Is(err, errNeedHistory) {
		queries = slices.Clone(queries)
		for i := range queries {
			queries[i].History = true
		}
		var whole []View
		if whole, err = e.load(ctx, queries); err == nil {
			views = whole
			answers, err = decide(views)
		}
	}
	return answers, views, err
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

// guesses returns a guess for each meter of r, or none at all.
func (e *Engine) guesses(r Request) (all []View) {
	for _, p := range r.parts() {
		v := e.guess(p)
		if v == nil {
			return nil
		}
		all = append(all, *v)
	}
	return all
}

// queriesOf returns a query for each meter of r.
func queriesOf(r Request) (all []Query) {
	for _, p := range r.parts() {
		all = append(all, query(p))
	}
	return all
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
