package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// reconciliation is one run of the verb reconcile.
type reconciliation struct {
	app     *app
	jobs    jobsFlags
	machine string // the ARN of the state machine
	rules   pipelineFlags
	options pipeline.ReconcileOptions
	debts   bool // finish only debts
}

func (a *app) reconcileCommand() *cobra.Command {
	r := reconciliation{app: a, options: pipeline.ReconcileOptions{
		OlderThan: 90 * time.Minute, Workers: pipeline.DefaultWorkers, Describes: pipeline.DefaultDescribes,
	}}
	o := &r.options
	cmd := &cobra.Command{
		Use:   "reconcile --jobs TABLE --state-machine ARN --store dynamodb:TABLE",
		Short: "Finish jobs that were left open or uncharged, and debts to organisations",
		Long: `Look at each job that has been open for a long time, ask how its execution stands, and finish
the job as the callback would have done. You may run this twice at the same time, and while the
callback runs: whatever is done twice happens once. A run continues where the last one stopped.

Before that, it finishes debts. A debt is left when "deduct --within" ended before it could
charge the organisation. With --debts it does only that. This works on any store, and needs no
table of jobs.

It charges by the rules of the stack, which the stack's scheduled function keeps with the table
of jobs. If a --config or --over differs from them, that is an error.

The exit status is 0 if everything that could be finished is, and 2 if something could not.`,
		Example: `  headroom reconcile --jobs stack-Jobs-ABC --store dynamodb:stack-Users-ABC?ledger=stack-Ledger-ABC \
    --state-machine arn:aws:states:eu-central-1:123456789012:stateMachine:stack-podcast
  headroom reconcile --dry-run
  headroom reconcile --debts --store dynamodb:users
  headroom reconcile --describes 50 --workers 32`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.debts {
				return a.reconcileDebts(cmd)
			}
			return r.run(cmd)
		},
	}
	r.jobs.flags(cmd)
	cmd.Flags().StringVar(&r.machine, "state-machine", "", "ARN of the state machine (default: $HEADROOM_STATE_MACHINE)")
	cmd.Flags().DurationVar(&o.OlderThan, "older-than", o.OlderThan, "leave younger jobs alone; must be longer than the state\nmachine's timeout")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what would be done, and change nothing")
	cmd.Flags().IntVar(&o.Workers, "workers", o.Workers, "how many jobs to handle at once")
	cmd.Flags().Float64Var(&o.Describes, "describes", o.Describes, "how many executions to ask about each second; AWS limits this\nfor each account and region")
	cmd.Flags().BoolVar(&r.debts, "debts", false, "finish only the debts to organisations")
	r.rules.over(cmd)
	return cmd
}

// run finishes debts and jobs.
func (r *reconciliation) run(cmd *cobra.Command) error {
	a, ctx := r.app, cmd.Context()
	if r.machine = cmp.Or(r.machine, a.env("HEADROOM_STATE_MACHINE")); r.machine == "" {
		return usageError("--state-machine is missing: the ARN of the state machine")
	}
	jobs, err := r.jobs.open(ctx, a)
	if err != nil {
		return err
	}
	cfg, opts, err := a.stackRules(cmd, jobs, &r.rules)
	if err != nil {
		return err
	}
	opts.Logger = slog.New(slog.NewTextHandler(a.stderr, nil))
	sdk, err := r.jobs.at.load(ctx)
	if err != nil {
		return err
	}
	executions := &onaws.Executions{Client: sfn.NewFromConfig(sdk), StateMachine: r.machine}
	return a.withEngine(ctx, cfg, func(engine *headroom.Engine) error {
		p, err := pipeline.New(engine, cfg.Catalog, jobs, executions, opts)
		if err != nil {
			return err
		}
		return r.finish(ctx, engine, p)
	})
}

// finish finishes debts and jobs, and prints what came of it.
func (r *reconciliation) finish(ctx context.Context, engine *headroom.Engine, p *pipeline.Pipeline) error {
	var done onaws.Reconciliation
	var owed, err error
	if r.options.DryRun {
		r.options.Each = r.app.wouldDo
	} else {
		done.Debts, owed = engine.FinishDebts(ctx)
	}
	done.Reconciliation, err = p.Reconcile(ctx, r.options)
	if err == nil && done.More && ctx.Err() != nil {
		err = headroom.Errorf(codeInterrupted, ctx.Err(), "interrupted; the next run continues here")
	}
	r.app.printReconciliation(done, r.options)
	return cmp.Or(err, owed)
}

