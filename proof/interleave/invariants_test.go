package interleave

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lumcast/headroom"
)

// lacks reports whether units that an operation asks for are not there.
func (x *explorer) lacks(o op, tables int32, clock uint8) bool {
	if x.invariants.lacks != nil {
		return x.invariants.lacks(x, o, tables, clock)
	}
	if o.both {
		slots, tokens := o.parts()
		return x.lacks(slots, tables, clock) || x.lacks(tokens, tables, clock)
	}
	all, now := x.read(tables), x.times[clock]
	short := func(subject string, cost int64) bool { return cost > x.room(all.of(subject), now) }
	held := func(subject, id string) (r record, known, live bool) {
		r, known = all.of(subject).records[id]
		return r, known, known && r.Kind == headroom.KindHold && !r.dead(now.Unix())
	}
	r, known, live := held(o.who(), o.id)
	switch o.verb {
	case "deduct", "hold":
		return !known && short(o.who(), o.enough())
	case "settle":
		if live {
			return o.cost > r.Cost && short(o.who(), o.cost-r.Cost)
		}
		return (!known || r.Kind != headroom.KindSettled) && short(o.who(), o.cost)
	case "within", "left":
		at, atKnown, atLive := held(o.within, its(o.who(), o.id))
		return !known && short(o.who(), o.cost) || !atLive && !(atKnown && at.Kind == headroom.KindSettled) && short(o.within, o.cost)
	}
	return false
}

// check says what is wrong with a write.
func (x *explorer) check(before, after int32, clock uint8) string {
	if x.invariants.check != nil {
		return x.invariants.check(x, before, after, clock)
	}
	was, is := x.read(before), x.read(after)
	for _, subject := range slices.Sorted(maps.Keys(is)) {
		b := was.of(subject)
		if wrong := x.checkBook(b, is[subject], x.times[clock]); wrong != "" {
			return wrong + " (of " + subject + ")"
		}
		if wrong := is.owes(subject); wrong != "" {
			return wrong
		}
		if wrong := is.together(subject); wrong != "" {
			return wrong
		}
	}
	return ""
}

// owes says what is wrong with the debts of a subject. What is charged within an organisation is
// charged to the organisation too, or it is owed and a sweep can find it.
func (b books) owes(subject string) string {
	of := b.of(subject)
	if len(of.debts) > headroom.MaxDebts {
		return fmt.Sprintf("rule 17: %s has %d debts", subject, len(of.debts))
	}
	for _, id := range slices.Sorted(maps.Keys(of.records)) {
		r := of.records[id]
		if r.Within == "" {
			continue
		}
		at := b.of(r.Within).records[its(subject, id)]
		d, owed := of.debts[id]
		switch {
		case owed && (d.To != r.Within || d.Cost != r.Cost):
			return fmt.Sprintf("rule 18: %s of %s is %s, and the debt %s", id, subject, r.text, d)
		case owed && !of.listed[id]:
			return fmt.Sprintf("rule 18: %s owes for %s, and the list does not say so", subject, id)
		case !owed && at.Kind != headroom.KindSettled:
			return fmt.Sprintf("rule 18: %s is charged for %s, %s has %q, and nothing is owed", subject, id, r.Within, at.text)
		}
	}
	return ""
}

