package onaws

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// The names of the two states that tell whether the work is done, as they are in deploy/aws.
const (
	DefaultWorkState   = "Work"
	DefaultChargeState = "Charge"
)

// Finished implements pipeline.Executions. It reads the history from its end, back to the state
// that charges or the one that works. The work is done if the charge was entered, or the work was
// left with a result.
func (x *Executions) Finished(ctx context.Context, name string) (result []byte, done bool, err error) {
	h := history{work: x.WorkState, charge: x.ChargeState}
	if h.work == "" {
		h.work = DefaultWorkState
	}
	if h.charge == "" {
		h.charge = DefaultChargeState
	}
	arn := x.arn(name)
	pages := sfn.NewGetExecutionHistoryPaginator(x.Client, &sfn.GetExecutionHistoryInput{
		ExecutionArn: &arn, ReverseOrder: true, IncludeExecutionData: aws.Bool(true), MaxResults: 1000,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		var missing *types.ExecutionDoesNotExist
		if errors.As(err, &missing) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, failure(err, "the history of execution "+arn)
		}
		for _, e := range page.Events {
			if h.read(e) {
				return h.result, h.done, nil
			}
		}
	}
	return nil, false, nil
}

// history is what has been read of a history so far, from its end.
type history struct {
	work, charge string
	result       []byte
	done         bool

	// success tells that a task has succeeded whose state was not left, and last is what it
	// returned.
	success bool
	last    []byte
}

// read takes the event that came before those read so far. It returns true if that settles the
// question.
func (h *history) read(e types.HistoryEvent) bool {
	switch {
	case e.LambdaFunctionSucceededEventDetails != nil:
		h.last, h.success = []byte(aws.ToString(e.LambdaFunctionSucceededEventDetails.Output)), true
	case e.TaskSucceededEventDetails != nil:
		h.last, h.success = []byte(aws.ToString(e.TaskSucceededEventDetails.Output)), true
	case e.ActivitySucceededEventDetails != nil:
		h.last, h.success = []byte(aws.ToString(e.ActivitySucceededEventDetails.Output)), true
	case e.StateExitedEventDetails != nil:
		if d := e.StateExitedEventDetails; aws.ToString(d.Name) == h.work {
			// There is no result if the state was left because a failure was caught.
			h.result, h.done = resultIn(d.Output)
			return true
		}
	case e.StateEnteredEventDetails != nil:
		d := e.StateEnteredEventDetails
		switch aws.ToString(d.Name) {
		case h.charge:
			// If the input was cut off, its result cannot be read. Then the work was what was asked
			// for.
			h.result, _ = resultIn(d.Input)
			h.done = true
			return true
		case h.work:
			if h.success {
				// The work succeeded, and its result was too much for a state, alone or with the
				// input.
				h.result, h.done = h.last, true
			}
			return true
		}
		h.success = false
	}
	return false
}

// resultIn returns the result of the work in a state's input or output, and whether there is one.
func resultIn(state *string) ([]byte, bool) {
	var of map[string]json.RawMessage
	_ = json.Unmarshal([]byte(aws.ToString(state)), &of) // it may be cut off, and then has no result
	result, given := of["result"]
	return result, given
}

// arn is the ARN of an execution.
func (x *Executions) arn(name string) string {
	return strings.ReplaceAll(x.StateMachine, ":stateMachine:", ":execution:") + ":" + name
}
