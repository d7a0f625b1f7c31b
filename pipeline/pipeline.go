// Package pipeline puts the quota around queued work. A consumer asks the quota before a job
// starts, a callback charges the job after its work has succeeded, and a reconciliation finishes
// the jobs whose events were lost.
//
//	queue -> Consume: preflight or hold -> Executions.Start -> ... work ... -> Callback: deduct or settle
//
// # Reading the code
//
// A job passes through the files in this order: batch.go, message.go, name.go, job.go, consume.go,
// event.go, finish.go, charge.go, reconcile.go, sweep.go. The file letter.go is for jobs that went
// wrong. Nothing in this package knows Lambda or the SDK of AWS: that is package onaws.
//
// # Repeats
//
// Every step may be repeated, and may be cut off between any two of its writes. A repeat finishes
// what the first call began. No mix of repeats, sources and orders charges a job twice.
package pipeline

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/lumcast/headroom"
)

// DefaultMaxSeconds is the longest duration of a job unless Options say otherwise: a day.
const DefaultMaxSeconds = 24 * 60 * 60

// DefaultPerMessage is the longest time that the consumer takes for one message unless Options say
// otherwise. It is enough for a few requests, each of which is repeated a few times.
const DefaultPerMessage = 10 * time.Second

// Options are the settings of a Pipeline. The zero value asks by a preflight, and charges finished
// work past the limit if need be.
type Options struct {
	// Meter is what is charged. Empty: "slots".
	Meter string
	// Plan is the plan of a user who has none stored. Empty: the catalog's default.
	Plan string

	// Hold reserves the requested cost before the work, for that long. It must outlast the state
	// machine's timeout and the callback's retries. Zero: the consumer asks by a preflight, which
	// reserves nothing.
	Hold time.Duration
	// Refuse leaves a job unpaid if its true cost no longer fits. False: it is charged past the
	// limit, because the work is done.
	Refuse bool
	// MaxSeconds is the longest duration that a message or a result may name. Zero:
	// DefaultMaxSeconds.
	MaxSeconds float64
	// PerMessage is the longest time that the consumer takes for one message. Zero:
	// DefaultPerMessage.
	PerMessage time.Duration

	// Later sends a message again that has to wait, so that the queue delivers it after a while.
	// Such a message does not count as failed and never becomes a dead letter. Nil: a message that
	// has to wait is reported as failed, and comes back by the queue's own rules.
	Later func(ctx context.Context, d Delivery, after time.Duration) error

	// Clock takes the place of every clock. It is for tests and trial runs only. Nil: the quota
	// goes by the store's time, and the job table by the host's.
	Clock func() time.Time

	// Logger hears of every decision. Nil: slog.Default().
	Logger *slog.Logger
	// Namespace is a CloudWatch namespace. If it is set, the log lines are metrics too, in the
	// embedded metric format.
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

// New returns a pipeline that decides with engine, prices by catalog, keeps jobs in jobs and runs
// them by executions. It fails with headroom.Invalid if one of them is missing, if Hold is negative
// or below a second, or if the catalog has no prices for the meter.
func New(
	engine *headroom.Engine, catalog *headroom.Catalog, jobs Jobs, executions Executions, opts Options,
) (*Pipeline, error) {
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

// holds reports whether the consumer asks by a hold, and not by a preflight.
func (p *Pipeline) holds() bool { return p.opts.Hold != 0 }

// now is the time that goes into the job table.
func (p *Pipeline) now() time.Time {
	if p.opts.Clock != nil {
		return p.opts.Clock().UTC()
	}
	return time.Now().UTC()
}

// decideAt is the time by which the quota decides. Zero leaves that to the store.
func (p *Pipeline) decideAt() time.Time {
	if p.opts.Clock != nil {
		return p.opts.Clock()
	}
	return time.Time{}
}

// cost prices work, in units. Work that takes no time at all costs one step, as all work does that
// is shorter than a step, so that no duration makes work free.
func (p *Pipeline) cost(class string, seconds float64) (int64, error) {
	if !(seconds >= 0 && seconds <= p.opts.MaxSeconds) { // written so that NaN fails
		return 0, invalid("durationSeconds is %v: want 0 to %v", seconds, p.opts.MaxSeconds)
	}
	return p.prices.Cost(class, max(seconds, math.SmallestNonzeroFloat64))
}

func invalid(format string, args ...any) *headroom.Error {
	return headroom.Errorf(headroom.Invalid, nil, format, args...)
}

func conflict(format string, args ...any) *headroom.Error {
	return headroom.Errorf(headroom.Conflict, nil, format, args...)
}
