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

// commit is a CommitAll under way: changes of several meters of one subject, and most often of one.
type commit struct {
	*Store
	parts  []part
	tries  int
	unsure bool // something that was sent may yet take effect
	listed bool // the ledger has the rows of the debts that the changes add
}

// part is the change of one meter.
type part struct {
	change headroom.Change
	seen   item // the item as it was seen last. At first, as it most often is
}

// outcome is what became of a try.
type outcome byte

const (
	again   outcome = iota // the item has another form than the write was built for
	written                // the changes are done
	refused                // the guard of one does not hold
)

// Commit implements headroom.Store.
func (s *Store) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	views, done, err := s.CommitAll(ctx, []headroom.Change{c})
	if err != nil {
		return headroom.View{}, false, err
	}
	return views[0], done, nil
}

// CommitAll implements headroom.Joiner. The first try is written for the item as it was seen when
// the changes were made. If it was not, the try is blind: it is written for an item in its usual
// form, with no ids in the ledger unless the store remembers some. If the item has another form by
// now, the failed condition tells, and the next try is written for that.
func (s *Store) CommitAll(ctx context.Context, changes []headroom.Change) ([]headroom.View, bool, error) {
	w := &commit{Store: s}
	for _, c := range changes {
		p := part{change: c, seen: item{key: c.Key}}
		if it, seen := c.Memo.(item); seen && it.key == c.Key {
			p.seen = it
		} else if !c.Epoch.IsZero() {
			p.seen.formatted, p.seen.format, p.seen.guessed = true, s.layout.format, true
			if ofBuckets(c) {
				p.seen.format = max(p.seen.format, formatBuckets)
			}
		}
		w.parts = append(w.parts, p)
	}
	if err := w.together(); err != nil {
		return nil, false, err
	}
	if charged, err := w.recall(ctx); err != nil || charged {
		if err != nil {
			return nil, false, err
		}
		views, err := w.replayed(ctx)
		return views, false, err
	}
	var views []headroom.View
	for ; w.tries < formTries; w.tries++ {
		var end outcome
		var err error
		if views, end, err = w.try(ctx); end != again || err != nil {
			return views, end == written, err
		}
	}
	if slices.ContainsFunc(w.parts, func(p part) bool { return len(p.change.Grants) > 0 && !s.layout.numericGrants(p.seen) }) {
		return views, false, nil // others drew on the grants: the engine waits a little and decides again
	}
	return nil, false, w.doubtful(headroom.Errorf(headroom.Contended, nil, "the item of %q changed its form %d times in a row; nothing was written, try again", w.subject(), formTries))
}

// together checks that the changes are of one item.
func (w *commit) together() error {
	var keys []headroom.Key
	for _, p := range w.parts {
		keys = append(keys, p.change.Key)
	}
	return oneSubject(keys)
}

func (w *commit) subject() string { return w.parts[0].change.Key.Subject }

// doubtful returns an error for what it means if something that was sent may yet take effect.
func (w *commit) doubtful(err error) error { return answer{unsure: w.unsure}.doubtful(err) }

// recall looks in the ledger if the store remembers that it holds ids of the keys. It reports
// whether one is there that a change takes for new.
func (w *commit) recall(ctx context.Context) (charged bool, err error) {
	for i := range w.parts {
		p := &w.parts[i]
		if p.seen.guessed {
			g, ok := w.moved.recall(p.change.Key, p.change.Epoch)
			if !ok {
				continue
			}
			p.seen.under(g)
		}
		if p.seen.gen == 0 {
			continue
		}
		if err := w.lookUp(ctx, &p.seen, p.change.IDs(), true); err != nil {
			return false, err
		}
		charged = charged || slices.ContainsFunc(p.change.Records, func(r headroom.RecordStep) bool {
			return r.Was == nil && p.seen.fromLedger[idName(r.ID)] != ""
		})
	}
	return charged, nil
}

// replayed returns the views of changes with an id that the ledger has.
func (w *commit) replayed(ctx context.Context) ([]headroom.View, error) {
	attrs, now, err := w.attributes(ctx, w.subject(), true)
	if err == nil {
		err = w.see(ctx, attrs, now)
	}
	if err != nil {
		return nil, err
	}
	return w.views(now)
}

// see takes note of what the item holds, with what the ledger adds to it.
func (w *commit) see(ctx context.Context, attrs attributes, now time.Time) error {
	for i := range w.parts {
		p := &w.parts[i]
		it, err := w.layout.decode(attrs, p.change.Key, now)
		if err != nil {
			return err
		}
		w.moved.learn(it)
		it.knows(p.seen)
		p.seen = it
		old := slices.ContainsFunc(p.change.Steps, func(step headroom.Step) bool { return len(step.Fold)+len(step.Past) > 0 })
		if err := w.complete(ctx, &p.seen, p.change.IDs(), old, true); err != nil {
			return err
		}
	}
	return nil
}

// views are what the item shows for each change.
func (w *commit) views(now time.Time) ([]headroom.View, error) {
	views := make([]headroom.View, len(w.parts))
	for i, p := range w.parts {
		var err error
		if views[i], err = p.seen.view(p.change.IDs(), orNow(p.change.Now, now)); err != nil {
			return nil, err
		}
		views[i].Unsure = w.unsure
	}
	return views, nil
}

