package dynamostore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// formTries bounds how often a write is built anew because the item has another form than the write
// was built for, while the guard of the change itself holds.
const formTries = 12

// commit is a Commit under way.
type commit struct {
	*Store
	change headroom.Change
	seen   item // the item as it was seen last. At first, as it most often is
	tries  int
	unsure bool // something that was sent may yet take effect
	listed bool // the ledger has the rows of the debts that the change adds
}

// outcome is what became of a try.
type outcome byte

const (
	again   outcome = iota // the item has another form than the write was built for
	written                // the change is done
	refused                // its guard does not hold
)

// Commit implements headroom.Store. The first try is blind. It is written for an item in its usual
// form, with no ids in the ledger unless the store remembers some. If the item has another form,
// the failed condition tells, and the next try is written for that.
func (s *Store) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	w := &commit{Store: s, change: c, seen: item{key: c.Key}}
	if !c.Epoch.IsZero() {
		w.seen.formatted, w.seen.format = true, s.layout.format
	}
	if charged, err := w.recall(ctx); err != nil || charged {
		if err != nil {
			return headroom.View{}, false, err
		}
		v, err := w.replayed(ctx)
		return v, false, err
	}
	var v headroom.View
	for ; w.tries < formTries; w.tries++ {
		var end outcome
		var err error
		if v, end, err = w.try(ctx); end != again || err != nil {
			return v, end == written, err
		}
	}
	if len(c.Grants) > 0 && !s.layout.numericGrants(w.seen) {
		return v, false, nil // others drew on the grants: the engine waits a little and decides again
	}
	return headroom.View{}, false, w.doubtful(headroom.Errorf(headroom.Contended, nil, "the item of %q changed its form %d times in a row; nothing was written, try again", c.Key.Subject, formTries))
}

// doubtful returns an error for what it means if something that was sent may yet take effect.
func (w *commit) doubtful(err error) error { return answer{unsure: w.unsure}.doubtful(err) }

// recall looks in the ledger if the store remembers that it holds ids of this key. It reports
// whether one is there that the change takes for new.
func (w *commit) recall(ctx context.Context) (charged bool, err error) {
	g, ok := w.moved.recall(w.change.Key, w.change.Epoch)
	if !ok {
		return false, nil
	}
	w.seen.under(g)
	if err := w.lookUp(ctx, &w.seen, w.change.IDs(), true); err != nil {
		return false, err
	}
	return slices.ContainsFunc(w.change.Records, func(r headroom.RecordStep) bool {
		return r.Was == nil && w.seen.fromLedger[idName(r.ID)] != ""
	}), nil
}

// replayed returns the view of an id that the ledger has.
func (w *commit) replayed(ctx context.Context) (headroom.View, error) {
	it, now, err := w.get(ctx, w.change.Key, true)
	if err != nil {
		return headroom.View{}, err
	}
	it.knows(w.seen)
	if err := w.complete(ctx, &it, w.change.IDs(), false, true); err != nil {
		return headroom.View{}, err
	}
	return it.view(w.change.IDs(), orNow(w.change.Now, now))
}

// try sends the change once, written for the item as it was seen.
func (w *commit) try(ctx context.Context) (headroom.View, outcome, error) {
	if err := w.prepare(ctx); err != nil {
		return headroom.View{}, refused, w.doubtful(err)
	}
	c := w.change
	if w.layout.writes(w.seen) < formatDebts {
		c = c.WithoutDebts()
	}
	e := w.layout.build(c, w.seen)
	e.once = !c.Repeatable()
	attrs, got, err := w.update(ctx, c.Key.Subject, e)
	w.unsure = w.unsure || got.unsure
	if err == nil {
		v, err := w.done(ctx, c, attrs, got.now)
		return v, written, err
	}
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return headroom.View{}, refused, w.doubtful(err)
	}
	now, err := w.find(ctx, failed, got.now)
	if err != nil {
		return headroom.View{}, refused, w.doubtful(err)
	}
	v, err := w.seen.view(c.IDs(), orNow(c.Now, now))
	if err != nil {
		return headroom.View{}, refused, w.doubtful(err)
	}
	if v.Unsure = w.unsure; w.change.Unmet(v) == "" {
		return v, again, nil
	}
	if w.listed {
		w.unlist(ctx, c.Key, charged(w.change, v))
	}
	return v, refused, nil
}

