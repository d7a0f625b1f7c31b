package dynamostore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
)

// bill is what requests cost.
type bill struct {
	requests int
	writes   float64 // units, as the engine returns them
	reads    float64 // units, as the engine returns them
	// units of writes whose condition failed: no engine returns them; DynamoDB bills the size of the
	// item, and 1 at least
	failed float64
	moved  int // rows written to the ledger
}

func (b *bill) minus(o bill) bill {
	return bill{b.requests - o.requests, b.writes - o.writes, b.reads - o.reads, b.failed - o.failed, b.moved - o.moved}
}

// metered is a client whose requests ask for the capacity that they consume, and add it to a bill.
func metered(c *dynamodb.Client, b *bill) *dynamodb.Client {
	measure := func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		switch in := in.Parameters.(type) {
		case *dynamodb.UpdateItemInput:
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		case *dynamodb.GetItemInput:
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		case *dynamodb.QueryInput:
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
		case *dynamodb.BatchWriteItemInput:
			in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			for _, rows := range in.RequestItems {
				b.moved += len(rows)
			}
		}
		out, meta, err := next.HandleInitialize(ctx, in)
		b.requests++
		var failed *types.ConditionalCheckFailedException
		if errors.As(err, &failed) {
			b.failed += float64(max(1, (size(failed.Item)+1023)/1024))
		}
		if err != nil {
			return out, meta, err
		}
		switch result := out.Result.(type) {
		case *dynamodb.UpdateItemOutput:
			b.writes += *result.ConsumedCapacity.CapacityUnits
		case *dynamodb.GetItemOutput:
			b.reads += *result.ConsumedCapacity.CapacityUnits
		case *dynamodb.QueryOutput:
			b.reads += *result.ConsumedCapacity.CapacityUnits
		case *dynamodb.BatchWriteItemOutput:
			for _, c := range result.ConsumedCapacity {
				b.writes += *c.CapacityUnits
			}
		}
		return out, meta, nil
	}
	return dynamodb.New(c.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("Bill", measure), middleware.After)
		})
	})
}

// size is the size of an item in bytes, by the rules of DynamoDB's developer guide ("DynamoDB item
// sizes and formats").
func size(item attributes) (bytes int) {
	for name, v := range item {
		bytes += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			bytes += len(v.Value)
		case *types.AttributeValueMemberN:
			bytes += len(strings.TrimRight(v.Value, "0"))/2 + 2
		case *types.AttributeValueMemberM:
			bytes += 3 + len(v.Value) + size(v.Value)
		default:
			bytes++
		}
	}
	return bytes
}

// account is what TestCost measures on.
type account struct {
	*rig
	catalog *headroom.Catalog
	bill    bill
	rows    *[]string // of the table
}

func newAccount(t *testing.T, rows *[]string) *account {
	t.Helper()
	catalog, err := headroom.DefaultCatalog().WithUnits("slots", 5_000)
	if err != nil {
		t.Fatal(err)
	}
	a := &account{rig: newRig(t, dynoxide, under(catalog)), catalog: catalog, rows: rows}
	a.renew()
	a.admit("another", "job", 1, 1)
	// the engine sends items along, and now the store knows
	a.expect("another", "large", 5_000, headroom.ReasonOverLimit, false, 1)
	return a
}

// renew has a new store take the place of the old, as in a process that has just begun.
func (a *account) renew() {
	a.Helper()
	store, err := dynamostore.New(metered(enginetest.Client(a.T, dynoxide, a.wire, 1), &a.bill), a.opts)
	if err != nil {
		a.Fatal(err)
	}
	if a.engine, err = headroom.New(store, a.catalog, headroom.Options{Clock: func() time.Time { return *a.rig.clock }}); err != nil {
		a.Fatal(err)
	}
}

// cost measures one thing that is done, and adds a row to the table.
func (a *account) cost(what string, do func()) bill {
	a.Helper()
	before := a.bill
	do()
	b := a.bill.minus(before)
	if what != "" {
		*a.rows = append(*a.rows, row(what, b, 1))
	}
	return b
}

