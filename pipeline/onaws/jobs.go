// Package onaws keeps the pipeline's jobs in DynamoDB, runs them as executions of Step Functions,
// and wires both with an engine on DynamoDB: New for a program of your own, Function for Lambda.
package onaws

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

// Attributes of a job's item. Others, of the application's own, are left as they are.
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

	// attrExpires is there only when a job has come to its end: when DynamoDB may delete it, in
	// seconds of Unix time.
	attrExpires = "expires"

	// attrShard and attrSince are there only while a job is open. They are the keys of the index,
	// which so holds what a reconciliation has to look at, and nothing else. A job is open since it
	// was requested: were it since its last change, each change would write the index twice more.
	attrShard = "openShard"
	attrSince = "openSince"
)

// openIndex is the name of the index of open jobs. Its keys are openShard and openSince, strings;
// it needs no other attribute.
const openIndex = "open"

// stampLayout sorts as text.
const stampLayout = "2006-01-02T15:04:05.000Z"

// Jobs is a table of jobs in DynamoDB.
type Jobs struct {
	Client *dynamodb.Client
	Table  string

	// Shards is over how many partitions of the index the open jobs are spread, each of which takes
	// 1,000 writes a second: at most MaxShards. All are read, so that it may change at any time.
	// Zero: DefaultShards.
	Shards int
	// Keep is how long a job that has come to its end stays, counted from its last change: longer
	// than operation ids are remembered and a message may come again. Zero: DefaultKeep. The
	// table's time to live must be on the attribute expires; where it is not, jobs stay for good.
	Keep time.Duration
}

const (
	DefaultShards = 8
	MaxShards     = 64
	// DefaultKeep is longer than a message can come back (4 days in its queue, 14 among the dead
	// letters, 14 more in the queue) and the 15 days of operation ids.
	DefaultKeep = 90 * 24 * time.Hour
)

var _ pipeline.Jobs = (*Jobs)(nil)

// CreateTable creates the table with its index and its time to live, billed by request, and waits
// until it can be used. A table that exists is left as it is.
func (t *Jobs) CreateTable(ctx context.Context) error {
	attr := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}
	}
	_, err := t.Client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &t.Table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{attr(attrID), attr(attrShard), attr(attrSince)},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(attrID), KeyType: types.KeyTypeHash}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName:  aws.String(openIndex),
			KeySchema:  []types.KeySchemaElement{{AttributeName: aws.String(attrShard), KeyType: types.KeyTypeHash}, {AttributeName: aws.String(attrSince), KeyType: types.KeyTypeRange}},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return failure(err, "job table "+t.Table)
	}
	wait := dynamodb.NewTableExistsWaiter(t.Client, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = time.Second })
	if err := wait.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &t.Table}, 5*time.Minute); err != nil {
		return failure(err, "job table "+t.Table)
	}
	return failure(t.expire(ctx), "job table "+t.Table)
}

// expire lets DynamoDB delete the jobs whose time is over. What a table that exists does about that
// stays as it is. Some emulators have no time to live, which is for cleaning only.
func (t *Jobs) expire(ctx context.Context) error {
	out, err := t.Client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &t.Table})
	if err == nil && (out.TimeToLiveDescription == nil || out.TimeToLiveDescription.TimeToLiveStatus == types.TimeToLiveStatusDisabled) {
		_, err = t.Client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName: &t.Table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrExpires), Enabled: aws.Bool(true)},
		})
	}
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "UnknownOperationException" {
		return nil
	}
	return err
}

// Get implements pipeline.Jobs.
func (t *Jobs) Get(ctx context.Context, id string) (pipeline.Job, bool, error) {
	out, err := t.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.Table, Key: key(id), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return pipeline.Job{}, false, failure(err, "job table "+t.Table)
	}
	if len(out.Item) == 0 {
		return pipeline.Job{}, false, nil
	}
	j, err := decode(out.Item)
	return j, true, err
}

