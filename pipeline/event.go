package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/lumcast/headroom"
)

// outcome is what became of an execution, by whatever way it was heard of.
type outcome struct {
	JobID, UserID string
	Attempt       int
	Succeeded     bool
	Class         string // as done: by the result, where that says it, and else as asked
	Seconds       float64
	Strange       string  // why the result cannot be read, in words. Empty: it can
	Asked         message // what the message asked for, as far as the input has it
	Estimate      int64   // units that the consumer asked for. Zero: not known
	Plan          string  // in force at the start. Empty: not known
	Held          bool
	RequestedAt   time.Time // zero: not known
	Ended         time.Time // likewise
	Cause         string    // why it failed, for a person
}

// statusChange is the part of an event "Step Functions Execution Status Change" that is looked at.
type statusChange struct {
	Source string `json:"source"`
	Detail struct {
		Name         string  `json:"name"`
		Status       string  `json:"status"`
		Input        *string `json:"input"` // null when it has more than 248 KiB
		Output       *string `json:"output"`
		Stop         int64   `json:"stopDate"` // in milliseconds of Unix time
		Error, Cause string
	} `json:"detail"`
}

// lastStep is what the state machine's last step sends.
type lastStep struct {
	Execution string          `json:"execution"` // name
	Status    string          `json:"status"`    // SUCCEEDED or FAILED: of the work
	Input     json.RawMessage `json:"input"`     // of the execution, at least its jobId, userId and headroom
	Result    json.RawMessage `json:"result"`    // of the work
	Entered   time.Time       `json:"entered"`   // when the work was over. Zero: not told
	Error     struct {
		Error, Cause string
	} `json:"error"`
}

// Callback takes what the state machine's last step or the status-change rule sends, and finishes the job.
func (p *Pipeline) Callback(ctx context.Context, event json.RawMessage) (Result, error) {
	began := time.Now()
	o, ended, err := p.read(ctx, event)
	if err == nil && !ended {
		return Result{}, nil
	}
	seen := sighting{job: Job{ID: o.JobID, UserID: o.UserID, Attempt: o.Attempt}}
	if err == nil {
		seen, err = p.finish(ctx, o)
	}
	seen.took = time.Since(began)
	p.report(ctx, atCallback, seen, err)
	return seen.result(), err
}

// read turns an event into an outcome. It returns false of one that tells no outcome.
func (p *Pipeline) read(ctx context.Context, event []byte) (outcome, bool, error) {
	var change statusChange
	if err := json.Unmarshal(event, &change); err != nil {
		return outcome{}, false, headroom.Errorf(headroom.CodeInvalid, err, "the event is neither of the last step nor of a status change")
	}
	if change.Source == "" {
		var last lastStep
		if err := json.Unmarshal(event, &last); err != nil || last.Status != "SUCCEEDED" && last.Status != "FAILED" {
			return outcome{}, false, headroom.Errorf(headroom.CodeInvalid, err, "the event is neither of the last step nor of a status change")
		}
		x := Execution{Status: last.Status, Input: last.Input, Error: last.Error.Error, Cause: last.Error.Cause, Ended: last.Entered}
		o, err := readInput(last.Execution, x)
		o.end(x, last.Status == "SUCCEEDED", last.Result)
		return o, true, err
	}
	d := change.Detail
	x := Execution{Status: d.Status, Error: d.Error, Cause: d.Cause}
	switch {
	case change.Source != "aws.states" || d.Name == "" || d.Status == "":
		return outcome{}, false, invalid("the event of source %q is no status change of an execution", change.Source)
	case d.Status == "RUNNING" || d.Status == "PENDING_REDRIVE":
		return outcome{}, false, nil
	case d.Input == nil, d.Status == "SUCCEEDED" && d.Output == nil, d.Status == "FAILED" && d.Error == "":
		// Left out because it is long, or not told. The execution still has it.
		var found bool
		var err error
		if x, found, err = p.executions.Describe(ctx, d.Name); err != nil {
			return outcome{}, false, err
		}
		if !found {
			return outcome{}, false, headroom.Errorf(headroom.CodeNotFound, nil, "the event tells of execution %q, which does not exist", d.Name)
		}
	default:
		x.Input = []byte(*d.Input)
		if d.Output != nil {
			x.Output = []byte(*d.Output)
		}
		if d.Stop > 0 {
			x.Ended = time.UnixMilli(d.Stop)
		}
	}
	return p.ended(ctx, d.Name, x)
}

