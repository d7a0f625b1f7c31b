// Package pipeline puts the quota around queued work: a consumer that asks before a job starts, a callback that charges after it has succeeded, and a reconciliation that finishes what events forgot.
//
//	queue -> Consume: preflight or hold -> Executions.Start -> ... work ... -> Finish: deduct or settle, last
//
// The path of a job is the order of the files: batch.go, message.go, name.go, job.go, consume.go, event.go, finish.go, charge.go, reconcile.go, sweep.go; letter.go is for what went wrong. Nothing here knows Lambda or an SDK.
//
// Every step may be repeated, and may be cut off between any two of its writes: a repeat finishes what the first began, and no mix of repeats, sources and orders charges a job twice.
package pipeline

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/lumcast/headroom"
)

// DefaultMaxSeconds is the greatest duration that is believed unless Options say otherwise: a day.
const DefaultMaxSeconds = 24 * 60 * 60

// DefaultPerMessage is the longest that the consumer works on one message unless Options say
// otherwise: a few requests, each of which is repeated a few times.
const DefaultPerMessage = 10 * time.Second

// Options are the settings of a Pipeline. The zero value asks by preflight and records what goes past the limit.
type Options struct {
	Meter string // what is charged. Empty: "slots"
	Plan  string // plan of a user who has none stored. Empty: the catalog's default

	// Hold reserves the requested cost before the work, for that long; it must outlast the state machine's timeout and the callback's retries. Zero: a preflight only, which reserves nothing.
	Hold time.Duration
	// Refuse leaves a job unpaid whose true cost no longer fits. False: it is charged past the limit, since the work is done.
	Refuse bool
	// MaxSeconds is the greatest duration that a message or a result may name. Zero: DefaultMaxSeconds.
	MaxSeconds float64
	// PerMessage is the longest that the consumer works on one message. Zero: DefaultPerMessage.
	PerMessage time.Duration

	// Later sends a message again that has to wait, for the queue to deliver after a while. A message
	// that waits so never counts as one that failed, and never becomes a dead letter. Nil: it is
	// reported as failed, and comes back by the queue's own rules.
	Later func(ctx context.Context, d Delivery, after time.Duration) error

	// Clock takes the place of every clock. For tests and trial runs only. Nil: the store's time decides, and the host's stands in the job table.
	Clock func() time.Time

	Logger *slog.Logger // hears of every decision. Nil: slog.Default()
	// Namespace is the CloudWatch namespace under which the log lines are metrics too, in the embedded metric format. Empty: they are not.
	Namespace string
}

// Pipeline handles jobs. It keeps nothing between two calls.
type Pipeline struct {
	engine     *headroom.Engine
	prices     headroom.Prices
	jobs       Jobs
	executions Executions
	opts       Options
}

// New returns a pipeline that decides with engine, prices by catalog, keeps jobs in jobs and runs them by executions.
func New(engine *headroom.Engine, catalog *headroom.Catalog, jobs Jobs, executions Executions, opts Options) (*Pipeline, error) {
	if engine == nil || catalog == nil || jobs == nil || executions == nil {
		return nil, invalid("a pipeline needs an engine, a catalog, a job table and executions")
	}
	opts.Meter = cmp.Or(opts.Meter, "slots")
	opts.MaxSeconds = cmp.Or(opts.MaxSeconds, DefaultMaxSeconds)
	opts.PerMessage = cmp.Or(opts.PerMessage, DefaultPerMessage)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Hold != 0 && opts.Hold < time.Second {
		return nil, invalid("a hold of %s: want at least a second, or none", opts.Hold)
	}
	prices, err := catalog.Prices(opts.Meter)
	if err != nil {
		return nil, err
	}
	return &Pipeline{engine: engine, prices: prices, jobs: jobs, executions: executions, opts: opts}, nil
}

// holds reports whether jobs start by holds, and not by a preflight.
func (p *Pipeline) holds() bool { return p.opts.Hold != 0 }

// now is the time to write into the job table.
func (p *Pipeline) now() time.Time {
	if p.opts.Clock != nil {
		return p.opts.Clock().UTC()
	}
	return time.Now().UTC()
}

// decideAt is the time to decide by: zero leaves it to the store.
func (p *Pipeline) decideAt() time.Time {
	if p.opts.Clock != nil {
		return p.opts.Clock()
	}
	return time.Time{}
}

// cost prices work. What lasts no time at all costs a step, like all that is shorter than one:
// nothing is free for its duration.
func (p *Pipeline) cost(class string, seconds float64) (int64, error) {
	if !(seconds >= 0 && seconds <= p.opts.MaxSeconds) { // written so that NaN fails
		return 0, invalid("durationSeconds is %v: want 0 to %v", seconds, p.opts.MaxSeconds)
	}
	return p.prices.Cost(class, max(seconds, math.SmallestNonzeroFloat64))
}

func invalid(format string, args ...any) *headroom.Error {
	return headroom.Errorf(headroom.CodeInvalid, nil, format, args...)
}

func conflict(format string, args ...any) *headroom.Error {
	return headroom.Errorf(headroom.CodeConflict, nil, format, args...)
}
