package onaws

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

// Executions runs jobs as executions of a state machine, a standard workflow.
type Executions struct {
	Client       *sfn.Client
	StateMachine string // its ARN, without a version or an alias

	// WorkState is the name of the state that does the work, and whose output has the result.
	// ChargeState is the name of the state that charges. Empty: DefaultWorkState,
	// DefaultChargeState.
	WorkState, ChargeState string
}

var _ pipeline.Executions = (*Executions)(nil)

// Start implements pipeline.Executions. A name is taken for 90 days after its execution has ended.
func (x *Executions) Start(ctx context.Context, name string, input []byte) error {
	_, err := x.Client.StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: &x.StateMachine, Name: &name, Input: aws.String(string(input)),
	})
	var exists *types.ExecutionAlreadyExists
	if errors.As(err, &exists) {
		return nil
	}
	return failure(err, "state machine "+x.StateMachine)
}

// Describe implements pipeline.Executions.
func (x *Executions) Describe(ctx context.Context, name string) (pipeline.Execution, bool, error) {
	arn := x.arn(name)
	out, err := x.Client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &arn})
	var missing *types.ExecutionDoesNotExist
	if errors.As(err, &missing) {
		return pipeline.Execution{}, false, nil
	}
	if err != nil {
		return pipeline.Execution{}, false, failure(err, "execution "+arn)
	}
	return pipeline.Execution{
		Status: string(out.Status),
		Input:  []byte(aws.ToString(out.Input)),
		Output: []byte(aws.ToString(out.Output)),
		Error:  aws.ToString(out.Error), Cause: aws.ToString(out.Cause), Ended: aws.ToTime(out.StopDate),
	}, true, nil
}

// failure turns an error of the SDK into one of package headroom. It does not tell whether a write
// without an answer took effect, because handlers repeat whatever failed. The failure of nil is
// nil.
func failure(err error, what string) error {
	var api smithy.APIError
	var answer *smithyhttp.ResponseError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &api):
		return headroom.Errorf(headroom.Unavailable, err, "%s cannot be reached", what)
	case errors.As(err, &answer) && answer.HTTPStatusCode() >= 500:
		return headroom.Errorf(headroom.Unavailable, err, "%s fails", what)
	}
	if throttles(api.ErrorCode()) {
		return headroom.Errorf(headroom.Throttled, err, "%s throttles", what)
	}
	return headroom.Errorf(headroom.Rejected, err, "%s refused the request", what)
}

// throttles reports whether the code of an error asks for patience. The SDK knows such codes of
// every service. Step Functions and the keys of KMS have more. SQS says KmsThrottled for a key.
func throttles(code string) bool {
	switch code {
	case "ExecutionLimitExceeded", "KmsThrottlingException", "KmsThrottled":
		return true
	}
	_, known := retry.DefaultThrottleErrorCodes[code]
	return known
}
