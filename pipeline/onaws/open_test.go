package onaws_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// fill puts open jobs into a table, many of one instant, and returns their places in order.
func fill(t *testing.T, jobs *onaws.Jobs, n int) (all []pipeline.Opened) {
	t.Helper()
	for i := range n {
		j := pipeline.Job{ID: fmt.Sprintf("job-%03d", i*7919%1000), UserID: "alice", Status: pipeline.Running, Attempt: 1, RequestedAt: noon.Add(time.Duration(i/20) * time.Minute), UpdatedAt: noon}
		if done, err := jobs.Swap(t.Context(), pipeline.Job{}, j); err != nil || !done {
			t.Fatal(done, err)
		}
		all = append(all, j.Opened())
	}
	slices.SortFunc(all, pipeline.Opened.Compare)
	return all
}

// told is what Open tells of.
func told(t *testing.T, jobs *onaws.Jobs, after pipeline.Opened, before time.Time, most int) (all []pipeline.Opened) {
	t.Helper()
	if err := jobs.Open(t.Context(), after, before, func(o pipeline.Opened) bool {
		all = append(all, o)
		return len(all) < most
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestOpenJobsAreToldInOrderWithAnyPages merges shards that are read in pages of any size: each job
// is told of once, in order, from any place on, up to any time.
func TestOpenJobsAreToldInOrderWithAnyPages(t *testing.T) {
	jobs, n := through(t)
	all := fill(t, jobs, 140)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n.page = range []int{1, 2, 3, 5, 0} {
		for range 6 {
			from, to := rng.IntN(len(all)), noon.Add(time.Duration(rng.IntN(9))*time.Minute)
			most := 1 + rng.IntN(2*len(all))
			var want []pipeline.Opened
			for _, o := range all[from+1:] {
				if o.Since.Before(to) && len(want) < most {
					want = append(want, o)
				}
			}
			if got := told(t, jobs, all[from], to, most); !slices.Equal(got, want) {
				t.Errorf("pages of %d, after %v, before %v: %v, want %v", n.page, all[from], to, got, want)
			}
		}
		if got := told(t, jobs, pipeline.Opened{}, noon.Add(time.Hour), 1000); !slices.Equal(got, all) {
			t.Errorf("pages of %d: %v, want %v", n.page, got, all)
		}
	}
}

// TestEveryShardIsRead whatever the setting says, for it may have been another one yesterday. And
// each of the shards of the setting is written to, so that none is more than its part.
func TestEveryShardIsRead(t *testing.T) {
	jobs, n := through(t)
	var want []pipeline.Opened
	for _, c := range []struct{ setting, written int }{{0, 8}, {1, 1}, {5, 5}, {64, 64}, {1000, 64}} {
		jobs.Shards = c.setting
		written := map[string]bool{}
		for i := range 12 * c.written {
			j := pipeline.Job{ID: fmt.Sprintf("job-%d-%d", c.setting, i), UserID: "alice", Status: pipeline.Running, Attempt: 1, UpdatedAt: noon.Add(time.Duration(i) * time.Second)}
			if i == 0 || c.written < 64 || i%3 == 0 {
				if done, err := jobs.Swap(t.Context(), pipeline.Job{}, j); err != nil || !done {
					t.Fatal(done, err)
				}
				want = append(want, j.Opened())
				written[item(t, jobs, j.ID)["openShard"].(*types.AttributeValueMemberS).Value] = true
			}
		}
		for shard := range written {
			if k, err := strconv.Atoi(shard); err != nil || k < 0 || k >= c.written {
				t.Errorf("a setting of %d writes to shard %q", c.setting, shard)
			}
		}
		if c.written < 64 && len(written) != c.written || len(written) < 55 && c.written == 64 {
			t.Errorf("a setting of %d writes to %d shards", c.setting, len(written))
		}
	}
	slices.SortFunc(want, pipeline.Opened.Compare)
	jobs.Shards = 1
	// One job in each shard, by hand: also in those that the draw of ids has left out.
	for shard := range onaws.MaxShards {
		o := pipeline.Opened{Since: noon.Add(time.Hour), ID: fmt.Sprintf("shard-%02d", shard)}
		put(t, jobs, map[string]types.AttributeValue{
			"jobId": &types.AttributeValueMemberS{Value: o.ID}, "openShard": &types.AttributeValueMemberS{Value: strconv.Itoa(shard)},
			"openSince": &types.AttributeValueMemberS{Value: o.Since.Format("2006-01-02T15:04:05.000Z")},
		})
		want = append(want, o)
	}
	before := len(n.of("Query"))
	if got := told(t, jobs, pipeline.Opened{}, noon.Add(2*time.Hour), 10_000); !slices.Equal(got, want) {
		t.Errorf("%d jobs are told of, want %d", len(got), len(want))
	}
	asked := map[any]int{}
	for _, q := range n.of("Query")[before:] {
		asked[q.in["ExpressionAttributeValues"].(map[string]any)[":s"].(map[string]any)["S"]]++
		if q.in["Limit"] != 1000.0 || q.in["IndexName"] != "open" || q.in["TableName"] != jobs.Table {
			t.Errorf("asked %v", q.in)
		}
	}
	if len(asked) != 64 || onaws.MaxShards != 64 {
		t.Errorf("%d shards are read, want 64", len(asked))
	}
}

// TestAReaderThatIsStoppedReadsNoFurther: a run that comes to its deadline costs no more requests.
func TestAReaderThatIsStoppedReadsNoFurther(t *testing.T) {
	jobs, n := through(t)
	jobs.Shards = 1
	n.page = 5
	fill(t, jobs, 60)
	if got := told(t, jobs, pipeline.Opened{}, noon.Add(time.Hour), 1); len(got) != 1 {
		t.Errorf("%d are told of", len(got))
	}
	// One request for each empty shard, and of the full one as many as its first instant needs.
	if asked := len(n.of("Query")); asked != 63+5 {
		t.Errorf("%d requests for the first job", asked)
	}
}

// TestAnEntryThatCannotBeReadBlocksNoOther: it stands where the one before it stands.
func TestAnEntryThatCannotBeReadBlocksNoOther(t *testing.T) {
	jobs, n := through(t)
	jobs.Shards = 1
	entry := func(id, since string) {
		put(t, jobs, map[string]types.AttributeValue{
			"jobId": &types.AttributeValueMemberS{Value: id}, "openShard": &types.AttributeValueMemberS{Value: "0"}, "openSince": &types.AttributeValueMemberS{Value: since},
		})
	}
	entry("first", "2026-06-01T12:00:00.000Z")
	entry("odd", "2026-06-01T12:00:30 or so")
	entry("last", "2026-06-01T12:01:00.000Z")
	for _, n.page = range []int{0, 1} {
		want := []pipeline.Opened{{Since: noon, ID: "first"}, {Since: noon, ID: "odd"}, {Since: noon.Add(time.Minute), ID: "last"}}
		if got := told(t, jobs, pipeline.Opened{}, noon.Add(time.Hour), 10); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", n.page, got, want)
		}
		if got := told(t, jobs, want[0], noon.Add(time.Hour), 10); !slices.Equal(got, want[1:]) {
			t.Errorf("pages of %d, after the first: %v, want %v", n.page, got, want[1:])
		}
	}
}

// TestOnlyAnOpenJobStandsInTheIndex, and goes from it when it has come to its end.
func TestOnlyAnOpenJobStandsInTheIndex(t *testing.T) {
	jobs := open(t, "dynoxide")
	was := pipeline.Job{}
	for i, state := range []int{1, 2, 5, 2, 3, 4, 1, 6, 1, 7} {
		is := in(states[state], "a")
		is.Attempt = i
		if done, err := jobs.Swap(t.Context(), was, is); err != nil || !done {
			t.Fatal(done, err)
		}
		was = is
		var want []pipeline.Opened
		if is.Open() {
			want = []pipeline.Opened{is.Opened()}
		}
		if got := told(t, jobs, pipeline.Opened{}, noon.Add(time.Hour), 10); !slices.Equal(got, want) {
			t.Errorf("%v %v: %v, want %v", is.Status, is.Charge, got, want)
		}
	}
}

// TestABookmarkThatCannotBeReadIsTheBeginning: nothing is passed over. One that can is kept
// exactly.
func TestABookmarkThatCannotBeReadIsTheBeginning(t *testing.T) {
	jobs := open(t, "dynoxide")
	at := pipeline.Opened{Since: noon.Add(7 * time.Millisecond), ID: "a"}
	if err := jobs.SetBookmark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if got, err := jobs.Bookmark(t.Context()); err != nil || got != at {
		t.Errorf("%v, %v, want %v", got, err, at)
	}
	put(t, jobs, map[string]types.AttributeValue{
		"jobId": &types.AttributeValueMemberS{Value: "\x01reconcile"}, "markSince": &types.AttributeValueMemberS{Value: "lately"}, "markId": &types.AttributeValueMemberS{Value: "a"},
	})
	if got, err := jobs.Bookmark(t.Context()); err != nil || !got.IsZero() {
		t.Errorf("%v, %v", got, err)
	}
}

// TestAFailureOfALaterPageEndsTheReading, after what was read before it, and says so.
func TestAFailureOfALaterPageEndsTheReading(t *testing.T) {
	for _, f := range faults {
		jobs, n := through(t)
		jobs.Shards = 1
		all := fill(t, jobs, 60)
		n.page = 7
		queries := 0
		n.answer = func(q *request) (*http.Response, error) {
			if queries++; q.in["ExclusiveStartKey"] != nil && queries > 63+5 {
				return f.answer(q)
			}
			return q.send()
		}
		var got []pipeline.Opened
		err := jobs.Open(t.Context(), pipeline.Opened{}, noon.Add(time.Hour), func(o pipeline.Opened) bool { got = append(got, o); return true })
		if !errors.Is(err, f.failure) || len(got) == 0 || len(got) >= len(all) || !slices.Equal(got, all[:len(got)]) {
			t.Errorf("%s: %v after %d jobs", f.name, err, len(got))
		}
	}
}

// TestAReadingGoesOnWhereItStopped: what stands before the place is not read, and so not paid,
// again.
func TestAReadingGoesOnWhereItStopped(t *testing.T) {
	jobs, n := through(t)
	for _, c := range []struct {
		after pipeline.Opened
		from  string
	}{{pipeline.Opened{}, "0"}, {pipeline.Opened{Since: noon, ID: "a"}, "2026-06-01T12:00:00.000Z"}} {
		before := len(n.of("Query"))
		told(t, jobs, c.after, noon.Add(time.Hour), 1)
		for _, q := range n.of("Query")[before:] {
			values := q.in["ExpressionAttributeValues"].(map[string]any)
			if from, to := values[":from"].(map[string]any)["S"], values[":to"].(map[string]any)["S"]; from != c.from || to != "2026-06-01T13:00:00.000Z" {
				t.Errorf("after %v: from %v to %v", c.after, from, to)
			}
		}
	}
}
