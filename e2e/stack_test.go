package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

const region = "eu-central-1"

var keys = credentials.NewStaticCredentialsProvider("test", "test", "")

// stack is a deployed template.
type stack struct {
	t        *testing.T
	name     string
	endpoint string
	params   []string
	outputs  map[string]string
	clock    time.Time

	queue  *sqs.Client
	runs   *sfn.Client
	jobs   *onaws.Jobs
	engine *headroom.Engine
}

// build builds the functions for this machine, once for all tests.
func build(t *testing.T, root string) {
	t.Helper()
	if out, err := built(root); err != nil {
		t.Fatalf("make lambdas: %v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

var (
	building sync.Once
	buildLog []byte
	buildErr error
)

func built(root string) ([]byte, error) {
	building.Do(func() {
		buildLog, buildErr = exec.Command("make", "-C", root, "lambdas", "GOARCH="+runtime.GOARCH).CombinedOutput()
	})
	return buildLog, buildErr
}

// deploy creates the stack, or gives its functions another clock.
func (s *stack) deploy(root string, clock time.Time) {
	s.t.Helper()
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	args := append([]string{
		filepath.Join(root, "e2e/deploy.py"), s.endpoint, region, s.name, root, clock.Format(time.RFC3339), "Architecture=" + arch,
	}, s.params...)
	cmd := exec.Command(filepath.Join(root, ".tools/aws/bin/python"), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("deploy: %v", err)
	}
	if err := json.Unmarshal(out, &s.outputs); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	s.clock = clock
	if s.engine != nil {
		return
	}
	client := dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: &s.endpoint, Credentials: keys})
	s.queue = sqs.New(sqs.Options{Region: region, BaseEndpoint: &s.endpoint, Credentials: keys})
	s.runs = sfn.New(sfn.Options{Region: region, BaseEndpoint: &s.endpoint, Credentials: keys})
	s.jobs = &onaws.Jobs{Client: client, Table: s.outputs["JobsTable"]}
	store, err := dynamostore.New(client, dynamostore.Options{Table: s.outputs["UsersTableName"], Ledger: s.outputs["LedgerTable"]})
	if err != nil {
		s.t.Fatal(err)
	}
	if s.engine, err = headroom.New(store, headroom.DefaultCatalog(), headroom.Options{}); err != nil {
		s.t.Fatal(err)
	}
}

// send queues bodies in batches of ten.
func (s *stack) send(bodies []string) {
	s.t.Helper()
	for from := 0; from < len(bodies); from += 10 {
		in := &sqs.SendMessageBatchInput{QueueUrl: s.url("QueueUrl")}
		for i, body := range bodies[from:min(from+10, len(bodies))] {
			in.Entries = append(in.Entries, sqstypes.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(body),
			})
		}
		out, err := s.queue.SendMessageBatch(context.Background(), in)
		if err != nil || len(out.Failed) > 0 {
			s.t.Fatal(err, out)
		}
	}
}

// url is a queue's address at the endpoint in use. In the stack's outputs it has a host name
// instead.
func (s *stack) url(output string) *string {
	full := s.outputs[output]
	return aws.String(s.endpoint + full[strings.Index(full, "/000000000000/"):])
}

// depth counts the messages of a queue, also those that are in flight or delayed.
func (s *stack) depth(output string) int {
	s.t.Helper()
	out, err := s.queue.GetQueueAttributes(context.Background(), &sqs.GetQueueAttributesInput{
		QueueUrl: s.url(output), AttributeNames: []sqstypes.QueueAttributeName{"All"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, which := range []string{"", "NotVisible", "Delayed"} {
		i, err := strconv.Atoi(out.Attributes["ApproximateNumberOfMessages"+which])
		if err != nil {
			s.t.Fatal(err)
		}
		n += i
	}
	return n
}

// deadLetters returns the bodies of the dead letters, sorted.
func (s *stack) deadLetters() []string {
	s.t.Helper()
	seen := map[string]string{} // by message id
	for {
		out, err := s.queue.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{
			QueueUrl: s.url("DeadLettersUrl"), MaxNumberOfMessages: 10, VisibilityTimeout: 600,
		})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return slices.Sorted(maps.Values(seen))
		}
		for _, m := range out.Messages {
			seen[*m.MessageId] = *m.Body
		}
	}
}

// lambda makes a request to the API of Lambda about a function, and returns the answer.
func (s *stack) lambda(method, function, what string, body []byte) []byte {
	s.t.Helper()
	r, err := http.NewRequest(method, s.endpoint+"/2015-03-31/functions/"+function+"/"+what, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+region+
		"/lambda/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	err = errors.Join(err, answer.Body.Close())
	if err != nil || answer.StatusCode != 200 || answer.Header.Get("X-Amz-Function-Error") != "" {
		s.t.Fatalf("%s %s of %s: %v %s %s", method, what, function, err, answer.Status, text)
	}
	return text
}

// invoke calls a function with an event and returns its answer.
func (s *stack) invoke(function string, event []byte) []byte {
	s.t.Helper()
	return s.lambda("POST", function, "invocations", event)
}

// configure changes environment variables of a function, and returns what they were.
func (s *stack) configure(function string, change map[string]string) map[string]string {
	s.t.Helper()
	var c struct {
		Environment struct{ Variables map[string]string }
	}
	if err := json.Unmarshal(s.lambda("GET", function, "configuration", nil), &c); err != nil {
		s.t.Fatal(err)
	}
	was := map[string]string{}
	for name, value := range change {
		was[name] = c.Environment.Variables[name]
		c.Environment.Variables[name] = value
	}
	body, err := json.Marshal(c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.lambda("PUT", function, "configuration", body)
	return was
}

// all returns the jobs by their ids.
func (s *stack) all() map[string]pipeline.Job {
	s.t.Helper()
	all := map[string]pipeline.Job{}
	err := s.jobs.List(context.Background(), pipeline.Filter{}, func(j pipeline.Job) bool { all[j.ID] = j; return true })
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// until looks again and again until a condition holds. It fails when its patience ends. Nothing
// else depends on how long that takes.
func (s *stack) until(what string, holds func() (bool, string)) {
	s.t.Helper()
	const patience = 4 * time.Minute
	var last string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		var ok bool
		if ok, last = holds(); ok {
			return
		}
	}
	s.t.Fatalf("%s: not after %s: %s", what, patience, last)
}

// settled waits until each of the jobs has come to its end.
func (s *stack) settled(ids []string) {
	s.t.Helper()
	s.until("jobs come to their end", func() (bool, string) {
		all := s.all()
		var open []string
		for _, id := range ids {
			j, found := all[id]
			if !found || j.Open() {
				open = append(open, fmt.Sprintf("%s %s", id, j.Status))
			}
		}
		return len(open) == 0, fmt.Sprintf("%d open, as %.5q", len(open), open)
	})
}
