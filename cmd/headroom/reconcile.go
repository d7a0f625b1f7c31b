package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

func (a *app) reconcileCommand() *cobra.Command {
	var flags jobsFlags
	var machine string
	var rules pipelineFlags
	olderThan := 90 * time.Minute
	cmd := &cobra.Command{
		Use:   "reconcile --jobs TABLE --state-machine ARN --store dynamodb:TABLE",
		Short: "Finish jobs whose last event never came, or whose charge is pending",
		Long: `Look at each job that has been open for long, ask its execution how it stands, and finish it as the callback would have done. It may run twice at a time and beside the callback: what it does twice, it does once.

Exit status 0 if each job that could be finished is, 2 if one could not.`,
		Example: `  headroom reconcile --jobs stack-Jobs-ABC --store dynamodb:stack-Users-ABC?ledger=stack-Ledger-ABC \
    --state-machine arn:aws:states:eu-central-1:123456789012:stateMachine:stack-podcast`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if machine = cmp.Or(machine, a.env("HEADROOM_STATE_MACHINE")); machine == "" {
				return usageError("--state-machine is missing: the ARN of the state machine")
			}
			opts, err := rules.options(slog.New(slog.NewTextHandler(a.stderr, nil)))
			if err != nil {
				return err
			}
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			jobs, err := flags.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			sdk, err := flags.at.load(cmd.Context())
			if err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
				p, err := pipeline.New(engine, cfg.Catalog, jobs, &onaws.Executions{Client: sfn.NewFromConfig(sdk), StateMachine: machine}, opts)
				if err != nil {
					return err
				}
				r, err := p.Reconcile(cmd.Context(), pipeline.ReconcileOptions{OlderThan: olderThan})
				if a.json {
					a.printJSON(r)
				} else {
					fmt.Fprintf(a.stdout, "%s open for more than %s: %d finished, %d still running, %d waiting in the queue, %d could not be finished\n",
						count(int64(r.Seen), "job"), olderThan, r.Finished, r.Running, r.Waiting, r.Failed)
				}
				return err
			})
		},
	}
	flags.flags(cmd)
	cmd.Flags().StringVar(&machine, "state-machine", "", "ARN of the state machine (default: $HEADROOM_STATE_MACHINE)")
	cmd.Flags().DurationVar(&olderThan, "older-than", olderThan, "leave alone what is younger: longer than the state machine's timeout")
	rules.over(cmd)
	return cmd
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
