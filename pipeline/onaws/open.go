package onaws

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom/pipeline"
)

// openPage is how many entries of the index one request reads.
const openPage = 1000

// ownPrefix begins the keys of items that are no jobs: no id of a job has a control character.
const ownPrefix = "\x01"

// bookmarkID is the key of the item in which a reconciliation keeps where it stopped.
const bookmarkID = ownPrefix + "reconcile"

// Attributes of the bookmark.
const (
	attrMarkSince = "markSince"
	attrMarkID    = "markId"
)

// shard is the partition of the index that a job is in.
func (t *Jobs) shard(id string) int {
	sum := fnv.New32a()
	sum.Write([]byte(id))
	return int(sum.Sum32() % uint32(min(cmp.Or(t.Shards, DefaultShards), MaxShards)))
}

// Open implements pipeline.Jobs. It reads the index alone, page by page, and merges its shards.
func (t *Jobs) Open(ctx context.Context, after pipeline.Opened, before time.Time, use func(pipeline.Opened) bool) error {
	if !after.Since.Before(before) {
		return nil // a run that leaves younger jobs alone goes on where one that did not has stopped
	}
	var all []*shardReader
	for n := range MaxShards {
		r := t.readShard(n, after, before)
		if err := r.fill(ctx); err != nil {
			return err
		}
		if len(r.group) > 0 {
			all = append(all, r)
		}
	}
	for len(all) > 0 {
		first := slices.MinFunc(all, func(a, b *shardReader) int { return a.group[0].Compare(b.group[0]) })
		if !use(first.group[0]) {
			return nil
		}
		first.group = first.group[1:]
		if err := first.fill(ctx); err != nil {
			return err
		}
		if len(first.group) == 0 {
			all = slices.DeleteFunc(all, func(r *shardReader) bool { return r == first })
		}
	}
	return nil
}

// shardReader reads the entries of one shard in their order.
type shardReader struct {
	t             *Jobs
	after         pipeline.Opened
	before        time.Time
	pages         *dynamodb.QueryPaginator
	ahead, group  []pipeline.Opened // group: those of one instant, which the index does not order
	lastReadSince time.Time
}

func (t *Jobs) readShard(n int, after pipeline.Opened, before time.Time) *shardReader {
	from := "0" // before every year
	if !after.IsZero() {
		from = after.Since.UTC().Format(stampLayout)
	}
	return &shardReader{t: t, after: after, before: before, pages: dynamodb.NewQueryPaginator(t.Client, &dynamodb.QueryInput{
		TableName: &t.Table, IndexName: aws.String(openIndex), Limit: aws.Int32(openPage),
		KeyConditionExpression:   aws.String("#s = :s AND #u BETWEEN :from AND :to"),
		ExpressionAttributeNames: map[string]string{"#s": attrShard, "#u": attrSince},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":s": text(strconv.Itoa(n)), ":from": text(from), ":to": text(before.UTC().Format(stampLayout)),
		},
	})}
}

// fill makes sure that group has the next entries, unless there are none.
func (r *shardReader) fill(ctx context.Context) error {
	for len(r.group) == 0 {
		// The group of an instant is whole when a later entry has been read.
		for r.pages.HasMorePages() && (len(r.ahead) == 0 || r.ahead[len(r.ahead)-1].Since.Equal(r.ahead[0].Since)) {
			page, err := r.pages.NextPage(ctx)
			if err != nil {
				return failure(err, "index "+openIndex+" of job table "+r.t.Table)
			}
			for _, item := range page.Items {
				// What cannot be read stands where the one before it stands: it blocks no other.
				if since, err := time.Parse(time.RFC3339, str(item, attrSince)); err == nil {
					r.lastReadSince = since
				}
				r.ahead = append(r.ahead, pipeline.Opened{Since: r.lastReadSince, ID: str(item, attrID)})
			}
		}
		if len(r.ahead) == 0 {
			return nil
		}
		n := slices.IndexFunc(r.ahead, func(o pipeline.Opened) bool { return !o.Since.Equal(r.ahead[0].Since) })
		if n < 0 {
			n = len(r.ahead)
		}
		for _, o := range r.ahead[:n] {
			if o.Compare(r.after) > 0 && o.Since.Before(r.before) {
				r.group = append(r.group, o)
			}
		}
		r.ahead = r.ahead[n:]
		slices.SortFunc(r.group, pipeline.Opened.Compare)
	}
	return nil
}

// Bookmark implements pipeline.Jobs.
func (t *Jobs) Bookmark(ctx context.Context) (pipeline.Opened, error) {
	out, err := t.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.Table, Key: key(bookmarkID), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return pipeline.Opened{}, failure(err, "job table "+t.Table)
	}
	since, err := time.Parse(time.RFC3339, str(out.Item, attrMarkSince))
	if err != nil {
		return pipeline.Opened{}, nil // none, or one that cannot be read: from the beginning
	}
	return pipeline.Opened{Since: since, ID: str(out.Item, attrMarkID)}, nil
}

// SetBookmark implements pipeline.Jobs.
func (t *Jobs) SetBookmark(ctx context.Context, at pipeline.Opened) error {
	update, values := "REMOVE #s, #i", map[string]types.AttributeValue(nil)
	if !at.IsZero() {
		update = "SET #s = :s, #i = :i"
		values = map[string]types.AttributeValue{":s": text(at.Since.UTC().Format(stampLayout)), ":i": text(at.ID)}
	}
	_, err := t.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &t.Table, Key: key(bookmarkID), UpdateExpression: &update, ExpressionAttributeValues: values,
		ExpressionAttributeNames: map[string]string{"#s": attrMarkSince, "#i": attrMarkID},
	})
	return failure(err, "job table "+t.Table)
}