func (x *explorer) checkBook(was, is *book, now time.Time) string {
	for _, limit := range slices.Sorted(maps.Keys(is.counters)) {
		w, c := was.counters[limit], is.counters[limit]
		tolerance := int64(headroom.ClockTolerance / time.Second)
		switch {
		case c.start > w.start && c.start > now.Unix()+tolerance:
			return fmt.Sprintf("rule 7: window %s is opened at %s", c.key, now.Format(time.DateTime))
		case c.start < w.start && (!x.folds || w.start <= x.times[0].Unix()+tolerance):
			return fmt.Sprintf("rule 6: window %s goes back to %s", w.key, c.key)
		case c.count < 0:
			return fmt.Sprintf("rule 10: the count of %s is %d", c.key, c.count)
		}
		if wrong := x.balance(limit, was, is); wrong != "" {
			return wrong
		}
	}
	for _, l := range x.limits(was) {
		c := is.counters[l.Name]
		if w := was.counters[l.Name]; w.end != 0 && c.start > w.start && c.carried != was.carry(l, w, c.start) {
			return fmt.Sprintf("rule 1: %s carries over %d, and %d were left", c.key, c.carried, was.carry(l, w, c.start))
		}
		grown, recorded := int64(0), false
		for id, r := range is.records {
			if more := r.own(l.Name) - was.records[id].own(l.Name); more > 0 {
				grown, recorded = grown+more, recorded || r.Recorded
			}
		}
		if live := is.live(l.Name, c, now.Unix()); grown > 0 && !recorded && live > l.Units+c.carried {
			return fmt.Sprintf("rule 1: %d of %d are admitted in %s", live, l.Units+c.carried, c.key)
		}
		if w := was.counters[l.Name]; x.bySeed(c.count-w.count) && c.count > l.Units {
			return fmt.Sprintf("rule 1: the seed admits %d of %d in %s", c.count, l.Units, c.key)
		} else if more := c.count - w.count; (x.unnamed(more) || c.start > w.start && x.unnamed(c.count)) && !recorded && c.count > l.Units+c.carried {
			return fmt.Sprintf("rule 1: without an id %d of %d are admitted in %s", c.count, l.Units+c.carried, c.key)
		}
	}
	for id, g := range is.grants {
		w, there := was.grants[id]
		if g.used < 0 || g.used > g.units {
			return fmt.Sprintf("rule 11: %d of the %d units of grant %s are used", g.used, g.units, id)
		}
		same := g.units == w.units && g.expires == w.expires
		if there && !same && w.expires > x.times[0].Unix() {
			return "rule 11: grant " + id + " is granted twice"
		}
		if drawn := is.drawn(id, nil) - was.drawn(id, is); same && g.used-w.used != drawn && !x.unnamed(g.used-w.used-drawn) {
			return fmt.Sprintf("rule 11: grant %s gives %d, records say %d", id, g.used-w.used, drawn)
		}
	}
	for id, r := range is.records {
		// It may have been decided before the clock turned.
		turned := slices.ContainsFunc(slices.Collect(maps.Values(was.counters)), func(c counter) bool { return c.end <= now.Unix() })
		if _, known := was.records[id]; !known && !turned && r.Kind == headroom.KindDeduct && r.Recorded && r.Cost <= x.room(was, now) {
			return fmt.Sprintf("rule 2: %s is charged past the limit, and %d units were there", id, x.room(was, now))
		}
		if _, known := was.records[id]; !known && !turned && r.Cost < r.Asked && r.Cost != x.room(was, now) && r.Kind != headroom.KindSettled {
			return fmt.Sprintf("case 74: %s takes %d of %d, and %d units were there", id, r.Cost, r.Asked, x.room(was, now))
		}
		if _, known := was.records[id]; !known && !turned && r.Kind == headroom.KindDeduct {
			if wrong := x.inOrder(id, r, was, is); wrong != "" {
				return wrong
			}
		}
	}
	if len(is.grants) > headroom.MaxGrants {
		return fmt.Sprintf("rule 11: %d grants", len(is.grants))
	}
	if wrong := x.checkBuckets(was, is); wrong != "" {
		return wrong
	}
	return x.checkRecords(is)
}

