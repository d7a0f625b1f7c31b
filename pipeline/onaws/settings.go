package onaws

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
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

const (
	// DefaultHold outlasts the state machine's timeout of five hours, in which the charge is tried
	// again for more than three, and a reconciliation after it.
	DefaultHold = 6 * time.Hour
	// DefaultOlderThan leaves most jobs the time to end by themselves. One that still runs stays.
	DefaultOlderThan = 90 * time.Minute
	// DefaultCallTimeout is far beyond what a request to a table takes, with its repeats.
	DefaultCallTimeout = 5 * time.Second
)

// Settings say where the pipeline on AWS keeps its things and by which rules it decides.
type Settings struct {
	Users        string // table of users. Needed
	Ledger       string // its ledger. Empty: the name of the table of users and "-ledger"
	Jobs         string // table of jobs. Needed
	StateMachine string // ARN of a standard workflow, without a version or an alias. Needed

	// Config has plans, prices and names of attributes, as package config reads them from
	// headroom.yaml. Empty: the built-in plan and prices.
	Config string

	// Format is the format that items of users are written in, as dynamostore.Options has it. Zero:
	// as Config says.
	Format int

	Options   pipeline.Options
	Reconcile pipeline.ReconcileOptions // OlderThan zero: DefaultOlderThan

	Shards int           // of the index of open jobs. Zero: DefaultShards
	Keep   time.Duration // how long a finished job stays. Zero: DefaultKeep, or what the horizon asks

	// CallTimeout bounds each request to AWS, with its repeats. Zero: DefaultCallTimeout.
	CallTimeout time.Duration
}

// FromEnv reads settings from environment variables, with env in the place of os.Getenv:
//
//	HEADROOM_TABLE          table of users, needed
//	HEADROOM_LEDGER         its ledger. Unset: the table's name and "-ledger"
//	HEADROOM_JOBS           table of jobs, needed
//	HEADROOM_STATE_MACHINE  ARN of the state machine, needed
//	HEADROOM_MODE           "preflight" (unset too) or "hold"
//	HEADROOM_HOLD           how long a hold lasts, like 6h. Unset: 6h
//	HEADROOM_OVER           "record" (unset too) or "refuse": when the quota is spent after the work
//	HEADROOM_PLAN           plan of a user who has none stored. Unset: the configuration's default
//	HEADROOM_CONFIG         a headroom.yaml, in the function's bundle. Unset: the built-in plan
//	HEADROOM_NAMESPACE      CloudWatch namespace of the metrics. Unset: no metrics
//	HEADROOM_OLDER_THAN     after how long a reconciliation looks at an open job. Unset: 90m
//	HEADROOM_DESCRIBES      questions to executions a second, of a reconciliation. Unset: 10
//	HEADROOM_WORKERS        jobs at once, of a reconciliation. Unset: 16
//	HEADROOM_SHARDS         partitions of the index of open jobs, at most 64. Unset: 8
//	HEADROOM_KEEP           how long a finished job stays, like 2160h. Unset: 2160h, or longer
//	HEADROOM_FORMAT         format that items are written in: 1 while the release before still runs
//	HEADROOM_CALL_TIMEOUT   bound of one request to AWS. Unset: 5s
//	HEADROOM_TEST_CLOCK     an instant that takes the place of every clock; for tests of a stack only
func FromEnv(env func(string) string) (Settings, error) {
	s := Settings{
		Users: env("HEADROOM_TABLE"), Ledger: env("HEADROOM_LEDGER"), Jobs: env("HEADROOM_JOBS"), StateMachine: env("HEADROOM_STATE_MACHINE"),
		Options: pipeline.Options{Plan: env("HEADROOM_PLAN"), Namespace: env("HEADROOM_NAMESPACE"), Logger: Logger(os.Stdout)},
	}
	switch mode := env("HEADROOM_MODE"); mode {
	case "", "preflight":
	case "hold":
		s.Options.Hold = DefaultHold
	default:
		return s, invalid("HEADROOM_MODE %q: want preflight or hold", mode)
	}
	switch over := env("HEADROOM_OVER"); over {
	case "", "record":
	case "refuse":
		s.Options.Refuse = true
	default:
		return s, invalid("HEADROOM_OVER %q: want record or refuse", over)
	}
	if at := env("HEADROOM_TEST_CLOCK"); at != "" {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return s, invalid("HEADROOM_TEST_CLOCK %q: want a time like 2026-05-31T23:59:00Z", at)
		}
		s.Options.Clock = func() time.Time { return now }
	}
	for name, into := range map[string]*time.Duration{
		"HEADROOM_HOLD": &s.Options.Hold, "HEADROOM_OLDER_THAN": &s.Reconcile.OlderThan, "HEADROOM_KEEP": &s.Keep, "HEADROOM_CALL_TIMEOUT": &s.CallTimeout,
	} {
		text := env(name)
		if text == "" || name == "HEADROOM_HOLD" && s.Options.Hold == 0 { // preflight
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Second {
			return s, invalid("%s %q: want a duration like 3h, at least a second", name, text)
		}
		*into = d
	}
	for name, of := range map[string]struct {
		into *int
		most int
	}{
		"HEADROOM_SHARDS": {&s.Shards, MaxShards}, "HEADROOM_WORKERS": {&s.Reconcile.Workers, 1000}, "HEADROOM_FORMAT": {&s.Format, dynamostore.NewestFormat},
	} {
		into := of.into
		if text := env(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > of.most {
				return s, invalid("%s %q: want a whole number from 1 to %d", name, text, of.most)
			}
			*into = n
		}
	}
	if text := env("HEADROOM_DESCRIBES"); text != "" {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rate > 0) {
			return s, invalid("HEADROOM_DESCRIBES %q: want a number above 0", text)
		}
		s.Reconcile.Describes = rate
	}
	if path := env("HEADROOM_CONFIG"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			var cause *fs.PathError
			if errors.As(err, &cause) {
				err = cause.Err
			}
			return s, headroom.Errorf(headroom.CodeInvalid, err, "the configuration %s cannot be read", path)
		}
		s.Config = string(text)
	}
	return s, s.check()
}

