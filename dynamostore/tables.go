package dynamostore

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/lumcast/headroom"
)

// CreateTables creates the table of subjects and the ledger, both billed by request, and waits
// until they can be used. It leaves a table that exists as it is.
func (s *Store) CreateTables(ctx context.Context) error {
	subjects := &dynamodb.CreateTableInput{TableName: &s.opts.Table}
	keys(subjects, s.layout.names.Subject)
	ledger := &dynamodb.CreateTableInput{TableName: &s.opts.Ledger}
	keys(ledger, ledgerKey, ledgerSort)
	for _, in := range []*dynamodb.CreateTableInput{subjects, ledger} {
		if err := s.create(ctx, in); err != nil {
			return err
		}
	}
	return s.enableTimeToLive(ctx)
}

// enableTimeToLive has DynamoDB delete rows of the ledger when their time is over. Some emulators
// cannot. That is no error, since nothing depends on it.
func (s *Store) enableTimeToLive(ctx context.Context) error {
	_, err := s.do(ctx, writes, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		out, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.opts.Ledger}, opt)
		if err != nil || out.TimeToLiveDescription != nil && out.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusDisabled {
			return err
		}
		_, err = s.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName:               &s.opts.Ledger,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(ledgerExpires), Enabled: aws.Bool(true)},
		}, opt)
		return err
	})
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "UnknownOperationException" {
		return nil
	}
	return err
}

func (s *Store) create(ctx context.Context, in *dynamodb.CreateTableInput) error {
	_, err := s.do(ctx, writes, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		_, err := s.client.CreateTable(ctx, in, opt)
		var exists *types.ResourceInUseException
		if errors.As(err, &exists) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	wait := dynamodb.NewTableExistsWaiter(s.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 2*time.Second
	})
	if err := wait.Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, 5*time.Minute); err != nil {
		return headroom.Errorf(headroom.Unavailable, err, "table %s was created but does not become active", *in.TableName)
	}
	return nil
}

// keys gives a table that is billed by request its key attributes, all strings: the partition key
// first, then the sort key.
func keys(in *dynamodb.CreateTableInput, names ...string) {
	in.BillingMode = types.BillingModePayPerRequest
	kinds := []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}
	for i, name := range names {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: &name, AttributeType: types.ScalarAttributeTypeS,
		})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: &name, KeyType: kinds[i]})
	}
}
