package onaws

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lumcast/headroom/pipeline"
)

// Queue sends messages again that have to wait.
type Queue struct {
	Client *sqs.Client

	mu   sync.Mutex
	urls map[string]string // by ARN
}

// Later sends a copy of a message to the queue that it came from, which delivers it after a while:
// at most 15 minutes, in whole seconds. The copy is a message of its own, so that its receives are
// counted anew. Should the caller be cut off before it deletes the first one, both are delivered,
// and the second is a repeat.
//
// A FIFO queue delays no single message, and there it is an error: the message then comes back by
// the queue's visibility timeout, and its group waits with it.
func (q *Queue) Later(ctx context.Context, d pipeline.Delivery, after time.Duration) error {
	if strings.HasSuffix(d.Queue, ".fifo") {
		return invalid("queue %s delays no single message", d.Queue)
	}
	url, err := q.url(ctx, d.Queue)
	if err != nil {
		return err
	}
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &d.Body, DelaySeconds: int32(after / time.Second)}
	if group := d.Attributes["MessageGroupId"]; group != "" {
		in.MessageGroupId = &group
	}
	for name, a := range d.MessageAttributes {
		if in.MessageAttributes == nil {
			in.MessageAttributes = map[string]types.MessageAttributeValue{}
		}
		v := types.MessageAttributeValue{DataType: aws.String(a.DataType), BinaryValue: a.Binary}
		if a.Binary == nil {
			v.StringValue = aws.String(a.String)
		}
		in.MessageAttributes[name] = v
	}
	_, err = q.Client.SendMessage(ctx, in)
	return failure(err, "queue "+d.Queue)
}

// url is the address of a queue, which is asked for once.
func (q *Queue) url(ctx context.Context, arn string) (string, error) {
	q.mu.Lock()
	url, known := q.urls[arn]
	q.mu.Unlock()
	if known {
		return url, nil
	}
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[2] != "sqs" {
		return "", invalid("%q is no ARN of a queue", arn)
	}
	out, err := q.Client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &parts[5], QueueOwnerAWSAccountId: &parts[4]})
	if err != nil {
		return "", failure(err, "queue "+arn)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.urls == nil {
		q.urls = map[string]string{}
	}
	q.urls[arn] = aws.ToString(out.QueueUrl)
	return q.urls[arn], nil
}
