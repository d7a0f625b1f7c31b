package onaws_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// call is one of a method that asks AWS.
type call struct {
	name string
	// made does it on a table that has one job of alice that ended, "ended", and an open one of
	// bob, "open".
	made func(ctx context.Context, jobs *onaws.Jobs) error
	// requests is how many it makes at least when all is well.
	requests int
}

func calls(n *network) []call {
	x := &onaws.Executions{Client: sfn.NewFromConfig(n.sdk()), StateMachine: machine}
	queue := func() *onaws.Queue { return &onaws.Queue{Client: sqs.NewFromConfig(n.sdk())} }
	return []call{
		{"Get", func(ctx context.Context, jobs *onaws.Jobs) error {
			_, found, err := jobs.Get(ctx, "ended")
			return wants(found, err)
		}, 1},
		{"Swap", func(ctx context.Context, jobs *onaws.Jobs) error {
			done, err := jobs.Swap(ctx, pipeline.Job{}, pipeline.Job{ID: "new", UserID: "carol", Status: pipeline.Running, Attempt: 1, UpdatedAt: noon})
			return wants(done, err)
		}, 1},
		{"List", func(ctx context.Context, jobs *onaws.Jobs) error {
			n := 0
			err := jobs.List(ctx, pipeline.Filter{}, func(pipeline.Job) bool { n++; return true })
			return wants(n == 2, err)
		}, 1},
		{"Open", func(ctx context.Context, jobs *onaws.Jobs) error {
			n := 0
			err := jobs.Open(ctx, pipeline.Opened{}, noon.Add(time.Hour), func(pipeline.Opened) bool { n++; return true })
			return wants(n == 1, err)
		}, onaws.MaxShards},
		{"Bookmark", func(ctx context.Context, jobs *onaws.Jobs) error { _, err := jobs.Bookmark(ctx); return err }, 1},
		{"SetBookmark", func(ctx context.Context, jobs *onaws.Jobs) error {
			return jobs.SetBookmark(ctx, pipeline.Opened{Since: noon, ID: "open"})
		}, 1},
		{"Rules", func(ctx context.Context, jobs *onaws.Jobs) error { _, _, err := jobs.Rules(ctx); return err }, 1},
		{"SetRules", func(ctx context.Context, jobs *onaws.Jobs) error {
			return jobs.SetRules(ctx, onaws.Rules{Over: "record"})
		}, 2},
		{"Forget", func(ctx context.Context, jobs *onaws.Jobs) error {
			n, err := jobs.Forget(ctx, "alice", nil)
			return wants(n == 1, err)
		}, 2},
		{"CreateTable", func(ctx context.Context, jobs *onaws.Jobs) error {
			return (&onaws.Jobs{Client: jobs.Client, Table: jobs.Table + "-new"}).CreateTable(ctx)
		}, 4},
		{"Start", func(ctx context.Context, _ *onaws.Jobs) error { return x.Start(ctx, "name-1", []byte(`{}`)) }, 1},
		{"Describe", func(ctx context.Context, _ *onaws.Jobs) error {
			_, found, err := x.Describe(ctx, "name-1")
			return wants(found, err)
		}, 1},
		{"Finished", func(ctx context.Context, _ *onaws.Jobs) error {
			_, done, err := x.Finished(ctx, "name-1")
			return wants(done, err)
		}, 2},
		{"Later", func(ctx context.Context, _ *onaws.Jobs) error {
			return queue().Later(ctx, pipeline.Delivery{MessageID: "m", Body: "{}", Queue: "arn:aws:sqs:eu-central-1:123456789012:jobs"}, time.Minute)
		}, 2},
	}
}

var errEmpty = errors.New("the call says that all is well and that nothing was there or done")

// wants makes an error of an empty success.
func wants(got bool, err error) error {
	if err == nil && !got {
		return errEmpty
	}
	return err
}

// elsewhere answers what the engine does not know, as Step Functions and SQS do.
func elsewhere(q *request) (*http.Response, error) {
	switch q.op {
	case "StartExecution":
		return says(200, `{"executionArn":"x","startDate":1.0}`)
	case "DescribeExecution":
		return says(200, `{"executionArn":"x","status":"RUNNING","input":"{}","startDate":1.0}`)
	case "GetExecutionHistory":
		if q.in["nextToken"] == nil {
			return says(200, `{"events":[`+event("ExecutionAborted")+`],"nextToken":"2"}`)
		}
		return says(200, `{"events":[`+entered("Charge", `{"result":{}}`)+`]}`)
	case "GetQueueUrl":
		return says(200, `{"QueueUrl":"https://sqs.eu-central-1.amazonaws.com/123456789012/jobs"}`)
	case "SendMessage":
		return says(200, `{"MessageId":"m2","MD5OfMessageBody":"99914b932bd37a50b983c5e7c90ae93b"}`)
	}
	return q.engine()
}

