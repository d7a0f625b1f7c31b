package dynamostore

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// formTries bounds how often a write is built anew because the item has another form than it was built for, while the guard of the change itself holds.
const formTries = 12

// Commit implements headroom.Store. It writes blindly, for an item in its usual form: formatted, no ids in the ledger. What else is true the failed condition tells, and the write is built again for the item as it is.
func (s *Store) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	seen := item{key: c.Key, formatted: !c.Epoch.IsZero()}
	for try := range formTries {
		e := s.opts.build(c, seen)
		attrs, got, err := s.update(ctx, c.Key.Subject, e)
		if err == nil {
			after, err := s.opts.decode(attrs, c.Key, got.now)
			if err != nil {
				return headroom.View{}, false, headroom.Errorf(headroom.CodeOutcomeUnknown, err, "the item was written but does not read")
			}
			s.tidy(ctx, after, got.now, c)
			v, err := after.view("", orNow(c.Now, got.now))
			return v, true, err
		}
		var failed *types.ConditionalCheckFailedException
		if !errors.As(err, &failed) {
			return headroom.View{}, false, err
		}
		var now time.Time
		if seen, now, err = s.found(ctx, c, got.now, failed, try); err != nil {
			return headroom.View{}, false, got.doubtful(err)
		}
		v, err := seen.view(c.Operation, orNow(c.Now, now))
		if err != nil {
			return headroom.View{}, false, got.doubtful(err)
		}
		if !c.Holds(v) {
			return v, false, nil
		}
		if seen.needsAdopting() {
			if err := s.adopt(ctx, &seen, c.Rotate); err != nil {
				return headroom.View{}, false, err
			}
			// The item now has the label that the change was to give it.
			if !seen.formatted {
				c.Epoch, c.Rotate = c.Rotate, time.Time{}
			}
			seen.formatted, seen.turned = true, nil
		}
	}
	return headroom.View{}, false, headroom.Errorf(headroom.CodeContended, nil, "the item of %q changed its form %d times in a row; nothing was written, try again", c.Key.Subject, formTries)
}

// found returns the item that a failed condition was checked against, with what the ledger adds to it, and the time. engines is the time of the answer that says so.
func (s *Store) found(ctx context.Context, c headroom.Change, engines time.Time, failed *types.ConditionalCheckFailedException, try int) (it item, now time.Time, err error) {
	now = engines
	if failed.Item != nil {
		s.sendsOld.CompareAndSwap(oldUnknown, oldSent)
	}
	switch {
	case failed.Item != nil || s.sendsOld.Load() == oldSent && try == 0:
		it, err = s.opts.decode(failed.Item, c.Key, now)
	default:
		// Where there is no item a second write does not fail.
		s.sendsOld.CompareAndSwap(oldSent, oldMissed)
		it, now, err = s.get(ctx, c.Key, true)
	}
	if err != nil {
		return it, now, err
	}
	folds := false
	for _, step := range c.Steps {
		folds = folds || len(step.Fold) > 0
	}
	return it, now, s.complete(ctx, &it, c.Operation, folds, true)
}

// build writes c for an item in the form of seen.
func (o Options) build(c headroom.Change, seen item) *expression {
	var e expression
	meter := c.Key.Meter
	field := func(name string) string { return e.name(o.field(meter, name)) }
	id, charge := idName(c.Operation), str(c.Charge.String())

	plan := e.name(o.Names.Plan)
	if c.PlanOrNone {
		e.require("(" + plan + " = " + e.value(str(c.Plan)) + " OR attribute_not_exists(" + plan + ") OR " + plan + " = " + e.value(str("")) + ")")
	} else {
		e.equal(plan, str(c.Plan))
	}

	young := o.field(meter, "Ops")
	if seen.formatted {
		e.equal(field("Format"), num(format))
		e.equal(field("Epoch"), num(c.Epoch.Unix()))
		e.equal(field("Gen"), num(seen.gen))
		e.absent(e.name(young, id))
		e.absent(e.name(o.field(meter, "OpsBefore"), id))
	} else {
		e.absent(field("Format"))
		e.absent(field("Ops")) // an attribute of the application's own by this name is not ours to overwrite
		e.set(field("Format"), num(format))
		e.set(field("Gen"), num(0))
		e.set(field("OpsBefore"), &types.AttributeValueMemberM{})
	}
	switch {
	case c.Rotate.IsZero():
		e.set(e.name(young, id), charge)
	default:
		e.set(field("Ops"), &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{id: charge}})
		e.set(field("Epoch"), num(c.Rotate.Unix()))
		if seen.formatted {
			e.setTo(field("OpsBefore"), field("Ops"))
			e.set(field("EpochBefore"), num(c.Epoch.Unix()))
		}
		if seen.gen != 0 && seen.spilt.Before(c.Epoch) {
			// Each id in the ledger is now two generations old.
			e.set(field("Gen"), num(0))
			e.remove(field("Spilt"))
		}
	}
	for _, step := range c.Steps {
		o.buildStep(&e, meter, step, seen)
	}
	return &e
}

