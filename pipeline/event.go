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

// outcome is what became of an execution, however the pipeline heard of it.
type outcome struct {
	JobID, UserID string
	Attempt       int
	Succeeded     bool

	// Class and Seconds are of the work as it was done, if the result tells, or else as it was
	// asked for.
	Class   string
	Seconds float64
	Strange string // why the result cannot be read, in words. Empty: it can be read

	Asked       message   // what the message asked for, as far as the input tells
	Estimate    int64     // the units that the consumer asked for. Zero: not known
	Plan        string    // the plan in force at the start. Empty: not known
	Held        bool      // units were reserved for this attempt
	RequestedAt time.Time // zero: not known
	Ended       time.Time // zero: not known
	Cause       string    // why it failed, for a person
}

// statusChange has the fields that are read of an event "Step Functions Execution Status Change".
type statusChange struct {
	Source string `json:"source"`
	Detail struct {
		Name         string  `json:"name"`
		Status       string  `json:"status"`
		Input        *string `json:"input"`    // null if it is longer than 248 KiB
		Output       *string `json:"output"`   // likewise
		Stop         int64   `json:"stopDate"` // milliseconds of Unix time
		Error, Cause string
	} `json:"detail"`
}

// lastStep is what the state machine's last step sends.
type lastStep struct {
	Execution string `json:"execution"` // the name of the execution
	Status    string `json:"status"`    // of the work: SUCCEEDED or FAILED
	// of the execution: at least jobId, userId and headroom
	Input   json.RawMessage `json:"input"`
	Result  json.RawMessage `json:"result"`  // of the work
	Entered time.Time       `json:"entered"` // when the work was over. Zero: not told
	Error   struct {
		Error, Cause string
	} `json:"error"`
}

// Callback finishes a job. The event is what the last step of the state machine sends, or an event
// of an execution's status change. An event that tells of no end does nothing. Callback fails with
// headroom.Invalid if the event is neither, and may be called again after any failure.
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

// notAnEnd says that an event is none that the callback understands.
func notAnEnd(err error) error {
	return headroom.Errorf(headroom.Invalid, err,
		"the event is neither of the last step nor of a status change")
}

// read turns an event into an outcome. It returns false if the event tells of no end.
func (p *Pipeline) read(ctx context.Context, event []byte) (outcome, bool, error) {
	var change statusChange
	if err := json.Unmarshal(event, &change); err != nil {
		return outcome{}, false, notAnEnd(err)
	}
	if change.Source == "" {
		var last lastStep
		if err := json.Unmarshal(event, &last); err != nil ||
			last.Status != "SUCCEEDED" && last.Status != "FAILED" {
			return outcome{}, false, notAnEnd(err)
		}
		x := Execution{
			Status: last.Status, Input: last.Input, Error: last.Error.Error, Cause: last.Error.Cause, Ended: last.Entered,
		}
		o, err := readInput(last.Execution, x)
		o.end(x, last.Status == "SUCCEEDED", last.Result)
		return o, true, err
	}
	d := change.Detail
	x := Execution{Status: d.Status, Error: d.Error, Cause: d.Cause}
	switch {
	case change.Source != "aws.states" || d.Name == "" || d.Status == "":
		return outcome{}, false, invalid(
			"the event of source %q is no status change of an execution", change.Source)
	case d.Status == "RUNNING" || d.Status == "PENDING_REDRIVE":
		return outcome{}, false, nil
	case d.Input == nil, d.Status == "SUCCEEDED" && d.Output == nil, d.Status == "FAILED" && d.Error == "":
		// The event leaves it out, for instance because it is long. The execution still has it.
		var found bool
		var err error
		if x, found, err = p.executions.Describe(ctx, d.Name); err != nil {
			return outcome{}, false, err
		}
		if !found {
			return outcome{}, false, headroom.Errorf(headroom.NotFound, nil,
				"the event tells of execution %q, which does not exist", d.Name)
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

// ended reads how an execution ended. It returns false if it has not ended.
//
// The work may be done even if the execution did not succeed. If its charge step ran out of tries,
// its error says so. If it was stopped, or failed with an error that no step can catch, only its
// history tells. The history is also read if the execution failed and its job is not marked as
// failed: a state machine that somebody else wrote may have failed in its charge step.
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
		// If there is no result, the work was what was asked for.
		output, _ := readFields(x.Output)
		done, result, look = true, output["result"], false
	case x.Error == DoneNotCharged:
		// The cause is the result. If it was cut off, the history has the whole of it.
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

// marked reports whether the record says that the job failed in the attempt that the execution ran.
func (p *Pipeline) marked(ctx context.Context, o outcome) (bool, error) {
	j, found, err := p.jobs.Get(ctx, o.JobID)
	return found && j.Status == Failed && j.Attempt == o.Attempt, err
}

// readInput reads the input of an execution: whose job it is, and what was asked for.
func readInput(name string, x Execution) (outcome, error) {
	var o outcome
	input, err := readFields(x.Input)
	if err != nil {
		return o, headroom.Errorf(headroom.Invalid, err,
			"the input of execution %q is not a JSON object", name)
	}
	var s stamp
	if raw, ok := input[stampKey]; ok {
		if err := json.Unmarshal(raw, &s); err != nil {
			return o, headroom.Errorf(headroom.Invalid, err,
				"the input of execution %q has a field %s that is not the consumer's", name, stampKey)
		}
		delete(input, stampKey)
	}
	m, err := input.message()
	if err != nil {
		return o, err
	}
	if s.Class != "" {
		// The last step hands over only what names the job. The rest is in the stamp.
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

// read takes the class and the duration of the work from its result. What the result does not tell,
// or a result that is missing, is as it was asked for.
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
		Message string `json:"errorMessage"` // the cause is the JSON of a function's error
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
