package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The settings of a reconciliation, unless ReconcileOptions say otherwise. DefaultDescribes is per
// second. Every region of Step Functions allows at least that much for good.
const (
	DefaultWorkers   = 16
	DefaultDescribes = 10
)

// describeBurst is how many executions a run asks about at once before the rate counts. Step
// Functions allows an account a burst of some hundreds, which is refilled between two runs.
const describeBurst = 100

// laneLength bounds how many running jobs wait until their executions are asked about.
const laneLength = 1 << 16

// bookmarkEvery is after how many jobs a run keeps its place, in case it is cut off.
const bookmarkEvery = 1000

// mostFailures is how many failures the error of a run names. The log has all of them.
const mostFailures = 10

// ReconcileOptions are the settings of a reconciliation.
type ReconcileOptions struct {
	// OlderThan leaves alone the jobs that changed less than this time ago. It must give jobs the
	// time to end by themselves.
	OlderThan time.Duration
	// DryRun changes nothing. A job that would be finished counts as finished.
	DryRun bool
	// Workers is how many jobs are handled at once. Zero: DefaultWorkers.
	Workers int
	// Describes is how many executions a run asks about per second. Zero: DefaultDescribes. A job
	// whose charge is pending needs no such question.
	Describes float64
	// Each is called with each job that was finished or could not be, one at a time. did says what
	// was done. Nil: nothing is called.
	Each func(j Job, did string, err error)
}

// Reconciliation is what a reconciliation found and did.
type Reconciliation struct {
	Seen     int `json:"seen"`     // jobs that had been open for too long
	Finished int `json:"finished"` // of these, brought to their end
	Running  int `json:"running"`  // of these, their executions still run
	Waiting  int `json:"waiting"`  // of these, queued: their messages wait, or are dead letters
	Failed   int `json:"failed"`   // of these, could not be read or charged this time
	// the time was over before the last job. The next run goes on there
	More bool `json:"more"`
}

// Reconcile finishes jobs that have been open for long: their last event never came, or their
// charge is pending. It asks each execution how it stands, and does what the callback would have
// done. It may run twice at the same time, and beside the callback.
//
// A run begins where the last one stopped, takes the jobs that have been open for longest first,
// and handles them as it reads. Shortly before the context ends it stops and keeps its place. So
// each run makes progress, and a job that cannot be finished does not keep others from it.
//
// Reconcile fails with headroom.Invalid if the options are wrong, before it does anything.
// Otherwise its error joins the failures of single jobs, and the result counts all jobs
// nevertheless.
func (p *Pipeline) Reconcile(ctx context.Context, o ReconcileOptions) (Reconciliation, error) {
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	o.Describes = cmp.Or(o.Describes, DefaultDescribes)
	if o.Workers < 1 || !(o.Describes > 0) || o.OlderThan < 0 {
		return Reconciliation{}, invalid(
			"a reconciliation wants at least one worker, a rate above 0 and an age of 0 or more")
	}
	s := &sweep{p: p, opts: o, before: p.now().Add(-o.OlderThan)}
	s.pace.every = time.Duration(float64(time.Second) / o.Describes)
	return s.run(ctx)
}

// sweep is one run of a reconciliation. One goroutine reads the places of open jobs. Workers look
// at the jobs' records, and finish those whose charge is pending. A job that may have an execution
// waits in the lane until the pace allows another question.
type sweep struct {
	p      *Pipeline
	opts   ReconcileOptions
	before time.Time
	pace   pace
	// work is the context in which jobs are handled. It ends a little later than the reading.
	work context.Context
	// lane has the jobs whose executions wait to be asked about. Nil: each is asked about at once.
	lane chan *task

	mu       sync.Mutex
	found    Reconciliation
	failures []error
	left     *task // the first job that was not handled in time
}

// task is one open job on its way through a sweep.
type task struct {
	n     int    // its number in the order of reading
	at    Opened // its place
	after Opened // the place before it
	job   Job
}

// run reads, waits for what is under way, and keeps the place where the next run begins.
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

// times divides the time that a context leaves. Reading stops first, and the rest is for the jobs
// that are under way and for the bookmark. If the caller cancels the context, reading stops, but no
// job is stopped in the middle.
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

// read hands out each open job, from a place to the end and then from the beginning to that place,
// and waits until all have been handled. It returns the last place that was handed out, and whether
// that was all.
func (s *sweep) read(ctx context.Context, start Opened) (last Opened, whole bool, err error) {
	hand, wait := s.begin(ctx)
	defer wait()
	n := 0
	last = start
	part := func(from Opened, stop func(Opened) bool) error {
		return s.p.jobs.Open(ctx, from, s.before, func(o Opened) bool {
			if ctx.Err() != nil || stop(o) {
				return false
			}
			hand(&task{n: n, at: o, after: last})
			last = o
			n++
			if n%bookmarkEvery == 0 && !s.opts.DryRun {
				// This is in case the run is cut off. If it fails, the next run looks at some jobs
				// again.
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

// begin starts the workers. It returns how to hand them a job, and how to wait until they have
// handled all. With one worker each job is handled at once, in the order of reading.
func (s *sweep) begin(ctx context.Context) (hand func(*task), wait func()) {
	if s.opts.Workers == 1 {
		return func(t *task) { s.look(ctx, t) }, func() {}
	}
	var workers, askers sync.WaitGroup
	tasks := make(chan *task)
	s.lane = make(chan *task, laneLength)
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
	hand = func(t *task) { s.pass(ctx, tasks, t) }
	wait = func() {
		close(tasks)
		workers.Wait()
		close(s.lane)
		askers.Wait()
	}
	return hand, wait
}

// pass puts a job into a channel, or leaves it if the time is over first.
func (s *sweep) pass(ctx context.Context, to chan<- *task, t *task) {
	select {
	case to <- t:
	case <-ctx.Done():
		s.leave(t)
	}
}

// leave notes a job that this run does not get to.
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
		return // the index is a little behind, and tells only since when a job is open
	}
	t.job = j
	switch {
	case !j.mayRun():
		s.handle(bounded, t)
	case s.lane == nil:
		s.ask(ctx, t)
	default:
		s.pass(ctx, s.lane, t)
	}
}

// ask waits for its turn, asks how an execution stands, and finishes its job.
func (s *sweep) ask(ctx context.Context, t *task) {
	if !s.pace.wait(ctx) {
		s.leave(t)
		return
	}
	bounded, cancel := context.WithTimeout(s.work, s.p.opts.PerMessage)
	defer cancel()
	s.handle(bounded, t)
}

// handle finishes a job, and logs and counts what became of it.
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

// pace lets a burst pass at once, and then one at a time.
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
