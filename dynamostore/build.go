package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// build writes a change for an item in the form in which it was seen, but for the guard of its
// plan. e may have changes of other meters of the item already.
func (l layout) build(e *expression, c headroom.Change, seen item) {
	meter := c.Key.Meter
	before := e.parts()
	if ofBuckets(c) {
		l.format = max(l.format, formatBuckets)
	}
	if seen.guessed && !ofBuckets(c) && seen.format == usualFormat {
		// An item with buckets is written alike, if the change says nothing of them.
		at := e.name(l.field(meter, "Format"))
		e.require("(" + at + " = " + e.value(num(usualFormat)) + " OR " + at + " = " + e.value(num(formatBuckets)) + ")")
	} else {
		l.buildFormat(e, meter, seen)
	}
	l.guardIDs(e, c, seen)
	maps := l.buildRecords(e, c, seen)
	l.buildGrants(e, c, seen, maps.grants)
	l.buildDebts(e, c, seen)
	l.buildBuckets(e, c, seen)
	l.buildMaps(e, c, seen, maps)
	for _, step := range c.Steps {
		l.buildStep(e, meter, step, seen)
	}
	if e.parts() == before {
		e.set(e.name(l.field(meter, "Gen")), num(seen.gen)) // an update of nothing is an error
	}
}

// buildPlan guards the subject's plan.
func (l layout) buildPlan(e *expression, c headroom.Change) {
	plan := e.name(l.names.Plan)
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
}

// buildFormat guards that an item has the form in which it was seen, and brings an older one to the
// format of the write.
func (l layout) buildFormat(e *expression, meter string, seen item) {
	at := e.name(l.field(meter, "Format"))
	if seen.formatted {
		e.equal(at, num(seen.format))
	} else {
		e.absent(at)
	}
	if writes := l.writes(seen); writes != seen.format {
		e.set(at, num(writes))
	}
}

// guardIDs guards the generations of ids, and that no id has left the item since it was seen.
func (l layout) guardIDs(e *expression, c headroom.Change, seen item) {
	field := func(name string) string { return e.name(l.field(c.Key.Meter, name)) }
	if !seen.formatted {
		// an attribute of the application's own by this name is not ours to overwrite
		e.absent(field("Ops"))
		return
	}
	e.equal(field("Epoch"), num(c.Epoch.Unix()))
	e.equal(field("Gen"), num(seen.gen))
	if seen.gen != 0 {
		e.equal(field("Spilt"), num(seen.spilt.Unix()))
	}
	// That something which is no map does not have an id says nothing.
	e.isMap(field("Ops"))
	e.isMap(field("OpsBefore"))
	e.isMap(field("Holds"))
}

// wholeMaps are maps of the item that a change writes as a whole, because an expression cannot set
// a map and a child of it. A map is nil if the change writes only its children.
type wholeMaps struct {
	young, grants map[string]types.AttributeValue
}

// buildMaps writes whole maps: all of them where Headroom has not written the meter before, and the
// generations of ids where they turn.
func (l layout) buildMaps(e *expression, c headroom.Change, seen item, maps wholeMaps) {
	field := func(name string) string { return e.name(l.field(c.Key.Meter, name)) }
	if !seen.formatted {
		e.set(field("Gen"), num(0))
		e.set(field("OpsBefore"), &types.AttributeValueMemberM{})
		e.set(field("Holds"), &types.AttributeValueMemberM{})
		e.set(field("Grants"), &types.AttributeValueMemberM{Value: maps.grants})
	}
	if maps.young == nil {
		return
	}
	e.set(field("Ops"), &types.AttributeValueMemberM{Value: maps.young})
	e.set(field("Epoch"), num(c.Rotate.Unix()))
	if seen.formatted {
		e.setTo(field("OpsBefore"), field("Ops"))
		e.set(field("EpochBefore"), num(c.Epoch.Unix()))
	}
	if seen.gen != 0 && seen.spilt.Before(c.Epoch) {
		// Every id in the ledger is now two generations old.
		e.set(field("Gen"), num(0))
		e.remove(field("Spilt"))
	}
}

// buildRecords writes what the change does to records. An old hold stands in a map of its own, by
// its full id, and hides what else is remembered of the id.
func (l layout) buildRecords(e *expression, c headroom.Change, seen item) wholeMaps {
	path := func(field, key string) string { return e.name(l.field(c.Key.Meter, field), key) }
	var w wholeMaps
	if !seen.formatted {
		w.grants = map[string]types.AttributeValue{}
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
		case r.Old:
			e.equal(path("Holds", r.ID), str(seen.stands(r)))
			e.remove(path("Holds", r.ID))
		default:
			l.buildWas(e, c, r, seen)
		}
		switch {
		case r.Is == nil:
		case w.young != nil:
			w.young[name] = l.remembered(r, seen)
		default:
			e.set(path("Ops", name), l.remembered(r, seen))
		}
	}
	return w
}

// remembered is what stands in the item for a record. A record that takes the place of another says
// its version, because the ledger may have the earlier one, and a late copy may still bring it
// there.
func (l layout) remembered(r headroom.RecordStep, seen item) types.AttributeValue {
	text := r.Is.String()
	switch {
	case r.Was == nil:
	case l.writes(seen) == formatOne:
		text += versionMark
	case r.Old:
		text = marked(text, version(seen.stands(r))) // no hold is in the ledger: its own is free
	default:
		text = marked(text, version(seen.stands(r))+1)
	}
	return str(text)
}

// stands returns the text of the record that a step rewrites, from the item or else from the
// ledger. If neither was seen, it is the text that it has most often.
func (it item) stands(r headroom.RecordStep) string {
	name := idName(r.ID)
	known := []map[string]string{it.ops, it.before, it.fromLedger}
	if r.Old {
		name, known = r.ID, []map[string]string{it.holds}
	}
	for _, texts := range known {
		if text, ok := texts[name]; ok {
			return text
		}
	}
	return r.Was.String()
}

// buildWas guards that a record is what the change takes it for. It removes the record from where
// it does not belong after the change.
func (l layout) buildWas(e *expression, c headroom.Change, r headroom.RecordStep, seen item) {
	name := idName(r.ID)
	young := e.name(l.field(c.Key.Meter, "Ops"), name)
	old := e.name(l.field(c.Key.Meter, "OpsBefore"), name)
	stays := r.Is != nil
	oldText, inOld := seen.before[name]
	youngText, inYoung := seen.ops[name]
	_, inLedger := seen.fromLedger[name]
	switch {
	case inLedger && !inOld && !inYoung:
		// It is there under the quotaGen that was seen. What the item has of it would hide it.
		e.absent(young)
		e.absent(old)
	case inOld && !inYoung:
		e.absent(young)
		e.equal(old, str(oldText))
		if c.Rotate.IsZero() {
			e.remove(old)
		}
	default:
		if !inYoung { // the item was not seen yet: this is how it most often stands
			youngText = r.Was.String()
		}
		e.equal(young, str(youngText))
		if c.Rotate.IsZero() && !stays {
			e.remove(young)
		}
	}
}
