package pipeline

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Batch is what the queue hands to the consumer, in the shape of an SQS event.
type Batch struct {
	Records []Delivery `json:"Records"`
}

// Delivery is one message of a batch.
type Delivery struct {
	MessageID string `json:"messageId"`
	Body      string `json:"body"`
	// Attributes are the queue's own. The consumer reads SentTimestamp (milliseconds of Unix time)
	// and MessageGroupId.
	Attributes map[string]string `json:"attributes"`
	// Queue is the ARN of the queue. The name of a FIFO queue ends in .fifo.
	Queue string `json:"eventSourceARN"`
	// MessageAttributes are the sender's. A message that is sent again keeps them.
	MessageAttributes map[string]MessageAttribute `json:"messageAttributes"`
}

// MessageAttribute is an attribute that the sender gave a message.
type MessageAttribute struct {
	DataType string `json:"dataType"`
	String   string `json:"stringValue"`
	Binary   []byte `json:"binaryValue"`
}

// BatchFailures names the messages of a batch that the queue has to deliver again, in the shape
// that Lambda's setting ReportBatchItemFailures asks for.
type BatchFailures struct {
	Items []BatchFailure `json:"batchItemFailures"`
}

// BatchFailure names one message.
type BatchFailure struct {
	MessageID string `json:"itemIdentifier"`
}

// Consume takes the messages of a batch and starts their jobs. It reports each message that fails,
// and the queue delivers those again. A message that cannot be read at all fails until the queue
// moves it to the dead letters. In a FIFO queue the later messages of the same group fail too,
// because their order has to be kept.
//
// The messages share the time that the context leaves. Each gets an equal part of what is left, and
// at most Options.PerMessage, so that a call that hangs costs its own message and no other.
//
// If the event is not a batch (there are no Records, or one has no id), Consume fails with
// headroom.Invalid and has done nothing. Lambda would take an empty answer for a success and delete
// all messages.
func (p *Pipeline) Consume(ctx context.Context, b Batch) (BatchFailures, error) {
	failures := BatchFailures{Items: []BatchFailure{}}
	if b.Records == nil {
		return failures, invalid("the event has no Records: it is not of a queue")
	}
	for i, d := range b.Records {
		if d.MessageID == "" {
			return failures, invalid("record %d of the event has no messageId", i)
		}
	}
	listed := map[string]bool{}
	broken := map[string]bool{} // the groups of a FIFO queue in which a message has failed
	until, bounded := answerBy(ctx)
	for i, d := range b.Records {
		group, ordered := d.group()
		failed := ordered && broken[group]
		if failed {
			p.report(ctx, atConsumer, sighting{message: d.MessageID, decision: decisionBehind}, nil)
		} else {
			share := p.opts.PerMessage
			if bounded {
				share = min(share, time.Until(until)/time.Duration(len(b.Records)-i))
			}
			failed = p.deliver(ctx, d, share) != nil
		}
		if !failed {
			continue
		}
		broken[group] = broken[group] || ordered
		if !listed[d.MessageID] {
			listed[d.MessageID] = true
			failures.Items = append(failures.Items, BatchFailure{MessageID: d.MessageID})
		}
	}
	return failures, nil
}

// deliver handles one delivery, within a time, and logs what it did.
func (p *Pipeline) deliver(ctx context.Context, d Delivery, within time.Duration) error {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	seen, err := p.accept(bounded, d)
	seen.took = time.Since(began)
	p.report(ctx, atConsumer, seen, err)
	return err
}

// answerBy is when a handler must have its answer ready. That is a little before the context ends,
// because Lambda stops the function at its end, and the whole batch fails.
func answerBy(ctx context.Context) (time.Time, bool) {
	end, ok := ctx.Deadline()
	if !ok {
		return time.Time{}, false
	}
	return end.Add(-min(time.Second, time.Until(end)/10)), true
}

// group returns the message group of a delivery, and whether the queue keeps the order of the
// messages in a group. A standard queue does not: there, groups only give each user a fair share.
func (d Delivery) group() (string, bool) {
	return d.Attributes["MessageGroupId"], strings.HasSuffix(d.Queue, ".fifo")
}

// maxWraps is how many wrappings are taken off. A message that goes from EventBridge to SNS to SQS
// has two.
const maxWraps = 3

// unwrap takes off what SNS and EventBridge put around a message. A body that is not recognised
// stays as it is. So does one that has a job id, whatever else it has.
func unwrap(body []byte) []byte {
	for range maxWraps {
		var w struct {
			JobID *json.RawMessage `json:"jobId"`

			// SNS, without raw message delivery.
			Type    string  `json:"Type"`
			Topic   string  `json:"TopicArn"`
			Message *string `json:"Message"`

			// EventBridge.
			DetailType string          `json:"detail-type"`
			Source     string          `json:"source"`
			Detail     json.RawMessage `json:"detail"`
		}
		switch err := json.Unmarshal(body, &w); {
		case err != nil || w.JobID != nil:
			return body
		case w.Type == "Notification" && w.Topic != "" && w.Message != nil:
			body = []byte(*w.Message)
		case w.DetailType != "" && w.Source != "" && len(w.Detail) > 0:
			body = w.Detail
		default:
			return body
		}
	}
	return body
}
