package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) deductCommand() *cobra.Command {
	var (
		spend spending
		over  string
		began = timeFlag{name: "began"}
	)
	cmd := &cobra.Command{
		Use:   "deduct SUBJECT COST --operation ID",
		Short: "Charge a cost once, if the units are there",
		Long: `Charge SUBJECT for COST units, if they are there: exit status 0 if they were charged, 1 if refused, and then nothing has changed.

Call it after the work has succeeded. One operation id is charged once: repeat the same command whenever its outcome is not known. With --over record the units are charged past the limit too, since the work is done.`,
		Example: `  headroom deduct alice 30 --operation job-17
  headroom deduct alice 30 --operation job-17 --over record
  headroom deduct alice 30 --operation job-17 --began 2026-05-31T20:00:00Z`,
		Args: arguments("SUBJECT", "COST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("operation") {
				return usageError("--operation is missing: the id by which this piece of work is charged only once")
			}
			switch over {
			case "refuse":
			case "record":
				spend.request.Over = headroom.OverRecord
			default:
				return usageError("--over %q: want refuse or record", over)
			}
			spend.request.Began = began.Time
			return a.decide(cmd, args, &spend, (*headroom.Engine).Deduct)
		},
	}
	spend.flags(cmd)
	cmd.Flags().StringVar(&over, "over", "refuse", "what to do with a cost that does not fit: refuse, or record it past the limit")
	cmd.Flags().Var(&began, "began", "when the work began: an operation older than the horizon is an error, never charged twice")
	return cmd
}

// spending is what preflight and deduct have in common.
type spending struct {
	request headroom.Request
	at      timeFlag
}

func (s *spending) flags(cmd *cobra.Command) {
	s.at.name = "at"
	meterFlag(cmd, &s.request.Meter)
	cmd.Flags().StringVar(&s.request.Operation, "operation", "", "id of the piece of work")
	cmd.Flags().StringVar(&s.request.Plan, "plan", "", "plan of a subject that has none stored (default: the configuration's default plan)")
	cmd.Flags().Var(&s.at, "at", "decide as of this time, for trials: it takes the place of every clock")
}

// decide asks the engine and prints its answer.
func (a *app) decide(cmd *cobra.Command, args []string, s *spending, ask func(*headroom.Engine, context.Context, headroom.Request) (headroom.Decision, error)) error {
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	r := s.request
	r.Subject, r.Now = args[0], s.at.Time
	if r.Cost, err = parseUnits("cost", args[1]); err != nil {
		return err
	}
	return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
		d, err := ask(engine, cmd.Context(), r)
		if err != nil {
			return err
		}
		a.printDecision(r, d)
		if !d.Allowed {
			return errRefused
		}
		return nil
	})
}
