package onaws

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

// The attributes of a job's item. An application may have more of its own, which stay as they are.
const (
	attrID        = "jobId" // the partition key
	attrUser      = "userId"
	attrStatus    = "status"
	attrCharge    = "charge"
	attrAttempt   = "attempt"
	attrReturns   = "returns"
	attrClass     = "voiceQuality"
	attrSeconds   = "durationSeconds"
	attrCost      = "cost"
	attrPlan      = "plan"
	attrHeld      = "held"
	attrOperation = "operation"
	attrWeek      = "week"
	attrDecision  = "decision"
	attrReason    = "reason"
	attrRequested = "requestedAt"
	attrStarted   = "startedAt"
	attrFinished  = "finishedAt"
	attrUpdated   = "updatedAt"

	// attrExpires is when DynamoDB may delete the job, in seconds of Unix time. Only a job that has
	// come to its end has it.
	attrExpires = "expires"

	// attrShard and attrSince are the keys of the index of open jobs. Only an open job has them, so
	// the index holds exactly what a reconciliation has to look at. A job counts as open since it
	// was requested. If it were since its last change, each change would write the index twice
	// more.
	attrShard = "openShard"
	attrSince = "openSince"
)

// stampLayout is how a time is written. It sorts as text.
const stampLayout = "2006-01-02T15:04:05.000Z"

// attributes are the attributes that a change of a job sets or removes.
var attributes = []string{
	attrUser, attrStatus, attrCharge, attrAttempt, attrReturns, attrClass, attrSeconds, attrCost, attrPlan,
	attrHeld, attrOperation, attrWeek, attrDecision, attrReason, attrRequested, attrStarted, attrFinished,
	attrUpdated, attrExpires, attrShard, attrSince,
}

// texts are the fields of a job that are kept as text, by their attributes.
func texts(j *pipeline.Job) map[string]*string {
	return map[string]*string{
		attrUser: &j.UserID, attrStatus: (*string)(&j.Status), attrCharge: (*string)(&j.Charge), attrClass: &j.Class,
		attrPlan: &j.Plan, attrOperation: &j.Operation, attrWeek: &j.Week, attrDecision: &j.Decision, attrReason: &j.Reason,
	}
}

// stamps are the times of a job, by their attributes.
func stamps(j *pipeline.Job) map[string]*time.Time {
	return map[string]*time.Time{
		attrRequested: &j.RequestedAt, attrStarted: &j.StartedAt, attrFinished: &j.FinishedAt, attrUpdated: &j.UpdatedAt,
	}
}

// counters are the counters of a job, by their attributes.
func counters(j *pipeline.Job) map[string]*int {
	return map[string]*int{attrAttempt: &j.Attempt, attrReturns: &j.Returns}
}

// encode returns the attributes of a job without its key. An empty field has no attribute.
func (t *Jobs) encode(j pipeline.Job) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{}
	for attr, value := range texts(&j) {
		if *value != "" {
			item[attr] = text(*value)
		}
	}
	for attr, value := range stamps(&j) {
		if !value.IsZero() {
			item[attr] = text(value.UTC().Format(stampLayout))
		}
	}
	for attr, n := range counters(&j) {
		if *n != 0 {
			item[attr] = number(strconv.Itoa(*n))
		}
	}
	if j.Cost != 0 || j.Charge != "" {
		item[attrCost] = number(strconv.FormatInt(j.Cost, 10))
	}
	// A duration that was refused may be beyond what DynamoDB takes as a number.
	if size := math.Abs(j.Seconds); size >= 1e-100 && size < 1e100 {
		item[attrSeconds] = number(strconv.FormatFloat(j.Seconds, 'f', -1, 64))
	}
	if j.Held {
		item[attrHeld] = &types.AttributeValueMemberBOOL{Value: true}
	}
	if j.Open() {
		item[attrShard] = text(strconv.Itoa(t.shard(j.ID)))
		item[attrSince] = text(j.Opened().Since.UTC().Format(stampLayout))
	} else {
		item[attrExpires] = number(strconv.FormatInt(j.UpdatedAt.Add(cmp.Or(t.Keep, DefaultKeep)).Unix(), 10))
	}
	return item
}

// decode reads a job from its item. An attribute of another type is the application's own, and says
// nothing. It fails with headroom.Unreadable if an attribute cannot be read.
func decode(item map[string]types.AttributeValue) (pipeline.Job, error) {
	j := pipeline.Job{ID: str(item, attrID)}
	for attr, into := range texts(&j) {
		*into = str(item, attr)
	}
	if held, ok := item[attrHeld].(*types.AttributeValueMemberBOOL); ok {
		j.Held = held.Value
	}
	var err error
	for attr, into := range stamps(&j) {
		if s := str(item, attr); s != "" {
			if *into, err = time.Parse(time.RFC3339, s); err != nil {
				return j, damaged(j.ID, attr, err)
			}
		}
	}
	for attr, read := range map[string]func(string) error{
		attrAttempt: func(s string) (err error) { j.Attempt, err = strconv.Atoi(s); return err },
		attrReturns: func(s string) (err error) { j.Returns, err = strconv.Atoi(s); return err },
		attrCost:    func(s string) (err error) { j.Cost, err = strconv.ParseInt(s, 10, 64); return err },
		attrSeconds: func(s string) (err error) { j.Seconds, err = strconv.ParseFloat(s, 64); return err },
	} {
		if n, ok := item[attr].(*types.AttributeValueMemberN); ok {
			if err := read(n.Value); err != nil {
				return j, damaged(j.ID, attr, err)
			}
		}
	}
	return j, nil
}

func damaged(id, attr string, err error) error {
	return headroom.Errorf(headroom.Unreadable, err, "attribute %s of job %q cannot be read", attr, id)
}

func key(id string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrID: text(id)}
}

func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

// str is an attribute that is text. It is empty if there is none.
func str(item map[string]types.AttributeValue, attr string) string {
	if s, ok := item[attr].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