// TestNoCallHidesAFailure fails each request of each call, one at a time, in each way: the caller
// hears of it, and of which kind it is. A hidden failure of StartExecution is a lost message, and a
// hidden failure of a page of the index is a job that stays open.
func TestNoCallHidesAFailure(t *testing.T) {
	jobs, n := through(t)
	base := jobs.Table
	tables := 0
	for _, c := range calls(n) {
		for _, f := range faults {
			t.Run(c.name+"/"+f.name, func(t *testing.T) {
				for failing := 0; ; failing++ {
					if failing >= 4 && c.name == "Open" {
						failing += 19 // each of its shards is asked alike
					}
					tables++
					jobs.Table = fmt.Sprintf("%s-%d", base, tables)
					prepare(t, jobs, n)
					if !c.fails(t, jobs, n, f, failing) {
						return
					}
				}
			})
		}
	}
}

// fails fails one request of a call. It returns false if the call makes fewer requests.
func (c call) fails(t *testing.T, jobs *onaws.Jobs, n *network, f fault, failing int) bool {
	t.Helper()
	made := 0
	n.answer = func(q *request) (*http.Response, error) {
		q.engine, q.send = q.send, func() (*http.Response, error) { return elsewhere(q) }
		made++
		if made-1 == failing {
			return f.answer(q)
		}
		return q.send()
	}
	err := c.made(t.Context(), jobs)
	want := f.failure
	switch {
	case made <= failing && err != nil:
		t.Fatal("without a failure: ", err)
	case made <= failing && failing < c.requests:
		t.Errorf("%d requests, want at least %d", made, c.requests)
	case made > failing && c.name == "SetRules" && failing == 0:
		want = nil // it writes what it cannot compare
	}
	if made > failing && !errors.Is(err, want) {
		t.Errorf("request %d: %v, want %v", failing, err, want)
	}
	return made > failing
}

// prepare makes a new table with two jobs, with no failure.
func prepare(t *testing.T, jobs *onaws.Jobs, n *network) {
	t.Helper()
	n.answer = nil
	if err := jobs.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, j := range []pipeline.Job{
		{ID: "ended", UserID: "alice", Status: pipeline.Failed, Attempt: 1, UpdatedAt: noon}, {ID: "open", UserID: "bob", Status: pipeline.Running, Attempt: 1, UpdatedAt: noon},
	} {
		if done, err := jobs.Swap(t.Context(), pipeline.Job{}, j); err != nil || !done {
			t.Fatal(done, err)
		}
	}
}

// TestTheKindOfAFailure is what the answer of AWS says.
func TestTheKindOfAFailure(t *testing.T) {
	n := &network{}
	x := &onaws.Executions{Client: sfn.NewFromConfig(n.sdk()), StateMachine: machine}
	for code, want := range map[string]error{
		"ProvisionedThroughputExceededException": headroom.Throttled, "ThrottlingException": headroom.Throttled, "RequestLimitExceeded": headroom.Throttled,
		"LimitExceededException": headroom.Throttled, "ExecutionLimitExceeded": headroom.Throttled, "RequestThrottled": headroom.Throttled,
		"KmsThrottlingException": headroom.Throttled, "KmsThrottled": headroom.Throttled,
		"StateMachineDoesNotExist": headroom.Rejected, "AccessDeniedException": headroom.Rejected, "ExpiredTokenException": headroom.Rejected, "ValidationException": headroom.Rejected,
		"ExecutionDoesNotExist": headroom.Rejected, // of a start
	} {
		n.answer = func(*request) (*http.Response, error) { return refuses(code) }
		err := x.Start(t.Context(), "name-1", []byte(`{}`))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", code, err, want)
		}
	}
	for status, want := range map[int]error{499: headroom.Rejected, 500: headroom.Unavailable, 502: headroom.Unavailable} {
		n.answer = func(*request) (*http.Response, error) { return says(status, `{"__type":"Odd"}`) }
		if err := x.Start(t.Context(), "name-1", []byte(`{}`)); !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", status, err, want)
		}
	}
}