func row(what string, b bill, of float64) string {
	number := func(n float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", n/of), ".0") }
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", what, number(float64(b.requests)), number(b.writes), number(b.failed), number(b.reads))
}

// costs fails the test if a bill is not what it ought to be.
func (a *account) costs(what string, got bill, requests int, writes, failed, reads float64) {
	a.Helper()
	if got.requests != requests || got.writes != writes || got.failed != failed || got.reads != reads {
		a.Errorf("%s: %+v, want %d requests, %v write units, %v of failed writes, %v read units", what, got, requests, writes, failed, reads)
	}
}

// uuid is an id as a UUID is: 36 bytes, always the same for the same number.
func uuid(i int) string {
	b := sha256.Sum256(fmt.Append(nil, i))
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// TestCost measures what operations cost, and holds docs/cost.md to it.
func TestCost(t *testing.T) {
	var rows []string

	a := newAccount(t, &rows)
	b := a.cost("a subject's very first deduction", func() { a.admit("u", "job-00001", 30, 30) })
	a.costs("very first", b, 2, 1, 1, 0)
	b = a.cost("a deduction in a running week", func() { a.admit("u", "job-00002", 30, 60) })
	a.costs("running week", b, 1, 1, 0, 0)
	b = a.cost("a refusal", func() { a.expect("u", "large", 4_990, headroom.ReasonOverLimit, false, 60) })
	a.costs("refusal", b, 1, 0, 1, 0)
	b = a.cost("a refusal of a cost greater than the limit", func() { a.expect("u", "larger", 5_001, headroom.ReasonNeverFits, false, 60) })
	a.costs("never fits", b, 1, 0, 0, 1)
	b = a.cost("a replay", func() { a.replay("u", "job-00001", 30, 60) })
	a.costs("replay", b, 1, 0, 1, 0)
	a.at(monday)
	b = a.cost("the first deduction of a week", func() { a.admit("u", "job-00003", 30, 30) })
	a.costs("first of a week", b, 2, 1, 1, 0)
	a.admit("u", "job-00004", 30, 60)
	b = a.cost("a preflight", func() { a.preflights("u", "") })
	a.costs("preflight", b, 1, 0, 0, 0.5)
	b = a.cost("usage with its history", func() { a.used("u") })
	a.costs("usage", b, 1, 0, 0, 1)

	item := own()
	item["userId"], item["profile"] = s("x"), s(strings.Repeat("p", 3_000))
	a.put(item)
	a.admit("x", "job-00001", 30, 30)
	b = a.cost("a deduction in a running week, in an item with 3 KB of the application's own", func() { a.admit("x", "job-00002", 30, 60) })
	a.costs("own item", b, 1, 4, 0, 0)

	a.at(tuesday)
	a.put(attributes{"userId": s("v"), "quotaWeek": s("2031-W22"), "quotaCount": n(20)})
	a.put(attributes{"userId": s("w"), "quotaWeek": s("2031-W21"), "quotaCount": n(20)})
	a.cost("the first deduction on an item of this week that the seed wrote", func() { a.admit("v", "job-00001", 30, 50) })
	b = a.cost("", func() { a.admit("v", "job-00002", 30, 80) })
	a.costs("after it", b, 1, 1, 0, 0)
	a.cost("the first deduction on an item of last week that the seed wrote", func() { a.admit("w", "job-00001", 30, 30) })
	b = a.cost("", func() { a.admit("w", "job-00002", 30, 60) })
	a.costs("after it", b, 1, 1, 0, 0)

	for _, ids := range []struct {
		form string
		id   func(i int) string
	}{
		{"`job-00001`", func(i int) string { return fmt.Sprintf("job-%05d", i) }},
		{"a UUID", uuid},
	} {
		a := newAccount(t, &rows)
		begun := a.bill
		var largest int
		var moving, quiet bill // of the last operation that moved ids, and that did not
		for i := 1; i <= 1000; i++ {
			what := ""
			if i == 10 || i == 100 || i == 1000 {
				what = fmt.Sprintf("operation %d of a week, ids like %s", i, ids.form)
			}
			b := a.cost(what, func() { a.admit("u", ids.id(i), 1, int64(i)) })
			switch {
			case b.moved > 0:
				moving = b
				// The charge and the removal may meet an item of just over 1,024 bytes.
				if b.writes > float64(b.moved)+3 || b.failed > 0 || b.reads > 1 {
					t.Errorf("operation %d moves %d ids for %+v", i, b.moved, b)
				}
			case a.bill.minus(begun).moved == 0:
				a.costs("before ids move", b, 1+min(1, 1/i), 1, float64(1/i), 0)
			default:
				quiet = b
				a.costs("with ids in the ledger", b, 2, 1, 0, 1)
			}
			if i%10 == 0 {
				largest = max(largest, size(a.item("u")))
			}
		}
		all := a.bill.minus(begun)
		rows = append(rows,
			row(fmt.Sprintf("an operation that moves %d ids like %s", moving.moved, ids.form), moving, 1),
			row(fmt.Sprintf("the mean of 1,000 operations of a week, ids like %s", ids.form), all, 1000))
		if quiet == (bill{}) || largest > 1100 {
			t.Errorf("the item has up to %d bytes", largest)
		}
		if ids.form == "a UUID" {
			continue // the rest is the same
		}
		a.renew()
		b := a.cost("a deduction with ids in the ledger, by a process that does not know of them yet", func() { a.admit("u", "new", 1, 1001) })
		a.costs("by a new process", b, 3, 1, 1, 1)
		a.cost("a replay of an id in the ledger", func() { a.replay("u", ids.id(1), 1, 1001) })
		a.cost("a refusal with ids in the ledger", func() { a.expect("u", "large", 4_999, headroom.ReasonOverLimit, false, 1001) })
		a.cost("a preflight that names an id, with ids in the ledger", func() { a.preflights("u", "not yet known") })
		for i := int64(1002); a.cost("", func() { a.admit("u", fmt.Sprint("then-", i), 1, i) }).moved == 0; i++ {
			// Until ids have moved, so that the next does not move any.
		}
		a.at(monday)
		a.cost("the first deduction of a week, with ids in the ledger", func() { a.admit("u", "first", 1, 1) })
	}

	table := "| what | requests | write units | units of failed writes | read units |\n|---|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	t.Log("\n" + table)
	if doc, err := os.ReadFile("../docs/cost.md"); err != nil || !strings.Contains(string(doc), table) {
		t.Errorf("docs/cost.md does not have this table (%v)", err)
	}
}

func (a *account) preflights(subject, id string) {
	a.Helper()
	if d, err := a.engine.Preflight(a.Context(), headroom.Request{Subject: subject, Meter: "slots", Operation: id, Cost: 1}); err != nil || !d.Allowed {
		a.Fatalf("%+v, %v", d, err)
	}
}
