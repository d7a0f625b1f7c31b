package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Settings of a reconciliation that are used where none are given.
const (
	DefaultWorkers   = 16
	DefaultDescribes = 10 // a second: what every region of Step Functions refills at least
)

// describeBurst is how many executions are asked about at once before the rate counts. AWS fills
// up an account's bucket of some hundreds between two runs.
const describeBurst = 100

// laneLength bounds how many running jobs wait for their turn to be asked about.
const laneLength = 1 << 16

// bookmarkEvery is after how many jobs the bookmark is kept, for a run that is cut off.
const bookmarkEvery = 1000

// mostFailures is how many failures the error of a run names. The log has all of them.
const mostFailures = 10

// ReconcileOptions are the settings of a reconciliation.
type ReconcileOptions struct {
	// OlderThan leaves alone what was written later. It must leave the usual way time to finish by
	// itself.
	OlderThan time.Duration
	// DryRun changes nothing, and counts as finished what would be.
	DryRun bool
	// Workers is how many jobs are handled at once. Zero: DefaultWorkers.
	Workers int
	// Describes is how many executions are asked about a second. Zero: DefaultDescribes. A job whose
	// charge is pending needs no such question.
	Describes float64
	// Each hears of each job that was finished, or could not be, one at a time, with what was done.
	// Nil: nobody.
	Each func(j Job, did string, err error)
}

// Reconciliation is what a reconciliation found and did.
type Reconciliation struct {
	Seen     int  `json:"seen"`     // jobs that were open for too long
	Finished int  `json:"finished"` // of these, brought to their end
	Running  int  `json:"running"`  // their executions still run
	Waiting  int  `json:"waiting"`  // queued; their messages wait, or lie in the dead-letter queue
	Failed   int  `json:"failed"`   // could not be looked at or charged this time
	More     bool `json:"more"`     // the time was over before the last one; the next run goes on there
}

// Reconcile finishes jobs that have been open for long: those whose last event never came, and
// those whose charge is pending. It asks each execution how it stands, and does what the callback
// would have done. It may run twice at a time, and beside the callback.
//
// It begins where the last run stopped, takes the one that has been open for longest first, and
// handles jobs as it reads. Shortly before the context ends it stops and keeps its place. So each
// run makes progress, and jobs that cannot be finished do not keep others from it.
func (p *Pipeline) Reconcile(ctx context.Context, o ReconcileOptions) (Reconciliation, error) {
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	o.Describes = cmp.Or(o.Describes, DefaultDescribes)
	if o.Workers < 1 || !(o.Describes > 0) || o.OlderThan < 0 {
		return Reconciliation{}, invalid("a reconciliation wants at least one worker, a rate above 0 and an age of 0 or more")
	}
	s := &sweep{p: p, opts: o, before: p.now().Add(-o.OlderThan), pace: pace{every: time.Duration(float64(time.Second) / o.Describes)}}
	return s.run(ctx)
}

// sweep is one run of a reconciliation.
type sweep struct {
	p      *Pipeline
	opts   ReconcileOptions
	before time.Time
	pace   pace
	work   context.Context // of the handling of jobs, which goes on a little when reading has stopped
	lane   chan *task      // jobs whose executions wait to be asked about. Nil: each is asked about at once

	mu       sync.Mutex
	found    Reconciliation
	failures []error
	left     *task // the first of those that were not handled in time
}

// task is one open job on its way through a sweep.
type task struct {
	n     int // in the order of reading
	at    Opened
	after Opened // the place before it
	job   Job
}

func (s *sweep) run(ctx context.Context) (Reconciliation, error) {
	reading, work, cancel := s.times(ctx)
	defer cancel()
	s.work = work
	start := Opened{}
	var err error
	if !s.opts.DryRun {
		if start, err = s.p.jobs.Bookmark(reading); err != nil {
			return s.found, err
		}
	}
	last, whole, err := s.read(reading, start)
	mark := last
	switch {
	case s.left != nil:
		mark, whole = s.left.after, false
	case whole:
		mark = Opened{}
	}
	s.found.More = !whole
	if err != nil {
		s.failures = append(s.failures, err)
	}
	if !s.opts.DryRun && mark != start {
		if err := s.p.jobs.SetBookmark(work, mark); err != nil {
			s.failures = append(s.failures, err)
		}
	}
	if more := s.found.Failed - mostFailures; more > 0 {
		s.failures = append(s.failures, fmt.Errorf("and %d more", more))
	}
	return s.found, errors.Join(s.failures...)
}

// times divides what time a context has: for reading, and a little longer for what is under way
// and the bookmark. Who cancels the context stops the reading, and no job in the middle.
func (s *sweep) times(ctx context.Context) (reading, work context.Context, cancel func()) {
	work = context.WithoutCancel(ctx)
	end, bounded := ctx.Deadline()
	if !bounded {
		return ctx, work, func() {}
	}
	left := time.Until(end)
	reading, stopReading := context.WithDeadline(ctx, end.Add(-min(15*time.Second, left/5)))
	work, stopWork := context.WithDeadline(work, end.Add(-min(2*time.Second, left/20)))
	return reading, work, func() { stopReading(); stopWork() }
}

