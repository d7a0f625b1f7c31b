package dynamostore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// The ledger is a table of Headroom's own. It takes what would make a subject's item large. A row
// has
//
//	key      S  the length of the meter's name, "#", the meter's name, the subject. So no two keys
//	            of Headroom's are the same
//	row      S  "op#" and the idName of an operation id, or "past#LIMIT#" and the start of a closed
//	            window, RFC 3339. A version N above 0 adds NUL and N in 17 digits
//	charge   S  of an id: its headroom.Record
//	epoch    N  of an id: the label of its generation, Unix seconds
//	total    N  of a window: what was charged in it. S "?" if that is not known
//	expires  N  when DynamoDB may delete the row, Unix seconds. By then nothing depends on the row
//
// The ledger also lists who may owe: see debts.go.
//
// An id is copied to the ledger before it leaves the item, and quotaGen grows in the same write
// that removes it. A deduction that finds quotaGen above 0 first looks in the ledger and then
// writes under the quotaGen that it saw. An id that is neither in the ledger at that look nor in
// the item at that write was not charged.
//
// A look takes the greatest version whose generation is remembered. So a late copy of an earlier
// version does no harm. A name has at most 17 bytes, so a key that ends in NUL and 17 digits
// belongs to no other name.
const (
	ledgerKey     = "key"
	ledgerSort    = "row"
	ledgerExpires = "expires"

	// batchTries bounds how often the rows are sent again that an engine leaves unwritten.
	batchTries = 5
	// lookRows is how many rows a look for one id reads at once. Most ids have one version or none.
	lookRows = 25
	// rowsAtOnce is how many rows one BatchWriteItem takes.
	rowsAtOnce = 25
	// mostVersion is the greatest version that has 17 digits.
	mostVersion = 1e17 - 1
)

func ledgerOf(key headroom.Key) types.AttributeValue {
	return str(strconv.Itoa(len(key.Meter)) + "#" + key.Meter + key.Subject)
}

func opRow(name string, version int64) string { return versioned("op#"+name, version) }

// versioned is the sort key of a version of what has a row.
func versioned(row string, version int64) string {
	if version == 0 {
		return row
	}
	return fmt.Sprintf("%s\x00%017d", row, version)
}

// versionOf returns which version of a row, or of which row of a window, a sort key is.
func versionOf(sort, row string) (version int64, ok bool) {
	digits, of := strings.CutPrefix(sort, row)
	if !of || digits == "" {
		return 0, of
	}
	version, err := strconv.ParseInt(strings.TrimPrefix(digits, "\x00"), 10, 64)
	return version, err == nil && version > 0 && versioned(row, version) == sort
}

func pastRows(limit string) string { return "past#" + limit + "#" }

func pastRow(limit string, start time.Time, version int64) string {
	return versioned(pastRows(limit)+start.UTC().Format(time.RFC3339), version)
}

// parsePastRow returns the start of the window that a row is about, and the version of its total.
func parsePastRow(limit, sort string) (start time.Time, version int64, ok bool) {
	at, _, _ := strings.Cut(strings.TrimPrefix(sort, pastRows(limit)), "\x00")
	start, err := time.Parse(time.RFC3339, at)
	version, exact := versionOf(sort, pastRow(limit, start, 0))
	return start, version, err == nil && exact
}

// knows takes over what the ledger said before, if no id has moved there since.
func (it *item) knows(before item) {
	if it.gen == before.gen && it.state.Epoch.Equal(before.state.Epoch) {
		it.fromLedger, it.looked = before.fromLedger, before.looked
	}
}

