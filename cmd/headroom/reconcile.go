package main

import (
	"cmp"
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

func (a *app) reconcileCommand() *cobra.Command {
	var flags jobsFlags
	var machine string
	var rules pipelineFlags
	debtsAlone := false
	o := pipeline.ReconcileOptions{OlderThan: 90 * time.Minute, Workers: pipeline.DefaultWorkers, Describes: pipeline.DefaultDescribes}
	cmd := &cobra.Command{
		Use:   "reconcile --jobs TABLE --state-machine ARN --store dynamodb:TABLE",
		Short: "Finish jobs whose last event never came, or whose charge is pending, and what users owe to organisations",
		Long: `Look at each job that has been open for long, ask its execution how it stands, and finish it as the callback would have done. It may run twice at a time and beside the callback: what it does twice, it does once. It goes on where the last run stopped.

Before that it finishes the debts of users to organisations: of a deduct --within that ended before the organisation was charged. With --debts it does only that, on any store, and needs no table of jobs.

It charges by the rules of the stack, which its scheduled function keeps with the table of jobs. A --config or --over that says otherwise is an error, not another price.

Exit status 0 if each job that could be finished is, 2 if one could not.`,
		Example: `  headroom reconcile --jobs stack-Jobs-ABC --store dynamodb:stack-Users-ABC?ledger=stack-Ledger-ABC \
    --state-machine arn:aws:states:eu-central-1:123456789012:stateMachine:stack-podcast
  headroom reconcile --dry-run
  headroom reconcile --debts --store dynamodb:users
  headroom reconcile --describes 50 --workers 32`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if debtsAlone {
				return a.reconcileDebts(cmd)
			}
			if machine = cmp.Or(machine, a.env("HEADROOM_STATE_MACHINE")); machine == "" {
				return usageError("--state-machine is missing: the ARN of the state machine")
			}
			jobs, err := flags.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			cfg, opts, err := a.stackRules(cmd, jobs, &rules)
			if err != nil {
				return err
			}
			opts.Logger = slog.New(slog.NewTextHandler(a.stderr, nil))
			sdk, err := flags.at.load(cmd.Context())
			if err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
				p, err := pipeline.New(engine, cfg.Catalog, jobs, &onaws.Executions{Client: sfn.NewFromConfig(sdk), StateMachine: machine}, opts)
				if err != nil {
					return err
				}
				if o.DryRun {
					o.Each = a.wouldDo
				}
				all := onaws.Reconciliation{}
				var owed error
				if !o.DryRun {
					all.Debts, owed = engine.FinishDebts(cmd.Context())
				}
				r, err := p.Reconcile(cmd.Context(), o)
				all.Reconciliation = r
				if err == nil && r.More && cmd.Context().Err() != nil {
					err = headroom.Errorf(codeInterrupted, cmd.Context().Err(), "interrupted: the next run goes on there")
				}
				if a.json {
					a.printJSON(all)
				} else {
					if !o.DryRun {
						a.printDebts(all.Debts)
					}
					fmt.Fprintf(a.stdout, "%s open for more than %s: %d finished, %d still running, %d waiting in the queue, %d could not be finished\n",
						count(int64(r.Seen), "job"), o.OlderThan, r.Finished, r.Running, r.Waiting, r.Failed)
				}
				return cmp.Or(err, owed)
			})
		},
	}
	flags.flags(cmd)
	cmd.Flags().StringVar(&machine, "state-machine", "", "ARN of the state machine (default: $HEADROOM_STATE_MACHINE)")
	cmd.Flags().DurationVar(&o.OlderThan, "older-than", o.OlderThan, "leave alone what is younger: longer than the state machine's timeout")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what would be done, and change nothing")
	cmd.Flags().IntVar(&o.Workers, "workers", o.Workers, "how many jobs are handled at once")
	cmd.Flags().Float64Var(&o.Describes, "describes", o.Describes, "how many executions are asked about a second; AWS has a limit an account and region")
	cmd.Flags().BoolVar(&debtsAlone, "debts", false, "finish only what users owe to organisations")
	rules.over(cmd)
	return cmd
}

// reconcileDebts finishes debts alone.
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

// printDebts tells of debts, if there were any.
func (a *app) printDebts(n headroom.Finished) {
	if n == (headroom.Finished{}) {
		fmt.Fprintln(a.stdout, "no debts to organisations")
		return
	}
	fmt.Fprintf(a.stdout, "debts to organisations: %d settled, %d too old to tell, %d could not be settled now\n", n.Settled, n.TooOld, n.Left)
}

// wouldDo tells of one job what a dry run found.
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

// stackRules are the rules by which the stack of a table of jobs decides. What the flags say must
// not differ from them. Where no stack has kept any, the flags and the configuration hold.
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
		if _, err := a.loadConfig(); err != nil { // its errors name the file
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
			return nil, pipeline.Options{}, headroom.Errorf(headroom.Conflict, nil, "the stack of %s decides by other rules, which differ in %s: leave out --config and --over to charge as it does", jobs.Table, what)
		}
	}
	cfg, err := config.Parse("the configuration of the stack", []byte(given.Config))
	if err == nil && given.Format != 0 {
		// While the release before still runs, nothing may be written that it cannot read.
		cfg.DynamoDB.Format = given.Format
	}
	return cfg, pipeline.Options{Plan: given.Plan, Meter: given.Meter, Refuse: given.Over == "refuse"}, err
}

// pipelineFlags are the rules of the pipeline.
type pipelineFlags struct {
	mode, overWhat string
	holdFor        time.Duration
}

func (f *pipelineFlags) over(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.overWhat, "over", "record", "what to do when the quota is spent after the work: record it past the limit, or refuse")
}

func (f *pipelineFlags) flags(cmd *cobra.Command) {
	f.over(cmd)
	cmd.Flags().StringVar(&f.mode, "mode", "preflight", "what to do before the work: preflight, a look, or hold, a reservation")
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
