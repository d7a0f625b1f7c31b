package dynamostore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// formTries bounds how often a write is built anew because the item has another form than it was built for, while the guard of the change itself holds.
const formTries = 12

// Commit implements headroom.Store. It writes blindly, for an item in its usual form: formatted, no ids in the ledger unless it is remembered that there are.
// What else is true the failed condition tells, and the write is built again for the item as it is.
func (s *Store) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	seen := item{key: c.Key, formatted: !c.Epoch.IsZero()}
	if g, ok := s.moved.recall(c.Key, c.Epoch); ok {
		seen.under(g)
		if charged, err := s.lookUp(ctx, &seen, idName(c.Operation), true); err != nil {
			return headroom.View{}, false, err
		} else if charged {
			v, err := s.replayed(ctx, c, seen)
			return v, false, err
		}
	}
	for try := range formTries {
		if s.opts.needsAdopting(c, seen) {
			if err := s.adopt(ctx, c, seen); err != nil {
				return headroom.View{}, false, err
			}
			// The item now has the label that the change was to give it.
			if !seen.formatted {
				c.Epoch, c.Rotate = c.Rotate, time.Time{}
			}
			seen.formatted, seen.turned = true, nil
		}
		e := s.opts.build(c, seen)
		attrs, got, err := s.update(ctx, c.Key.Subject, e)
		if err == nil {
			after, err := s.opts.decode(attrs, c.Key, got.now)
			switch {
			case err == nil:
				s.moved.learn(after)
				s.tidy(ctx, after, got.now, c)
			case !s.opts.counted(c, attrs):
				return headroom.View{}, false, headroom.Errorf(headroom.CodeOutcomeUnknown, err, "the charge was written, but the count that it was added to does not read")
			default:
				// Nothing that the write depends on is wrong, or it would not have been made.
				s.opts.Logger.Warn("headroom: an item does not read as a whole", "subject", c.Key.Subject, "error", err)
			}
			v, err := after.view("", orNow(c.Now, got.now))
			return v, true, err
		}
		var failed *types.ConditionalCheckFailedException
		if !errors.As(err, &failed) {
			return headroom.View{}, false, err
		}
		var now time.Time
		if seen, now, err = s.found(ctx, c, seen.generation(), got.now, failed, try); err != nil {
			return headroom.View{}, false, got.doubtful(err)
		}
		v, err := seen.view(c.Operation, orNow(c.Now, now))
		if err != nil {
			return headroom.View{}, false, got.doubtful(err)
		}
		if !c.Holds(v) {
			return v, false, nil
		}
	}
	return headroom.View{}, false, headroom.Errorf(headroom.CodeContended, nil, "the item of %q changed its form %d times in a row; nothing was written, try again", c.Key.Subject, formTries)
}

// counted reports whether the counts that c adds to read.
func (o Options) counted(c headroom.Change, attrs map[string]types.AttributeValue) bool {
	return !slices.ContainsFunc(c.Steps, func(step headroom.Step) bool {
		_, ok := integer(attrs[o.counter(c.Key.Meter, step.Limit).count])
		return !ok
	})
}

// replayed returns the view of an id that the ledger has.
func (s *Store) replayed(ctx context.Context, c headroom.Change, seen item) (headroom.View, error) {
	it, now, err := s.get(ctx, c.Key, true)
	if err != nil {
		return headroom.View{}, err
	}
	if it.state.Epoch.Equal(c.Epoch) {
		it.fromLedger = seen.fromLedger
	} else if err := s.complete(ctx, &it, c.Operation, false, true); err != nil {
		return headroom.View{}, err
	}
	return it.view(c.Operation, orNow(c.Now, now))
}

