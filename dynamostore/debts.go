package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// The ledger lists who may owe, so that a sweep finds the debts that nobody looks at. A row of the
// list is written before the charge that leaves the debt, and deleted after the debt is taken off.
// It has
//
//	key        S  "owes#" and two digits, from the hash of the subject's key in the ledger
//	row        S  96 bits of that hash, "#", and idName of the operation id
//	subject    S  whose item it is
//	meter      S  and of which meter
//	operation  S  the id
//	since      N  the engine's time when the row was written, Unix seconds
//
// No row has a time to live. A row without a debt was left by a charge that was refused or whose
// writer died. It is deleted when it is older than any charge can be on its way.
const (
	owesShards = 16
	owesOld    = time.Hour
	owesSince  = "since"

	formatDebts = 2 // the first format that has debts, and the organisation in a record
)

// owesRow is a row of the list.
type owesRow struct {
	key       headroom.Key
	operation string
	since     int64
}

func owesShard(n int) types.AttributeValue { return str(fmt.Sprintf("owes#%02d", n)) }

// primary is the row's key in the ledger.
func (r owesRow) primary() map[string]types.AttributeValue {
	sum := sha256.Sum256([]byte(ledgerOf(r.key).(*types.AttributeValueMemberS).Value))
	return map[string]types.AttributeValue{
		ledgerKey:  owesShard(int(sum[12]) % owesShards),
		ledgerSort: str(base64.RawURLEncoding.EncodeToString(sum[:12]) + "#" + idName(r.operation)),
	}
}

// list writes the rows of the debts that c adds. If it fails nothing was charged.
func (s *Store) list(ctx context.Context, c headroom.Change) error {
	for _, d := range c.Debts {
		if d.Is == nil {
			continue
		}
		row := owesRow{c.Key, d.ID, d.Is.Since.Unix()}
		now, err := s.putOwes(ctx, row)
		// The debt's time is most often the engine's of a moment ago. If not, the answer tells.
		if apart := now.Sub(d.Is.Since).Abs(); err == nil && apart > headroom.ClockTolerance {
			row.since = now.Unix()
			_, err = s.putOwes(ctx, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) putOwes(ctx context.Context, r owesRow) (time.Time, error) {
	row := r.primary()
	row["subject"], row["meter"], row["operation"] = str(r.key.Subject), str(r.key.Meter), str(r.operation)
	row[owesSince] = num(r.since)
	put := []types.WriteRequest{{PutRequest: &types.PutRequest{Item: row}}}
	var out *dynamodb.BatchWriteItemOutput
	// For the caller this is no write, because a row changes nothing that is charged. It is sent as
	// a batch, for which Headroom has the right anyway.
	got, err := s.do(ctx, reads, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
		out, err = s.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.opts.Ledger: put}}, opt)
		return err
	})
	if err == nil && len(out.UnprocessedItems) > 0 {
		err = headroom.Errorf(headroom.Throttled, nil, "the ledger takes no row for a debt; nothing was charged")
	}
	return got.now, err
}