// try sends the changes once, written for the item as it was seen.
func (w *commit) try(ctx context.Context) ([]headroom.View, outcome, error) {
	if err := w.prepare(ctx); err != nil {
		return nil, refused, w.doubtful(err)
	}
	if err := w.knowsMeters(); err != nil {
		return nil, refused, w.doubtful(err)
	}
	e, changes := w.build()
	if err := e.fits(len(changes)); err != nil {
		return nil, refused, w.doubtful(err)
	}
	attrs, got, err := w.update(ctx, w.subject(), e)
	w.unsure = w.unsure || got.unsure
	if err == nil {
		views, err := w.done(ctx, changes, attrs, got.now)
		return views, written, err
	}
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return nil, refused, w.doubtful(err)
	}
	now, err := w.find(ctx, failed, got.now)
	if err != nil {
		return nil, refused, w.doubtful(err)
	}
	views, err := w.views(now)
	if err != nil {
		return nil, refused, w.doubtful(err)
	}
	unmet := false
	for i, p := range w.parts {
		unmet = unmet || p.change.Unmet(views[i]) != ""
	}
	if !unmet {
		return views, again, nil
	}
	if w.listed {
		for i, p := range w.parts {
			w.unlist(ctx, p.change.Key, charged(p.change, views[i]))
		}
	}
	return views, refused, nil
}

// knowsMeters returns an error if programs read the item that do not know of several meters in one
// request.
func (w *commit) knowsMeters() error {
	older := func(p part) bool { return w.layout.writes(p.seen) < formatDebts }
	if len(w.parts) == 1 || !slices.ContainsFunc(w.parts, older) {
		return nil
	}
	return headroom.Errorf(headroom.Rejected, nil,
		"items of format %d have no requests of several meters; nothing was written. Let Headroom write the newest format, once every program reads it", formatOne)
}

// build writes the changes in one expression, and returns them as they are written.
func (w *commit) build() (*expression, []headroom.Change) {
	e := &expression{once: true}
	changes := make([]headroom.Change, len(w.parts))
	for i, p := range w.parts {
		if changes[i] = p.change; w.layout.writes(p.seen) < formatDebts {
			changes[i] = p.change.WithoutDebts()
		}
		if first := changes[0]; i == 0 || p.change.Plan != first.Plan || p.change.PlanOrNone != first.PlanOrNone {
			w.layout.buildPlan(e, p.change)
		}
		w.layout.build(e, changes[i], p.seen)
		e.once = e.once && !p.change.Repeatable() // if one cannot be made twice, none can
	}
	return e, changes
}

// prepare makes the writes that must come before that of the changes.
func (w *commit) prepare(ctx context.Context) error {
	for i := range w.parts {
		p := &w.parts[i]
		if !w.layout.needsAdopting(p.change, p.seen) {
			continue
		}
		if err := w.adopt(ctx, p.change, p.seen); err != nil {
			return err
		}
		if !p.seen.formatted { // the item has the label now that the change was to give it
			p.change.Epoch, p.change.Rotate = p.change.Rotate, time.Time{}
		}
		p.seen.formatted, p.seen.format = true, w.layout.writes(p.seen)
		p.seen.turned, p.seen.uncounted = nil, nil
	}
	if w.listed {
		return nil
	}
	for _, p := range w.parts {
		if w.layout.writes(p.seen) < formatDebts {
			continue
		}
		w.listed = true
		if err := w.list(ctx, p.change); err != nil {
			return err
		}
	}
	return nil
}

// done is what follows a write. changes are as they were written, attrs is the item after them.
func (w *commit) done(ctx context.Context, changes []headroom.Change, attrs attributes, now time.Time) ([]headroom.View, error) {
	views, items := make([]headroom.View, len(changes)), make([]item, len(changes))
	reads := true
	for i, c := range changes {
		var err error
		items[i], err = w.layout.decode(attrs, c.Key, now)
		switch {
		case err == nil:
			w.moved.learn(items[i])
		case !w.layout.counted(c, attrs):
			return nil, headroom.Errorf(headroom.OutcomeUnknown, err, "the change was written, but a count that it changed does not read")
		default:
			// Nothing that the write depends on is wrong, or it would not have been made.
			reads = false
			w.opts.Logger.Warn("headroom: an item does not read as a whole", "subject", c.Key.Subject, "error", err)
		}
	}
	if reads {
		w.tidy(ctx, items, now, changes)
	}
	for i, c := range changes {
		w.unlist(ctx, c.Key, ended(c))
		var err error
		if views[i], err = items[i].view(c.IDs(), orNow(c.Now, now)); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// find sees the item that a failed condition was checked against, with what the ledger adds to it,
// and returns the time. engines is the time of the answer that the condition failed.
func (w *commit) find(ctx context.Context, failed *types.ConditionalCheckFailedException, engines time.Time) (now time.Time, err error) {
	attrs, now := failed.Item, engines
	if attrs != nil {
		w.sendsOld.CompareAndSwap(oldUnknown, oldSent)
	}
	if attrs == nil && (w.sendsOld.Load() != oldSent || w.tries > 0) {
		// Where there is no item, a second write does not fail.
		w.sendsOld.CompareAndSwap(oldSent, oldMissed)
		if attrs, now, err = w.attributes(ctx, w.subject(), true); err != nil {
			return now, err
		}
	}
	return now, w.see(ctx, attrs, now)
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
