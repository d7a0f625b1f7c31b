package onaws_test

import (
	"encoding/base64"
	"net/http"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// TestTheCopyOfAMessageHasWhatTheMessageHas, and nothing that it has not.
func TestTheCopyOfAMessageHasWhatTheMessageHas(t *testing.T) {
	n := &network{answer: elsewhere}
	const url = "https://sqs.eu-central-1.amazonaws.com/123456789012/jobs"
	q := &onaws.Queue{Client: sqs.NewFromConfig(n.sdk(), func(o *sqs.Options) { o.DisableMessageChecksumValidation = true })}
	d := pipeline.Delivery{MessageID: "m", Body: `{"jobId":"a"}`, Queue: "arn:aws:sqs:eu-central-1:123456789012:jobs"}
	later := func(after time.Duration) map[string]any {
		t.Helper()
		before := len(n.of("SendMessage"))
		if err := q.Later(t.Context(), d, after); err != nil {
			t.Fatal(err)
		}
		sent := n.of("SendMessage")
		if len(sent) != before+1 {
			t.Fatalf("sent %d times", len(sent)-before)
		}
		return sent[before].in
	}
	// A bare one. What is less than a second counts for none.
	if in := later(90*time.Second + 999*time.Millisecond); !reflect.DeepEqual(in, map[string]any{"QueueUrl": url, "MessageBody": d.Body, "DelaySeconds": 90.0}) {
		t.Errorf("sent %v", in)
	}
	d.Attributes = map[string]string{"MessageGroupId": "alice", "ApproximateReceiveCount": "3"}
	d.MessageAttributes = map[string]pipeline.MessageAttribute{"tenant": {DataType: "String", String: "acme"}, "empty": {DataType: "String"}, "key": {DataType: "Binary", Binary: []byte{1, 2}}, "n": {DataType: "Number", String: "7"}}
	if in := later(15 * time.Minute); !reflect.DeepEqual(in, map[string]any{
		"QueueUrl": url, "MessageBody": d.Body, "DelaySeconds": 900.0, "MessageGroupId": "alice", "MessageAttributes": map[string]any{
			"tenant": map[string]any{"DataType": "String", "StringValue": "acme"}, "empty": map[string]any{"DataType": "String", "StringValue": ""},
			"n": map[string]any{"DataType": "Number", "StringValue": "7"}, "key": map[string]any{"DataType": "Binary", "BinaryValue": base64.StdEncoding.EncodeToString([]byte{1, 2})},
		},
	}) {
		t.Errorf("sent %v", in)
	}
	// Its address was asked for once. That of another queue is another.
	if asked := n.of("GetQueueUrl"); len(asked) != 1 {
		t.Errorf("the address was asked for %d times", len(asked))
	}
	d.Queue = "arn:aws:sqs:eu-central-1:210987654321:others"
	later(time.Second)
	if asked := n.of("GetQueueUrl"); len(asked) != 2 || !reflect.DeepEqual(asked[1].in, map[string]any{"QueueName": "others", "QueueOwnerAWSAccountId": "210987654321"}) {
		t.Errorf("asked %v", asked)
	}
}

// TestAnAddressThatWasNotToldIsAskedForAgain: a failure is not kept.
func TestAnAddressThatWasNotToldIsAskedForAgain(t *testing.T) {
	n := &network{}
	q := &onaws.Queue{Client: sqs.NewFromConfig(n.sdk())}
	d := pipeline.Delivery{MessageID: "m", Body: "{}", Queue: "arn:aws:sqs:eu-central-1:123456789012:jobs"}
	n.answer = func(*request) (*http.Response, error) { return refuses("QueueDoesNotExist") }
	if err := q.Later(t.Context(), d, time.Second); err == nil {
		t.Error("a queue that is not there took a message")
	}
	n.answer = elsewhere
	if err := q.Later(t.Context(), d, time.Second); err != nil {
		t.Error(err)
	}
	if sent := n.of("SendMessage"); len(sent) != 1 {
		t.Errorf("sent %d times", len(sent))
	}
}

// TestAQueueIsUsedByManyAtOnce, which the race detector looks at: a batch works on its messages at
// once.
func TestAQueueIsUsedByManyAtOnce(t *testing.T) {
	n := &network{answer: elsewhere}
	q := &onaws.Queue{Client: sqs.NewFromConfig(n.sdk())}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if err := q.Later(t.Context(), pipeline.Delivery{MessageID: "m", Body: "{}", Queue: "arn:aws:sqs:eu-central-1:123456789012:jobs"}, time.Second); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sent := n.of("SendMessage"); len(sent) != 10 {
		t.Errorf("sent %d times", len(sent))
	}
}
