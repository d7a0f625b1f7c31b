package interleave

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// seedDeduct is the seed's deduct_quota, line by line.
func seedDeduct(ctx context.Context, table *dynamodb.Client, user string, cost int64, week string, weeklyLimit int64) (bool, error) {
	n := func(v int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(v, 10)}
	}
	w := &types.AttributeValueMemberS{Value: week}
	update := func(update, condition string, values map[string]types.AttributeValue) error {
		_, err := table.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: aws.String("users"), Key: map[string]types.AttributeValue{"userId": &types.AttributeValueMemberS{Value: user}},
			UpdateExpression: &update, ConditionExpression: &condition, ExpressionAttributeValues: values,
		})
		return err
	}
	var failed *types.ConditionalCheckFailedException
	// Tier 1: try to add to an existing, non-exhausted week
	err := update("ADD quotaCount :cost", "quotaWeek = :week AND quotaCount <= :headroom",
		map[string]types.AttributeValue{":cost": n(cost), ":week": w, ":headroom": n(weeklyLimit - cost)})
	if !errors.As(err, &failed) {
		return err == nil, err
	}
	// Tier 2: try to start a fresh week
	err = update("SET quotaWeek = :week, quotaCount = :cost", "attribute_not_exists(quotaWeek) OR quotaWeek <> :week",
		map[string]types.AttributeValue{":week": w, ":cost": n(cost)})
	if !errors.As(err, &failed) {
		return err == nil, err
	}
	return false, nil
}

const seedLimit = 200

// seedRun is a deduction by the week of the host's clock. If the connection fails it is made again,
// as for a message that is delivered again.
func seedRun(ctx context.Context, c caller, o op) outcome {
	week := headroom.ISOWeek(c.host()).Key
	ok, err := seedDeduct(ctx, c.sdk, o.who(), o.cost, week, seedLimit)
	if err != nil {
		return outcome{code: headroom.OutcomeUnknown}
	}
	if ok {
		return outcome{allowed: true, cost: o.cost, reason: "True"}
	}
	return outcome{reason: "False"}
}

// seedItem is the whole of the seed's state.
func (x *explorer) seedItem(tables int32) (week string, count int64) {
	item := x.values[tables].Item("users", "u")
	return str(item["quotaWeek"]), num(item["quotaCount"])
}

// The seed's own promises, stated on its two fields and on what its callers are told.
func seedInvariants() invariants {
	return invariants{
		lacks: func(x *explorer, o op, tables int32, clock uint8) bool {
			week, count := x.seedItem(tables)
			if week != headroom.ISOWeek(x.times[clock]).Key {
				count = 0
			}
			return count+o.cost > seedLimit
		},
		check: func(x *explorer, before, after int32, _ uint8) string {
			was, _ := x.seedItem(before)
			is, count := x.seedItem(after)
			_, asked := x.seedItem(x.states[0].tables)
			for _, s := range x.clients {
				for _, o := range s.ops {
					asked += o.cost
				}
			}
			switch {
			case is < was:
				return "week given back by a late writer: " + was + " becomes " + is
			case count > seedLimit:
				return fmt.Sprintf("cost over the limit: %d of %d are admitted", count, seedLimit)
			case count > asked:
				return fmt.Sprintf("charged twice: %d were asked for in all, %d are charged", asked, count)
			}
			return ""
		},
		decided: func(_ *explorer, o op, out outcome, _ state, lacked bool) string {
			if !out.allowed && !lacked {
				return fmt.Sprintf("refused wrongly: %d units were there all the time", o.cost)
			}
			return ""
		},
		ended: func(*explorer, state) string { return "" },
		text: func(x *explorer, tables int32) string {
			week, count := x.seedItem(tables)
			return fmt.Sprintf("%s %d", week, count)
		},
	}
}

func bySeed(cost int64) op { return op{verb: "seed", cost: cost} }

func seedWorlds() []*world {
	deduct := bySeed
	turn := []time.Time{sunday, monday}
	return []*world{
		{
			name: "refused wrongly at the turn", times: turn, invariants: seedInvariants(),
			before:  []past{{sunday, deduct(150)}},
			clients: []script{does(deduct(30)), does(deduct(40))},
		},
		{
			name: "first cost over the limit", times: turn[:1], invariants: seedInvariants(),
			clients: []script{does(deduct(300))},
		},
		{
			name: "week given back by a late writer", times: turn, invariants: seedInvariants(),
			before:  []past{{sunday, deduct(150)}},
			clients: []script{does(deduct(30)), does(deduct(40))},
		},
		{
			name: "charged twice after a lost answer", times: turn[:1], invariants: seedInvariants(), faults: 1, kinds: mayLose,
			before:  []past{{sunday, deduct(50)}},
			clients: []script{does(deduct(30)).sends(2)},
		},
	}
}

// TestTheSeedsOwnCodeFails: the checker finds each hole in the seed's pseudo-code, by a shortest
// schedule. docs/proof.md shows it.
func TestTheSeedsOwnCodeFails(t *testing.T) {
	page, err := os.ReadFile("../../docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range seedWorlds() {
		t.Run(w.name, func(t *testing.T) {
			want, _, _ := strings.Cut(w.name, " at the")
			want, _, _ = strings.Cut(want, " after")
			w.only = strings.TrimPrefix(want, "first ")
			_, v := explored(t, w, 0)
			if v == nil {
				t.Fatal("no schedule breaks it")
			}
			if !strings.Contains(string(page), "\n    "+strings.ReplaceAll(v.String(), "\n", "\n    ")+"\n") {
				t.Errorf("docs/proof.md does not show\n\n%s", v)
			}
		})
	}
}
