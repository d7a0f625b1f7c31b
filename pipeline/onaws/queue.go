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

// Queue sends messages that have to wait back to their queue. Client is needed.
type Queue struct {
	Client *sqs.Client

	mu   sync.Mutex
	urls map[string]string // by ARN
}

// Later sends a copy of a message to the queue that it came from. The queue delivers it after the
// given time, which is at most 15 minutes and counts in whole seconds. For the queue the copy is a
// new message, so its receives are counted from the beginning. If the caller is cut off before it
// deletes the first message, both are delivered, and the second does nothing.
//
// Later fails with headroom.Invalid for a FIFO queue, which cannot delay a single message. The
// message then comes back after the queue's visibility timeout, and its group waits with it.
func (q *Queue) Later(ctx context.Context, d pipeline.Delivery, after time.Duration) error {
	if strings.HasSuffix(d.Queue, ".fifo") {
		return invalid("queue %s delays no single message", d.Queue)
	}
	url, err := q.url(ctx, d.Queue)
	if err != nil {
		return err
	}
	in := &sqs.SendMessageInput{
		QueueUrl:     &url,
		MessageBody:  &d.Body,
		DelaySeconds: int32(after / time.Second),
	}
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

// url is the address of a queue. It is asked for once, and then kept.
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
	out, err := q.Client.GetQueueUrl(ctx,
		&sqs.GetQueueUrlInput{QueueName: &parts[5], QueueOwnerAWSAccountId: &parts[4]})
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
