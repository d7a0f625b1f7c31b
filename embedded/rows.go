package embedded

import (
	"cmp"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/lumcast/headroom"
)

// found is what the rows of one key say, read under the lock of its stripe.
type found struct {
	entry
	plan    string
	records map[string]headroom.Record // of the ids asked for
	older   bool                       // the row is written for programs that know no debts
}

func (f found) view(now time.Time) headroom.View {
	v := headroom.View{State: f.state, Records: f.records, Now: now, Older: f.older}
	v.State.Plan = f.plan
	return v
}

// find reads the state of a key without its history, its subject's plan, and what is remembered of
// ids at a time.
func (s *Store) find(k headroom.Key, now time.Time, ids ...string) (found, error) {
	f := found{records: map[string]headroom.Record{}}
	_, err := s.get(planKey(k.Subject), func(row []byte) error {
		f.plan = string(row)
		return nil
	})
	if err != nil {
		return found{}, s.unread(k, err)
	}
	_, err = s.get(stateKey(k), func(row []byte) (err error) {
		f.entry, err = decodeEntry(row)
		return err
	})
	if err != nil {
		return found{}, s.unread(k, err)
	}
	f.older = s.older && !f.debts
	if f.oldHolds || f.grants || f.debts || f.buckets { // most have none
		if err := s.findParts(k, f.entry, &f.state); err != nil {
			return found{}, s.unread(k, err)
		}
	}
	for _, id := range ids {
		if err := s.findRecord(k, now, id, &f); err != nil {
			return found{}, s.unread(k, err)
		}
	}
	return f, nil
}

// findParts reads what most keys have none of: grants, debts, buckets of holds.
func (s *Store) findParts(k headroom.Key, e entry, state *headroom.State) error {
	for _, part := range []struct {
		there bool
		key   func(headroom.Key) []byte
		read  func([]byte) error
	}{
		{e.oldHolds, holdsKey, func(row []byte) (err error) { state.OldHolds, err = decodeHolds(row); return err }},
		{e.grants, grantsKey, func(row []byte) (err error) { state.Grants, err = decodeGrants(row); return err }},
		{e.debts, debtsKey, func(row []byte) (err error) { state.Debts, err = decodeDebts(row); return err }},
		{e.buckets, bucketsKey, func(row []byte) error { return decodeBuckets(row, state) }},
	} {
		if !part.there {
			continue
		}
		if ok, err := s.get(part.key(k), part.read); err != nil || !ok {
			return cmp.Or(err, errDamaged)
		}
	}
	return nil
}

// findRecord adds to f what is remembered of an id: an old hold, or else what the young generation
// says, or else the old one. If the generation before those is not over yet, it was forgotten too
// early, and counts too.
func (s *Store) findRecord(k headroom.Key, now time.Time, id string, f *found) error {
	if hold, ok := f.state.OldHolds[id]; ok {
		f.records[id] = hold
		return nil
	}
	for i, g := range f.generations() {
		if g.kind == noGeneration || i == 2 && !f.over.After(now) {
			continue
		}
		ok, err := s.get(opKey(g, k, id), func(row []byte) (err error) {
			f.records[id], err = headroom.ParseRecord(string(row))
			return err
		})
		if ok || err != nil {
			return err
		}
	}
	return nil
}

// findHistory adds the stored history of the named counters to e.
func (s *Store) findHistory(k headroom.Key, e entry, counters []string) error {
	for _, name := range counters {
		c := e.state.Counters[name]
		if !c.Partial {
			continue
		}
		ok, err := s.get(historyKey(k, name), func(row []byte) (err error) {
			c.Past, err = decodeHistory(row)
			return err
		})
		if err == nil && !ok {
			err = errDamaged
		}
		if err != nil {
			return s.unread(k, err)
		}
		c.Partial = false
		e.state.Counters[name] = c
	}
	return nil
}

