package headroom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Debts are settled by whoever looks at the subject that has them, and by FinishDebts. Whoever does
// so charges the organisation, and then takes the debt off.

const (
	// lookTime bounds how long a look at a subject takes to settle what the subject owes. What is
	// not settled by then is left to the next look.
	lookTime = 3 * time.Second
	// answerTime bounds how long it waits for one organisation. As much is kept to take off what is
	// settled.
	answerTime = time.Second
)

// silent are organisations that could not be charged a moment ago, with the error of that. Whoever
// settles debts asks each of them once, so that one that does not answer delays no others.
type silent struct{ errors sync.Map }

// settleSeen settles the debts that v shows. The look that found them does not depend on it: what
// cannot be settled now stays for the next one.
func (e *Engine) settleSeen(ctx context.Context, q Query, v View) {
	if len(v.State.Debts) > 0 {
		_, _, _ = e.settleDebts(ctx, q, v, v.State.Debts, &silent{})
	}
}

// Finished says what became of the debts that FinishDebts found.
type Finished struct {
	// Settled are debts whose organisations are settled now, or were already.
	Settled int `json:"settled"`
	// TooOld are debts that were dropped. They are older than ids are remembered, so that nobody
	// can know whether they were settled.
	TooOld int `json:"tooOld"`
	// Left are debts that could not be settled now.
	Left int `json:"left"`
	// More says that the time was over before the last debt was seen. What is done is done.
	More bool `json:"more"`
}

// settleDebts settles some of the debts of q.Key, and takes them off. It returns what is stored
// then. Two callers may settle one debt at once: the second time is a replay of the first.
func (e *Engine) settleDebts(ctx context.Context, q Query, v View, debts map[string]Debt, skip *silent) (View, Finished, error) {
	settling, cancel := context.WithTimeout(ctx, lookTime-answerTime)
	defer cancel()
	var n Finished
	var failures []error
	var old []string
	done := map[string]Debt{}
	for _, id := range slices.Sorted(maps.Keys(debts)) {
		err := settling.Err()
		if err == nil {
			err = e.settleIfHeard(settling, q.Key, id, debts[id], skip)
		}
		switch {
		case errors.Is(err, TooOld):
			n.TooOld++
			old = append(old, id)
		case err != nil:
			failures = append(failures, err)
			n.Left++
			continue
		default:
			n.Settled++
		}
		done[id] = debts[id]
	}
	clearing, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	v, err := e.takeOff(clearing, q, v, done)
	for _, id := range old {
		e.opts.Logger.Warn("headroom: a debt is older than ids are remembered; it is dropped, and may be unpaid",
			"subject", q.Key.Subject, "meter", q.Key.Meter, "operation", id, "organisation", debts[id].To,
			"units", debts[id].Cost, "since", debts[id].Since, "error", err)
	}
	return v, n, errors.Join(append(failures, err)...)
}

// settleIfHeard is settleDebt, unless the organisation is silent.
func (e *Engine) settleIfHeard(ctx context.Context, key Key, id string, d Debt, skip *silent) error {
	if err, found := skip.errors.Load(d.To); found {
		return err.(error)
	}
	answer, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := e.settleDebt(answer, key, id, d)
	failed := CodeOf(err).storeFailed() || errors.Is(err, context.DeadlineExceeded)
	if failed && ctx.Err() == nil {
		skip.errors.Store(d.To, err)
	}
	return err
}

// settleDebt charges the organisation that is owed. If the organisation remembers anything else
// under its id of the operation, the debt counts as paid: an id stands for one piece of work.
func (e *Engine) settleDebt(ctx context.Context, key Key, id string, d Debt) error {
	at := Request{
		Subject: d.To, Meter: key.Meter, Operation: OperationWithin(key.Subject, id), Cost: d.Cost, Began: d.Since,
		Over: RecordOverLimit, AnyPlan: true,
	}
	if d.Given {
		at.Now = d.Since
	}
	if err := e.validate(at, true); err != nil {
		return err
	}
	_, _, err := e.attempt(ctx, start{}, query(at), e.rules.settleAlways(at))
	if errors.Is(err, Conflict) {
		return nil
	}
	return err
}

// takeOff takes debts off, if they are still there, and returns what is stored then.
func (e *Engine) takeOff(ctx context.Context, q Query, v View, debts map[string]Debt) (View, error) {
	for range maxRefiles {
		c := e.rules.begin(v, q.Key, q.Now)
		c.Rotate = time.Time{} // generations of ids turn with requests, not with debts
		for _, id := range slices.Sorted(maps.Keys(debts)) {
			if d, there := v.State.Debts[id]; there && d.String() == debts[id].String() {
				c.Debts = append(c.Debts, DebtStep{ID: id, Was: &d})
			}
		}
		if len(c.Debts) == 0 {
			return v, nil
		}
		after, done, err := e.store.Commit(ctx, c)
		if err != nil {
			return v, err
		}
		if v = after; done {
			return v, nil
		}
	}
	return v, Errorf(Contended, nil,
		"others changed the state of %q; its debts stay until the next look", q.Key.Subject)
}

const (
	owingPage = 100 // how many keys FinishDebts asks for at a time
	finishers = 8   // how many of them it sees to at once
)

// FinishDebts settles the debts that nobody looks at: those of charges within an organisation whose
// callers died before the organisation was settled. Run it now and then. It may run beside
// everything else, and twice at a time.
//
// An error says why some debts are left; the others are settled. An organisation that cannot be
// charged is asked once in a run, so that it does not take the time of the others. If ctx ends
// before the last debt, Finished.More is true.
func (e *Engine) FinishDebts(ctx context.Context) (Finished, error) {
	var all Finished
	var failures []error
	var skip silent
	var mu sync.Mutex
	see := func(key Key) {
		n, err := e.settleAll(ctx, key, &skip)
		mu.Lock()
		defer mu.Unlock()
		all.Settled, all.TooOld, all.Left = all.Settled+n.Settled, all.TooOld+n.TooOld, all.Left+n.Left
		if err != nil && ctx.Err() == nil && len(failures) < owingPage {
			failures = append(failures, fmt.Errorf("debts of subject %q, meter %q: %w", key.Subject, key.Meter, err))
		}
	}
	for after := ""; ; {
		keys, next, err := e.store.Owing(ctx, after, owingPage)
		seeTo(ctx, keys, see)
		switch {
		case ctx.Err() != nil:
			all.More = true
			return all, errors.Join(failures...)
		case err != nil:
			return all, errors.Join(append(failures, err)...)
		case next == "":
			return all, errors.Join(failures...)
		}
		after = next
	}
}

// seeTo calls see for each of the keys, some at once, until ctx ends.
func seeTo(ctx context.Context, keys []Key, see func(Key)) {
	if len(keys) == 1 && ctx.Err() == nil {
		see(keys[0])
		return
	}
	left := make(chan Key, len(keys))
	for _, key := range keys {
		left <- key
	}
	close(left)
	var all sync.WaitGroup
	for range min(finishers, len(keys)) {
		all.Go(func() {
			for key := range left {
				if ctx.Err() == nil {
					see(key)
				}
			}
		})
	}
	all.Wait()
}

// settleAll settles all debts of a key.
func (e *Engine) settleAll(ctx context.Context, key Key, skip *silent) (Finished, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime+answerTime) // and a second to load the key
	defer cancel()
	q := Query{Key: key}
	v, err := e.store.Load(ctx, q)
	if err != nil || len(v.State.Debts) == 0 {
		return Finished{}, err
	}
	_, n, err := e.settleDebts(ctx, q, v, v.State.Debts, skip)
	return n, err
}