func (a *app) printReconciliation(r onaws.Reconciliation, o pipeline.ReconcileOptions) {
	if a.json {
		a.printJSON(r)
		return
	}
	if !o.DryRun {
		a.printDebts(r.Debts)
	}
	fmt.Fprintf(a.stdout, "%s open for more than %s: %d finished, %d still running, %d waiting in the queue, %d could not be finished\n",
		count(int64(r.Seen), "job"), o.OlderThan, r.Finished, r.Running, r.Waiting, r.Failed)
}

// reconcileDebts finishes only the debts.
func (a *app) reconcileDebts(cmd *cobra.Command) error {
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
		n, err := engine.FinishDebts(cmd.Context())
		if a.json {
			a.printJSON(map[string]any{"debts": n})
		} else {
			a.printDebts(n)
		}
		return err
	})
}

// printDebts says what became of the debts.
func (a *app) printDebts(n headroom.Finished) {
	if n == (headroom.Finished{}) {
		fmt.Fprintln(a.stdout, "there are no debts to organisations")
		return
	}
	fmt.Fprintf(a.stdout, "debts to organisations: %d settled, %d too old to settle, %d could not be settled now\n", n.Settled, n.TooOld, n.Left)
}

// wouldDo prints what a dry run found out about a job.
func (a *app) wouldDo(j pipeline.Job, what string, err error) {
	if err != nil {
		what = err.Error()
	}
	if a.json {
		a.printJSON(map[string]any{"job": j.ID, "user": j.UserID, "status": j.Status, "would": what})
		return
	}
	fmt.Fprintf(a.stdout, "%s of %s, %s: %s\n", printable(j.ID), printable(j.UserID), jobStatus(j), printable(what))
}

// stackRules returns the rules by which a stack decides, as it keeps them with its table of jobs.
// The flags and the configuration must not differ from them. If no rules are kept, the flags and
// the configuration hold.
func (a *app) stackRules(cmd *cobra.Command, jobs *onaws.Jobs, flags *pipelineFlags) (*config.Config, pipeline.Options, error) {
	kept, found, err := jobs.Rules(cmd.Context())
	if err != nil {
		return nil, pipeline.Options{}, err
	}
	given := kept
	if flags != nil && (!found || cmd.Flags().Changed("over")) {
		opts, err := flags.options(nil)
		if err != nil {
			return nil, opts, err
		}
		given.Over = onaws.Settings{Options: opts}.Rules().Over
	}
	if path := cmp.Or(a.config, a.env("HEADROOM_CONFIG")); path != "" {
		if _, err := a.loadConfig(); err != nil { // for its errors, which name the file
			return nil, pipeline.Options{}, err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, pipeline.Options{}, usageError("the configuration %s cannot be read", path)
		}
		given.Config = string(text)
	}
	if found {
		what, err := kept.Differ(given)
		if err != nil {
			return nil, pipeline.Options{}, err
		}
		if what != "" {
			return nil, pipeline.Options{}, headroom.Errorf(headroom.Conflict, nil, "the stack of %s decides by other rules, which differ in %s; leave out --config and --over to charge as it does", jobs.Table, what)
		}
	}
	cfg, err := config.Parse("the configuration of the stack", []byte(given.Config))
	if err == nil && given.Format != 0 {
		// While the release before still runs, nothing may be written that it cannot read.
		cfg.DynamoDB.Format = given.Format
	}
	return cfg, pipeline.Options{Plan: given.Plan, Meter: given.Meter, Refuse: given.Over == "refuse"}, err
}

// pipelineFlags are the flags for the rules of the pipeline.
type pipelineFlags struct {
	mode, overWhat string
	holdFor        time.Duration
}

func (f *pipelineFlags) over(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.overWhat, "over", "record", "what to do if the quota is spent when the work is done: record\nthe cost past the limit, or refuse it")
}

func (f *pipelineFlags) flags(cmd *cobra.Command) {
	f.over(cmd)
	cmd.Flags().StringVar(&f.mode, "mode", "preflight", "what to do before the work: preflight, which only looks, or\nhold, which reserves units")
	cmd.Flags().DurationVar(&f.holdFor, "hold", 3*time.Hour, "how long a hold lasts")
}

func (f *pipelineFlags) options(logger *slog.Logger) (pipeline.Options, error) {
	opts := pipeline.Options{Logger: logger}
	switch f.mode {
	case "", "preflight":
	case "hold":
		opts.Hold = f.holdFor
	default:
		return opts, usageError("--mode %q: want preflight or hold", f.mode)
	}
	switch f.overWhat {
	case "record":
	case "refuse":
		opts.Refuse = true
	default:
		return opts, usageError("--over %q: want record or refuse", f.overWhat)
	}
	return opts, nil
}
