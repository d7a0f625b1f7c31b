package storetest

import (
	"context"
	"sync/atomic"

	"github.com/lumcast/headroom"
)

// tap is a store that a test listens to or interferes with.
type tap struct {
	headroom.Store
	loads, commits, applied atomic.Int64

	load   func() error                                                                        // runs before each Load
	loaded func(headroom.Query, headroom.View) headroom.View                                   // changes what Load brings
	commit func(context.Context, headroom.Change, headroom.Store) (headroom.View, bool, error) // takes the place of Commit
}

func (s *tap) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	s.loads.Add(1)
	if s.load != nil {
		if err := s.load(); err != nil {
			return headroom.View{}, err
		}
	}
	v, err := s.Store.Load(ctx, q)
	if err == nil && s.loaded != nil {
		v = s.loaded(q, v)
	}
	return v, err
}

func (s *tap) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	s.commits.Add(1)
	commit := s.commit
	if commit == nil {
		commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
			return to.Commit(ctx, c)
		}
	}
	v, done, err := commit(ctx, c, s.Store)
	if done {
		s.applied.Add(1)
	}
	return v, done, err
}

// tapped returns a tap on the world's store, and the account as an engine on the tap sees it.
func (a account) tapped(o headroom.Options) (*tap, account) {
	a.w.Helper()
	s := &tap{Store: a.w.store}
	a.engine = a.w.engine(s, a.catalog, o)
	return s, a
}

// ids are the ids that a change names.
func ids(c headroom.Change) (ids []string) {
	for _, r := range c.Records {
		ids = append(ids, r.ID)
	}
	return ids
}
