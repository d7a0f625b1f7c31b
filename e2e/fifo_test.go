package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/pipeline"
)

// TestTheStackKeepsTheOrderOfAFifoQueue is case 66 on the deployed template: of three messages of a
// group the second is broken. The third comes back with it and never overtakes it, until both are
// dead letters; another group waits for nothing. Sent on from there, the third runs.
func TestTheStackKeepsTheOrderOfAFifoQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	build(t, root)
	s := &stack{t: t, name: "fifo", endpoint: enginetest.MiniStack(t, region, "0.1"), params: []string{"Fifo=true", "Mode=hold"}}
	s.deploy(root, monday)
	if _, err := s.queue.SetQueueAttributes(context.Background(), &sqs.SetQueueAttributesInput{QueueUrl: s.url("QueueUrl"), Attributes: map[string]string{"VisibilityTimeout": "4"}}); err != nil {
		t.Fatal(err)
	}
	job := func(id, user string) string {
		b, err := json.Marshal(map[string]any{"jobId": id, "userId": user, "voiceQuality": "standard", "durationSeconds": 60})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	in := &sqs.SendMessageBatchInput{QueueUrl: s.url("QueueUrl")}
	for i, m := range []struct{ group, body string }{{"alice", job("first", "alice")}, {"alice", "not JSON"}, {"alice", job("third", "alice")}, {"bob", job("other", "bob")}} {
		in.Entries = append(in.Entries, sqstypes.SendMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint(i)), MessageBody: aws.String(m.body), MessageGroupId: aws.String(m.group), MessageDeduplicationId: aws.String(fmt.Sprint(i)),
		})
	}
	if out, err := s.queue.SendMessageBatch(context.Background(), in); err != nil || len(out.Failed) > 0 {
		t.Fatal(out, err)
	}
	s.settled([]string{"first", "other"})
	s.until("the second and the third are dead letters", func() (bool, string) {
		left, dead := s.depth("QueueUrl"), s.depth("DeadLettersUrl")
		return left == 0 && dead == 2, fmt.Sprintf("%d left, %d dead letters", left, dead)
	})
	if j, found := s.all()["third"]; found {
		t.Errorf("the third has overtaken the second: %+v", j)
	}
	again := &sqs.SendMessageInput{QueueUrl: s.url("QueueUrl"), MessageBody: aws.String(job("third", "alice")), MessageGroupId: aws.String("alice"), MessageDeduplicationId: aws.String("again")}
	if _, err := s.queue.SendMessage(context.Background(), again); err != nil {
		t.Fatal(err)
	}
	s.settled([]string{"third"})
	for id, j := range s.all() {
		if j.Status != pipeline.Succeeded || j.Charge != pipeline.Charged || j.Cost != 1 {
			t.Errorf("%s: %+v", id, j)
		}
	}
}