// checkBuckets says what is wrong with the buckets of holds. They have what the records of their
// holds say. One that was cleared away never comes again.
func (x *explorer) checkBuckets(was, is *book) string {
	said := func(b, later *book) map[bucketKey]int64 {
		units := map[bucketKey]int64{}
		for k, bucket := range b.buckets {
			units[k] -= bucket.units
		}
		for id, r := range b.records {
			if r.Kind != headroom.KindHold || r.old || r.swept || b.forgotten(id, later) {
				continue
			}
			at := bucketKey{expires: r.Expires.Unix(), series: r.Series}
			units[at]++
			for _, w := range must(headroom.ParseRecord(strings.Split(r.text, " ~")[0])).Windows {
				units[bucketKey{w.Limit, "", w.Start.Unix(), at.expires, at.series}] += w.Units
			}
			for _, g := range r.Grants {
				units[bucketKey{grant: g.ID, expires: at.expires, series: at.series}] += g.Units
			}
		}
		return units
	}
	before, after := said(was, is), said(is, nil)
	for k := range is.buckets {
		if after[k] != before[k] {
			return fmt.Sprintf("rule 9: the bucket %+v has %d units, and holds say %d more", k, is.buckets[k].units, after[k])
		}
		if _, there := was.buckets[k]; !there && k.series == was.series && k.expires <= was.swept {
			return fmt.Sprintf("rule 9: the bucket %+v was cleared away, and is made again", k)
		}
	}
	for k, units := range after {
		if _, there := is.buckets[k]; !there && units != 0 {
			return fmt.Sprintf("rule 9: holds say that %d units lie in the bucket %+v, which is not there", units, k)
		}
	}
	holds := int64(0)
	for k, b := range is.buckets {
		if k.limit == "" && k.grant == "" {
			holds += b.units
		}
	}
	for _, l := range x.limits(was) {
		if l.MaxHolds > 0 && holds > l.MaxHolds {
			return fmt.Sprintf("rule 9: there are %d holds, and the plan has %d", holds, l.MaxHolds)
		}
	}
	if holds != is.holding {
		return fmt.Sprintf("rule 9: the buckets count %d holds, and the item says %d", holds, is.holding)
	}
	return ""
}

// inOrder says what is wrong with where a new charge takes its units: from the plan first, then
// from the grants in the order in which they end. What was held when the world began is held, and
// what is over when it ends is over, for the charge may have been decided at any time between.
func (x *explorer) inOrder(id string, r record, was, is *book) string {
	if len(r.Grants) == 0 {
		return ""
	}
	for limit := range is.counters {
		if free := x.planned(was, x.times[0]); r.own(limit) < free {
			return fmt.Sprintf("rule 11: %s draws on grants, and the plan has %d: %s", id, free, r.text)
		}
	}
	for _, use := range r.Grants {
		for other, g := range is.grants {
			if g.expires > x.times[len(x.times)-1].Unix() && g.expires < is.grants[use.ID].expires && g.used < g.units {
				return fmt.Sprintf("rule 11: %s draws on grant %s, and %d are left of %s, which ends before: %s", id, use.ID, g.units-g.used, other, r.text)
			}
		}
	}
	return ""
}

// balance compares what a write adds to the count and history of a limit with what it adds to the
// records that count there. If the two are equal, nothing is charged twice or lost.
func (x *explorer) balance(limit string, was, is *book) string {
	counted, recorded := map[int64]int64{}, map[int64]int64{}
	add := func(b, later *book, sign int64) {
		c, ok := b.counters[limit]
		if !ok {
			return
		}
		for start, units := range c.past {
			counted[start] += sign * units
		}
		counted[c.start] += sign * c.count
		for id, r := range b.records {
			if b.forgotten(id, later) {
				continue
			}
			for start, units := range r.in(limit, c) {
				recorded[start] += sign * units
			}
		}
	}
	add(was, is, -1)
	add(is, nil, 1)
	if x.folds {
		counted, recorded = summed(counted), summed(recorded)
	}
	for start := range maps.Keys(counted) {
		recorded[start] += 0
	}
	for _, start := range slices.Sorted(maps.Keys(recorded)) {
		if more := counted[start] - recorded[start]; more != 0 && !x.bySeed(more) && !x.unnamed(more) {
			return fmt.Sprintf("rules 3 to 5 and 8 to 10: the count and history of %s that begins %s change by %d, what is remembered of operations by %d",
				limit, time.Unix(start, 0).UTC().Format(time.DateOnly), counted[start], recorded[start])
		}
	}
	return ""
}

// bySeed reports whether a client that runs the seed's own code may have added so much. That code
// remembers nothing.
func (x *explorer) bySeed(units int64) bool {
	return slices.ContainsFunc(x.clients, func(s script) bool {
		return slices.ContainsFunc(s.ops, func(o op) bool { return o.verb == "seed" && o.cost == units })
	})
}

func summed(by map[int64]int64) map[int64]int64 {
	sum := int64(0)
	for _, n := range by {
		sum += n
	}
	return map[int64]int64{0: sum}
}

