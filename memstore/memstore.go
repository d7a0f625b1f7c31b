// Package memstore keeps state in memory, for tests, examples and trial runs. It forgets everything
// when the process ends. It may keep a Change that it is given, so a caller must not alter one
// after it was committed.
package memstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lumcast/headroom"
)

// Store is a headroom.Store in memory. Make one with New.
type Store struct {
	clock func() time.Time

	mu      sync.Mutex
	plans   map[string]string
	entries map[headroom.Key]entry
}

// entry is the state of one key and its two generations of remembered ids.
type entry struct {
	state      headroom.State // without the plan, which belongs to the subject
	young, old map[string]headroom.Record
}

var (
	_ headroom.Store     = (*Store)(nil)
	_ headroom.Forgetter = (*Store)(nil)
	_ headroom.Joiner    = (*Store)(nil)
)

// New returns an empty store. Its time is that of clock; nil is time.Now.
func New(clock func() time.Time) *Store {
	if clock == nil {
		clock = time.Now
	}
	return &Store{clock: clock, plans: map[string]string{}, entries: map[headroom.Key]entry{}}
}

// Load implements headroom.Store.
func (s *Store) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	views, err := s.LoadAll(ctx, []headroom.Query{q})
	if err != nil {
		return headroom.View{}, err
	}
	return views[0], nil
}

// Commit implements headroom.Store.
func (s *Store) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	views, done, err := s.CommitAll(ctx, []headroom.Change{c})
	if err != nil {
		return headroom.View{}, false, err
	}
	return views[0], done, nil
}

// Joins implements headroom.Joiner. The store joins whatever keys.
func (s *Store) Joins([]headroom.Key, int) error { return nil }

// LoadAll implements headroom.Joiner.
func (s *Store) LoadAll(ctx context.Context, queries []headroom.Query) ([]headroom.View, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	views, now := make([]headroom.View, len(queries)), s.clock()
	for i, q := range queries {
		views[i] = s.view(q.Key, q.IDs, orNow(q.Now, now))
	}
	return views, nil
}

// CommitAll implements headroom.Joiner.
func (s *Store) CommitAll(ctx context.Context, changes []headroom.Change) ([]headroom.View, bool, error) {
	if err := alive(ctx); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	views, met, now := make([]headroom.View, len(changes)), true, s.clock()
	for i, c := range changes {
		views[i] = s.view(c.Key, c.IDs(), orNow(c.Now, now))
		met = met && c.Unmet(views[i]) == ""
	}
	if !met {
		return views, false, nil
	}
	for i, c := range changes {
		s.apply(c, views[i].State)
		views[i] = s.view(c.Key, c.IDs(), orNow(c.Now, now))
	}
	return views, true, nil
}

// apply stores what a change makes of a state.
func (s *Store) apply(c headroom.Change, state headroom.State) {
	e := s.entries[c.Key]
	if !c.Rotate.IsZero() || e.young == nil {
		e.old, e.young = e.young, map[string]headroom.Record{}
	}
	for _, r := range c.Records {
		delete(e.young, r.ID)
		delete(e.old, r.ID)
		if r.Is != nil {
			e.young[r.ID] = *r.Is
		}
	}
	e.state = c.Apply(state)
	s.entries[c.Key] = e
}

// SetPlan implements headroom.Store.
func (s *Store) SetPlan(ctx context.Context, subject, plan string) error {
	if err := alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if plan == "" {
		delete(s.plans, subject)
	} else {
		s.plans[subject] = plan
	}
	return nil
}

// Forget implements headroom.Forgetter.
func (s *Store) Forget(ctx context.Context, subject string, _ []string, progress func(rows int)) (rows int, err error) {
	if err := alive(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.entries {
		if key.Subject == subject {
			rows += 1 + len(e.young) + len(e.old)
			delete(s.entries, key)
		}
	}
	if _, ok := s.plans[subject]; ok {
		rows++
		delete(s.plans, subject)
	}
	progress(rows)
	return rows, nil
}

// Owing implements headroom.Store. A page goes on after a key, which its next names by subject and
// meter.
func (s *Store) Owing(ctx context.Context, after string, limit int) ([]headroom.Key, string, error) {
	if err := alive(ctx); err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := func(k headroom.Key) string { return strconv.Quote(k.Subject) + " " + strconv.Quote(k.Meter) }
	var keys []headroom.Key
	for key, e := range s.entries {
		if len(e.state.Debts) > 0 && name(key) > after {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b headroom.Key) int { return strings.Compare(name(a), name(b)) })
	if len(keys) <= limit {
		return keys, "", nil
	}
	return keys[:limit], name(keys[limit-1]), nil
}

// Close implements headroom.Store. The store stays usable: its content lives as long as it does.
func (s *Store) Close() error { return nil }

// orNow is the time that a caller gives or, if that is zero, the clock's.
func orNow(given, now time.Time) time.Time {
	if given.IsZero() {
		return now
	}
	return given
}

// view is what is stored, with the time to decide by. Nothing in it is shared with what later
// commits change: Apply copies.
func (s *Store) view(key headroom.Key, ids []string, now time.Time) headroom.View {
	e := s.entries[key]
	e.state.Plan = s.plans[key.Subject]
	v := headroom.View{State: e.state, Records: map[string]headroom.Record{}, Now: now}
	for _, id := range ids {
		for _, known := range []map[string]headroom.Record{e.old, e.young, e.state.OldHolds} {
			if r, ok := known[id]; ok {
				v.Records[id] = r
			}
		}
	}
	return v
}

func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return headroom.Errorf(headroom.Unavailable, err, "nothing was written")
	}
	return nil
}
