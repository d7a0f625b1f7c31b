package pipeline

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lumcast/headroom"
)

// outcome is what became of an execution, by whatever way it was heard of.
type outcome struct {
	JobID, UserID string
	Attempt       int
	Succeeded     bool
	Class         string // as done
	Seconds       float64
	Plan          string // in force at the start. Empty: not known
	Held          bool
	RequestedAt   time.Time // zero: not known
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
		Error, Cause string
	} `json:"detail"`
}

// lastStep is what the state machine's last step sends.
type lastStep struct {
	Execution string          `json:"execution"` // name
	Status    string          `json:"status"`    // SUCCEEDED or FAILED: of the work
	Input     json.RawMessage `json:"input"`     // of the execution
	Result    json.RawMessage `json:"result"`    // of the work
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
		o, err := readOutcome(last.Execution, Execution{Status: last.Status, Input: last.Input, Error: last.Error.Error, Cause: last.Error.Cause}, last.Result)
		return o, true, err
	}
	d := change.Detail
	x := Execution{Status: d.Status, Error: d.Error, Cause: d.Cause}
	switch {
	case change.Source != "aws.states" || d.Name == "" || d.Status == "":
		return outcome{}, false, invalid("the event of source %q is no status change of an execution", change.Source)
	case d.Status == "RUNNING" || d.Status == "PENDING_REDRIVE":
		return outcome{}, false, nil
	case d.Input == nil || d.Status == "SUCCEEDED" && d.Output == nil:
		// Left out because it is long. The execution still has it.
		var found bool
		var err error
		if x, found, err = p.executions.Describe(ctx, d.Name); err != nil {
			return outcome{}, false, err
		}
		if !found {
			return outcome{}, false, headroom.Errorf(headroom.CodeNotFound, nil, "the event tells of execution %q, which does not exist", d.Name)
		}
		return x.outcome(d.Name)
	default:
		x.Input = []byte(*d.Input)
		if d.Output != nil {
			x.Output = []byte(*d.Output)
		}
	}
	return x.outcome(d.Name)
}

// outcome reads what an execution came to. It returns false of one that has not ended.
func (x Execution) outcome(name string) (outcome, bool, error) {
	var output struct {
		Result json.RawMessage `json:"result"`
	}
	switch x.Status {
	case "RUNNING", "PENDING_REDRIVE":
		return outcome{}, false, nil
	case "SUCCEEDED":
		// Not to find the result is no failure: then the work was what was asked for.
		json.Unmarshal(x.Output, &output)
	}
	o, err := readOutcome(name, x, output.Result)
	return o, true, err
}

// readOutcome reads the input of an execution and the result of its work.
func readOutcome(name string, x Execution, result []byte) (outcome, error) {
	o := outcome{Succeeded: x.Status == "SUCCEEDED"}
	if !o.Succeeded {
		o.Cause = because(x)
	}
	var input struct {
		message
		Stamp stamp `json:"headroom"`
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(x.Input, &fields); err != nil {
		return o, headroom.Errorf(headroom.CodeInvalid, err, "the input of execution %q is not a JSON object", name)
	}
	if raw, ok := fields[stampKey]; ok {
		if err := json.Unmarshal(raw, &input.Stamp); err != nil {
			return o, headroom.Errorf(headroom.CodeInvalid, err, "the input of execution %q has a field %s that is not the consumer's", name, stampKey)
		}
		delete(fields, stampKey)
	}
	plain, err := json.Marshal(fields)
	if err != nil {
		return o, headroom.Errorf(headroom.CodeInvalid, err, "the input of execution %q cannot be read", name)
	}
	m, err := parseMessage(plain)
	if err != nil {
		return o, err
	}
	o.JobID, o.UserID, o.Attempt = m.JobID, m.UserID, max(m.Attempt, input.Stamp.Attempt)
	o.Plan, o.Held, o.RequestedAt = input.Stamp.Plan, input.Stamp.Held, input.Stamp.RequestedAt
	o.Class, o.Seconds = m.Class, m.Seconds
	if o.Succeeded {
		var done struct {
			Class   *string  `json:"voiceQuality"`
			Seconds *float64 `json:"durationSeconds"`
		}
		if len(result) > 0 {
			if err := json.Unmarshal(result, &done); err != nil {
				return o, headroom.Errorf(headroom.CodeInvalid, err, "the result of execution %q has a voiceQuality or durationSeconds of the wrong type", name)
			}
		}
		if done.Class != nil {
			o.Class = *done.Class
		}
		if done.Seconds != nil {
			o.Seconds = *done.Seconds
		}
	}
	return o, nil
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
