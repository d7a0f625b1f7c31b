package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/lumcast/headroom"
)

// Decisions that the quota does not make.
const (
	decisionRepeat  = "repeat"  // there was nothing left to do
	decisionStarted = "started" // a repeat made sure that the execution is started
	decisionWaits   = "waits"   // the user has as many holds as there can be at once
	decisionQueued  = "queued"  // the job was never started, and goes back to the queue
	decisionFailed  = "failed"  // the work failed
	decisionBehind  = "behind"  // not looked at, because an earlier message of its group failed
)

// place names a handler in logs and metrics.
type place string

const (
	atConsumer  place = "consumer"
	atCallback  place = "callback"
	atReconcile place = "reconcile"
	atOperator  place = "operator"
)

// report logs one line about what a handler did with a job. If a namespace is set, the line is also
// a set of metrics.
func (p *Pipeline) report(ctx context.Context, at place, s sighting, err error) {
	attrs := []slog.Attr{
		slog.String("handler", string(at)),
		slog.String("message", s.message), slog.String("execution", s.execution()),
		slog.String("job", s.job.ID), slog.String("user", s.job.UserID), slog.Int("attempt", s.job.Attempt),
		slog.String("status", string(s.job.Status)),
		slog.String("week", s.job.Week), slog.Int64("cost", s.job.Cost),
		slog.String("decision", s.decision), slog.Bool("replay", s.replay),
	}
	level, text := slog.LevelInfo, "job"
	if err != nil {
		level, text = slog.LevelError, "job not handled"
		attrs = append(attrs, slog.String("error", err.Error()), slog.String("code", code(err)))
	} else if s.job.Reason != "" {
		attrs = append(attrs, slog.String("reason", s.job.Reason))
	}
	if p.opts.Namespace != "" {
		attrs = append(attrs, p.metrics(at, s, err)...)
	}
	p.opts.Logger.LogAttrs(ctx, level, text, attrs...)
}

// execution is the name of the job's execution. It is empty if the job is not known.
func (s sighting) execution() string {
	if s.job.ID == "" {
		return ""
	}
	return ExecutionName(s.job.ID, max(s.job.Attempt, 1))
}

// metrics are the fields that make a log line a set of metrics, in CloudWatch's embedded metric
// format.
func (p *Pipeline) metrics(at place, s sighting, err error) []slog.Attr {
	first := err == nil && !s.replay // neither a failure nor a repeat of what was counted before
	over := s.answer.Reason == headroom.ReasonRecorded || s.job.Status == Unpaid
	counts := []struct {
		name string
		is   bool
	}{
		{"Admitted", first && s.answer.Allowed},
		{"Refused", first && s.answer.Reason != "" && !s.answer.Allowed},
		{"Replays", err == nil && (s.replay || s.decision == decisionRepeat)},
		{"OverAtCallback", first && at != atConsumer && over},
		{"Owed", s.job.Charge == ChargePending}, // the work is done, and still not charged
		{"Errors", err != nil},
	}
	type metric struct{ Name, Unit string }
	type directive struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []metric
	}
	d := directive{
		Namespace: p.opts.Namespace, Dimensions: [][]string{{"handler"}}, Metrics: []metric{{"Latency", "Milliseconds"}},
	}
	attrs := []slog.Attr{slog.Float64("Latency", float64(s.took.Microseconds())/1000)}
	for _, c := range counts {
		n := 0
		if c.is {
			n = 1
		}
		d.Metrics = append(d.Metrics, metric{c.name, "Count"})
		attrs = append(attrs, slog.Int(c.name, n))
	}
	return append(attrs, slog.Any("_aws", struct {
		Timestamp         int64
		CloudWatchMetrics []directive
	}{time.Now().UnixMilli(), []directive{d}}))
}