// complete adds to an item what the ledger has of it: the records of some ids, and the whole
// history if that is asked for.
func (s *Store) complete(ctx context.Context, it *item, ids []string, history, consistent bool) error {
	if it.gen != 0 {
		if err := s.lookUp(ctx, it, ids, consistent); err != nil {
			return err
		}
	}
	if !history {
		return nil
	}
	for _, limit := range slices.Sorted(maps.Keys(it.state.Counters)) {
		c := it.state.Counters[limit]
		if !c.Partial {
			continue
		}
		rows, err := s.history(ctx, it.key, limit, headroom.HistoryWindows, consistent)
		if err != nil {
			return err
		}
		var moved []headroom.Total
		versions := map[int64]int64{}
		for _, row := range rows {
			if _, later := versions[row.Start.Unix()]; !later {
				moved, versions[row.Start.Unix()] = append(moved, row.Total), row.version
			}
		}
		it.movedPast = mapWith(it.movedPast, limit, versions)
		c.Past, c.Partial = it.past[limit].before(moved, c.Window.Start), false
		it.state.Counters[limit] = c
	}
	return nil
}

// lookUp finds in the ledger the records of ids that the item does not have, if their generation is
// still remembered.
func (s *Store) lookUp(ctx context.Context, it *item, ids []string, consistent bool) error {
	for _, id := range ids {
		name := idName(id)
		_, held := it.state.OldHolds[id]
		_, young := it.ops[name]
		_, old := it.before[name]
		_, found := it.fromLedger[name]
		if held || young || old || found || it.looked[name] {
			continue
		}
		if err := s.lookUpOne(ctx, it, name, consistent); err != nil {
			return err
		}
	}
	return nil
}

// lookUpOne takes the greatest version of a name that is remembered. The rows between its versions
// belong to ids that begin with the name and NUL.
func (s *Store) lookUpOne(ctx context.Context, it *item, name string, consistent bool) error {
	found := false
	err := s.query(ctx, it.key, consistent, lookRows, "#r BETWEEN :from AND :to", attributes{
		":from": str(opRow(name, 0)), ":to": str(opRow(name, mostVersion)),
	}, func(r *reader) bool {
		version, exact := versionOf(r.str(ledgerSort), opRow(name, 0))
		epoch := r.time("epoch")
		if found = exact && (epoch.Equal(it.state.Epoch) || epoch.Equal(it.state.EpochBefore)); found {
			it.fromLedger = mapWith(it.fromLedger, name, marked(r.str("charge"), version))
		}
		return !found
	})
	if err == nil && !found {
		it.looked = mapWith(it.looked, name, true)
	}
	return err
}

type attributes = map[string]types.AttributeValue

// query reads rows of a key, the last first, until next says that it needs no more.
func (s *Store) query(ctx context.Context, key headroom.Key, consistent bool, atOnce int32, condition string, values attributes, next func(*reader) bool) error {
	values[":k"] = ledgerOf(key)
	var from attributes
	for {
		var out *dynamodb.QueryOutput
		_, err := s.do(ctx, reads, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
			out, err = s.client.Query(ctx, &dynamodb.QueryInput{
				TableName: &s.opts.Ledger, ConsistentRead: &consistent, ScanIndexForward: aws.Bool(false), Limit: &atOnce, ExclusiveStartKey: from,
				KeyConditionExpression:    aws.String("#k = :k AND " + condition),
				ExpressionAttributeNames:  map[string]string{"#k": ledgerKey, "#r": ledgerSort},
				ExpressionAttributeValues: values,
			}, opt)
			return err
		})
		if err != nil {
			return err
		}
		for _, row := range out.Items {
			r := reader{attrs: row, subject: key.Subject}
			more := next(&r)
			if r.err != nil || !more {
				return r.err
			}
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return nil
		}
	}
}

// mapWith returns a copy of m with one more entry.
func mapWith[V any](m map[string]V, key string, value V) map[string]V {
	more := map[string]V{key: value}
	maps.Copy(more, m)
	return more
}

// movedTotal is a total in the ledger.
type movedTotal struct {
	headroom.Total
	version int64
}

