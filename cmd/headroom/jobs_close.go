package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

// noExecutions is for verbs that neither start executions nor ask about them.
type noExecutions struct{}

func (noExecutions) Start(context.Context, string, []byte) error {
	return usageError("no state machine is given")
}

func (noExecutions) Describe(context.Context, string) (pipeline.Execution, bool, error) {
	return pipeline.Execution{}, false, usageError("no state machine is given")
}

func (noExecutions) Finished(context.Context, string) ([]byte, bool, error) {
	return nil, false, usageError("no state machine is given")
}

func (a *app) jobsCloseCommand() *cobra.Command {
	var flags jobsFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "close JOB --reason TEXT --jobs TABLE --store dynamodb:TABLE",
		Short: "End an open job by hand, and release what it holds",
		Long: `End an open job that will not end by itself, and keep the reason in its record. A job that
is queued or running becomes failed, and what it holds is released. If its work succeeds after
all, that counts, and is charged. A job whose charge is pending becomes unpaid for good, and is
not charged any more.

It is an error if the job has ended already. It is harmless to close a job twice.`,
		Example: `  headroom jobs close episode-17 --reason "ticket 4711: sent by mistake" --jobs stack-Jobs-ABC --store dynamodb:stack-Users-ABC?ledger=stack-Ledger-ABC`,
		Args:    arguments("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError("--reason is missing: why the job is closed, for whoever asks later")
			}
			jobs, err := flags.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			cfg, _, err := a.stackRules(cmd, jobs, nil)
			if err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
				p, err := pipeline.New(engine, cfg.Catalog, jobs, noExecutions{}, pipeline.Options{Logger: a.logger()})
				if err != nil {
					return err
				}
				j, err := p.Close(cmd.Context(), args[0], reason)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(jobJSON(j))
					return nil
				}
				fmt.Fprintf(a.stdout, "%s is closed: %s\n", printable(j.ID), jobStatus(j))
				return nil
			})
		},
	}
	flags.flags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why the job is closed; this is kept in its record")
	return cmd
}
