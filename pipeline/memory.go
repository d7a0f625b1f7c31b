package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lumcast/headroom"
)

// Memory is a table of jobs in memory, for tests and trial runs. The zero value is empty and ready.
type Memory struct {
	mu       sync.Mutex
	jobs     map[string]Job
	bookmark Opened
}

var _ Jobs = (*Memory)(nil)

// Get implements Jobs.
func (m *Memory) Get(ctx context.Context, id string) (Job, bool, error) {
	if err := alive(ctx); err != nil {
		return Job{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j, ok := m.jobs[id]
	return j, ok, nil
}

// Swap implements Jobs.
func (m *Memory) Swap(ctx context.Context, was, is Job) (bool, error) {
	if err := alive(ctx); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.jobs[is.ID]
	if have.UserID != was.UserID || have.Status != was.Status || have.Charge != was.Charge ||
		have.Attempt != was.Attempt || have.Returns != was.Returns {
		return false, nil
	}
	if m.jobs == nil {
		m.jobs = map[string]Job{}
	}
	m.jobs[is.ID] = is
	return true, nil
}

// Open implements Jobs.
func (m *Memory) Open(ctx context.Context, after Opened, before time.Time, use func(Opened) bool) error {
	if err := alive(ctx); err != nil {
		return err
	}
	var open []Opened
	m.mu.Lock()
	for _, j := range m.jobs {
		if o := j.Opened(); j.Open() && o.Since.Before(before) && o.Compare(after) > 0 {
			open = append(open, o)
		}
	}
	m.mu.Unlock() // use may write
	slices.SortFunc(open, Opened.Compare)
	for _, o := range open {
		if !use(o) {
			break
		}
	}
	return nil
}

// Bookmark implements Jobs.
func (m *Memory) Bookmark(ctx context.Context) (Opened, error) {
	if err := alive(ctx); err != nil {
		return Opened{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bookmark, nil
}

// SetBookmark implements Jobs.
func (m *Memory) SetBookmark(ctx context.Context, at Opened) error {
	if err := alive(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bookmark = at
	return nil
}

// List implements Jobs.
func (m *Memory) List(ctx context.Context, f Filter, use func(Job) bool) error {
	if err := alive(ctx); err != nil {
		return err
	}
	var all []Job
	m.mu.Lock()
	for _, j := range m.jobs {
		if f.chooses(j) {
			all = append(all, j)
		}
	}
	m.mu.Unlock() // use may write
	for _, j := range all {
		if !use(j) {
			break
		}
	}
	return nil
}

func (f Filter) chooses(j Job) bool {
	return (f.UserID == "" || f.UserID == j.UserID) && (f.Status == "" || f.Status == j.Status)
}

// alive fails if the caller has gone, as a request to a real table would.
func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return headroom.Errorf(headroom.Unavailable, err, "nothing was written")
	}
	return nil
}
