package e2e

import (
	"bytes"
	"context"
	"encoding/json"
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

// build builds the functions for this machine, once for all stacks.
func build(t *testing.T, root string) {
	t.Helper()
	cmd := exec.Command("make", "-C", root, "lambdas", "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make lambdas: %v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

// deploy creates the stack, or gives its functions another clock.
func (s *stack) deploy(root string, clock time.Time) {
	s.t.Helper()
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	args := append([]string{filepath.Join(root, "e2e/deploy.py"), s.endpoint, region, s.name, root, clock.Format(time.RFC3339), "Architecture=" + arch}, s.params...)
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
	if s.engine, err = headroom.New(store, headroom.Lumcast(), headroom.Options{}); err != nil {
		s.t.Fatal(err)
	}
}

// send queues bodies in batches of ten.
func (s *stack) send(bodies []string) {
	s.t.Helper()
	for from := 0; from < len(bodies); from += 10 {
		in := &sqs.SendMessageBatchInput{QueueUrl: s.url("QueueUrl")}
		for i, body := range bodies[from:min(from+10, len(bodies))] {
			in.Entries = append(in.Entries, sqstypes.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(body)})
		}
		out, err := s.queue.SendMessageBatch(context.Background(), in)
		if err != nil || len(out.Failed) > 0 {
			s.t.Fatal(err, out)
		}
	}
}

// url is a queue's address at the endpoint in use: the stack knows itself by a host name.
func (s *stack) url(output string) *string {
	full := s.outputs[output]
	return aws.String(s.endpoint + full[strings.Index(full, "/000000000000/"):])
}

// depth counts the messages of a queue, those in flight too.
func (s *stack) depth(output string) int {
	s.t.Helper()
	out, err := s.queue.GetQueueAttributes(context.Background(), &sqs.GetQueueAttributesInput{QueueUrl: s.url(output), AttributeNames: []sqstypes.QueueAttributeName{"All"}})
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"} {
		i, _ := strconv.Atoi(out.Attributes[name])
		n += i
	}
	return n
}

// deadLetters returns the bodies of the dead letters, sorted.
func (s *stack) deadLetters() []string {
	s.t.Helper()
	seen := map[string]string{} // by message id
	for {
		out, err := s.queue.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: s.url("DeadLettersUrl"), MaxNumberOfMessages: 10, VisibilityTimeout: 600})
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

// invoke calls a function with an event and returns its answer.
func (s *stack) invoke(function string, event []byte) []byte {
	s.t.Helper()
	r, err := http.NewRequest("POST", s.endpoint+"/2015-03-31/functions/"+function+"/invocations", bytes.NewReader(event))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+region+"/lambda/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 || answer.Header.Get("X-Amz-Function-Error") != "" {
		s.t.Fatalf("%s: %v %s %s", function, err, answer.Status, body)
	}
	return body
}

// configure changes environment variables of a function, and returns what they were.
func (s *stack) configure(function string, change map[string]string) map[string]string {
	s.t.Helper()
	at := s.endpoint + "/2015-03-31/functions/" + function + "/configuration"
	call := func(method string, body []byte) (c struct {
		Environment struct{ Variables map[string]string }
	}) {
		r, err := http.NewRequest(method, at, bytes.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+region+"/lambda/aws4_request, SignedHeaders=host, Signature=0")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			s.t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != 200 {
			s.t.Fatalf("%s of %s: %v %s %s", method, function, err, answer.Status, text)
		}
		if err := json.Unmarshal(text, &c); err != nil {
			s.t.Fatal(err)
		}
		return c
	}
	was := map[string]string{}
	c := call("GET", nil)
	for name, value := range change {
		was[name] = c.Environment.Variables[name]
		c.Environment.Variables[name] = value
	}
	body, err := json.Marshal(c)
	if err != nil {
		s.t.Fatal(err)
	}
	call("PUT", body)
	return was
}

// all returns the jobs by their ids.
func (s *stack) all() map[string]pipeline.Job {
	s.t.Helper()
	all := map[string]pipeline.Job{}
	if err := s.jobs.List(context.Background(), pipeline.Filter{}, func(j pipeline.Job) bool { all[j.ID] = j; return true }); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// until looks again and again until a condition holds. Nothing depends on how long that takes, but
// the patience.
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
			if !found || j.Status == pipeline.Queued || j.Status == pipeline.Running || j.Charge == pipeline.ChargePending {
				open = append(open, fmt.Sprintf("%s %s", id, j.Status))
			}
		}
		return len(open) == 0, fmt.Sprintf("%d open, as %.5q", len(open), open)
	})
}
