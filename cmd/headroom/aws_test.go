package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// TestScriptsOnAWS runs the scripts of the operator's verbs on an emulator of AWS. Beside the usual
// commands they have "job ID USER STATUS ATTEMPT [REASON]", which makes a record of a job that was
// requested three hours ago, "rules OVER FILE", which does what a stack's reconciliation does, and
// "messages URL", which shows a queue.
func TestScriptsOnAWS(t *testing.T) {
	const region = "eu-central-1"
	endpoint := enginetest.MiniStack(t, region, "1")
	keys := credentials.NewStaticCredentialsProvider("test", "test", "")
	queues := sqs.New(sqs.Options{Region: region, BaseEndpoint: &endpoint, Credentials: keys})
	jobs := func(ts *testscript.TestScript) *onaws.Jobs {
		client := dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: &endpoint, Credentials: keys})
		return &onaws.Jobs{Client: client, Table: ts.Getenv("HEADROOM_JOBS")}
	}
	p := scripts("testdata/aws")
	home := p.Setup
	p.Setup = func(e *testscript.Env) error {
		name := strings.NewReplacer("/", "-", ".", "-").Replace(e.WorkDir[strings.LastIndex(e.WorkDir, "/")+1:])
		for variable, queue := range map[string]string{"HEADROOM_QUEUE": name, "HEADROOM_DEAD_LETTERS": name + "-dead", "FIFO": name + ".fifo"} {
			in := &sqs.CreateQueueInput{QueueName: &queue}
			if variable == "FIFO" {
				in.Attributes = map[string]string{"FifoQueue": "true"}
			}
			out, err := queues.CreateQueue(context.Background(), in)
			if err != nil {
				return err
			}
			e.Setenv(variable, endpoint+(*out.QueueUrl)[strings.Index(*out.QueueUrl, "/000000000000/"):])
		}
		for variable, value := range map[string]string{
			"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": region, "AWS_ENDPOINT_URL": endpoint, "ENDPOINT": endpoint, "HEADROOM_JOBS": name + "-jobs",
			"HEADROOM_STORE": "dynamodb:" + name + "-users?region=" + region + "&endpoint=" + endpoint, "HEADROOM_STATE_MACHINE": "arn:aws:states:eu-central-1:000000000000:stateMachine:m",
		} {
			e.Setenv(variable, value)
		}
		return home(e)
	}
	p.Cmds["job"] = func(ts *testscript.TestScript, _ bool, args []string) {
		attempt, err := strconv.Atoi(args[3])
		ts.Check(err)
		at := time.Now().Add(-3 * time.Hour).UTC()
		j := pipeline.Job{ID: args[0], UserID: args[1], Status: pipeline.Status(args[2]), Attempt: attempt, Class: "neural", Seconds: 60, Cost: 2, RequestedAt: at, UpdatedAt: at}
		if j.Status == "pending" {
			j.Status, j.Charge, j.Operation = pipeline.Succeeded, pipeline.ChargePending, j.ID
		}
		if len(args) > 4 {
			j.Reason = args[4]
		}
		if done, err := jobs(ts).Swap(context.Background(), pipeline.Job{}, j); err != nil || !done {
			ts.Fatalf("%v, %v", done, err)
		}
	}
	p.Cmds["rules"] = func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Check(jobs(ts).SetRules(context.Background(), onaws.Rules{Over: args[0], Config: ts.ReadFile(args[1])}))
	}
	p.Cmds["messages"] = func(ts *testscript.TestScript, _ bool, args []string) {
		url := args[0]
		out, err := queues.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, VisibilityTimeout: 0, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		})
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%d messages\n", len(out.Messages))
		for _, m := range out.Messages {
			fmt.Fprintln(ts.Stdout(), m.Attributes["MessageGroupId"], aws.ToString(m.Body))
		}
	}
	testscript.Run(t, p)
}
