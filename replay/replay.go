// Package replay runs a log of finished work through a quota, each row at its own time, and sums up
// what was admitted.
//
// The rows of a subject are decided in the order of the log. Rows of different subjects are decided
// at the same time. If a replay was stopped, run it again from its start. Rows that were charged
// before are recognized by their operation ids. A row is late if its window has closed for its
// subject, and is not charged.
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

// DefaultWorkers is how many rows are decided at the same time unless Options say otherwise.
const DefaultWorkers = 32

// queued is how many rows may wait for each worker. It is large enough that a subject with many
// rows in a row seldom delays the others.
const queued = 256

// maxTries is how often a row is sent to a store that fails. All tries together take about half a
// minute.
const maxTries = 12

// Deducter is the part of headroom.Engine that a replay needs.
type Deducter interface {
	Deduct(context.Context, headroom.Request) (headroom.Decision, error)
}

// Options are the settings of a replay.
type Options struct {
	// Meter is the meter that the rows are charged to.
	Meter string
	// Prices turn the class and the quantity of a row into its cost.
	Prices headroom.Prices
	// Workers is how many rows are decided at the same time. Zero means DefaultWorkers.
	Workers int
	// Bad is called for each bad row, for one at a time. If it is nil, bad rows are only counted.
	Bad func(*BadRow)
	// Done is called after each row, by several goroutines at once. It may be nil.
	Done func()
}

// Run replays log. It fails if the log cannot be read, or if the store fails for good. It tries
// again, with the same id, after an error that may go away. When ctx is cancelled, Run finishes the
// rows that are under way, and returns the cause. In each case it returns what was done so far, and
// it is safe to replay the log from its start.
//
// Run does not wait for a read of the log that still waits for input when ctx is cancelled. Do not
// use log again.
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

// run holds what the goroutines of one replay share.
type run struct {
	engine Deducter
	opts   Options
	stop   context.CancelCauseFunc
	badMu  sync.Mutex
}

// feed gives each row to the worker for its subject, until the log ends, cannot be read, or ctx is
// done.
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

// line is a result of Reader.Next.
type line struct {
	row Row
	err error
}

// read sends what it reads until the log ends or ctx is done. It has a goroutine of its own,
// because a read from a terminal or a pipe may never return.
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
		// After a cancellation the row under way is still finished and counted. If it were cut off, its
		// outcome would be unknown.
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

// pause waits before another try. The longest wait doubles from 10 ms to about 10 s, and half of it
// is random. pause reports false if ctx ends first.
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
