package onaws_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/jobstest"
	"github.com/lumcast/headroom/pipeline/onaws"
)

var keys = credentials.NewStaticCredentialsProvider("test", "test", "")

var tables atomic.Int64

func open(t *testing.T, engine string) *onaws.Jobs {
	t.Helper()
	client := dynamodb.New(dynamodb.Options{Region: "eu-central-1", BaseEndpoint: aws.String(enginetest.Start(t, engine)), Credentials: keys})
	jobs := &onaws.Jobs{Client: client, Table: fmt.Sprintf("jobs-%d", tables.Add(1))}
	for range 2 { // a table that exists is left as it is
		if err := jobs.CreateTable(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return jobs
}

func TestJobsOnDynamoDB(t *testing.T) {
	for _, engine := range enginetest.Names() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			jobstest.Run(t, func(t *testing.T) pipeline.Jobs { return open(t, engine) })
		})
	}
}

func TestAttributesOfTheApplicationStay(t *testing.T) {
	jobs := open(t, "dynoxide")
	item := map[string]types.AttributeValue{
		"jobId": &types.AttributeValueMemberS{Value: "a"}, "userId": &types.AttributeValueMemberS{Value: "alice"},
		"status": &types.AttributeValueMemberS{Value: "queued"}, "title": &types.AttributeValueMemberS{Value: "Tides"},
	}
	if _, err := jobs.Client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &jobs.Table, Item: item}); err != nil {
		t.Fatal(err)
	}
	was, found, err := jobs.Get(t.Context(), "a")
	if err != nil || !found {
		t.Fatal(found, err)
	}
	is := was
	is.Status, is.Attempt, is.UpdatedAt = pipeline.Running, 1, time.Now().UTC()
	if done, err := jobs.Swap(t.Context(), was, is); err != nil || !done {
		t.Fatal(done, err)
	}
	out, err := jobs.Client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &jobs.Table, Key: map[string]types.AttributeValue{"jobId": item["jobId"]}, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	if title, ok := out.Item["title"].(*types.AttributeValueMemberS); !ok || title.Value != "Tides" {
		t.Error(out.Item)
	}
}

func TestAMissingTableIsAnError(t *testing.T) {
	jobs := open(t, "dynoxide")
	jobs.Table = "nobody-made-it"
	if _, _, err := jobs.Get(t.Context(), "a"); !errors.Is(err, headroom.Rejected) {
		t.Error(err)
	}
	if _, err := jobs.Swap(t.Context(), pipeline.Job{}, pipeline.Job{ID: "a", UserID: "u", Status: pipeline.Running}); !errors.Is(err, headroom.Rejected) {
		t.Error(err)
	}
}

const machine = "arn:aws:states:eu-central-1:123456789012:stateMachine:podcast"

// stepFunctions answers every request with one status and body, and keeps what was asked.
func stepFunctions(t *testing.T, status int, body string) (*onaws.Executions, *map[string]any) {
	asked := &map[string]any{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(in, asked); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	client := sfn.New(sfn.Options{Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: keys, RetryMaxAttempts: 1})
	return &onaws.Executions{Client: client, StateMachine: machine}, asked
}

func TestAnExecutionThatExistsIsStarted(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   error
	}{
		{200, `{"executionArn":"x","startDate":1.0}`, nil},
		{400, `{"__type":"com.amazonaws.swf.service.v2.model#ExecutionAlreadyExists","message":"Execution Already Exists"}`, nil},
		{400, `{"__type":"ExecutionLimitExceeded","message":"too many"}`, headroom.Throttled},
		{400, `{"__type":"StateMachineDoesNotExist","message":"no"}`, headroom.Rejected},
		{500, `{"__type":"InternalFailure"}`, headroom.Unavailable},
		{503, `busy`, headroom.Unavailable},
	} {
		x, asked := stepFunctions(t, c.status, c.body)
		if err := x.Start(t.Context(), "name-1", []byte(`{"a":1}`)); !errors.Is(err, c.want) {
			t.Errorf("%d %s: %v, want %v", c.status, c.body, err, c.want)
		}
		if (*asked)["name"] != "name-1" || (*asked)["input"] != `{"a":1}` || (*asked)["stateMachineArn"] != machine {
			t.Error(*asked)
		}
	}
}

func TestAnExecutionIsDescribedByItsName(t *testing.T) {
	x, asked := stepFunctions(t, 200, `{"executionArn":"x","status":"FAILED","input":"{}","error":"E","cause":"C","startDate":1.0}`)
	e, found, err := x.Describe(t.Context(), "name-1")
	if err != nil || !found || e.Status != "FAILED" || string(e.Input) != "{}" || e.Error != "E" || e.Cause != "C" {
		t.Error(e, found, err)
	}
	if arn := (*asked)["executionArn"]; arn != strings.Replace(machine, "stateMachine", "execution", 1)+":name-1" {
		t.Error(arn)
	}
	x, _ = stepFunctions(t, 400, `{"__type":"ExecutionDoesNotExist","message":"no"}`)
	if _, found, err := x.Describe(t.Context(), "name-1"); found || err != nil {
		t.Error(found, err)
	}
	x, _ = stepFunctions(t, 400, `{"__type":"AccessDeniedException","message":"no"}`)
	if _, _, err := x.Describe(t.Context(), "name-1"); !errors.Is(err, headroom.Rejected) {
		t.Error(err)
	}
}
