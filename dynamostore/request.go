package dynamostore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lumcast/headroom"
)

// access says whether a request can change anything.
type access bool

const (
	reads  access = false
	writes access = true
)

// conflictTries bounds how often a write is sent again that met a transaction of the application's own on the item. With the waits between they take about two seconds.
const conflictTries = 12

// do makes one call, tells the time of the engine's answer, and turns a failure into a headroom.Error; a failed condition passes as it is.
func (s *Store) do(ctx context.Context, a access, call func(context.Context, func(*dynamodb.Options)) error) (time.Time, error) {
	var w witness
	for try := 0; ; try++ {
		err := call(ctx, w.attach)
		var failed *types.ConditionalCheckFailedException
		if err == nil || errors.As(err, &failed) {
			if w.date.IsZero() {
				return w.date, headroom.Errorf(headroom.CodeUnavailable, nil, "the engine's answer carries no Date: Headroom goes by it, not by the clocks of hosts")
			}
			return w.date, err
		}
		// The SDK sends neither of these again, since a transaction as a whole would not succeed; a plain write does.
		if !conflict(err) || try == conflictTries-1 || !sleep(ctx, rand.N(5*time.Millisecond<<min(try, 6))) {
			return w.date, s.failure(a, err, w.unsure)
		}
	}
}

func conflict(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "TransactionConflictException" || api.ErrorCode() == "ReplicatedWriteConflictException")
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// witness looks at each attempt that the SDK makes of one call.
type witness struct {
	date   time.Time // of the last answer, by the engine's clock
	unsure bool      // an attempt may have taken effect though it brought no answer that says so
}

func (w *witness) attach(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		// Behind the SDK's retries, so that each attempt passes.
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("HeadroomWitness", w.handle), "Retry", middleware.After)
	})
}

func (w *witness) handle(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	out, meta, err := next.HandleFinalize(ctx, in)
	answer, answered := awsmiddleware.GetRawResponse(meta).(*smithyhttp.Response)
	if answered {
		if date, bad := http.ParseTime(answer.Header.Get("Date")); bad == nil {
			w.date = date
		}
	}
	if err != nil && !(answered && answer.StatusCode < 500) && !unsent(err) {
		w.unsure = true
	}
	return out, meta, err
}

// unsent reports whether a request failed before a byte of it was sent.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// failure says which kind of failure err is.
func (s *Store) failure(a access, err error, unsure bool) error {
	if own := (*headroom.Error)(nil); errors.As(err, &own) {
		return own
	}
	if a == writes && unsure {
		return headroom.Errorf(headroom.CodeOutcomeUnknown, err, "DynamoDB gave no clear answer; the write may have taken effect: repeat the same operation id")
	}
	if conflict(err) {
		return headroom.Errorf(headroom.CodeContended, err, "transactions on the item outlasted %d tries; nothing was written", conflictTries)
	}
	var api smithy.APIError
	if !errors.As(err, &api) || unsure {
		return headroom.Errorf(headroom.CodeUnavailable, err, "DynamoDB cannot be reached")
	}
	switch api.ErrorCode() {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "LimitExceededException":
		return headroom.Errorf(headroom.CodeThrottled, err, "DynamoDB throttles")
	case "ResourceNotFoundException":
		return headroom.Errorf(headroom.CodeRejected, err, "a table is missing: %s and %s are needed; create them with CreateTables or `headroom tables create`", s.opts.Table, s.opts.Ledger)
	}
	return headroom.Errorf(headroom.CodeRejected, err, "DynamoDB refused the request")
}
