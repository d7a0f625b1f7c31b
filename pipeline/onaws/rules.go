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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

// rulesID is the key of the item that holds the rules of the stack.
const rulesID = ownPrefix + "rules"

const attrRules = "rules"

// Rules are the rules by which a stack decides. Its reconciliation keeps them with the table of
// jobs, so that a person at a terminal charges by the same rules.
type Rules struct {
	Hold   string `json:"hold,omitempty"`   // how long a hold lasts. Empty: by preflight
	Over   string `json:"over"`             // record or refuse
	Plan   string `json:"plan,omitempty"`   // the plan of a user who has none stored
	Meter  string `json:"meter,omitempty"`  // what is charged. Empty: slots
	Config string `json:"config,omitempty"` // the text of headroom.yaml. Empty: the built-in plan
	Format int    `json:"format,omitempty"` // the format of items. 0: as the configuration says
}

// Rules returns the rules that the settings make.
func (s Settings) Rules() Rules {
	r := Rules{
		Over:   "record",
		Plan:   s.Options.Plan,
		Meter:  s.Options.Meter,
		Config: s.Config,
		Format: s.Format,
	}
	if s.Options.Refuse {
		r.Over = "refuse"
	}
	if s.Options.Hold > 0 {
		r.Hold = s.Options.Hold.String()
	}
	return r
}

// Differ names a rule in which two stacks differ. It is empty if they differ in none.
// Configurations that say the same in other words do not differ.
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
		{"the plans", samePlans(mine.Catalog, theirs.Catalog)},
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

// samePlans reports whether two catalogs have the same plans, and the same default.
func samePlans(a, b *headroom.Catalog) bool {
	return reflect.DeepEqual(a.Plans(), b.Plans()) && a.Default() == b.Default()
}

// remember reports whether two catalogs with the same meters remember operation ids alike.
func remember(a, b *headroom.Catalog) bool {
	return !slices.ContainsFunc(a.Meters(), func(meter string) bool {
		return a.Horizon(meter) != b.Horizon(meter) || a.NeedsID(meter) != b.NeedsID(meter)
	})
}

// Rules returns the rules that a stack has kept with the table, and false if none has.
func (t *Jobs) Rules(ctx context.Context) (r Rules, found bool, err error) {
	out, err := t.Client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &t.Table, Key: key(rulesID), ConsistentRead: aws.Bool(true),
	})
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

// SetRules keeps the rules of a stack with the table. It writes only if they have changed.
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
		ExpressionAttributeNames: map[string]string{"#r": attrRules},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":r": &types.AttributeValueMemberB{Value: packed.Bytes()},
		},
	})
	return failure(err, "job table "+t.Table)
}