// history reads the totals of so many windows from the ledger. The latest window comes first, and
// of each window the latest version.
func (s *Store) history(ctx context.Context, key headroom.Key, limit string, windows int, consistent bool) (rows []movedTotal, err error) {
	err = s.query(ctx, key, consistent, headroom.HistoryWindows, "begins_with(#r, :r)", attributes{":r": str(pastRows(limit))}, func(r *reader) bool {
		sort := r.str(ledgerSort)
		start, version, exact := parsePastRow(limit, sort)
		t, ok := total(start, r.attrs["total"])
		if !ok || !exact {
			r.err = headroom.Errorf(headroom.Unreadable, r.err, "a row of the history of %q in the ledger does not read", key.Subject)
			return false
		}
		if len(rows) == 0 || !rows[len(rows)-1].Start.Equal(t.Start) {
			windows--
		}
		if windows < 0 {
			return false
		}
		rows = append(rows, movedTotal{t, version})
		return true
	})
	return rows, err
}

// forgetFolded deletes the ledger's rows of totals that a change took back into the count.
func (s *Store) forgetFolded(ctx context.Context, it item, c headroom.Change) {
	for _, step := range c.Steps {
		if len(step.Fold) > 0 {
			s.dropTotals(ctx, it.key, step.Limit, func(row movedTotal) bool {
				return slices.ContainsFunc(step.Fold, func(f headroom.Total) bool { return f.Start.Equal(row.Start) })
			})
		}
	}
}

// forgetEarlier deletes the rows of totals that have a later version.
func (s *Store) forgetEarlier(ctx context.Context, it item, limits []string) {
	for _, limit := range limits {
		latest := map[int64]int64{}
		s.dropTotals(ctx, it.key, limit, func(row movedTotal) bool {
			_, later := latest[row.Start.Unix()]
			latest[row.Start.Unix()] = max(row.version, latest[row.Start.Unix()])
			return later
		})
	}
}

// dropTotals deletes totals from the ledger. If it fails, looks at the history read more than they
// need, and nothing else is wrong.
func (s *Store) dropTotals(ctx context.Context, key headroom.Key, limit string, over func(movedTotal) bool) {
	var gone []types.WriteRequest
	rows, err := s.history(ctx, key, limit, headroom.HistoryWindows+pastMost, true)
	for _, row := range rows {
		if over(row) {
			gone = append(gone, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: attributes{
				ledgerKey: ledgerOf(key), ledgerSort: str(pastRow(limit, row.Start, row.version)),
			}}})
		}
	}
	if err == nil && len(gone) > 0 {
		err = s.write(ctx, gone)
	}
	if err != nil {
		s.opts.Logger.Warn("headroom: could not delete totals that hold no more", "subject", key.Subject, "ledger", s.opts.Ledger, "error", err)
	}
}

func ledgerRow(key headroom.Key, row string, expires time.Time, more map[string]types.AttributeValue) types.WriteRequest {
	more[ledgerKey], more[ledgerSort], more[ledgerExpires] = ledgerOf(key), str(row), num(expires.Unix())
	return types.WriteRequest{PutRequest: &types.PutRequest{Item: more}}
}

// write writes rows of the ledger, each by itself.
func (s *Store) write(ctx context.Context, rows []types.WriteRequest) error {
	for batch := range slices.Chunk(rows, rowsAtOnce) {
		if err := s.writeBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) writeBatch(ctx context.Context, rows []types.WriteRequest) error {
	for try := range batchTries {
		if try > 0 && !sleep(ctx, 20*time.Millisecond<<try) {
			break
		}
		var out *dynamodb.BatchWriteItemOutput
		_, err := s.do(ctx, writes, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
			out, err = s.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.opts.Ledger: rows}}, opt)
			return err
		})
		if err != nil {
			return err
		}
		if rows = out.UnprocessedItems[s.opts.Ledger]; len(rows) == 0 {
			return nil
		}
	}
	return headroom.Errorf(headroom.Throttled, nil, "the ledger leaves %d rows unwritten", len(rows))
}