// found returns the item that a failed condition was checked against, with what the ledger adds to it, and the time. engines is the time of the answer that says so, looked the generation in which the ledger did not have the id.
func (s *Store) found(ctx context.Context, c headroom.Change, looked generation, engines time.Time, failed *types.ConditionalCheckFailedException, try int) (it item, now time.Time, err error) {
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
	s.moved.learn(it)
	it.looked = it.gen == looked.gen && it.state.Epoch.Equal(looked.epoch)
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
		if seen.gen != 0 {
			e.equal(field("Spilt"), num(seen.spilt.Unix()))
		}
		// An id is not known to be absent from what is no map.
		e.isMap(field("Ops"))
		e.isMap(field("OpsBefore"))
		e.absent(e.name(young, id))
		e.absent(e.name(o.field(meter, "OpsBefore"), id))
	} else {
		e.absent(field("Format"))
		e.absent(field("Ops")) // an attribute of the application's own by this name is not ours to overwrite
		e.set(field("Format"), num(format))
		e.set(field("Gen"), num(0))
		e.set(field("OpsBefore"), &types.AttributeValueMemberM{})
	}
	if c.Rotate.IsZero() && seen.formatted {
		e.set(e.name(young, id), charge)
	} else {
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
	count, span, past := e.name(names.count), e.name(names.span), names.past
	turn, turned := seen.turned[step.Limit]
	foreign := o.foreign(meter, step, seen)
	switch {
	case step.From.IsZero() && names.window != "":
		e.absent(e.name(names.window))
	case step.From.IsZero() || foreign:
		e.absent(span)
	case turned:
		e.equal(span, str(spanText(turn.known)))
		for _, start := range turn.lost {
			e.set(e.name(past, unknownPast+unix(start)), &types.AttributeValueMemberBOOL{Value: true})
		}
	default:
		e.equal(span, str(spanText(step.From)))
	}
	if !step.From.IsZero() && names.window != "" {
		e.equal(e.name(names.window), str(step.From.Key))
	}
	switch {
	case step.From.IsZero():
		e.set(count, num(step.Add))
		e.setTo(e.name(past), "if_not_exists("+e.name(past)+", "+e.value(&types.AttributeValueMemberM{})+")")
	case step.Opens():
		e.isMap(e.name(past))
		e.setTo(e.name(past, unix(step.From.Start)), "if_not_exists("+count+", "+e.value(num(0))+")")
		e.set(count, num(step.Add))
	default:
		if foreign {
			e.set(e.name(past), &types.AttributeValueMemberM{})
		}
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
	moves := step.From.IsZero() || !step.To.Start.Equal(step.From.Start)
	if moves || turned || foreign {
		e.set(span, str(spanText(step.To)))
	}
	if moves && names.window != "" {
		e.set(e.name(names.window), str(step.To.Key))
	}
}

// foreign reports whether the window that a step starts from was begun by a writer that knows only window and count, on an item in which Headroom knows of none.
func (o Options) foreign(meter string, step headroom.Step, seen item) bool {
	t, turned := seen.turned[step.Limit]
	return !step.From.IsZero() && o.counter(meter, step.Limit).window != "" && (!seen.formatted || turned && t.known.IsZero())
}

// holdsTotal reports whether the item itself, rather than the ledger, holds a total. Of an item not yet seen it is assumed.
func (it item) holdsTotal(limit string, start time.Time) bool {
	if it.past == nil {
		return true
	}
	return it.past[limit].attrs[unix(start)] != nil
}

// needsAdopting reports whether a change cannot be one write, since it closes a foreign window: the map that is to keep its total is not there yet.
func (o Options) needsAdopting(c headroom.Change, seen item) bool {
	return slices.ContainsFunc(c.Steps, func(step headroom.Step) bool { return step.Opens() && o.foreign(c.Key.Meter, step, seen) })
}

// adopt gives an item the form of our own where a foreign window is in the way of a change. It changes no count.
func (s *Store) adopt(ctx context.Context, c headroom.Change, seen item) error {
	var e expression
	meter := c.Key.Meter
	field := func(name string) string { return e.name(s.opts.field(meter, name)) }
	if seen.formatted {
		e.equal(field("Format"), num(format))
	} else {
		e.absent(field("Format"))
		e.absent(field("Ops"))
		e.set(field("Format"), num(format))
		e.set(field("Gen"), num(0))
		e.set(field("Epoch"), num(c.Rotate.Unix()))
		e.set(field("Ops"), &types.AttributeValueMemberM{})
		e.set(field("OpsBefore"), &types.AttributeValueMemberM{})
	}
	for _, step := range c.Steps {
		if !s.opts.foreign(meter, step, seen) {
			continue
		}
		names := s.opts.counter(meter, step.Limit)
		e.absent(e.name(names.span))
		e.equal(e.name(names.window), str(step.From.Key))
		e.set(e.name(names.past), &types.AttributeValueMemberM{})
		e.set(e.name(names.span), str(spanText(step.From)))
	}
	_, _, err := s.update(ctx, c.Key.Subject, &e)
	var condition *types.ConditionalCheckFailedException
	if errors.As(err, &condition) {
		return nil // somebody else did it, or the window turned: the next look tells
	}
	return err
}
