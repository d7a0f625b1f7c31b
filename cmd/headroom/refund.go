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
		Short: "Give back units of a charge, once",
		Long: `Give back to SUBJECT what an operation was charged, all that is left of it or --units of it: once for each --id, and never more than was charged.

A charge of a window that has closed is corrected in the history, and the present window gets nothing; units that came from a grant go back to the grant while it lives. To give somebody units for the present window, see "grant".`,
		Example: `  headroom refund alice --operation job-17 --id refund-of-job-17
  headroom refund alice --operation job-17 --id complaint-204 --units 10`,
		Args: arguments("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "operation", "the id of the charge"); err != nil {
				return err
			}
			if err := needed(cmd, "id", "an id for the refund itself, by which it happens only once"); err != nil {
				return err
			}
			back := headroom.RefundRequest{ID: id, Began: began.Time}
			if cmd.Flags().Changed("units") {
				var err error
				if back.Units, err = parseUnits("--units", units); err != nil {
					return err
				}
				if back.Units < 1 {
					// The engine takes 0 for all that is left.
					return usageError("--units %d: want at least 1; without --units all that is left comes back", back.Units)
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
	cmd.Flags().StringVar(&id, "id", "", "id of the refund")
	cmd.Flags().Var(&began, "began", "when the work began: of a charge that is not known it says whether that is too old to be known")
	cmd.Flags().StringVar(&units, "units", "", "how many units come back (default: all that is left of the charge)")
	return cmd
}