// prepare makes the writes that must come before that of the change.
func (w *commit) prepare(ctx context.Context) error {
	if w.layout.needsAdopting(w.change, w.seen) {
		if err := w.adopt(ctx, w.change, w.seen); err != nil {
			return err
		}
		if !w.seen.formatted { // the item has the label now that the change was to give it
			w.change.Epoch, w.change.Rotate = w.change.Rotate, time.Time{}
		}
		w.seen.formatted, w.seen.format = true, w.layout.writes(w.seen)
		w.seen.turned, w.seen.uncounted = nil, nil
	}
	if w.listed || w.layout.writes(w.seen) < formatDebts {
		return nil
	}
	w.listed = true
	return w.list(ctx, w.change)
}

// done is what follows a write. c is the change as it was written, attrs is the item after it.
func (w *commit) done(ctx context.Context, c headroom.Change, attrs attributes, now time.Time) (headroom.View, error) {
	after, err := w.layout.decode(attrs, c.Key, now)
	switch {
	case err == nil:
		w.moved.learn(after)
		w.tidy(ctx, after, now, c)
	case !w.layout.counted(c, attrs):
		return headroom.View{}, headroom.Errorf(headroom.OutcomeUnknown, err, "the change was written, but a count that it changed does not read")
	default:
		// Nothing that the write depends on is wrong, or it would not have been made.
		w.opts.Logger.Warn("headroom: an item does not read as a whole", "subject", c.Key.Subject, "error", err)
	}
	w.unlist(ctx, c.Key, ended(c))
	return after.view(c.IDs(), orNow(c.Now, now))
}

// find sees the item that a failed condition was checked against, with what the ledger adds to it,
// and returns the time. engines is the time of the answer that the condition failed.
func (w *commit) find(ctx context.Context, failed *types.ConditionalCheckFailedException, engines time.Time) (now time.Time, err error) {
	var it item
	now = engines
	if failed.Item != nil {
		w.sendsOld.CompareAndSwap(oldUnknown, oldSent)
	}
	switch {
	case failed.Item != nil || w.sendsOld.Load() == oldSent && w.tries == 0:
		it, err = w.layout.decode(failed.Item, w.change.Key, now)
	default:
		// Where there is no item, a second write does not fail.
		w.sendsOld.CompareAndSwap(oldSent, oldMissed)
		it, now, err = w.get(ctx, w.change.Key, true)
	}
	if err != nil {
		return now, err
	}
	w.moved.learn(it)
	it.knows(w.seen)
	w.seen = it
	old := slices.ContainsFunc(w.change.Steps, func(step headroom.Step) bool { return len(step.Fold)+len(step.Past) > 0 })
	return now, w.complete(ctx, &w.seen, w.change.IDs(), old, true)
}

// counted reports whether the counts that c adds to read.
func (l layout) counted(c headroom.Change, attrs attributes) bool {
	return !slices.ContainsFunc(c.Steps, func(step headroom.Step) bool {
		if step.Corrects() {
			return false
		}
		_, ok := integer(attrs[l.counter(c.Key.Meter, step.Limit).count])
		return !ok
	})
}

// needsAdopting reports whether a change cannot be one write: it closes a foreign window, and the
// map that is to keep its total is not there yet.
func (l layout) needsAdopting(c headroom.Change, seen item) bool {
	return slices.ContainsFunc(c.Steps, func(step headroom.Step) bool {
		return step.Opens && l.form(c.Key.Meter, step, seen) == formForeign
	})
}

// adopt gives an item our own form where a foreign window is in the way of a change. It changes no
// count.
func (s *Store) adopt(ctx context.Context, c headroom.Change, seen item) error {
	var e expression
	meter := c.Key.Meter
	field := func(name string) string { return e.name(s.layout.field(meter, name)) }
	s.layout.buildFormat(&e, meter, seen)
	if !seen.formatted {
		e.absent(field("Ops"))
		e.set(field("Gen"), num(0))
		e.set(field("Epoch"), num(c.Rotate.Unix()))
		for _, name := range []string{"Ops", "OpsBefore", "Holds", "Grants"} {
			e.set(field(name), &types.AttributeValueMemberM{})
		}
	}
	for _, step := range c.Steps {
		if s.layout.form(meter, step, seen) != formForeign {
			continue
		}
		names := s.layout.counter(meter, step.Limit)
		e.absent(e.name(names.span))
		e.equal(e.name(names.window), str(step.From.Key))
		e.set(e.name(names.past), &types.AttributeValueMemberM{})
		e.set(e.name(names.span), str(spanText(step.From)))
		if seen.uncounted[step.Limit] {
			e.absent(e.name(names.count))
			e.set(e.name(names.count), num(0))
		}
	}
	_, _, err := s.update(ctx, c.Key.Subject, &e)
	var condition *types.ConditionalCheckFailedException
	if errors.As(err, &condition) {
		return nil // somebody else did it, or the window turned: the next look tells
	}
	return err
}
