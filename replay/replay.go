// Package replay runs a log of finished work through a quota, each row at its own time, and sums up what was admitted.
//
// The rows of a subject are decided in the order of the log, those of different subjects side by side. A log that was stopped anywhere is replayed from its start:
// what was charged is known by its operation id, and what belongs to a window that has closed for its subject is late, and not charged.
package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lumcast/headroom"
)

// DefaultWorkers is how many rows are under way at the same time unless Options say otherwise.
const DefaultWorkers = 32

// queued is how many rows wait for each worker: enough that a subject with many rows in a row seldom keeps the others from theirs.
const queued = 256

// maxTries bounds how often a row is sent to a store that fails: about half a minute in all.
const maxTries = 12

// Deducter is the part of headroom.Engine that a replay needs.
type Deducter interface {
	Deduct(context.Context, headroom.Request) (headroom.Decision, error)
}

// Options are the settings of a replay.
type Options struct {
	Meter   string          // of what the rows are charged
	Prices  headroom.Prices // turns a row's class and quantity into its cost
	Workers int             // rows under way at the same time, of different subjects. Zero: DefaultWorkers
	Bad     func(*BadRow)   // hears of each bad row, one at a time. Nil: they are only counted
	Done    func()          // called after each row, by many goroutines. Nil: nobody asks
}

// Run replays log. It returns what was done also when it fails: because the log cannot be read, because the store fails for good (what may pass is tried again with the same id), or with the cause of ctx after the rows under way when that is cancelled.
// In each case it is safe to replay the log from its start. A read of the log that waits for input when ctx is cancelled is not waited for: log is not to be used again.
func Run(ctx context.Context, engine Deducter, log *Reader, opts Options) (Summary, error) {
	if opts.Workers == 0 {
		opts.Workers = DefaultWorkers
	}
	if opts.Workers < 0 {
		return Summary{}, headroom.Errorf(headroom.Invalid, nil, "%d workers: want at least 1", opts.Workers)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	r := run{engine: engine, opts: opts, stop: stop}
	queues := make([]chan Row, opts.Workers)
	parts := []*tallies{newTallies()}
	var workers sync.WaitGroup
	for i := range queues {
		queue, part := make(chan Row, queued), newTallies()
		queues[i], parts = queue, append(parts, part)
		workers.Go(func() {
			for row := range queue {
				if ctx.Err() == nil {
					r.row(ctx, row, part)
				}
			}
		})
	}
	r.feed(ctx, log, queues, parts[0])
	for _, queue := range queues {
		close(queue)
	}
	workers.Wait()
	return sum(parts), context.Cause(ctx)
}

// run is what the goroutines of one replay share.
type run struct {
	engine Deducter
	opts   Options
	stop   context.CancelCauseFunc
	badMu  sync.Mutex
}

// feed gives each row to the worker that its subject belongs to, until the log ends, cannot be read, or ctx is done.
func (r *run) feed(ctx context.Context, log *Reader, queues []chan Row, part *tallies) {
	seed := maphash.MakeSeed()
	lines := make(chan line)
	go read(ctx, log, lines)
	for {
		var next line
		select {
		case next = <-lines:
		case <-ctx.Done():
			return
		}
		var bad *BadRow
		switch {
		case next.err == io.EOF:
			return
		case errors.As(next.err, &bad):
			r.bad(bad, part)
			continue
		case next.err != nil:
			r.stop(fmt.Errorf("the log cannot be read to its end: %w", next.err))
			return
		}
		select {
		case queues[maphash.String(seed, next.row.Subject)%uint64(len(queues))] <- next.row:
		case <-ctx.Done():
			return
		}
	}
}

// line is what Reader.Next returned.
type line struct {
	row Row
	err error
}

// read sends what it reads until the log ends or ctx is done. It is a goroutine of its own because a read from a terminal or a pipe may never return.
func read(ctx context.Context, log *Reader, lines chan<- line) {
	for {
		row, err := log.Next()
		select {
		case lines <- line{row, err}:
		case <-ctx.Done():
			return
		}
		var bad *BadRow
		if err != nil && !errors.As(err, &bad) {
			return
		}
	}
}

func (r *run) row(ctx context.Context, row Row, part *tallies) {
	d, err := r.deduct(ctx, row)
	switch code := headroom.CodeOf(err); {
	case err == nil:
		part.count(row.Subject, d)
		r.done()
	case code == headroom.Invalid, code == headroom.Conflict, code == headroom.TooOld:
		r.bad(&BadRow{Line: row.Line, Err: err}, part)
	default:
		r.stop(fmt.Errorf("line %d: %w", row.Line, err))
	}
}

func (r *run) deduct(ctx context.Context, row Row) (headroom.Decision, error) {
	cost, err := r.opts.Prices.Cost(row.Class, row.Quantity)
	if err != nil {
		return headroom.Decision{}, err
	}
	request := headroom.Request{
		Subject: row.Subject, Meter: r.opts.Meter, Operation: row.Operation, Cost: cost,
		Now: row.At, SkipClosed: true,
	}
	for try := 1; ; try++ {
		// Who cancels wants the row under way to be finished and counted, not cut off with its outcome unknown.
		d, err := r.engine.Deduct(context.WithoutCancel(ctx), request)
		if err == nil || try == maxTries || !passing(err) || !pause(ctx, try) {
			return d, err
		}
	}
}

func (r *run) bad(row *BadRow, part *tallies) {
	part.all.fail()
	if r.opts.Bad != nil {
		r.badMu.Lock()
		defer r.badMu.Unlock()
		r.opts.Bad(row)
	}
	r.done()
}

func (r *run) done() {
	if r.opts.Done != nil {
		r.opts.Done()
	}
}

// passing reports whether a failure may pass by itself.
func passing(err error) bool {
	return headroom.CodeOf(err).Retryable()
}

// pause waits before another try: from 10 ms doubled to about 10 s, the half of it by chance. It reports false if ctx ends first.
func pause(ctx context.Context, try int) bool {
	most := 10 * time.Millisecond << min(try, 10)
	wait := time.NewTimer(most/2 + rand.N(most/2))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wait.C:
		return true
	}
}