// get calls read with the row of key, if there is one. The row is only valid during the call.
func (s *Store) get(key []byte, read func(row []byte) error) (found bool, err error) {
	row, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err = read(row); err != nil {
		_ = closer.Close()
		return false, err
	}
	return true, closer.Close()
}

// unread is the error of a key whose rows could not be read.
func (s *Store) unread(k headroom.Key, cause error) error {
	if err := s.stopped(); err != nil {
		return err // no wonder
	}
	if errors.Is(cause, errDamaged) || errors.Is(cause, headroom.Unreadable) || pebble.IsCorruptionError(cause) {
		return headroom.Errorf(headroom.Unreadable, cause, "what the store in %s has for subject %q, meter %q cannot be read; nothing was written", s.dir, k.Subject, k.Meter)
	}
	return headroom.Errorf(headroom.Unavailable, cause, "reading subject %q, meter %q from the store in %s; nothing was written", k.Subject, k.Meter, s.dir)
}

// rewritten names the counters whose history c changes.
func rewritten(c headroom.Change) []string {
	var names []string
	for _, step := range c.Steps {
		if step.Opens && !step.From.IsZero() || len(step.Fold)+len(step.Past) > 0 {
			names = append(names, step.Limit)
		}
	}
	return names
}

// generations are those of which ids may be remembered, the youngest first.
func (e entry) generations() [3]generation { return [3]generation{e.young, e.old, e.older} }

// after is e once c is applied; state is what c made of e's.
func (e entry) after(c headroom.Change, state headroom.State) entry {
	e.state, e.oldHolds, e.grants, e.debts = state, len(state.OldHolds) > 0, len(state.Grants) > 0, len(state.Debts) > 0
	e.buckets = len(state.Buckets) > 0 || state.Series != 0 || !state.Swept.IsZero()
	kind := byClock
	if !c.Now.IsZero() {
		kind = byCaller
	}
	if !c.Rotate.IsZero() {
		e.young, e.old, e.older = generation{kind: kind, label: c.Rotate}, e.young, e.old
		if e.over = (time.Time{}); e.older.kind != noGeneration {
			e.over = e.older.label.Add(2 * c.Horizon)
		}
	} else if e.young.kind == noGeneration {
		e.young = generation{kind: kind, label: c.Epoch}
	}
	return e
}

// put adds to b the rows that c changes, from before to after.
func put(b *pebble.Batch, c headroom.Change, before, after entry) error {
	errs := []error{b.Set(stateKey(c.Key), after.encode(), nil)}
	old := false
	for _, r := range c.Records {
		old = old || r.Old
		if r.Is != nil {
			errs = append(errs, b.Set(opKey(after.young, c.Key, r.ID), []byte(r.Is.String()), nil))
			continue
		}
		// What the generation before the older one says would come back when the clock is set back.
		for i, g := range before.generations() {
			if g.kind != noGeneration && (i == 2 || r.Was != nil) {
				errs = append(errs, b.Delete(opKey(g, c.Key, r.ID), nil))
			}
		}
	}
	row := func(changed, there bool, key func(headroom.Key) []byte, value func() []byte) {
		switch {
		case changed && there:
			errs = append(errs, b.Set(key(c.Key), value(), nil))
		case changed:
			errs = append(errs, b.Delete(key(c.Key), nil))
		}
	}
	row(old, after.oldHolds, holdsKey, func() []byte { return encodeHolds(after.state.OldHolds) })
	row(len(c.Buckets) > 0 || c.NewSeries, after.buckets, bucketsKey, func() []byte { return encodeBuckets(after.state) })
	row(len(c.Grants) > 0, after.grants, grantsKey, func() []byte { return encodeGrants(after.state.Grants) })
	row(len(c.Debts) > 0, after.debts, debtsKey, func() []byte { return encodeDebts(after.state.Debts) })
	for _, name := range rewritten(c) {
		past := after.state.Counters[name].Past
		row(true, len(past) > 0, func(k headroom.Key) []byte { return historyKey(k, name) }, func() []byte { return encodeHistory(past) })
	}
	return errors.Join(errs...)
}