// Swap implements pipeline.Jobs.
func (t *Jobs) Swap(ctx context.Context, was, is pipeline.Job) (bool, error) {
	in := &dynamodb.UpdateItemInput{TableName: &t.Table, Key: key(is.ID), ExpressionAttributeNames: map[string]string{}, ExpressionAttributeValues: map[string]types.AttributeValue{}}
	name := func(attr string) string {
		in.ExpressionAttributeNames["#"+attr] = attr // some are reserved words
		return "#" + attr
	}
	var sets, removes, conditions []string
	item := t.encode(is)
	for _, attr := range attributes {
		if v, ok := item[attr]; ok {
			in.ExpressionAttributeValues[":"+attr] = v
			sets = append(sets, name(attr)+" = :"+attr)
		} else {
			removes = append(removes, name(attr))
		}
	}
	if was.Status == "" {
		conditions = []string{"attribute_not_exists(" + name(attrID) + ")"}
	} else {
		seen := t.encode(was)
		for _, attr := range []string{attrUser, attrStatus, attrCharge, attrAttempt, attrReturns} {
			if v, ok := seen[attr]; ok {
				in.ExpressionAttributeValues[":was"+attr] = v
				conditions = append(conditions, name(attr)+" = :was"+attr)
			} else {
				conditions = append(conditions, "attribute_not_exists("+name(attr)+")")
			}
		}
	}
	// There is always something to remove: a job has a time to live or a place in the index.
	update := "SET " + strings.Join(sets, ", ") + " REMOVE " + strings.Join(removes, ", ")
	in.UpdateExpression, in.ConditionExpression = &update, aws.String(strings.Join(conditions, " AND "))
	_, err := t.Client.UpdateItem(ctx, in)
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return false, nil
	}
	return err == nil, failure(err, "job table "+t.Table)
}

// List implements pipeline.Jobs. It reads the whole table.
func (t *Jobs) List(ctx context.Context, f pipeline.Filter, use func(pipeline.Job) bool) error {
	in := &dynamodb.ScanInput{TableName: &t.Table}
	var filters []string
	for attr, value := range map[string]string{attrUser: f.UserID, attrStatus: string(f.Status)} {
		if value != "" {
			if in.ExpressionAttributeNames == nil {
				in.ExpressionAttributeNames, in.ExpressionAttributeValues = map[string]string{}, map[string]types.AttributeValue{}
			}
			in.ExpressionAttributeNames["#"+attr], in.ExpressionAttributeValues[":"+attr] = attr, text(value)
			filters = append(filters, "#"+attr+" = :"+attr)
		}
	}
	if len(filters) > 0 {
		in.FilterExpression = aws.String(strings.Join(filters, " AND "))
	}
	for pages := dynamodb.NewScanPaginator(t.Client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return failure(err, "job table "+t.Table)
		}
		for _, item := range page.Items {
			if strings.HasPrefix(str(item, attrID), ownPrefix) {
				continue
			}
			j, err := decode(item)
			if err != nil {
				return err
			}
			if !use(j) {
				return nil
			}
		}
	}
	return nil
}

// attributes are those that a change of a job sets or removes.
var attributes = []string{
	attrUser, attrStatus, attrCharge, attrAttempt, attrReturns, attrClass, attrSeconds, attrCost, attrPlan, attrHeld, attrOperation, attrWeek, attrDecision, attrReason,
	attrRequested, attrStarted, attrFinished, attrUpdated, attrExpires, attrShard, attrSince,
}

// encode returns the attributes of a job but for its key. What is empty has none.
func (t *Jobs) encode(j pipeline.Job) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{}
	for attr, value := range map[string]string{
		attrUser: j.UserID, attrStatus: string(j.Status), attrCharge: string(j.Charge), attrClass: j.Class, attrPlan: j.Plan, attrOperation: j.Operation,
		attrWeek: j.Week, attrDecision: j.Decision, attrReason: j.Reason,
	} {
		if value != "" {
			item[attr] = text(value)
		}
	}
	for attr, value := range map[string]time.Time{attrRequested: j.RequestedAt, attrStarted: j.StartedAt, attrFinished: j.FinishedAt, attrUpdated: j.UpdatedAt} {
		if !value.IsZero() {
			item[attr] = text(value.UTC().Format(stampLayout))
		}
	}
	for attr, n := range map[string]int{attrAttempt: j.Attempt, attrReturns: j.Returns} {
		if n != 0 {
			item[attr] = number(strconv.Itoa(n))
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

func decode(item map[string]types.AttributeValue) (pipeline.Job, error) {
	j := pipeline.Job{
		ID: str(item, attrID), UserID: str(item, attrUser), Status: pipeline.Status(str(item, attrStatus)), Charge: pipeline.Charge(str(item, attrCharge)),
		Class: str(item, attrClass), Plan: str(item, attrPlan), Operation: str(item, attrOperation), Week: str(item, attrWeek), Decision: str(item, attrDecision), Reason: str(item, attrReason),
	}
	if held, ok := item[attrHeld].(*types.AttributeValueMemberBOOL); ok {
		j.Held = held.Value
	}
	var err error
	for attr, into := range map[string]*time.Time{attrRequested: &j.RequestedAt, attrStarted: &j.StartedAt, attrFinished: &j.FinishedAt, attrUpdated: &j.UpdatedAt} {
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
	return headroom.Errorf(headroom.CodeFormat, err, "attribute %s of job %q cannot be read", attr, id)
}

func key(id string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrID: text(id)}
}

func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

func str(item map[string]types.AttributeValue, attr string) string {
	if s, ok := item[attr].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
