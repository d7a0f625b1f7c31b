package onaws_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// meter adds up what the engine says that requests have consumed.
type meter struct{ requests, reads, writes float64 }

func (m *meter) attach(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("Meter", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			switch in := in.Parameters.(type) {
			case *dynamodb.GetItemInput:
				in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			case *dynamodb.UpdateItemInput:
				in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			case *dynamodb.QueryInput:
				in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			case *dynamodb.BatchWriteItemInput:
				in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			}
			out, meta, err := next.HandleInitialize(ctx, in)
			switch out := out.Result.(type) {
			case *dynamodb.GetItemOutput:
				m.requests++
				m.reads += aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)
			case *dynamodb.UpdateItemOutput:
				m.requests++
				if out != nil && out.ConsumedCapacity != nil {
					m.writes += aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)
				}
			case *dynamodb.QueryOutput:
				m.requests++
				m.reads += aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)
			case *dynamodb.BatchWriteItemOutput:
				m.requests++
				for _, c := range out.ConsumedCapacity {
					m.writes += aws.ToFloat64(c.CapacityUnits)
				}
			}
			return out, meta, err
		}), middleware.After)
	})
}

// started starts nothing.
type started struct{ input []byte }

func (s *started) Start(_ context.Context, _ string, input []byte) error {
	s.input = input
	return nil
}

func (s *started) Describe(context.Context, string) (pipeline.Execution, bool, error) {
	return pipeline.Execution{}, false, nil
}

func (s *started) Finished(context.Context, string) ([]byte, bool, error) { return nil, false, nil }

// TestWhatAJobCosts measures the requests and units of a job that succeeds, in a running week:
// docs/aws-cost.md prices them.
func TestWhatAJobCosts(t *testing.T) {
	for _, c := range []struct {
		mode      string
		hold      time.Duration
		one, busy meter // of a job, and the mean of a user with many jobs
	}{
		{"preflight", 0, meter{7, 2.5, 6}, meter{8.1, 3.5, 7.1}},
		{"hold", time.Hour, meter{9, 4, 7}, meter{10.2, 5.1, 8}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			p := newMetered(t, c.hold)
			p.job("5e0fdc1e-3f0c-4d55-9f3d-000000000001") // the first of the week costs a request more
			p.meter = meter{}
			p.job("5e0fdc1e-3f0c-4d55-9f3d-000000000002")
			t.Logf("%s: %+v", c.mode, p.meter)
			if p.meter != c.one {
				t.Errorf("want %+v: change docs/aws-cost.md too", c.one)
			}
			// A user with more jobs than the ids of one item: these move to the ledger.
			// Some 23 move at once, and each round costs the same: what is counted is five rounds.
			const jobsOfOne, counted = 175, 115
			for i := range jobsOfOne {
				if i == jobsOfOne-counted {
					p.meter = meter{}
				}
				p.job(fmt.Sprintf("5e0fdc1e-3f0c-4d55-9f3d-%012d", 100+i))
			}
			busy := meter{p.requests / counted, p.reads / counted, p.writes / counted}
			t.Logf("%s, of a user with %d jobs: a mean of %+v", c.mode, jobsOfOne, busy)
			if !busy.near(c.busy) {
				t.Errorf("want %+v for a user with many jobs: change docs/aws-cost.md too", c.busy)
			}
			size := itemSize(t, p.jobs, "5e0fdc1e-3f0c-4d55-9f3d-000000000001")
			t.Logf("%s: the record of a job has %d bytes", c.mode, size)
			if size < 450 || size > 550 {
				t.Error("change docs/aws-cost.md too")
			}
		})
	}
}

func (m meter) near(other meter) bool {
	const close = 0.3
	return math.Abs(m.requests-other.requests) <= close && math.Abs(m.reads-other.reads) <= close && math.Abs(m.writes-other.writes) <= close
}

// metered is a pipeline on an engine that tells what each request has consumed.
type metered struct {
	t *testing.T
	meter
	jobs *onaws.Jobs
	runs started
	p    *pipeline.Pipeline
}

func newMetered(t *testing.T, hold time.Duration) *metered {
	t.Helper()
	m := &metered{t: t, jobs: open(t, "dynoxide")}
	client := dynamodb.New(dynamodb.Options{Region: "eu-central-1", BaseEndpoint: aws.String(enginetest.Start(t, "dynoxide")), Credentials: keys}, m.attach)
	store, err := dynamostore.New(client, dynamostore.Options{Table: m.jobs.Table + "-users"})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	prices, err := headroom.DefaultCatalog().Prices("slots")
	if err != nil {
		t.Fatal(err)
	}
	plan := headroom.Plan{Name: "free", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 1_000_000}}}
	catalog, err := headroom.NewCatalog("free", []headroom.Plan{plan}, map[string]headroom.Prices{"slots": prices})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := headroom.New(store, catalog, headroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts := pipeline.Options{Hold: hold, Logger: slog.New(slog.DiscardHandler)}
	if m.p, err = pipeline.New(engine, catalog, &onaws.Jobs{Client: client, Table: m.jobs.Table}, &m.runs, opts); err != nil {
		t.Fatal(err)
	}
	return m
}

// job lets a job run and succeed.
func (m *metered) job(id string) {
	m.t.Helper()
	body, err := pipeline.Send(id, "alice", "neural", 900, 1, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := m.p.Consume(m.t.Context(), pipeline.Batch{Records: []pipeline.Delivery{{MessageID: "m", Body: string(body)}}})
	if err != nil || len(out.Items) > 0 {
		m.t.Fatal(out, err)
	}
	r, err := m.p.Callback(m.t.Context(), fmt.Appendf(nil, `{"status":"SUCCEEDED","input":%s,"result":{}}`, m.runs.input))
	if err != nil || r.Charge != pipeline.Charged {
		m.t.Fatal(r, err)
	}
}

// itemSize is how much of a table an item takes, as DynamoDB counts: names and values, and 100
// bytes.
func itemSize(t *testing.T, jobs *onaws.Jobs, id string) int {
	t.Helper()
	out, err := jobs.Client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &jobs.Table, Key: map[string]types.AttributeValue{"jobId": &types.AttributeValueMemberS{Value: id}}})
	if err != nil {
		t.Fatal(err)
	}
	size := 100
	for name, value := range out.Item {
		size += len(name)
		switch v := value.(type) {
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberN:
			size += len(v.Value)/2 + 1
		default:
			size++
		}
	}
	return size
}
