package pipeline

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Batch is what the queue hands over, in the shape of an SQS event.
type Batch struct {
	Records []Delivery `json:"Records"`
}

// Delivery is one message of a batch.
type Delivery struct {
	MessageID string `json:"messageId"`
	Body      string `json:"body"`
	// Attributes are the queue's own. SentTimestamp, in milliseconds, and MessageGroupId are
	// looked at.
	Attributes map[string]string `json:"attributes"`
	Queue      string            `json:"eventSourceARN"` // of a FIFO queue it ends in .fifo
	// MessageAttributes are the sender's. They are kept where the message is sent again.
	MessageAttributes map[string]MessageAttribute `json:"messageAttributes"`
}

// MessageAttribute is one that the sender of a message gave it.
type MessageAttribute struct {
	DataType string `json:"dataType"`
	String   string `json:"stringValue"`
	Binary   []byte `json:"binaryValue"`
}

// BatchFailures names the messages of a batch that the queue is to deliver again, in the shape
// that ReportBatchItemFailures asks for.
type BatchFailures struct {
	Items []BatchFailure `json:"batchItemFailures"`
}

// BatchFailure names one message.
type BatchFailure struct {
	MessageID string `json:"itemIdentifier"`
}

// Consume takes the messages of a batch and starts their jobs. One that fails is reported alone:
// what cannot be read at all comes back until the queue gives it to its dead-letter queue. Of a
// FIFO queue the later messages of the same group come back with it, since their order counts.
//
// Each message has an equal share of the time that the context leaves for those that are left, and
// at most Options.PerMessage. So one call that hangs costs its own message and no other.
//
// It fails as a whole, and has then done nothing, if what it is given is no batch: records are
// missing, or one has no id. Lambda would take an empty answer for a success and delete them all.
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
	broken := map[string]bool{} // groups of a FIFO queue in which a message has failed
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

// deliver handles one delivery within a time, and logs what it did.
func (p *Pipeline) deliver(ctx context.Context, d Delivery, within time.Duration) error {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	seen, err := p.accept(bounded, d)
	seen.took = time.Since(began)
	p.report(ctx, atConsumer, seen, err)
	return err
}

// answerBy is when a handler must have its answer ready: a little before the context ends, for
// Lambda stops a function at that moment and takes the whole batch for failed.
func answerBy(ctx context.Context) (time.Time, bool) {
	end, ok := ctx.Deadline()
	if !ok {
		return time.Time{}, false
	}
	return end.Add(-min(time.Second, time.Until(end)/10)), true
}

// group is the message group of a delivery, and whether the queue keeps the order of groups. A
// group of a standard queue only makes its share fair.
func (d Delivery) group() (string, bool) {
	return d.Attributes["MessageGroupId"], strings.HasSuffix(d.Queue, ".fifo")
}

// maxWraps is how many wrappings are taken off: EventBridge to SNS to SQS makes two.
const maxWraps = 3

// unwrap takes off what SNS and EventBridge put around a message. What is not recognised stays as
// it is, and so does a message with a job id, whatever else it has.
func unwrap(body []byte) []byte {
	for range maxWraps {
		var w struct {
			JobID *json.RawMessage `json:"jobId"`

			Type    string  `json:"Type"` // of SNS, without raw message delivery
			Topic   string  `json:"TopicArn"`
			Message *string `json:"Message"`

			DetailType string          `json:"detail-type"` // of EventBridge
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
