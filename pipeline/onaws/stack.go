package onaws

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/pipeline"
)

// Stack is a pipeline on AWS, and its parts.
type Stack struct {
	Pipeline   *pipeline.Pipeline
	Engine     *headroom.Engine
	Store      *dynamostore.Store
	Jobs       *Jobs
	Executions *Executions
	Config     *config.Config
	Settings   Settings
}

// New wires a pipeline from the SDK's configuration and settings. It makes no request to AWS. It
// fails with headroom.Invalid if something is missing or wrong.
func New(sdk aws.Config, s Settings) (*Stack, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	cfg, err := config.Parse("the configuration", []byte(s.Config))
	if err != nil {
		return nil, err
	}
	bound := bounded(cmp.Or(s.CallTimeout, DefaultCallTimeout))
	sdk.APIOptions = append(slices.Clone(sdk.APIOptions), bound)
	client := dynamodb.NewFromConfig(sdk)
	c := cfg.DynamoDB
	store, err := dynamostore.New(client, dynamostore.Options{
		Table: s.Users, Ledger: s.Ledger, Meter: c.Meter, Limit: c.Limit, Format: cmp.Or(s.Format, c.Format),
		Names: dynamostore.Names{
			Subject: c.Subject, Window: c.Window, Count: c.Count, Plan: c.Plan, Prefix: c.Prefix,
		},
		Logger: s.Options.Logger,
	})
	if err != nil {
		return nil, err
	}
	engine, err := headroom.New(store, cfg.Catalog,
		headroom.Options{Clock: s.Options.Clock, Logger: s.Options.Logger})
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Catalog.Warnings() {
		cmp.Or(s.Options.Logger, slog.Default()).Warn("headroom: " + w)
	}
	s.Reconcile.OlderThan = cmp.Or(s.Reconcile.OlderThan, DefaultOlderThan)
	jobs := &Jobs{Client: client, Table: s.Jobs, Shards: s.Shards, Keep: s.Keep}
	if jobs.Keep == 0 {
		jobs.Keep = max(DefaultKeep, longestHorizon(cfg.Catalog)+mayComeBack)
	}
	runs := &Executions{Client: sfn.NewFromConfig(sdk), StateMachine: s.StateMachine}
	if s.Options.Later == nil {
		s.Options.Later = (&Queue{Client: sqs.NewFromConfig(sdk)}).Later
	}
	p, err := pipeline.New(engine, cfg.Catalog, jobs, runs, s.Options)
	if err != nil {
		return nil, err
	}
	return &Stack{
		Pipeline: p, Engine: engine, Store: store, Jobs: jobs, Executions: runs, Config: cfg, Settings: s,
	}, nil
}

// mayComeBack is how long it may take until a message is delivered for the last time: 4 days in its
// queue, 14 days among the dead letters, and 14 days in the queue that it is sent to from there.
const mayComeBack = 32 * 24 * time.Hour

// longestHorizon is the longest time for which a meter of the catalog remembers operation ids.
func longestHorizon(c *headroom.Catalog) (longest time.Duration) {
	for _, meter := range c.Meters() {
		longest = max(longest, c.Horizon(meter))
	}
	return longest
}

// Reconcile is what the scheduled function does. It keeps the rules of the stack with the table of
// jobs. Then it finishes what users owe to organisations, in at most half of its time, and in the
// rest the jobs that have been open for long. The content of the event does not matter.
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

// Reconciliation is what a run of Stack.Reconcile found and did.
type Reconciliation struct {
	pipeline.Reconciliation
	Debts headroom.Finished `json:"debts"`
}
