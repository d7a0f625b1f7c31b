package onaws_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// TestOnlyAFinishedJobExpires looks at the time to live of a job on its way: it is there only when
// the job has ended, and goes when a new attempt opens it again.
func TestOnlyAFinishedJobExpires(t *testing.T) {
	jobs := open(t, "dynoxide")
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	var was pipeline.Job
	for i, c := range []struct {
		status  pipeline.Status
		charge  pipeline.Charge
		attempt int
		expires bool
	}{
		{pipeline.Running, "", 1, false}, {pipeline.Failed, "", 1, true}, {pipeline.Running, "", 2, false}, {pipeline.Succeeded, pipeline.ChargePending, 2, false}, {pipeline.Succeeded, pipeline.Charged, 2, true},
	} {
		is := pipeline.Job{ID: "a", UserID: "alice", Status: c.status, Charge: c.charge, Attempt: c.attempt, RequestedAt: at, UpdatedAt: at.Add(time.Duration(i) * time.Hour)}
		if done, err := jobs.Swap(t.Context(), was, is); err != nil || !done {
			t.Fatal(done, err)
		}
		was = is
		out, err := jobs.Client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &jobs.Table, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{"jobId": &types.AttributeValueMemberS{Value: "a"}}})
		if err != nil {
			t.Fatal(err)
		}
		n, ok := out.Item["expires"].(*types.AttributeValueMemberN)
		if ok != c.expires {
			t.Errorf("%s %s expires: %t, want %t", c.status, c.charge, ok, c.expires)
		}
		if want := strconv.FormatInt(is.UpdatedAt.Add(onaws.DefaultKeep).Unix(), 10); ok && n.Value != want {
			t.Errorf("%s expires at %s, want %s", c.status, n.Value, want)
		}
	}
	ttl, err := jobs.Client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &jobs.Table})
	if err != nil || aws.ToString(ttl.TimeToLiveDescription.AttributeName) != "expires" {
		t.Errorf("%+v, %v", ttl, err)
	}
}
