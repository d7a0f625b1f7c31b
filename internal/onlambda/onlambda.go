// Package onlambda makes the pipeline of a Lambda function from its environment variables:
//
//	HEADROOM_TABLE          table of users, needed
//	HEADROOM_LEDGER         its ledger. Unset: the table's name and "-ledger"
//	HEADROOM_JOBS           table of jobs, needed
//	HEADROOM_STATE_MACHINE  ARN of the state machine, needed
//	HEADROOM_MODE           "preflight" (unset too) or "hold"
//	HEADROOM_HOLD           how long a hold lasts, like 3h. Unset: 3h
//	HEADROOM_OVER           "record" (unset too) or "refuse": what the callback does when the quota is spent
//	HEADROOM_PLAN           plan of a user who has none stored. Unset: the configuration's default
//	HEADROOM_CONFIG         headroom.yaml in the function's bundle. Unset: the built-in plan and prices
//	HEADROOM_NAMESPACE      CloudWatch namespace of the metrics. Unset: no metrics
//	HEADROOM_OLDER_THAN     after how long a reconciliation looks at an open job, like 90m. Unset: 90m
//	HEADROOM_TEST_CLOCK     an instant that takes the place of every clock; for tests of a whole stack, and nothing else
package onlambda

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/lumcast/headroom"
	settings "github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// DefaultHold outlasts the state machine's timeout of an hour and the callback's retries.
const DefaultHold = 3 * time.Hour

// DefaultOlderThan leaves the state machine its timeout of an hour and the callback its retries.
const DefaultOlderThan = 90 * time.Minute

// Pipeline makes the pipeline that the environment describes, with env in the place of os.Getenv. It logs in JSON to standard output.
func Pipeline(ctx context.Context, env func(string) string) (*pipeline.Pipeline, error) {
	opts, err := options(env)
	if err != nil {
		return nil, err
	}
	table, jobs, machine := env("HEADROOM_TABLE"), env("HEADROOM_JOBS"), env("HEADROOM_STATE_MACHINE")
	if table == "" || jobs == "" || machine == "" {
		return nil, invalid("HEADROOM_TABLE, HEADROOM_JOBS and HEADROOM_STATE_MACHINE are needed")
	}
	cfg := settings.Default()
	if path := env("HEADROOM_CONFIG"); path != "" {
		if cfg, err = settings.Load(path); err != nil {
			return nil, err
		}
	}
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, headroom.Errorf(headroom.CodeInvalid, err, "the AWS configuration does not load")
	}
	client := dynamodb.NewFromConfig(sdk)
	c := cfg.DynamoDB
	store, err := dynamostore.New(client, dynamostore.Options{
		Table: table, Ledger: env("HEADROOM_LEDGER"), Meter: c.Meter, Limit: c.Limit, Logger: opts.Logger,
		Names: dynamostore.Names{Subject: c.Subject, Window: c.Window, Count: c.Count, Plan: c.Plan, Prefix: c.Prefix},
	})
	if err != nil {
		return nil, err
	}
	engine, err := headroom.New(store, cfg.Catalog, headroom.Options{Clock: opts.Clock, Horizon: cfg.Horizon})
	if err != nil {
		return nil, err
	}
	return pipeline.New(engine, cfg.Catalog, &onaws.Jobs{Client: client, Table: jobs}, &onaws.Executions{Client: sfn.NewFromConfig(sdk), StateMachine: machine}, opts)
}

// options reads what concerns the pipeline alone.
func options(env func(string) string) (pipeline.Options, error) {
	opts := pipeline.Options{
		Plan: env("HEADROOM_PLAN"), Namespace: env("HEADROOM_NAMESPACE"),
		Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil)),
	}
	switch mode := env("HEADROOM_MODE"); mode {
	case "", "preflight":
	case "hold":
		var err error
		if opts.Hold, err = duration(env, "HEADROOM_HOLD", DefaultHold); err != nil {
			return opts, err
		}
	default:
		return opts, invalid("HEADROOM_MODE %q: want preflight or hold", mode)
	}
	switch over := env("HEADROOM_OVER"); over {
	case "", "record":
	case "refuse":
		opts.Refuse = true
	default:
		return opts, invalid("HEADROOM_OVER %q: want record or refuse", over)
	}
	if at := env("HEADROOM_TEST_CLOCK"); at != "" {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return opts, invalid("HEADROOM_TEST_CLOCK %q: want a time like 2026-05-31T23:59:00Z", at)
		}
		opts.Clock = func() time.Time { return now }
	}
	return opts, nil
}

// OlderThan is after how long a reconciliation looks at an open job.
func OlderThan(env func(string) string) (time.Duration, error) {
	return duration(env, "HEADROOM_OLDER_THAN", DefaultOlderThan)
}

func duration(env func(string) string, name string, fallback time.Duration) (time.Duration, error) {
	text := cmp.Or(env(name), fallback.String())
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return 0, invalid("%s %q: want a duration like 3h, at least a second", name, text)
	}
	return d, nil
}

// Fatal ends a function that cannot start. Lambda shows the line and starts it anew at the next event.
func Fatal(err error) {
	slog.New(slog.NewJSONHandler(os.Stdout, nil)).Error("the function cannot start", "error", err.Error())
	os.Exit(1)
}

func invalid(format string, args ...any) error {
	return headroom.Errorf(headroom.CodeInvalid, nil, format, args...)
}
