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

// Types of the errors that a function fails with, for the Retry and Catch of a state machine.
const (
	ErrorPermanent = "Headroom.Permanent" // no repeat will be better
	ErrorTemporary = "Headroom.Temporary" // a repeat may be
)

// Function wires the pipeline of a Lambda function from its environment, with env in the place of
// os.Getenv. See FromEnv.
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

// Fatal ends a function that cannot start. Lambda shows the line and starts it anew at the next
// event.
func Fatal(err error) {
	Logger(os.Stdout).Error("the function cannot start", "error", err.Error())
	os.Exit(1)
}

// Logger logs in JSON, one object a line. A line of a Lambda function has the id of its request.
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

// Handler makes the handler of a Lambda function of one that fails with errors of package headroom.
// Lambda then names the error by its type: ErrorPermanent or ErrorTemporary, so that a state
// machine repeats only what a repeat may mend.
func Handler[In, Out any](handle func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
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

// permanent tells of a code that only another event or another record can mend. Rights and tables
// ("rejected"), or a program older than an item ("unreadable"), are mended while the state machine
// repeats.
func permanent(code headroom.Code) bool {
	switch code {
	case headroom.Invalid, headroom.Conflict, headroom.NotFound, headroom.TooOld:
		return true
	}
	return false
}

// bounded ends each request after a time, with all its repeats: one that hangs must not take the
// time of all others with it.
func bounded(within time.Duration) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("HeadroomDeadline",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				ctx, cancel := context.WithTimeout(ctx, within)
				defer cancel()
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
	}
}
