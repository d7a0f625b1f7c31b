package dynamostore

import (
	"context"
	"errors"
	"math"
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
	seen := item{key: c.Key}
	if !c.Epoch.IsZero() {
		seen.formatted, seen.format = true, s.opts.newItems()
	}
	if g, ok := s.moved.recall(c.Key, c.Epoch); ok {
		seen.under(g)
		if err := s.lookUp(ctx, &seen, c.IDs(), true); err != nil {
			return headroom.View{}, false, err
		}
		if slices.ContainsFunc(c.Records, func(r headroom.RecordStep) bool { return r.Was == nil && seen.fromLedger[idName(r.ID)] != "" }) {
			v, err := s.replayed(ctx, c, seen)
			return v, false, err
		}
	}
	unsure, listed := false, false
	var v headroom.View
	for try := range formTries {
		if s.opts.needsAdopting(c, seen) {
			if err := s.adopt(ctx, c, seen); err != nil {
				return headroom.View{}, false, answer{unsure: unsure}.doubtful(err)
			}
			// The item now has the label that the change was to give it.
			if !seen.formatted {
				c.Epoch, c.Rotate = c.Rotate, time.Time{}
			}
			seen.formatted, seen.format, seen.turned, seen.uncounted = true, s.opts.writes(seen), nil, nil
		}
		w := c
		if s.opts.writes(seen) < formatDebts {
			w = c.WithoutDebts()
		} else if !listed {
			if err := s.list(ctx, c); err != nil {
				return headroom.View{}, false, answer{unsure: unsure}.doubtful(err)
			}
			listed = true
		}
		e := s.opts.build(w, seen)
		e.once = !c.Repeatable()
		attrs, got, err := s.update(ctx, c.Key.Subject, e)
		got.unsure = got.unsure || unsure // an attempt of an earlier form may come yet
		unsure = got.unsure
		if err == nil {
			after, err := s.opts.decode(attrs, c.Key, got.now)
			switch {
			case err == nil:
				s.moved.learn(after)
				s.tidy(ctx, after, got.now, w)
			case !s.opts.counted(c, attrs):
				return headroom.View{}, false, headroom.Errorf(headroom.CodeOutcomeUnknown, err, "the change was written, but a count that it changed does not read")
			default:
				// Nothing that the write depends on is wrong, or it would not have been made.
				s.opts.Logger.Warn("headroom: an item does not read as a whole", "subject", c.Key.Subject, "error", err)
			}
			s.unlist(ctx, c.Key, ended(w))
			v, err := after.view(c.IDs(), orNow(c.Now, got.now))
			return v, true, err
		}
		var failed *types.ConditionalCheckFailedException
		if !errors.As(err, &failed) {
			return headroom.View{}, false, got.doubtful(err)
		}
		var now time.Time
		if seen, now, err = s.found(ctx, c, seen, got.now, failed, try); err != nil {
			return headroom.View{}, false, got.doubtful(err)
		}
		if v, err = seen.view(c.IDs(), orNow(c.Now, now)); err != nil {
			return headroom.View{}, false, got.doubtful(err)
		}
		if v.Unsure = unsure; !c.Holds(v) {
			if listed {
				s.unlist(ctx, c.Key, charged(c, v))
			}
			return v, false, nil
		}
	}
	if len(c.Grants) > 0 && !s.opts.numericGrants(seen) {
		return v, false, nil // others drew on them in between: the engine waits a little and decides again
	}
	return headroom.View{}, false, answer{unsure: unsure}.doubtful(headroom.Errorf(headroom.CodeContended, nil, "the item of %q changed its form %d times in a row; nothing was written, try again", c.Key.Subject, formTries))
}

