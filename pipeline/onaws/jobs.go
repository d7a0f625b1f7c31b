// Package onaws is the pipeline on AWS. It keeps jobs in DynamoDB, runs them as executions of Step
// Functions, and wires both with an engine on DynamoDB. Use New in a program of your own, and
// Function in a Lambda function.
package onaws

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/lumcast/headroom/pipeline"
)

// openIndex is the name of the index of open jobs. Its keys are openShard and openSince, strings;
// it needs no other attribute.
const openIndex = "open"

// Jobs is a table of jobs in DynamoDB. Client and Table are needed.
type Jobs struct {
	Client *dynamodb.Client
	Table  string

	// Shards is the number of partitions of the index over which open jobs are spread, at most
	// MaxShards. Each takes 1,000 writes a second. All partitions are always read, so this may
	// change at any time. Zero: DefaultShards.
	Shards int
	// Keep is how long a job stays that has come to its end, counted from its last change. It
	// should be longer than operation ids are remembered, and than a message may come again. Zero:
	// DefaultKeep. The table's time to live must be on the attribute expires, or else jobs stay for
	// good.
	Keep time.Duration
}

const (
	DefaultShards = 8
	MaxShards     = 64
	// DefaultKeep is 90 days. A message can come back for 32 days (4 in its queue, 14 among the
	// dead letters, 14 more in the queue), and operation ids are remembered for 15 days.
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
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(attrID), KeyType: types.KeyTypeHash},
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(openIndex),
			KeySchema: []types.KeySchemaElement{
				{AttributeName: aws.String(attrShard), KeyType: types.KeyTypeHash},
				{AttributeName: aws.String(attrSince), KeyType: types.KeyTypeRange},
			},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return failure(err, "job table "+t.Table)
	}
	wait := dynamodb.NewTableExistsWaiter(t.Client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay = time.Second
	})
	if err := wait.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &t.Table}, 5*time.Minute); err != nil {
		return failure(err, "job table "+t.Table)
	}
	return failure(t.expire(ctx), "job table "+t.Table)
}

// expire lets DynamoDB delete the jobs whose time is over. If the table has such a setting already,
// that stays as it is. Time to live is for cleaning only, so an emulator that has none is good
// enough.
func (t *Jobs) expire(ctx context.Context) error {
	out, err := t.Client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &t.Table})
	if err == nil && expiresNothing(out.TimeToLiveDescription) {
		_, err = t.Client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName: &t.Table,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{
				AttributeName: aws.String(attrExpires), Enabled: aws.Bool(true),
			},
		})
	}
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "UnknownOperationException" {
		return nil
	}
	return err
}

func expiresNothing(d *types.TimeToLiveDescription) bool {
	return d == nil || d.TimeToLiveStatus == types.TimeToLiveStatusDisabled
}

// Get implements pipeline.Jobs.
func (t *Jobs) Get(ctx context.Context, id string) (pipeline.Job, bool, error) {
	out, err := t.Client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &t.Table, Key: key(id), ConsistentRead: aws.Bool(true),
	})
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
	in := &dynamodb.UpdateItemInput{
		TableName: &t.Table, Key: key(is.ID),
		ExpressionAttributeNames: map[string]string{}, ExpressionAttributeValues: map[string]types.AttributeValue{},
	}
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
	// There is always something to remove: a job has either a time to live or a place in the index.
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
	filter(in, f)
	for pages := dynamodb.NewScanPaginator(t.Client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return failure(err, "job table "+t.Table)
		}
		for _, item := range page.Items {
			if strings.HasPrefix(str(item, attrID), ownPrefix) {
				continue // it is no job
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

// filter lets the table itself choose the jobs of a scan.
func filter(in *dynamodb.ScanInput, f pipeline.Filter) {
	var filters []string
	for attr, value := range map[string]string{attrUser: f.UserID, attrStatus: string(f.Status)} {
		if value == "" {
			continue
		}
		if in.ExpressionAttributeNames == nil {
			in.ExpressionAttributeNames = map[string]string{}
			in.ExpressionAttributeValues = map[string]types.AttributeValue{}
		}
		in.ExpressionAttributeNames["#"+attr], in.ExpressionAttributeValues[":"+attr] = attr, text(value)
		filters = append(filters, "#"+attr+" = :"+attr)
	}
	if len(filters) > 0 {
		in.FilterExpression = aws.String(strings.Join(filters, " AND "))
	}
}
