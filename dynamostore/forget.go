package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

var _ headroom.Forgetter = (*Store)(nil)

// Forget implements headroom.Forgetter. It deletes the subject's rows of the ledger. Then it takes
// Headroom's attributes and the plan out of the item, and deletes the item if nothing but the key
// is left. The item goes after the ledger, because it says for which meters there are rows. In the
// end it looks at the ledger once more, because a writer may have moved ids there.
//
// It needs rights that nothing else needs: DeleteItem on the table, and Query and BatchWriteItem on
// the ledger.
func (s *Store) Forget(ctx context.Context, subject string, meters []string, progress func(rows int)) (rows int, err error) {
	done := func(n int) {
		if rows += n; n > 0 {
			progress(rows)
		}
	}
	attrs, _, err := s.attributes(ctx, subject, true)
	if err != nil {
		return rows, err
	}
	meters = append(slices.Clone(meters), s.layout.meters(attrs)...)
	slices.Sort(meters)
	meters = slices.Compact(meters)
	if err := s.forgetRows(ctx, subject, meters, done); err != nil {
		return rows, err
	}
	if len(attrs) > 0 {
		if err := s.forgetItem(ctx, subject, attrs); err != nil {
			return rows, err
		}
		done(1)
	}
	return rows, s.forgetRows(ctx, subject, meters, done)
}

// removedAtOnce is how many attributes one expression removes.
const removedAtOnce = 100

// forgetItem takes Headroom's attributes out of an item. It does not make an item that is not
// there.
func (s *Store) forgetItem(ctx context.Context, subject string, attrs map[string]types.AttributeValue) error {
	ours := slices.DeleteFunc(slices.Sorted(maps.Keys(attrs)), func(name string) bool { return !s.layout.owns(name) })
	var failed *types.ConditionalCheckFailedException
	for names := range slices.Chunk(ours, removedAtOnce) {
		var e expression
		e.require("attribute_exists(" + e.name(s.layout.names.Subject) + ")")
		for _, name := range names {
			e.remove(e.name(name))
		}
		left, _, err := s.update(ctx, subject, &e)
		if errors.As(err, &failed) {
			return nil
		}
		if err != nil {
			return err
		}
		attrs = left
	}
	if len(attrs) > 1 {
		return nil
	}
	// Nothing but the key is left. If somebody writes meanwhile, the item stays.
	in := &dynamodb.DeleteItemInput{TableName: &s.opts.Table, Key: s.key(subject), ExpressionAttributeNames: map[string]string{}}
	var none []string
	for i, name := range []string{s.layout.names.Window, s.layout.names.Count, s.layout.names.Plan, s.layout.field(s.layout.meter, "Format")} {
		alias := fmt.Sprintf("#%d", i)
		in.ExpressionAttributeNames[alias] = name
		none = append(none, "attribute_not_exists("+alias+")")
	}
	in.ConditionExpression = aws.String(strings.Join(none, " AND "))
	_, err := s.do(ctx, writes, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		_, err := s.client.DeleteItem(ctx, in, opt)
		return err
	})
	if errors.As(err, &failed) {
		return nil
	}
	return err
}

// forgetRows deletes a subject's rows from the ledger: those of its keys, and those in the list of
// who may owe.
func (s *Store) forgetRows(ctx context.Context, subject string, meters []string, done func(n int)) error {
	for _, meter := range meters {
		if err := s.deleteRows(ctx, ledgerOf(headroom.Key{Subject: subject, Meter: meter}), "", done); err != nil {
			return err
		}
	}
	for shard := range owesShards {
		if err := s.deleteRows(ctx, owesShard(shard), subject, done); err != nil {
			return err
		}
	}
	return nil
}

// deleteRows deletes the rows of a key of the ledger. If a subject is given, it deletes only those
// that name it.
func (s *Store) deleteRows(ctx context.Context, key types.AttributeValue, subject string, done func(n int)) error {
	in := &dynamodb.QueryInput{
		TableName: &s.opts.Ledger, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("#k = :k"),
		ExpressionAttributeNames:  map[string]string{"#k": ledgerKey},
		ExpressionAttributeValues: map[string]types.AttributeValue{":k": key},
	}
	for {
		var out *dynamodb.QueryOutput
		_, err := s.do(ctx, reads, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
			out, err = s.client.Query(ctx, in, opt)
			return err
		})
		if err != nil {
			return err
		}
		// A filter would save nothing: the engine charges for all rows that it reads.
		named := slices.DeleteFunc(out.Items, func(row map[string]types.AttributeValue) bool {
			of, _ := row["subject"].(*types.AttributeValueMemberS)
			return subject != "" && (of == nil || of.Value != subject)
		})
		for rows := range slices.Chunk(named, rowsAtOnce) {
			var deletes []types.WriteRequest
			for _, row := range rows {
				deletes = append(deletes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: map[string]types.AttributeValue{
					ledgerKey: row[ledgerKey], ledgerSort: row[ledgerSort],
				}}})
			}
			if err := s.write(ctx, deletes); err != nil {
				return err
			}
			done(len(rows))
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return nil
		}
	}
}
