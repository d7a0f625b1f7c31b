package onaws

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

// Forget deletes all jobs of a user, and returns how many that were. It reads the whole table. If
// it is cut off, it can be called again. progress, unless it is nil, is called after each job with
// the number of jobs that are gone.
//
// If a job of the user is open, Forget deletes nothing and fails with headroom.Conflict. A job that
// is deleted while it runs could not be charged, and a second delivery of its message would start
// it again.
func (t *Jobs) Forget(ctx context.Context, user string, progress func(jobs int)) (jobs int, err error) {
	if user == "" {
		return 0, headroom.Errorf(headroom.Invalid, nil, "user is empty")
	}
	var ids []string
	var open pipeline.Job
	if err := t.List(ctx, pipeline.Filter{UserID: user}, func(j pipeline.Job) bool {
		if ids = append(ids, j.ID); j.Open() {
			open = j
		}
		return open.ID == ""
	}); err != nil {
		return 0, err
	}
	if open.ID != "" {
		return 0, headroom.Errorf(headroom.Conflict, nil,
			"job %q of user %q is open: wait for its end, or close it, then forget the user", open.ID, user)
	}
	for _, id := range ids {
		_, err := t.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &t.Table, Key: key(id),
			// The job must still be the user's, and not be open.
			ConditionExpression:       aws.String("#user = :user AND attribute_not_exists(#shard)"),
			ExpressionAttributeNames:  map[string]string{"#user": attrUser, "#shard": attrShard},
			ExpressionAttributeValues: map[string]types.AttributeValue{":user": text(user)},
		})
		var changed *types.ConditionalCheckFailedException
		if errors.As(err, &changed) {
			if j, found, err := t.Get(ctx, id); err != nil {
				return jobs, err
			} else if found && j.UserID == user {
				return jobs, headroom.Errorf(headroom.Conflict, nil,
					"job %q of user %q was opened again meanwhile: wait for its end, then forget the user", id, user)
			}
			continue
		}
		if err != nil {
			return jobs, failure(err, "job table "+t.Table)
		}
		if jobs++; progress != nil {
			progress(jobs)
		}
	}
	return jobs, nil
}