// forgotten reports whether a write forgets an id because its generation has become too old. What
// was charged for it stays charged.
func (b *book) forgotten(id string, later *book) bool {
	if later == nil || later.epoch == b.epoch {
		return false
	}
	_, there := later.records[id]
	return !there && b.records[id].oldest
}

// drawn is what records say that they draw from a grant.
func (b *book) drawn(grant string, later *book) (units int64) {
	for id, r := range b.records {
		for _, use := range r.Grants {
			if use.ID == grant && !b.forgotten(id, later) {
				units += use.Units
			}
		}
	}
	return units
}

// checkRecords says what is wrong with a record by itself. Its parts make up its cost, in every
// limit.
func (x *explorer) checkRecords(b *book) string {
	refunds := map[string]int64{}
	for _, r := range b.records {
		if r.Kind == headroom.KindRefund {
			refunds[r.Of] += r.Cost
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.records)) {
		r := b.records[id]
		want := r.Cost - r.Refunded
		switch r.Kind {
		case headroom.KindRefund, headroom.KindGrant:
			continue
		case headroom.KindReleased:
			want = 0
		case headroom.KindHold:
			if r.swept {
				want = 0
			}
		}
		if want < 0 || refunds[id] > r.Cost {
			return fmt.Sprintf("rule 10: more is refunded of %s than was charged: %s", id, r.text)
		}
		if r.Refunded < refunds[id] {
			return fmt.Sprintf("rule 10: refunds of %s give %d, it knows %d", id, refunds[id], r.Refunded)
		}
		for limit := range b.counters {
			if got := r.own(limit) + r.granted(); got != want {
				return fmt.Sprintf("rule 13: %s counts %d by limit %s and should %d: %s", id, got, limit, want, r.text)
			}
		}
	}
	return ""
}

// decided says what is wrong with how an operation ended.
func (x *explorer) decided(client int, index uint8, out outcome, s state) string {
	o := x.clients[client].ops[index]
	if x.invariants.decided != nil {
		return x.invariants.decided(x, o, out, s, s.ghost[client]&lacked != 0)
	}
	if o.verb == "seed" {
		return "" // it has holes of its own
	}
	if out.code != "" {
		if slices.Contains(o.may, out.code) {
			return ""
		}
		return fmt.Sprintf("rule 16: %s ends with the error %q: %s", o, out.code, out.text)
	}
	if short := s.ghost[client]&lacked != 0; !short && !out.allowed {
		return fmt.Sprintf("rule 2: %s is refused (%s), and the units were there all the time", o, out.reason)
	} else if !short && out.reason == headroom.ReasonRecorded && !out.replay {
		return fmt.Sprintf("rule 1: %s is recorded past the limit, and the units were there all the time", o)
	}
	known, forgotten := x.charged(o, s.clock)
	if forgotten || o.noID() {
		return ""
	}
	if known && out.allowed && !out.replay {
		return fmt.Sprintf("rule 5: %s was charged before the world began, and is charged again", o)
	}
	if out.allowed && o.verb != "plan" && o.verb != "look" && o.verb != "sweep" {
		r, ok := x.read(s.tables).of(o.who()).records[o.id]
		if !ok || o.cost != 0 && o.verb != "release" && o.verb != "extend" && o.verb != "hold" && (r.Cost > o.cost || r.Cost < o.enough()) {
			return fmt.Sprintf("rule 5: %s is acknowledged, and what is remembered of it is %q", o, r.text)
		}
	}
	return ""
}