// ended reads what an execution came to. It returns false of one that has not ended.
//
// The work of one that did not succeed may be done all the same. Its error says that where the
// charge step was exhausted. Where the execution itself was stopped, or failed by an error that no
// step can catch, only its history tells. So it does of one that failed without having marked its job
// as failed: a machine of one's own may fail of its charge step.
func (p *Pipeline) ended(ctx context.Context, name string, x Execution) (outcome, bool, error) {
	if x.Status == "RUNNING" || x.Status == "PENDING_REDRIVE" {
		return outcome{}, false, nil
	}
	o, err := readInput(name, x)
	if err != nil {
		return o, false, err
	}
	done, result := false, []byte(nil)
	look := x.Status == "TIMED_OUT" || x.Status == "ABORTED" || strings.HasPrefix(x.Error, "States.")
	switch {
	case x.Status == "SUCCEEDED":
		// Not to find the result is no failure: then the work was what was asked for.
		output, _ := readFields(x.Output)
		done, result, look = true, output["result"], false
	case x.Error == DoneNotCharged:
		// A cause that is cut off, or none, is no result: the history has it whole.
		done, result, look = true, []byte(x.Cause), !json.Valid([]byte(x.Cause))
	}
	if !done && !look && x.Status == "FAILED" {
		marked, err := p.marked(ctx, o)
		if err != nil {
			return outcome{}, false, err
		}
		look = !marked
	}
	if look {
		found, was, err := p.executions.Finished(ctx, name)
		if err != nil {
			return outcome{}, false, err
		}
		if was {
			done, result = true, found
		} else if done {
			result = nil
		}
	}
	o.end(x, done, result)
	return o, true, nil
}

// marked reports whether the job of an execution is known as failed, in the attempt that it ran.
func (p *Pipeline) marked(ctx context.Context, o outcome) (bool, error) {
	j, found, err := p.jobs.Get(ctx, o.JobID)
	return found && j.Status == Failed && j.Attempt == o.Attempt, err
}

// readInput reads the input of an execution: whose job it is, and what was asked for.
func readInput(name string, x Execution) (outcome, error) {
	var o outcome
	input, err := readFields(x.Input)
	if err != nil {
		return o, headroom.Errorf(headroom.CodeInvalid, err, "the input of execution %q is not a JSON object", name)
	}
	var s stamp
	if raw, ok := input[stampKey]; ok {
		if err := json.Unmarshal(raw, &s); err != nil {
			return o, headroom.Errorf(headroom.CodeInvalid, err, "the input of execution %q has a field %s that is not the consumer's", name, stampKey)
		}
		delete(input, stampKey)
	}
	m, err := input.message()
	if err != nil {
		return o, err
	}
	if s.Class != "" {
		// The last step hands over no more of the message than names the job.
		m.Class, m.Seconds, m.noClass, m.noSeconds = s.Class, s.Seconds, "", ""
	}
	o.JobID, o.UserID, o.Attempt = m.JobID, m.UserID, max(m.Attempt, s.Attempt)
	o.Plan, o.Held, o.RequestedAt, o.Estimate = s.Plan, s.Held, s.RequestedAt, s.Cost
	o.Asked, o.Class, o.Seconds = m, m.Class, m.Seconds
	return o, nil
}

// end adds how the execution ended, and what its work became if that was done.
func (o *outcome) end(x Execution, done bool, result []byte) {
	o.Succeeded, o.Ended = done, x.Ended
	if done {
		o.read(result)
	} else {
		o.Cause = because(x)
	}
}

// read takes from a result what the work has become. A result that has neither a class nor a
// duration, or none at all, says that it became what was asked for.
func (o *outcome) read(result []byte) {
	result = bytes.TrimSpace(result)
	if len(result) == 0 || string(result) == "null" {
		result = []byte("{}")
	}
	f, err := readFields(result)
	if err != nil {
		o.Strange = "the result is " + kindOf(result)
		return
	}
	class, seconds := o.Asked.noClass, o.Asked.noSeconds
	if _, given := f["voiceQuality"]; given {
		if o.Class, class = f.text("voiceQuality"); class != "" {
			class += " in the result"
		}
	}
	if _, given := f["durationSeconds"]; given {
		if o.Seconds, seconds = f.number("durationSeconds"); seconds != "" {
			seconds += " in the result"
		}
	}
	o.Strange = cmp.Or(class, seconds)
}

// because says in one line why an execution failed.
func because(x Execution) string {
	text := x.Error
	if text == "" && x.Status != "FAILED" {
		text = x.Status
	}
	cause := x.Cause
	var lambdas struct {
		Message string `json:"errorMessage"` // of the function's error, whose JSON is the cause
	}
	if json.Unmarshal([]byte(cause), &lambdas) == nil && lambdas.Message != "" {
		cause = lambdas.Message
	}
	if text != "" && cause != "" {
		text += ": "
	}
	return clip(text + cause)
}

// clip keeps a text short enough for a record.
func clip(text string) string {
	const most = 500
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}
