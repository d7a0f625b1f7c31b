package onaws

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/middleware"

	"github.com/lumcast/headroom"
)

// The types of the errors of a function, for the fields Retry and Catch of a state machine.
const (
	ErrorPermanent = "Headroom.Permanent" // no repeat will be better
	ErrorTemporary = "Headroom.Temporary" // a repeat may be
)

// Function wires the pipeline of a Lambda function from its environment variables, which FromEnv
// lists. env takes the place of os.Getenv.
func Function(ctx context.Context, env func(string) string) (*Stack, error) {
	s, err := FromEnv(env)
	if err != nil {
		return nil, err
	}
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, headroom.Errorf(headroom.Invalid, err, "the AWS configuration does not load")
	}
	return New(sdk, s)
}

// Fatal logs why a function cannot start, and ends it. Lambda starts it again for the next event.
func Fatal(err error) {
	Logger(os.Stdout).Error("the function cannot start", "error", err.Error())
	os.Exit(1)
}

// Logger logs in JSON, one object per line. In a Lambda function each line has the id of the
// request.
func Logger(w io.Writer) *slog.Logger {
	return slog.New(requestLogs{slog.NewJSONHandler(w, nil)})
}

type requestLogs struct{ slog.Handler }

func (h requestLogs) Handle(ctx context.Context, r slog.Record) error {
	if call, ok := lambdacontext.FromContext(ctx); ok {
		r.AddAttrs(slog.String("request", call.AwsRequestID))
	}
	return h.Handler.Handle(ctx, r)
}

func (h requestLogs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestLogs{h.Handler.WithAttrs(attrs)}
}

func (h requestLogs) WithGroup(name string) slog.Handler {
	return requestLogs{h.Handler.WithGroup(name)}
}

// Handler makes a handler for Lambda out of one that fails with errors of package headroom. Lambda
// then reports an error by its type, ErrorPermanent or ErrorTemporary, so that a state machine
// retries only what a retry may mend.
func Handler[In, Out any](handle func(context.Context, In) (Out, error),
) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		out, err := handle(ctx, in)
		if err == nil {
			return out, nil
		}
		kind := ErrorTemporary
		if permanent(headroom.CodeOf(err)) {
			kind = ErrorPermanent
		}
		return out, messages.InvokeResponse_Error{Type: kind, Message: err.Error()}
	}
}

// permanent reports whether no retry can mend an error with this code. Missing rights and tables
// ("rejected"), and a program that is older than an item ("unreadable"), can be mended while the
// state machine retries.
func permanent(code headroom.Code) bool {
	switch code {
	case headroom.Invalid, headroom.Conflict, headroom.NotFound, headroom.TooOld:
		return true
	}
	return false
}

// bounded ends each request to AWS after a time, with all its retries. A request that hangs must
// not use up the time of all others.
func bounded(within time.Duration) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(deadline(within), middleware.Before)
	}
}

// deadline is a step of a request of the SDK. It bounds all steps that come after it.
type deadline time.Duration

// ID implements middleware.InitializeMiddleware.
func (deadline) ID() string { return "HeadroomDeadline" }

// HandleInitialize implements middleware.InitializeMiddleware.
func (d deadline) HandleInitialize(
	ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
) (middleware.InitializeOutput, middleware.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d))
	defer cancel()
	return next.HandleInitialize(ctx, in)
}
