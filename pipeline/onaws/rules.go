package onaws

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/pipeline"
)

// rulesID is the key of the item that holds the rules of the stack.
const rulesID = ownPrefix + "rules"

const attrRules = "rules"

// Rules are those by which a stack decides. Its reconciliation keeps them with the table of jobs,
// so that a person at a terminal charges by the same ones.
type Rules struct {
	Hold   string `json:"hold,omitempty"`   // how long a hold lasts. Empty: by preflight
	Over   string `json:"over"`             // record or refuse
	Plan   string `json:"plan,omitempty"`   // of a user who has none stored
	Meter  string `json:"meter,omitempty"`  // what is charged. Empty: slots
	Config string `json:"config,omitempty"` // the text of headroom.yaml. Empty: the built-in plan
	Format int    `json:"format,omitempty"` // in which items are written. 0: as the configuration says
}

// Rules are those of the settings.
func (s Settings) Rules() Rules {
	r := Rules{Over: "record", Plan: s.Options.Plan, Meter: s.Options.Meter, Config: s.Config, Format: s.Format}
	if s.Options.Refuse {
		r.Over = "refuse"
	}
	if s.Options.Hold > 0 {
		r.Hold = s.Options.Hold.String()
	}
	return r
}

// Differ says in which rule two stacks differ, "" if in none. Two configurations that say the same
// in other words do not differ.
func (r Rules) Differ(other Rules) (string, error) {
	mine, err := config.Parse("the configuration", []byte(r.Config))
	if err != nil {
		return "", err
	}
	theirs, err := config.Parse("the configuration", []byte(other.Config))
	if err != nil {
		return "", err
	}
	for _, c := range []struct {
		what string
		same bool
	}{
		{"what happens when the quota is spent after the work", r.Over == other.Over},
		{"the plan of a user who has none stored", r.Plan == other.Plan},
		{"the meter", cmp.Or(r.Meter, "slots") == cmp.Or(other.Meter, "slots")},
		{"the plans", reflect.DeepEqual(mine.Catalog.Plans(), theirs.Catalog.Plans()) && mine.Catalog.Default() == theirs.Catalog.Default()},
		{"how meters remember operation ids", remember(mine.Catalog, theirs.Catalog)},
		{"the prices", reflect.DeepEqual(mine.Prices, theirs.Prices)},
		{"the attributes in DynamoDB", mine.DynamoDB == theirs.DynamoDB},
		{"the format of items", r.Format == other.Format},
	} {
		if !c.same {
			return c.what, nil
		}
	}
	return "", nil
}

// remember reports whether two catalogs of the same meters remember operation ids alike.
func remember(a, b *headroom.Catalog) bool {
	return !slices.ContainsFunc(a.Meters(), func(meter string) bool {
		return a.Horizon(meter) != b.Horizon(meter) || a.NeedsID(meter) != b.NeedsID(meter)
	})
}

// Rules returns the rules that a stack has kept with the table, and false if none has.
func (t *Jobs) Rules(ctx context.Context) (r Rules, found bool, err error) {
	out, err := t.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.Table, Key: key(rulesID), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return r, false, failure(err, "job table "+t.Table)
	}
	packed, ok := out.Item[attrRules].(*types.AttributeValueMemberB)
	if !ok {
		return r, false, nil
	}
	unzip, err := gzip.NewReader(bytes.NewReader(packed.Value))
	if err != nil {
		return r, false, damaged(rulesID, attrRules, err)
	}
	text, err := io.ReadAll(unzip)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, false, damaged(rulesID, attrRules, err)
	}
	return r, true, nil
}

// SetRules keeps the rules of a stack with the table. It writes only what is new.
func (t *Jobs) SetRules(ctx context.Context, r Rules) error {
	if have, found, err := t.Rules(ctx); err == nil && found && have == r {
		return nil
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed) // the configuration of many plans is longer than an item may be
	// Neither can fail: rules are strings, and packed takes all.
	_ = errors.Join(json.NewEncoder(zip).Encode(r), zip.Close())
	_, err := t.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &t.Table, Key: key(rulesID), UpdateExpression: aws.String("SET #r = :r"),
		ExpressionAttributeNames:  map[string]string{"#r": attrRules},
		ExpressionAttributeValues: map[string]types.AttributeValue{":r": &types.AttributeValueMemberB{Value: packed.Bytes()}},
	})
	return failure(err, "job table "+t.Table)
}

// Reconcile is what the scheduled function does: it keeps the rules of the stack, and finishes what
// has been open for long. The event that calls it is not looked at.
//
// Before the jobs, and in half of its time at most, it finishes what users owe to organisations.
func (s *Stack) Reconcile(ctx context.Context, _ json.RawMessage) (Reconciliation, error) {
	var r Reconciliation
	kept := s.Jobs.SetRules(ctx, s.Settings.Rules())
	half, cancel := ctx, func() {}
	if end, ok := ctx.Deadline(); ok {
		half, cancel = context.WithTimeout(ctx, time.Until(end)/2)
	}
	var owed, err error
	r.Debts, owed = s.Engine.FinishDebts(half)
	cancel()
	r.Reconciliation, err = s.Pipeline.Reconcile(ctx, s.Settings.Reconcile)
	return r, errors.Join(err, owed, kept)
}

// Reconciliation is what a run of Stack.Reconcile came across.
type Reconciliation struct {
	pipeline.Reconciliation
	Debts headroom.Finished `json:"debts"`
}