// ended are the debts that c takes off.
func ended(c headroom.Change) (ids []string) {
	for _, d := range c.Debts {
		if d.Is == nil {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// charged are the operations for which c would have added a debt, but which were charged before and
// owe nothing. As long as they are remembered, they cannot be charged again.
func charged(c headroom.Change, v headroom.View) (ids []string) {
	for _, d := range c.Debts {
		known := v.Records[d.ID].Kind == headroom.KindDeduct
		if _, owed := v.State.Debts[d.ID]; d.Is != nil && known && !owed {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// unlist deletes the rows of operations that owe nothing. If that fails, a sweep deletes them when
// they are old.
func (s *Store) unlist(ctx context.Context, key headroom.Key, ids []string) {
	rows := make([]types.WriteRequest, len(ids))
	for i, id := range ids {
		rows[i].DeleteRequest = &types.DeleteRequest{Key: owesRow{key: key, operation: id}.primary()}
	}
	if err := s.write(ctx, rows); err != nil {
		s.opts.Logger.Warn("headroom: could not delete rows of debts that are settled", "subject", key.Subject, "ledger", s.opts.Ledger, "error", err)
	}
}

// Owing implements headroom.Store. Each page is of one partition of the list. It deletes rows that
// have been there for an hour without a debt. If a row does not read, Owing logs that and goes on,
// and it lists the key if the row tells it.
func (s *Store) Owing(ctx context.Context, after string, limit int) (keys []headroom.Key, next string, err error) {
	shard, from := 0, ""
	if after != "" {
		n, row, _ := strings.Cut(after, "#")
		if shard, err = strconv.Atoi(n); err != nil || shard < 0 || shard >= owesShards {
			return nil, "", headroom.Errorf(headroom.Invalid, err, "%q is no place in the list of debts", after)
		}
		from = row
	}
	out, now, err := s.queryOwes(ctx, shard, from, limit)
	if err != nil {
		return nil, "", err
	}
	var rows []owesRow
	for _, attrs := range out.Items {
		row, err := owesOf(attrs)
		if err != nil {
			s.opts.Logger.Error("headroom: a row of the list of debts does not read; it stays",
				"subject", row.key.Subject, "ledger", s.opts.Ledger, "error", err)
			if row.key.Subject == "" || row.key.Meter == "" {
				continue
			}
			row.since = now.Unix() // kept as if it were new
		}
		rows = append(rows, row)
	}
	for len(rows) > 0 {
		n := 1 // the rows of one key follow one another
		for n < len(rows) && rows[n].key == rows[0].key {
			n++
		}
		if s.owes(ctx, rows[:n], now) {
			keys = append(keys, rows[0].key)
		}
		rows = rows[n:]
	}
	switch {
	case out.LastEvaluatedKey != nil:
		r := reader{attrs: out.LastEvaluatedKey}
		next = fmt.Sprintf("%d#%s", shard, r.str(ledgerSort))
	case shard+1 < owesShards:
		next = fmt.Sprintf("%d#", shard+1)
	}
	return keys, next, ctx.Err()
}

func (s *Store) queryOwes(ctx context.Context, shard int, from string, limit int) (out *dynamodb.QueryOutput, now time.Time, err error) {
	in := &dynamodb.QueryInput{
		TableName: &s.opts.Ledger, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(limit)),
		KeyConditionExpression:    aws.String("#k = :k"),
		ExpressionAttributeNames:  map[string]string{"#k": ledgerKey},
		ExpressionAttributeValues: map[string]types.AttributeValue{":k": owesShard(shard)},
	}
	if from != "" {
		in.KeyConditionExpression = aws.String("#k = :k AND #r > :r")
		in.ExpressionAttributeNames["#r"], in.ExpressionAttributeValues[":r"] = ledgerSort, str(from)
	}
	got, err := s.do(ctx, reads, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
		out, err = s.client.Query(ctx, in, opt)
		return err
	})
	return out, got.now, err
}

func owesOf(attrs map[string]types.AttributeValue) (owesRow, error) {
	r := reader{attrs: attrs}
	row := owesRow{key: headroom.Key{Subject: r.str("subject"), Meter: r.str("meter")}, operation: r.str("operation"), since: r.natural(owesSince)}
	if r.err != nil || row.key.Subject == "" || row.key.Meter == "" || row.operation == "" {
		return row, headroom.Errorf(headroom.Unreadable, r.err, "a row of the list of debts in the ledger does not read")
	}
	return row, nil
}

// owes reports whether a key may have a debt that its rows tell of. It deletes old rows that tell
// of none.
func (s *Store) owes(ctx context.Context, rows []owesRow, now time.Time) bool {
	old := func(r owesRow) bool { return now.Sub(time.Unix(r.since, 0)) >= owesOld }
	if !slices.ContainsFunc(rows, old) {
		return true
	}
	it, _, err := s.get(ctx, rows[0].key, true)
	if err != nil {
		return true // the caller finds out
	}
	may := false
	for _, r := range rows {
		if _, owed := it.state.Debts[r.operation]; owed || !old(r) {
			may = true
			continue
		}
		if err := s.deleteOwes(ctx, r); err != nil {
			s.opts.Logger.Warn("headroom: could not delete a row of a debt that is not there", "subject", r.key.Subject, "ledger", s.opts.Ledger, "error", err)
		}
	}
	return may
}

// deleteOwes deletes a row if nobody has written it anew. A new one is of a charge to come.
func (s *Store) deleteOwes(ctx context.Context, r owesRow) error {
	var e expression
	e.equal(e.name(owesSince), num(r.since))
	_, err := s.do(ctx, writes, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &s.opts.Ledger, Key: r.primary(), ConditionExpression: &e.conditions[0],
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}, opt)
		return err
	})
	var condition *types.ConditionalCheckFailedException
	if errors.As(err, &condition) {
		return nil
	}
	return err
}

// buildDebts writes what the change does to debts. An item gets the map of them with its first one.
func (l layout) buildDebts(e *expression, c headroom.Change, seen item) {
	if len(c.Debts) == 0 {
		return
	}
	field := l.field(c.Key.Meter, "Debts")
	all := e.name(field)
	var first map[string]types.AttributeValue
	if !seen.formatted || seen.noDebts {
		first = map[string]types.AttributeValue{}
		e.absent(all)
	} else {
		e.isMap(all)
	}
	for _, d := range c.Debts {
		at := e.name(field, d.ID)
		switch {
		case d.Was != nil:
			e.equal(at, str(d.Was.String()))
		case first == nil:
			e.absent(at)
		}
		switch {
		case d.Is == nil && first == nil:
			e.remove(at)
		case d.Is != nil && first != nil:
			first[d.ID] = str(d.Is.String())
		case d.Is != nil:
			e.set(at, str(d.Is.String()))
		}
	}
	if first != nil {
		e.set(all, &types.AttributeValueMemberM{Value: first})
	}
	if _, more := c.Grows(); more > 0 && first == nil {
		e.require("size(" + all + ") <= " + e.value(num(int64(headroom.MaxDebts-more))))
	}
}

func (r *reader) debts(name string) map[string]headroom.Debt {
	debts := map[string]headroom.Debt{}
	for id, text := range r.charges(name) {
		debt, err := headroom.ParseDebt(text)
		if err != nil {
			r.bad(name, "holds something that is no debt")
		}
		debts[id] = debt
	}
	return debts
}
