package embedded

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/lumcast/headroom"
)

// A commit of several keys holds the locks of all their subjects, and its batch has the rows of
// all. So others see all of it or nothing, and so does whoever opens the store after a crash.
// Everybody takes locks in the order of the stripes: two commits never wait for one another.

// Joins implements headroom.Joiner. The store joins whatever keys.
func (s *Store) Joins([]headroom.Key, int) error { return nil }

// LoadAll implements headroom.Joiner. It fails as Load does.
func (s *Store) LoadAll(ctx context.Context, queries []headroom.Query) ([]headroom.View, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	times, subjects := make([]time.Time, len(queries)), make([]string, len(queries))
	for i, q := range queries {
		times[i], subjects[i] = q.Now, q.Key.Subject
	}
	if err := s.presentAll(times); err != nil {
		return nil, err
	}
	all := s.stripesOf(subjects)
	for _, st := range all {
		st.mu.RLock()
	}
	views, err := make([]headroom.View, len(queries)), error(nil)
	for i, q := range queries {
		if err == nil {
			views[i], err = s.load(q, times[i])
		}
	}
	last := make([]pending, len(all))
	for i, st := range all {
		last[i] = st.last
		st.mu.RUnlock()
	}
	if err == nil {
		err = s.settled(ctx, last)
	}
	if err != nil {
		return nil, err
	}
	return views, nil
}

// presentAll puts one reading of the clock in the place of each time that is not given.
func (s *Store) presentAll(times []time.Time) error {
	var present time.Time
	for i := range times {
		if !times[i].IsZero() {
			continue
		}
		if present.IsZero() {
			var err error
			if present, err = s.present(time.Time{}); err != nil {
				return err
			}
		}
		times[i] = present
	}
	return nil
}

// load reads one key at a time, under the lock of its stripe.
func (s *Store) load(q headroom.Query, now time.Time) (headroom.View, error) {
	f, err := s.find(q.Key, now, q.IDs...)
	if err == nil && q.History {
		err = s.findHistory(q.Key, f.entry, slices.Collect(maps.Keys(f.state.Counters)))
	}
	return f.view(now), err
}

// stripesOf returns the stripes of subjects, each once, in the order in which they are locked.
func (s *Store) stripesOf(subjects []string) []*stripe {
	var at []uint64
	for _, subject := range subjects {
		at = append(at, s.stripeOf(subject))
	}
	slices.Sort(at)
	var all []*stripe
	for _, i := range slices.Compact(at) {
		all = append(all, &s.stripes[i])
	}
	return all
}

// CommitAll implements headroom.Joiner. It fails as Commit does.
func (s *Store) CommitAll(ctx context.Context, changes []headroom.Change) ([]headroom.View, bool, error) {
	if err := s.usable(ctx); err != nil {
		return nil, false, err
	}
	times := make([]time.Time, len(changes))
	for i, c := range changes {
		times[i] = c.Now
	}
	if err := s.presentAll(times); err != nil {
		return nil, false, err
	}
	w := joined{Store: s, parts: make([]joinedPart, len(changes))}
	for i, c := range changes {
		w.parts[i] = joinedPart{change: c, now: times[i]}
	}
	b, on, err := w.attempt(ctx)
	if b != nil {
		s.wrote.Store(true)
		if err = s.sync(b, on[0], err); err == nil {
			w.turned()
		}
	} else if err == nil {
		err = s.settled(ctx, on)
	}
	if err != nil {
		return nil, false, err
	}
	views := make([]headroom.View, len(changes))
	for i, p := range w.parts {
		views[i] = p.view
	}
	return views, b != nil, nil
}

// joined is a commit of several changes under way.
type joined struct {
	*Store
	parts []joinedPart
}

// joinedPart is one change, the time that holds for it, what was found for it, and the view that
// it shows.
type joinedPart struct {
	change headroom.Change
	now    time.Time
	found  found
	view   headroom.View
}

// attempt checks the guards of all changes and, if they hold, applies them. It returns the batch,
// which is nil if nothing was written. It also returns the changes to wait for: that of the batch,
// or those that the guards may have seen.
func (w *joined) attempt(ctx context.Context) (*pebble.Batch, []pending, error) {
	subjects := make([]string, len(w.parts))
	for i, p := range w.parts {
		subjects[i] = p.change.Key.Subject
	}
	all := w.stripesOf(subjects)
	for _, st := range all {
		st.mu.Lock()
		defer st.mu.Unlock()
	}
	met := true
	for i := range w.parts {
		p := &w.parts[i]
		if err := w.find(p); err != nil {
			return nil, nil, err
		}
		met = met && p.change.Unmet(p.view) == ""
	}
	if err := w.usable(ctx); err != nil { // it may have been a long wait for the locks
		return nil, nil, err
	}
	if !met {
		last := make([]pending, len(all))
		for i, st := range all {
			last[i] = st.last
		}
		return nil, last, nil
	}
	on := make(pending)
	for _, st := range all {
		st.last = on
	}
	b, err := w.put()
	return b, []pending{on}, err
}

// find reads what a change is about, under the lock of its stripe.
func (w *joined) find(p *joinedPart) (err error) {
	c := p.change
	if p.found, err = w.Store.find(c.Key, p.now, c.IDs()...); err == nil {
		err = w.findHistory(c.Key, p.found.entry, rewritten(c))
	}
	if err == nil && p.found.older && len(w.parts) > 1 {
		err = headroom.Errorf(headroom.Rejected, nil,
			"format 1 has no requests of several meters; nothing was written. Open the store with the newest format, once every program reads it")
	}
	if p.found.older {
		p.change = c.WithoutDebts()
	}
	p.view = p.found.view(p.now)
	return err
}

// put applies the changes in one batch, and makes of each view that after its change.
func (w *joined) put() (*pebble.Batch, error) {
	b := w.db.NewBatch()
	var errs []error
	for i := range w.parts {
		p := &w.parts[i]
		c := p.change
		p.view.State = c.Apply(p.view.State)
		for _, r := range c.Records {
			delete(p.view.Records, r.ID)
			if r.Is != nil {
				p.view.Records[r.ID] = *r.Is
			}
		}
		errs = append(errs, put(b, c, p.found.entry, p.found.after(c, p.view.State)))
	}
	if err := errors.Join(errs...); err != nil {
		return b, err
	}
	return b, w.apply(b, w.parts)
}

// turned tells the sweep of new generations of ids, once they are on disk.
func (w *joined) turned() {
	for _, p := range w.parts {
		if c := p.change; c.Now.IsZero() && !c.Rotate.IsZero() {
			w.Store.turned(c.Rotate)
		}
	}
}