// check fails if something that is needed is missing.
func (s Settings) check() error {
	if s.Users == "" || s.Jobs == "" || s.StateMachine == "" {
		return invalid("a table of users, a table of jobs and a state machine are needed: HEADROOM_TABLE, HEADROOM_JOBS and HEADROOM_STATE_MACHINE")
	}
	return nil
}

// Stack is a pipeline on AWS and its parts.
type Stack struct {
	Pipeline   *pipeline.Pipeline
	Engine     *headroom.Engine
	Store      *dynamostore.Store
	Jobs       *Jobs
	Executions *Executions
	Config     *config.Config
	Settings   Settings
}

// New wires a pipeline from the SDK's configuration and settings. It asks AWS for nothing.
func New(sdk aws.Config, s Settings) (*Stack, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	cfg, err := config.Parse("the configuration", []byte(s.Config))
	if err != nil {
		return nil, err
	}
	sdk = sdk.Copy()
	sdk.APIOptions = append(sdk.APIOptions[:len(sdk.APIOptions):len(sdk.APIOptions)], bounded(cmp.Or(s.CallTimeout, DefaultCallTimeout)))
	client := dynamodb.NewFromConfig(sdk)
	c := cfg.DynamoDB
	store, err := dynamostore.New(client, dynamostore.Options{
		Table: s.Users, Ledger: s.Ledger, Meter: c.Meter, Limit: c.Limit, Format: cmp.Or(s.Format, c.Format), Logger: s.Options.Logger,
		Names: dynamostore.Names{Subject: c.Subject, Window: c.Window, Count: c.Count, Plan: c.Plan, Prefix: c.Prefix},
	})
	if err != nil {
		return nil, err
	}
	engine, err := headroom.New(store, cfg.Catalog, headroom.Options{Clock: s.Options.Clock, Logger: s.Options.Logger})
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Catalog.Warnings() {
		cmp.Or(s.Options.Logger, slog.Default()).Warn("headroom: " + w)
	}
	s.Reconcile.OlderThan = cmp.Or(s.Reconcile.OlderThan, DefaultOlderThan)
	jobs := &Jobs{Client: client, Table: s.Jobs, Shards: s.Shards, Keep: cmp.Or(s.Keep, max(DefaultKeep, longestHorizon(cfg.Catalog)+mayComeBack))}
	runs := &Executions{Client: sfn.NewFromConfig(sdk), StateMachine: s.StateMachine}
	if s.Options.Later == nil {
		s.Options.Later = (&Queue{Client: sqs.NewFromConfig(sdk)}).Later
	}
	p, err := pipeline.New(engine, cfg.Catalog, jobs, runs, s.Options)
	if err != nil {
		return nil, err
	}
	return &Stack{Pipeline: p, Engine: engine, Store: store, Jobs: jobs, Executions: runs, Config: cfg, Settings: s}, nil
}

// mayComeBack is how long a message may take to its last delivery: 4 days in its queue, 14 among
// the dead letters and 14 in the queue that it is sent on to.
const mayComeBack = 32 * 24 * time.Hour

func invalid(format string, args ...any) error {
	return headroom.Errorf(headroom.CodeInvalid, nil, format, args...)
}

// longestHorizon is how long at most a meter of the catalog remembers operation ids.
func longestHorizon(c *headroom.Catalog) (longest time.Duration) {
	for _, meter := range c.Meters() {
		longest = max(longest, c.Horizon(meter))
	}
	return longest
}
