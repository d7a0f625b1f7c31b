package pipeline

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lumcast/headroom"
)

// Memory is a table of jobs in memory: for tests and trial runs. The zero value is empty and ready.
type Memory struct {
	mu   sync.Mutex
	jobs map[string]Job
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
	if have.UserID != was.UserID || have.Status != was.Status || have.Charge != was.Charge || have.Attempt != was.Attempt {
		return false, nil
	}
	if m.jobs == nil {
		m.jobs = map[string]Job{}
	}
	m.jobs[is.ID] = is
	return true, nil
}

// Open implements Jobs.
func (m *Memory) Open(ctx context.Context, before time.Time, use func(Job) bool) error {
	return m.each(ctx, func(j Job) bool { return j.open() && j.UpdatedAt.Before(before) }, use)
}

// List implements Jobs.
func (m *Memory) List(ctx context.Context, f Filter, use func(Job) bool) error {
	return m.each(ctx, f.chooses, use)
}

func (f Filter) chooses(j Job) bool {
	return (f.UserID == "" || f.UserID == j.UserID) && (f.Status == "" || f.Status == j.Status)
}

func (m *Memory) each(ctx context.Context, chosen, use func(Job) bool) error {
	if err := alive(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	var all []Job
	for _, j := range m.jobs {
		if chosen(j) {
			all = append(all, j)
		}
	}
	m.mu.Unlock() // use may write
	slices.SortFunc(all, func(a, b Job) int {
		if c := a.UpdatedAt.Compare(b.UpdatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	for _, j := range all {
		if !use(j) {
			break
		}
	}
	return nil
}

func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return headroom.Errorf(headroom.CodeUnavailable, err, "nothing was written")
	}
	return nil
}