func (o Options) buildStep(e *expression, meter string, step headroom.Step, seen item) {
	names := o.counter(meter, step.Limit)
	count, span := e.name(names.count), e.name(names.span)
	switch {
	case !step.From.IsZero():
		e.equal(span, str(spanText(step.From)))
		if names.window != "" {
			e.equal(e.name(names.window), str(step.From.Key))
		}
	case names.window != "":
		e.absent(e.name(names.window))
	default:
		e.absent(span)
	}
	past := names.past
	switch {
	case step.From.IsZero():
		e.set(count, num(step.Add))
		e.setTo(e.name(past), "if_not_exists("+e.name(past)+", "+e.value(&types.AttributeValueMemberM{})+")")
	case step.Opens():
		e.setTo(e.name(past, unix(step.From.Start)), "if_not_exists("+count+", "+e.value(num(0))+")")
		e.set(count, num(step.Add))
	default:
		if seen.uncounted[step.Limit] {
			e.absent(count)
		} else {
			e.require(count + " BETWEEN " + e.value(num(step.Min)) + " AND " + e.value(num(step.Max)))
		}
		add := step.Add
		for _, f := range step.Fold {
			add += f.Units
			if seen.holdsTotal(step.Limit, f.Start) {
				at := e.name(past, unix(f.Start))
				e.equal(at, num(f.Units))
				e.remove(at)
			}
		}
		e.add(count, add)
	}
	if step.To.Start.Equal(step.From.Start) && !step.From.IsZero() {
		return
	}
	e.set(span, str(spanText(step.To)))
	if names.window != "" {
		e.set(e.name(names.window), str(step.To.Key))
	}
}

// holdsTotal reports whether the item itself, rather than the ledger, holds a total. Of an item not yet seen it is assumed.
func (it item) holdsTotal(limit string, start time.Time) bool {
	if it.past == nil {
		return true
	}
	return it.past[limit].attrs[unix(start)] != nil
}

// needsAdopting reports whether another writer, that knows only the window and the count, has made the item or turned its window.
func (it item) needsAdopting() bool {
	return len(it.turned) > 0 || !it.formatted && len(it.state.Counters) > 0
}

// adopt gives an item that another writer made or turned the form of our own, and changes no count. The totals that the other writer did not keep are marked as unknown.
func (s *Store) adopt(ctx context.Context, it *item, epoch time.Time) error {
	var e expression
	meter := it.key.Meter
	field := func(name string) string { return e.name(s.opts.field(meter, name)) }
	if it.formatted {
		e.equal(field("Format"), num(format))
	} else {
		e.absent(field("Format"))
		e.set(field("Format"), num(format))
		e.set(field("Gen"), num(0))
		e.set(field("Epoch"), num(epoch.Unix()))
		e.set(field("Ops"), &types.AttributeValueMemberM{})
		e.set(field("OpsBefore"), &types.AttributeValueMemberM{})
	}
	for limit, counter := range it.state.Counters {
		names := s.opts.counter(meter, limit)
		t, turned := it.turned[limit]
		switch {
		case turned && !t.known.IsZero():
			e.equal(e.name(names.span), str(spanText(t.known)))
			for _, start := range t.lost {
				e.set(e.name(names.past, unknownPast+unix(start)), &types.AttributeValueMemberBOOL{Value: true})
			}
		case turned || !it.formatted:
			e.absent(e.name(names.span))
			e.set(e.name(names.past), &types.AttributeValueMemberM{})
		default:
			continue
		}
		e.equal(e.name(names.window), str(counter.Window.Key))
		e.set(e.name(names.span), str(spanText(counter.Window)))
	}
	_, _, err := s.update(ctx, it.key.Subject, &e)
	var condition *types.ConditionalCheckFailedException
	if errors.As(err, &condition) {
		return nil // somebody else did it, or the window turned: the next look tells
	}
	return err
}
