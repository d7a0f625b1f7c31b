package headroom

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// maxTries bounds how often a decision is made anew because others wrote in between. A try fails when a window turns, a plan changes, a threshold lies between, or the last units go to others; never only because another writer added to the count or drew on a grant, unless a charge is split between plan and grants or units are carried over.
const maxTries = 24

// mostCleared bounds how many writes only clear the way for one decision, beside its tries. It is more than take
// back all that HistoryWindows windows of many limits count, and clear MaxHolds holds away.
const mostCleared = 100

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

// certain returns the answer to a request, unless that is that nothing is charged, and something that was sent for it may yet be written: the units that are not there now can be there by then.
func certain(d Decision, err error, unsure bool) (Decision, error) {
	// An id that stands for something else, or for nothing that could be ended, keeps a late write from taking effect.
	final := err == nil && d.Allowed || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired)
	if !unsure || final || errors.Is(err, ErrOutcomeUnknown) {
		return d, err
	}
	return Decision{}, Errorf(CodeOutcomeUnknown, err, "an attempt to write was lost on its way and may yet take effect: repeat the same operation id")
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
