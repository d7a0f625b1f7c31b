package embedded

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/lumcast/headroom"
)

// found is what the rows of one key say, read under the lock of its stripe.
type found struct {
	entry
	plan   string
	charge *headroom.Charge
}

func (f found) view(now time.Time) headroom.View {
	v := headroom.View{State: f.state, Charge: f.charge, Now: now}
	v.State.Plan = f.plan
	return v
}

// find reads the state of a key without its history, its subject's plan, and what an operation was charged.
func (s *Store) find(k headroom.Key, operation string) (found, error) {
	var f found
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
	for _, g := range []generation{f.young, f.old} {
		if operation == "" || g.kind == noGeneration || f.charge != nil {
			continue
		}
		_, err := s.get(opKey(g, k, operation), func(row []byte) error {
			charge, err := headroom.ParseCharge(string(row))
			f.charge = &charge
			return err
		})
		if err != nil {
			return found{}, s.unread(k, err)
		}
	}
	return f, nil
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
	if errors.Is(cause, errDamaged) || errors.Is(cause, headroom.ErrFormat) || pebble.IsCorruptionError(cause) {
		return headroom.Errorf(headroom.CodeFormat, cause, "what the store in %s has for subject %q, meter %q cannot be read; nothing was written", s.dir, k.Subject, k.Meter)
	}
	return headroom.Errorf(headroom.CodeUnavailable, cause, "reading subject %q, meter %q from the store in %s; nothing was written", k.Subject, k.Meter, s.dir)
}

// rewritten names the counters whose history c changes.
func rewritten(c headroom.Change) []string {
	var names []string
	for _, step := range c.Steps {
		if step.Opens() && !step.From.IsZero() || len(step.Fold) > 0 {
			names = append(names, step.Limit)
		}
	}
	return names
}

// after is e once c is applied; state is what c made of e's.
func (e entry) after(c headroom.Change, state headroom.State) entry {
	e.state = state
	kind := byClock
	if !c.Now.IsZero() {
		kind = byCaller
	}
	if !c.Rotate.IsZero() {
		e.young, e.old = generation{kind: kind, label: c.Rotate}, e.young
	} else if e.young.kind == noGeneration {
		e.young = generation{kind: kind, label: c.Epoch}
	}
	return e
}

// put adds to b the rows that c changes; e is the entry after it.
func put(b *pebble.Batch, c headroom.Change, e entry) error {
	errs := []error{
		b.Set(stateKey(c.Key), e.encode(), nil),
		b.Set(opKey(e.young, c.Key, c.Operation), []byte(c.Charge.String()), nil),
	}
	for _, name := range rewritten(c) {
		if past := e.state.Counters[name].Past; len(past) > 0 {
			errs = append(errs, b.Set(historyKey(c.Key, name), encodeHistory(past), nil))
		} else {
			errs = append(errs, b.Delete(historyKey(c.Key, name), nil))
		}
	}
	return errors.Join(errs...)
}
