package dynamostore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lumcast/headroom"
)

// access says whether a request can change anything.
type access byte

const (
	reads  access = iota
	writes        // may be sent again
	once          // may not be sent again while an earlier attempt may take effect
)

// conflictTries bounds how often a write is sent again because a transaction of the application's
// own is under way on the item. With the waits between them the tries take about two seconds.
const conflictTries = 12

// answer is what an engine's answer tells besides its content.
type answer struct {
	now    time.Time // by the engine's clock
	unsure bool      // an attempt before the answered one may have taken effect
}

// doubtful returns the error that a caller gets for err. If earlier attempts may have taken effect,
// and the step that failed with err was to find that out, the outcome is unknown.
func (a answer) doubtful(err error) error {
	if !a.unsure || errors.Is(err, headroom.OutcomeUnknown) {
		return err
	}
	return unknown(err)
}

func unknown(err error) error {
	return headroom.Errorf(headroom.OutcomeUnknown, err, "DynamoDB gave no clear answer; the write may have taken effect: repeat the same operation id")
}

// do makes one call and tells the time of the engine's answer. It turns a failure into a
// headroom.Error, but returns a failed condition as it is.
func (s *Store) do(ctx context.Context, a access, call func(context.Context, func(*dynamodb.Options)) error) (answer, error) {
	w := witness{once: a == once}
	for try := 0; ; try++ {
		err := call(ctx, w.attach)
		var failed *types.ConditionalCheckFailedException
		if err == nil || errors.As(err, &failed) {
			if w.now.IsZero() {
				w.unsure = w.unsure || err == nil && a != reads
				return w.answer, w.doubtful(headroom.Errorf(headroom.Unavailable, nil, "the engine's answer carries no Date, and Headroom goes by it rather than by the clocks of hosts: something between strips it"))
			}
			return w.answer, err
		}
		// The SDK sends neither kind of conflict again, because a whole transaction would fail
		// again. A plain write succeeds.
		if !conflict(err) || w.final() || try == conflictTries-1 || !sleep(ctx, rand.N(5*time.Millisecond<<min(try, 6))) {
			return w.answer, s.failure(a, err, w.unsure)
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
	answer
	sent bool // the present attempt has come as far as the connection
	once bool // no attempt is made while an earlier one may take effect
}

func (w *witness) final() bool { return w.once && w.unsure }

// cautious retries as the SDK's settings say, unless an attempt may have taken effect.
type cautious struct {
	aws.Retryer
	w *witness
}

func (c cautious) IsErrorRetryable(err error) bool {
	return !c.w.final() && c.Retryer.IsErrorRetryable(err)
}

func (w *witness) attach(o *dynamodb.Options) {
	if w.once {
		o.Retryer = cautious{o.Retryer, w}
	}
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		// attempt stands behind the SDK's retries, so that it sees each attempt. send stands behind
		// everything that can fail without a connection.
		if err := stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("HeadroomAttempt", w.attempt), "Retry", middleware.After); err != nil {
			return err
		}
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("HeadroomSend", w.send), middleware.After)
	})
}

func (w *witness) attempt(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	w.sent = false
	out, meta, err := next.HandleFinalize(ctx, in)
	var status int
	if response, ok := awsmiddleware.GetRawResponse(meta).(*smithyhttp.Response); ok {
		status = response.StatusCode
		if date, bad := http.ParseTime(response.Header.Get("Date")); bad == nil {
			w.now = date
		}
	}
	// A 4xx says that nothing was done. A 200 may bring an error too, if its body is cut off.
	if refused := status >= 400 && status < 500; err != nil && w.sent && !refused && !unsent(err) {
		w.unsure = true
	}
	return out, meta, err
}

func (w *witness) send(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	w.sent = true
	return next.HandleDeserialize(ctx, in)
}

// unsent reports whether a request failed before there was a connection.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// failure says which kind of failure err is.
func (s *Store) failure(a access, err error, unsure bool) error {
	if own := (*headroom.Error)(nil); errors.As(err, &own) {
		return own
	}
	if a != reads && unsure {
		return unknown(err)
	}
	if conflict(err) {
		return headroom.Errorf(headroom.Contended, err, "transactions on the item outlasted %d tries; nothing was written", conflictTries)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return headroom.Errorf(headroom.Unavailable, err, "DynamoDB cannot be reached")
	}
	switch api.ErrorCode() {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "LimitExceededException":
		return headroom.Errorf(headroom.Throttled, err, "DynamoDB throttles")
	case "ResourceNotFoundException":
		return headroom.Errorf(headroom.Rejected, err, "a table is missing: %s and %s are needed; create them with CreateTables or `headroom tables create`", s.opts.Table, s.opts.Ledger)
	case "AccessDeniedException":
		return headroom.Errorf(headroom.Rejected, err, "rights are missing: the role needs GetItem and UpdateItem on the table %s, and GetItem, Query, BatchWriteItem and, to reconcile, DeleteItem on %s", s.opts.Table, s.opts.Ledger)
	case "UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationTokenException", "ExpiredTokenException", "IncompleteSignatureException":
		return headroom.Errorf(headroom.Rejected, err, "DynamoDB does not know who asks: check the credentials, their expiry and this host's clock")
	}
	if api.ErrorFault() == smithy.FaultServer || unsure {
		return headroom.Errorf(headroom.Unavailable, err, "DynamoDB fails")
	}
	return headroom.Errorf(headroom.Rejected, err, "DynamoDB refused the request")
}
