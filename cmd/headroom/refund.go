package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) refundCommand() *cobra.Command {
	var (
		spend spending
		id    string
		began = timeFlag{name: "began"}
		units string
	)
	cmd := &cobra.Command{
		Use:   "refund SUBJECT --operation ID --id REFUND",
		Short: "Give back units that were charged, once",
		Long: `Give back to SUBJECT what an operation was charged: all that is left of it, or as much as
--units says. A refund happens only once for each --id, and never gives back more than was
charged.

If the charge lies in a window that has closed, its history is corrected, and the current
window gets nothing. Units that came from a grant go back to the grant, unless it has expired.
To give somebody units for the current window, see "grant".`,
		Example: `  headroom refund alice --operation job-17 --id refund-of-job-17
  headroom refund alice --operation job-17 --id complaint-204 --units 10`,
		Args: arguments("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "operation", "the id of the charge"); err != nil {
				return err
			}
			if err := needed(cmd, "id", "an id for the refund itself, so that it happens only once"); err != nil {
				return err
			}
			back := headroom.RefundRequest{ID: id, Began: began.Time}
			if cmd.Flags().Changed("units") {
				var err error
				if back.Units, err = parseUnits("--units", units); err != nil {
					return err
				}
				if back.Units < 1 {
					// To the engine, 0 means all that is left.
					return usageError("--units %d: want at least 1, or leave it out to give back all that is left", back.Units)
				}
			}
			return a.decide(cmd, args, &spend, said{done: "refunded", again: "refunded before"},
				func(ctx context.Context, e *headroom.Engine, r headroom.Request) (answer, error) {
					back.Subject, back.Meter, back.Operation, back.Now = r.Subject, r.Meter, r.Operation, r.Now
					d, err := e.Refund(ctx, back)
					return answer{Decision: d}, err
				})
		},
	}
	spend.operationFlags(cmd)
	cmd.Flags().StringVar(&id, "id", "", "id for the refund")
	cmd.Flags().Var(&began, "began", "when the work began; if the charge is not known, this tells\nwhether it is too old to be remembered")
	cmd.Flags().StringVar(&units, "units", "", "how many units to give back (default: all that is left)")
	return cmd
}