// read hands out each open job, from a place to the end and then from the beginning to that place.
// It returns the last place that was handed out, and whether that was all, when all that was handed
// out has been handled.
func (s *sweep) read(ctx context.Context, start Opened) (last Opened, whole bool, err error) {
	var workers, askers sync.WaitGroup
	hand := s.look
	if s.opts.Workers > 1 {
		s.lane = make(chan *task, laneLength)
		tasks := make(chan *task)
		for range s.opts.Workers {
			workers.Go(func() {
				for t := range tasks {
					s.look(ctx, t)
				}
			})
			askers.Go(func() {
				for t := range s.lane {
					s.ask(ctx, t)
				}
			})
		}
		hand = func(ctx context.Context, t *task) {
			select {
			case tasks <- t:
			case <-ctx.Done():
				s.leave(t)
			}
		}
		defer func() {
			close(tasks)
			workers.Wait()
			close(s.lane)
			askers.Wait()
		}()
	}
	n := 0
	last = start
	part := func(from Opened, stop func(Opened) bool) error {
		return s.p.jobs.Open(ctx, from, s.before, func(o Opened) bool {
			if ctx.Err() != nil || stop(o) {
				return false
			}
			hand(ctx, &task{n: n, at: o, after: last})
			last = o
			n++
			if n%bookmarkEvery == 0 && !s.opts.DryRun {
				// In case the run is cut off. Should this fail, the next one looks at some jobs again.
				_ = s.p.jobs.SetBookmark(ctx, last)
			}
			return true
		})
	}
	err = part(start, func(Opened) bool { return false })
	if err == nil && ctx.Err() == nil && !start.IsZero() {
		last = Opened{}
		err = part(Opened{}, func(o Opened) bool { return o.Compare(start) > 0 })
	}
	if ctx.Err() != nil {
		err = nil // the time is over, which is no failure
	}
	return last, err == nil && ctx.Err() == nil, err
}

// leave notes a job that this run does not come to.
func (s *sweep) leave(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == nil || t.n < s.left.n {
		s.left = t
	}
}

// look reads a job, and finishes it unless its execution has to be asked first.
func (s *sweep) look(ctx context.Context, t *task) {
	if ctx.Err() != nil {
		s.leave(t)
		return
	}
	bounded, cancel := context.WithTimeout(s.work, s.p.opts.PerMessage)
	defer cancel()
	j, found, err := s.p.jobs.Get(bounded, t.at.ID)
	switch {
	case err != nil:
		seen := sighting{job: Job{ID: t.at.ID}}
		s.p.report(ctx, atReconcile, seen, err)
		s.count(seen, false, err)
		return
	case !found || !j.Open() || !j.UpdatedAt.Before(s.before):
		return // the index runs a little behind, and knows only since when a job is open
	}
	t.job = j
	switch {
	case !j.mayRun():
		s.handle(bounded, t)
	case s.lane == nil:
		s.ask(ctx, t)
	default:
		select {
		case s.lane <- t:
		case <-ctx.Done():
			s.leave(t)
		}
	}
}

// ask waits for its turn, and then asks how an execution stands and finishes its job.
func (s *sweep) ask(ctx context.Context, t *task) {
	if !s.pace.wait(ctx) {
		s.leave(t)
		return
	}
	bounded, cancel := context.WithTimeout(s.work, s.p.opts.PerMessage)
	defer cancel()
	s.handle(bounded, t)
}

func (s *sweep) handle(ctx context.Context, t *task) {
	began := time.Now()
	seen, ended, err := s.p.reconcile(ctx, t.job, s.opts.DryRun)
	seen.took = time.Since(began)
	if (ended || err != nil || seen.job.Status != t.job.Status) && !s.opts.DryRun {
		s.p.report(ctx, atReconcile, seen, err)
	}
	s.count(seen, ended, err)
}

// count adds up what became of a job.
func (s *sweep) count(seen sighting, ended bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found.Seen++
	switch {
	case err != nil:
		s.found.Failed++
		if len(s.failures) < mostFailures {
			s.failures = append(s.failures, err)
		}
	case ended:
		s.found.Finished++
	case seen.job.Status == Queued:
		s.found.Waiting++
	default:
		s.found.Running++
	}
	if s.opts.Each != nil && (ended || err != nil || seen.decision == decisionQueued) {
		s.opts.Each(seen.job, seen.decision, err)
	}
}

// pace lets a few pass at once and then one at a time.
type pace struct {
	every time.Duration
	mu    sync.Mutex
	next  time.Time
}

// wait waits for the caller's turn. It returns false if the context ends before.
func (p *pace) wait(ctx context.Context) bool {
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-(describeBurst - 1) * p.every); p.next.Before(earliest) {
		p.next = earliest
	}
	wait := p.next.Sub(now)
	p.next = p.next.Add(p.every)
	p.mu.Unlock()
	select {
	case <-time.After(wait):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