// counted reports whether the counts that c adds to read.
func (o Options) counted(c headroom.Change, attrs map[string]types.AttributeValue) bool {
	return !slices.ContainsFunc(c.Steps, func(step headroom.Step) bool {
		if step.Corrects() {
			return false
		}
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
	it.knows(seen)
	if err := s.complete(ctx, &it, c.IDs(), false, true); err != nil {
		return headroom.View{}, err
	}
	return it.view(c.IDs(), orNow(c.Now, now))
}

// found returns the item that a failed condition was checked against, with what the ledger adds to it, and the time. engines is the time of the answer that says so, seen what was known before it.
func (s *Store) found(ctx context.Context, c headroom.Change, seen item, engines time.Time, failed *types.ConditionalCheckFailedException, try int) (it item, now time.Time, err error) {
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
	it.knows(seen)
	old := false
	for _, step := range c.Steps {
		old = old || len(step.Fold)+len(step.Past) > 0
	}
	return it, now, s.complete(ctx, &it, c.IDs(), old, true)
}

// build writes c for an item in the form of seen.
func (o Options) build(c headroom.Change, seen item) *expression {
	var e expression
	meter := c.Key.Meter
	field := func(name string) string { return e.name(o.field(meter, name)) }
	plan := e.name(o.Names.Plan)
	none := func() string {
		return "(attribute_not_exists(" + plan + ") OR " + plan + " = " + e.value(str("")) + ")"
	}
	switch {
	case c.Plan == "":
		e.require(none())
	case c.PlanOrNone:
		e.require("(" + plan + " = " + e.value(str(c.Plan)) + " OR " + none() + ")")
	default:
		e.equal(plan, str(c.Plan))
	}
	o.buildFormat(&e, c.Key.Meter, seen)
	if seen.formatted {
		e.equal(field("Epoch"), num(c.Epoch.Unix()))
		e.equal(field("Gen"), num(seen.gen))
		if seen.gen != 0 {
			e.equal(field("Spilt"), num(seen.spilt.Unix()))
		}
		// An id is not known to be absent from what is no map.
		e.isMap(field("Ops"))
		e.isMap(field("OpsBefore"))
		e.isMap(field("Holds"))
	} else {
		e.absent(field("Ops")) // an attribute of the application's own by this name is not ours to overwrite
		e.set(field("Gen"), num(0))
		e.set(field("OpsBefore"), &types.AttributeValueMemberM{})
	}
	maps := o.buildRecords(&e, c, seen)
	o.buildGrants(&e, c, seen, maps.grants)
	o.buildDebts(&e, c, seen)
	if !seen.formatted {
		e.set(field("Holds"), &types.AttributeValueMemberM{Value: maps.holds})
		e.set(field("Grants"), &types.AttributeValueMemberM{Value: maps.grants})
	}
	if maps.young != nil {
		e.set(field("Ops"), &types.AttributeValueMemberM{Value: maps.young})
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
	if e.empty() {
		e.set(field("Format"), num(seen.format)) // an update of nothing is an error
	}
	return &e
}

// buildFormat guards that an item has the form that it was seen in, and brings an older one to the format of the write.
func (o Options) buildFormat(e *expression, meter string, seen item) {
	at := e.name(o.field(meter, "Format"))
	if seen.formatted {
		e.equal(at, num(seen.format))
	} else {
		e.absent(at)
	}
	if writes := o.writes(seen); writes != seen.format {
		e.set(at, num(writes))
	}
}

// whole are maps of the item that a change writes as a whole, because a map and its child cannot be set in one expression; nil where it writes children only.
type whole struct {
	young, holds, grants map[string]types.AttributeValue
}

// buildRecords writes what the change does to records. A hold stands in a map of its own, by its full id, and what is there goes before what else is remembered of the id.
func (o Options) buildRecords(e *expression, c headroom.Change, seen item) whole {
	path := func(field, key string) string { return e.name(o.field(c.Key.Meter, field), key) }
	var w whole
	if !seen.formatted {
		w.holds, w.grants = map[string]types.AttributeValue{}, map[string]types.AttributeValue{}
	}
	if !c.Rotate.IsZero() || !seen.formatted {
		w.young = map[string]types.AttributeValue{}
	}
	for _, r := range c.Records {
		name := idName(r.ID)
		switch {
		case r.Was == nil && !seen.formatted:
		case r.Was == nil:
			e.absent(path("Ops", name))
			e.absent(path("OpsBefore", name))
			e.absent(path("Holds", r.ID))
		case r.Was.Kind == headroom.KindHold:
			e.equal(path("Holds", r.ID), str(seen.stands(r)))
			if r.Is == nil || r.Is.Kind != headroom.KindHold {
				e.remove(path("Holds", r.ID))
			}
		default:
			o.buildWas(e, c, r, seen)
		}
		switch {
		case r.Is == nil:
		case r.Is.Kind == headroom.KindHold && w.holds != nil:
			w.holds[r.ID] = o.remembered(r, seen)
		case r.Is.Kind == headroom.KindHold:
			e.set(path("Holds", r.ID), o.remembered(r, seen))
		case w.young != nil:
			w.young[name] = o.remembered(r, seen)
		default:
			e.set(path("Ops", name), o.remembered(r, seen))
		}
	}
	if more := c.MoreHolds(); more > 0 && seen.formatted {
		e.require("size(" + e.name(o.field(c.Key.Meter, "Holds")) + ") <= " + e.value(num(int64(headroom.MaxHolds-more))))
	}
	return w
}

// remembered is what stands in the item for a record. One that took the place of another says its
// version: the ledger may have the earlier one, and a copy that was delayed may bring it there later.
func (o Options) remembered(r headroom.RecordStep, seen item) types.AttributeValue {
	text := r.Is.String()
	switch {
	case r.Was == nil:
	case o.writes(seen) == formatOne && r.Is.Kind == headroom.KindHold:
	case o.writes(seen) == formatOne:
		if r.Was.Kind != headroom.KindHold || r.Was.Held != 0 {
			text += versionMark
		}
	case r.Was.Kind == headroom.KindHold:
		text = marked(text, version(seen.stands(r))) // no hold is in the ledger: its own is free
	default:
		text = marked(text, version(seen.stands(r))+1)
	}
	return str(text)
}

// stands returns how the record that a step rewrites stands in the item, or else in the ledger. Of an
// item that was not seen it is what it is most often.
func (it item) stands(r headroom.RecordStep) string {
	name := idName(r.ID)
	known := []map[string]string{it.ops, it.before, it.fromLedger}
	if r.Was.Kind == headroom.KindHold {
		name, known = r.ID, []map[string]string{it.holds}
	}
	for _, texts := range known {
		if text, ok := texts[name]; ok {
			return text
		}
	}
	return r.Was.String()
}

// buildWas guards that a record is what the change takes it for, and takes it from where it does not belong after it.
func (o Options) buildWas(e *expression, c headroom.Change, r headroom.RecordStep, seen item) {
	name := idName(r.ID)
	young := e.name(o.field(c.Key.Meter, "Ops"), name)
	old := e.name(o.field(c.Key.Meter, "OpsBefore"), name)
	stays := r.Is != nil && r.Is.Kind != headroom.KindHold
	oldText, inOld := seen.before[name]
	youngText, inYoung := seen.ops[name]
	_, inLedger := seen.fromLedger[name]
	switch {
	case inLedger && !inOld && !inYoung:
		// It is there under the quotaGen that was seen. What the item gets of it goes before.
		e.absent(young)
		e.absent(old)
	case inOld && !inYoung:
		e.absent(young)
		e.equal(old, str(oldText))
		if c.Rotate.IsZero() {
			e.remove(old)
		}
	default:
		if !inYoung { // not seen yet: as it stands most often
			youngText = r.Was.String()
		}
		e.equal(young, str(youngText))
		if c.Rotate.IsZero() && !stays {
			e.remove(young)
		}
	}
}

func (o Options) buildStep(e *expression, meter string, step headroom.Step, seen item) {
	names := o.counter(meter, step.Limit)
	count, span, past := e.name(names.count), e.name(names.span), names.past
	turn, turned := seen.turned[step.Limit]
	foreign := o.foreign(meter, step, seen)
	switch {
	case step.From.IsZero() && names.window != "":
		window := e.name(names.window)
		e.require("(attribute_not_exists(" + window + ") OR " + window + " = " + e.value(str("")) + ")")
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
	case step.Opens:
		e.isMap(e.name(past))
		e.setTo(e.name(past, unix(step.From.Start)), "if_not_exists("+count+", "+e.value(num(0))+")")
		e.set(count, num(step.Add))
	default:
		if foreign {
			e.set(e.name(past), &types.AttributeValueMemberM{})
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
		switch {
		case seen.uncounted[step.Limit]:
			e.set(count, num(add))
		case add != 0:
			e.add(count, add)
		}
	}
	if seen.uncounted[step.Limit] {
		e.absent(count)
	} else if !step.From.IsZero() && (!step.Opens && !step.Corrects() || step.Min > 0 || step.Max < math.MaxInt64) {
		e.require(count + " BETWEEN " + e.value(num(step.Min)) + " AND " + e.value(num(step.Max)))
	}
	o.buildCarried(e, step, names)
	o.buildPast(e, step, names, seen)
	moves := moves(step)
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

// moves reports whether the counter stands in another window after the step.
func moves(step headroom.Step) bool {
	return step.From.IsZero() || !step.To.Start.Equal(step.From.Start) || !step.To.End.Equal(step.From.End)
}

// buildCarried guards or sets what a window may use beside its own units.
func (o Options) buildCarried(e *expression, step headroom.Step, names counterNames) {
	switch carried := e.name(names.carried); {
	case moves(step) && step.Carried != 0:
		e.set(carried, num(step.Carried))
	case moves(step):
		e.remove(carried)
	case step.Corrects():
	case step.Carried != 0:
		e.equal(carried, num(step.Carried))
	default:
		e.absent(carried)
	}
}

// buildPast corrects totals of closed windows. One that lies in the ledger comes back into the item, which is looked at first.
func (o Options) buildPast(e *expression, step headroom.Step, names counterNames, seen item) {
	more := false
	for _, p := range step.Past {
		at := e.name(names.past, unix(p.Start))
		if names.window != "" { // others' windows are turned by nobody who keeps no totals
			e.absent(e.name(names.past, unknownPast+unix(p.Start)))
		}
		corrected := e.name(names.past, versionPast+unix(p.Start))
		if o.writes(seen) == formatOne {
			e.set(e.name(names.past, oncePast+unix(p.Start)), &types.AttributeValueMemberBOOL{Value: true})
		}
		if seen.holdsTotal(step.Limit, p.Start) {
			if o.writes(seen) != formatOne {
				e.setTo(corrected, "if_not_exists("+corrected+", "+e.value(num(0))+") + "+e.value(num(1)))
			}
			e.require(at + " >= " + e.value(num(max(1, -p.Units)))) // 0 is no total
			e.setTo(at, at+" + "+e.value(num(p.Units)))
			continue
		}
		e.absent(at)
		if !more {
			more = true
			e.equal(e.name(names.past, morePast), num(seen.past[step.Limit].moved))
		}
		if o.writes(seen) != formatOne {
			e.set(corrected, num(seen.movedPast[step.Limit][p.Start.Unix()]+1))
		}
		for _, t := range seen.state.Counters[step.Limit].Past {
			if t.Start.Equal(p.Start) {
				e.set(at, num(t.Units+p.Units))
			}
		}
	}
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
	return slices.ContainsFunc(c.Steps, func(step headroom.Step) bool { return step.Opens && o.foreign(c.Key.Meter, step, seen) })
}

// adopt gives an item the form of our own where a foreign window is in the way of a change. It changes no count.
func (s *Store) adopt(ctx context.Context, c headroom.Change, seen item) error {
	var e expression
	meter := c.Key.Meter
	field := func(name string) string { return e.name(s.opts.field(meter, name)) }
	s.opts.buildFormat(&e, meter, seen)
	if !seen.formatted {
		e.absent(field("Ops"))
		e.set(field("Gen"), num(0))
		e.set(field("Epoch"), num(c.Rotate.Unix()))
		for _, name := range []string{"Ops", "OpsBefore", "Holds", "Grants"} {
			e.set(field(name), &types.AttributeValueMemberM{})
		}
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
