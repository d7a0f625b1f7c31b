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

// openPage is how many entries of the index a request reads.
const openPage = 1000

// ownPrefix begins the keys of items that are not jobs. No job id has a control character.
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
	_, _ = sum.Write([]byte(id)) // it never fails: see hash.Hash
	return int(sum.Sum32() % uint32(min(cmp.Or(t.Shards, DefaultShards), MaxShards)))
}

// Open implements pipeline.Jobs. It reads the index alone, page by page, and merges its shards.
func (t *Jobs) Open(ctx context.Context, after pipeline.Opened, before time.Time,
	use func(pipeline.Opened) bool) error {
	if !after.Since.Before(before) {
		// This run leaves young jobs alone. The place is from one that did not.
		return nil
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

// shardReader reads the entries of one shard in their order. The index orders them by time, and not
// those of one instant, so the reader takes these together and sorts them.
type shardReader struct {
	t      *Jobs
	after  pipeline.Opened
	before time.Time
	pages  *dynamodb.QueryPaginator

	group         []pipeline.Opened // the entries of the next instant, in order
	ahead         []pipeline.Opened // what has been read beyond the group
	lastReadSince time.Time
}

func (t *Jobs) readShard(n int, after pipeline.Opened, before time.Time) *shardReader {
	from := "0" // this sorts before every year
	if !after.IsZero() {
		from = after.Since.UTC().Format(stampLayout)
	}
	return &shardReader{
		t:      t,
		after:  after,
		before: before,
		pages: dynamodb.NewQueryPaginator(t.Client, &dynamodb.QueryInput{
			TableName: &t.Table, IndexName: aws.String(openIndex), Limit: aws.Int32(openPage),
			KeyConditionExpression:   aws.String("#s = :s AND #u BETWEEN :from AND :to"),
			ExpressionAttributeNames: map[string]string{"#s": attrShard, "#u": attrSince},
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":s":    text(strconv.Itoa(n)),
				":from": text(from),
				":to":   text(before.UTC().Format(stampLayout)),
			},
		}),
	}
}

// fill makes sure that group has the next entries, unless there are none.
func (r *shardReader) fill(ctx context.Context) error {
	for len(r.group) == 0 {
		// All entries of an instant have been read once a later entry has been.
		for r.pages.HasMorePages() && r.sameInstant() == len(r.ahead) {
			if err := r.readPage(ctx); err != nil {
				return err
			}
		}
		if len(r.ahead) == 0 {
			return nil
		}
		n := r.sameInstant()
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

// sameInstant is how many of the entries ahead are of the same instant as the first one.
func (r *shardReader) sameInstant() int {
	for i, o := range r.ahead {
		if !o.Since.Equal(r.ahead[0].Since) {
			return i
		}
	}
	return len(r.ahead)
}

func (r *shardReader) readPage(ctx context.Context) error {
	page, err := r.pages.NextPage(ctx)
	if err != nil {
		return failure(err, "index "+openIndex+" of job table "+r.t.Table)
	}
	for _, item := range page.Items {
		// An entry whose time cannot be read stands where the one before it stands, and so blocks
		// no other.
		if since, err := time.Parse(time.RFC3339, str(item, attrSince)); err == nil {
			r.lastReadSince = since
		}
		r.ahead = append(r.ahead, pipeline.Opened{Since: r.lastReadSince, ID: str(item, attrID)})
	}
	return nil
}

// Bookmark implements pipeline.Jobs.
func (t *Jobs) Bookmark(ctx context.Context) (pipeline.Opened, error) {
	out, err := t.Client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &t.Table, Key: key(bookmarkID), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return pipeline.Opened{}, failure(err, "job table "+t.Table)
	}
	since, err := time.Parse(time.RFC3339, str(out.Item, attrMarkSince))
	if err != nil {
		return pipeline.Opened{}, nil // there is none, or it cannot be read: begin at the beginning
	}
	return pipeline.Opened{Since: since, ID: str(out.Item, attrMarkID)}, nil
}

// SetBookmark implements pipeline.Jobs.
func (t *Jobs) SetBookmark(ctx context.Context, at pipeline.Opened) error {
	update, values := "REMOVE #s, #i", map[string]types.AttributeValue(nil)
	if !at.IsZero() {
		update = "SET #s = :s, #i = :i"
		values = map[string]types.AttributeValue{
			":s": text(at.Since.UTC().Format(stampLayout)),
			":i": text(at.ID),
		}
	}
	_, err := t.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &t.Table, Key: key(bookmarkID), UpdateExpression: &update, ExpressionAttributeValues: values,
		ExpressionAttributeNames: map[string]string{"#s": attrMarkSince, "#i": attrMarkID},
	})
	return failure(err, "job table "+t.Table)
}
