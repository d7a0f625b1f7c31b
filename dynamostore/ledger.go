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

// The ledger is a table of Headroom's own for what would make a subject's item large. Its rows are
//
//	key      S  length of the meter's name, "#", the meter's name, the subject: no two keys of Headroom's fall together
//	row      S  "op#" and idName of an operation id, or "past#LIMIT#" and the start of a closed window, RFC 3339;
//	            of a version N above 0, that and NUL and N in 17 digits
//	charge   S  of an id: its headroom.Record
//	epoch    N  of an id: the label of the generation that it belongs to, Unix seconds
//	total    N  of a window: what was charged in it; S "?" if that is not known
//	expires  N  when DynamoDB may delete the row, Unix seconds. For cleaning only: it lies so late that what the row says need not be remembered then, whether the row is still there or not
//
// Beside these it lists who may owe: see debts.go.
//
// An id is copied here before it leaves the item, and quotaGen grows in the same write that removes it. A deduction that finds quotaGen above 0 first looks here and then writes under the quotaGen that it saw:
// an id that is neither here at that look nor in the item at that write was not charged.
//
// A look takes the greatest version whose generation is remembered. A row of a later version hides the
// earlier ones, so that it does not matter when a copy of one of these comes. A name has at most 17
// bytes, so that what ends in NUL and 17 digits is the row of no other name.
const (
	ledgerKey     = "key"
	ledgerSort    = "row"
	ledgerExpires = "expires"

	unitBytes   = 1024           // a write is paid by
	itemBytes   = 960            // past this size of Headroom's attributes ids move, so that a write stays at one unit
	stepBytes   = 256            // if they have not moved by the time that the item has grown by so much more, somebody tries again
	idBytes     = 384            // so much room for ids there is at least. Where the rest leaves less, the item may take more units: to move each id at once would cost more
	pastMost    = 8              // past this number of totals the oldest move,
	pastKept    = 4              // and this many stay
	pastBytes   = 16             // that a total takes
	lookRows    = 25             // that a look for one id reads at once; most have one version or none
	rowsAtOnce  = 25             // as many as one BatchWriteItem takes
	idsAtMost   = 75             // that move at once if many have gathered: an expression has at most 4 KB
	drainBytes  = 32 * unitBytes // past so many bytes of ids each writer moves some: an earlier release kept them, or the ledger failed for long
	batchTries  = 5
	mostVersion = 1e17 - 1
	passedSlack = 24 * time.Hour
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

// complete adds to an item what the ledger has of it: the records of some ids, and the whole history if it is asked for.
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

// lookUp finds the records of ids in the ledger that are not in the item, if their generation is still remembered.
func (s *Store) lookUp(ctx context.Context, it *item, ids []string, consistent bool) error {
	for _, id := range ids {
		name := idName(id)
		_, held := it.state.Holds[id]
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

// lookUpOne takes the greatest version of the name that is remembered. Rows between its versions are of ids that begin like the name and NUL.
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

// query reads rows of a key, the last first, until next has seen enough.
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

// movedTotal is a row of the history.
type movedTotal struct {
	headroom.Total
	version int64
}

// history reads totals that have moved to the ledger, the latest window and its latest version first, until it has seen so many windows.
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

// forgetFolded deletes the ledger's rows of totals that the change took back into the count.
func (s *Store) forgetFolded(ctx context.Context, it item, c headroom.Change) {
	for _, step := range c.Steps {
		if len(step.Fold) > 0 {
			s.dropTotals(ctx, it.key, step.Limit, func(row movedTotal) bool {
				return slices.ContainsFunc(step.Fold, func(f headroom.Total) bool { return f.Start.Equal(row.Start) })
			})
		}
	}
}

// forgetEarlier deletes the rows of versions that others take the place of.
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

// dropTotals deletes rows of the history. One that stays makes a look at the history longer, and no more.
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
