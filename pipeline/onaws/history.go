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

// Names of the two states that tell whether the work is done, as in deploy/aws.
const (
	DefaultWorkState   = "Work"
	DefaultChargeState = "Charge"
)

// Finished implements pipeline.Executions. It reads the history backwards, as far as the step that
// charges or the one that failed: where the charge was entered, or the work was left, it is done.
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

// history is what has been read of one so far, from its end.
type history struct {
	work, charge string
	result       []byte
	done         bool

	last    []byte // what the last task that succeeded has returned, before its state was left
	success bool   // there is such a task
}

// read takes the next event before those that were read. It returns true if that settles it.
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
			// Left after a failure that was caught, it has no result.
			h.result, h.done = resultIn(d.Output)
			return true
		}
	case e.StateEnteredEventDetails != nil:
		d := e.StateEnteredEventDetails
		switch aws.ToString(d.Name) {
		case h.charge:
			// An input that is cut off has no result that can be read: then the work was what was
			// asked for.
			h.result, _ = resultIn(d.Input)
			h.done = true
			return true
		case h.work:
			if h.success {
				// Its result, or that and its input together, was too much for a state.
				h.result, h.done = h.last, true
			}
			return true
		}
		h.success = false
	}
	return false
}

// resultIn returns what a state says of the work.
func resultIn(state *string) ([]byte, bool) {
	var of map[string]json.RawMessage
	_ = json.Unmarshal([]byte(aws.ToString(state)), &of)
	result, given := of["result"]
	return result, given
}

// arn is that of an execution.
func (x *Executions) arn(name string) string {
	return strings.ReplaceAll(x.StateMachine, ":stateMachine:", ":execution:") + ":" + name
}
