package storetest

import (
	"context"
	"sync/atomic"

	"github.com/lumcast/headroom"
)

// tap stands between an engine and a store. A test counts the calls, or gets in their way.
type tap struct {
	headroom.Store
	loads, commits, applied atomic.Int64

	// load runs before each Load, whose error it can be.
	load func() error
	// loaded changes what Load brings.
	loaded func(headroom.Query, headroom.View) headroom.View
	// commit takes the place of Commit. It is given the store behind the tap.
	commit func(context.Context, headroom.Change, headroom.Store) (headroom.View, bool, error)
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

// tapped returns a tap on the store, and the account as an engine on that tap sees it.
func (a account) tapped(o headroom.Options) (*tap, account) {
	a.w.Helper()
	s := &tap{Store: a.w.store}
	a.engine = a.w.engine(s, a.catalog, o)
	return s, a
}

// ids returns the ids of the records in a change.
func ids(c headroom.Change) (ids []string) {
	for _, r := range c.Records {
		ids = append(ids, r.ID)
	}
	return ids
}