// ended says what is wrong at the end of a schedule.
func (x *explorer) ended(s state) string {
	if x.invariants.ended != nil {
		return x.invariants.ended(x, s)
	}
	type identity struct{ subject, id, verb string }
	first, outcomes, asked := map[identity]outcome{}, map[identity][]outcome{}, map[identity]op{}
	for c := range x.clients {
		for _, out := range x.lists[x.nodes[s.node[c]].outcomes] {
			o := x.clients[c].ops[out.op]
			if o.verb == "plan" || o.verb == "seed" || o.verb == "look" || o.verb == "sweep" || o.noID() || out.code != "" {
				continue
			}
			id := identity{o.who(), o.id, o.verb}
			outcomes[id], asked[id] = append(outcomes[id], out), o
			if f, ok := first[id]; out.allowed && !ok {
				first[id] = out
			} else if _, forgotten := x.charged(o, s.clock); out.allowed && o.charges() && !out.agrees(f) && !forgotten {
				return fmt.Sprintf("rule 5: %s is answered with %+v and with %+v", o, f, out)
			}
		}
	}
	for id, all := range outcomes {
		fresh, allowed := 0, 0
		for _, out := range all {
			if out.allowed {
				allowed++
				if !out.replay {
					fresh++
				}
			}
		}
		o := op{verb: id.verb, subject: id.subject, id: id.id, cost: first[id].cost, both: asked[id].both, tokens: asked[id].tokens}
		if of := asked[id]; of.least > 0 {
			o.cost, o.least = of.cost, of.least
		}
		_, forgotten := x.charged(o, s.clock)
		if fresh > 1 && id.verb != "extend" && !forgotten {
			return fmt.Sprintf("rule 5: %s %s is told twice that it was done now", id.verb, id.id)
		}
		if fresh == 0 && allowed > 0 && s.past&faulted == 0 && !x.known(id.subject, id.id) {
			return fmt.Sprintf("rule 5: %s %s is told only that it was done before", id.verb, id.id)
		}
		_, remembered := x.read(s.tables).of(id.subject).records[id.id]
		if allowed == 0 && remembered && !x.known(id.subject, id.id) && s.late == [2]int32{} && (id.verb == "deduct" || id.verb == "hold") {
			return fmt.Sprintf("rule 4: %s %s is refused, and remembered", id.verb, id.id)
		}
		if allowed > 0 && id.verb == "deduct" && !forgotten {
			if wrong := x.probe(o, first[id], s); wrong != "" {
				return wrong
			}
		}
	}
	if x.invariants.more != nil {
		return x.invariants.more(x, s)
	}
	return ""
}

// known reports whether the tables from which a world begins remember an id.
func (x *explorer) known(subject, id string) bool {
	_, ok := x.read(x.states[0].tables).of(subject).records[id]
	return ok
}

// charged reports whether a deduction was made before the world began, and whether it may be
// forgotten by now.
func (x *explorer) charged(o op, clock uint8) (known, forgotten bool) {
	if x.times[clock].Sub(x.times[0]) >= headroom.DefaultHorizon {
		forgotten = true
	}
	at := x.fullAt
	known = o.verb == "deduct" && !at.IsZero() && strings.HasPrefix(o.id, fill(0)[:8])
	for _, p := range x.before {
		if p.op.verb == "deduct" && o.verb == "deduct" && p.op.who() == o.who() && p.op.id == o.id {
			at, known = p.at, true
		}
	}
	return known, forgotten || known && x.times[clock].Sub(at) >= headroom.DefaultHorizon
}

// charges reports whether an operation has units of its own that count in a window.
func (o op) charges() bool { return o.verb == "deduct" || o.verb == "hold" || o.verb == "settle" }

// probe asks for an operation again, after all has come to its end.
func (x *explorer) probe(o op, first outcome, s state) string {
	n, _ := x.outcomes.put("probe " + o.who() + o.String() + first.window.String())
	key := checkKey{before: s.tables, after: n, clock: s.clock}
	if wrong, ok := x.probed[key]; ok {
		return wrong
	}
	w := *x.world
	w.clients, w.times, w.faults = []script{{ops: []op{o}}}, w.times[s.clock:s.clock+1], 0
	w.invariants = invariants{
		decided: func(_ *explorer, _ op, out outcome, _ state, _ bool) string {
			if !out.replay || !out.allowed || !out.agrees(first) {
				return fmt.Sprintf("rule 5: %s was answered with %+v, and when it was asked again with %+v", o, first, out)
			}
			return ""
		},
		ended: func(*explorer, state) string { return "" },
	}
	y := newExplorer(&w)
	y.mutate = x.mutate
	wrong := ""
	if v := y.explore(x.values[s.tables]); v != nil {
		wrong = v.what
	}
	x.probed[key] = wrong
	return wrong
}
