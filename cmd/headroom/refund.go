package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) refundCommand() *cobra.Command {
	var (
		spend spending
		id    string
		began = timeFlag{name: "began"}
		units []string
	)
	cmd := &cobra.Command{
		Use:   "refund SUBJECT --operation ID --id REFUND",
		Short: "Give back units that were charged, once",
		Long: `Give back to SUBJECT what an operation was charged: all that is left of it, or as much as
--units says. A refund happens only once for each --id, and never gives back more than was
charged.

If the charge lies in a window that has closed, its history is corrected, and the current
window gets nothing. Units that came from a grant go back to the grant, unless it has expired.
To give somebody units for the current window, see "grant".

If the work was charged in several meters, --meter may name any of them, and all that is left
comes back in each. With --units METER=UNITS only the meters that you name give back.`,
		Example: `  headroom refund alice --operation job-17 --id refund-of-job-17
  headroom refund alice --operation job-17 --id complaint-204 --units 10
  headroom refund alice --operation call-5 --id wrong-price --units money=300`,
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
				if err := unitsBack(&spend, &back, units); err != nil {
					return err
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
	cmd.Flags().StringArrayVar(&units, "units", nil, "how many units to give back, or METER=UNITS, once for each\nmeter (default: all that is left, in all meters)")
	return cmd
}

// unitsBack reads --units: a number, or METER=UNITS once for each meter.
func unitsBack(s *spending, back *headroom.RefundRequest, texts []string) error {
	all := []headroom.Amount{{}}
	var err error
	if len(texts) == 1 && !strings.Contains(texts[0], "=") {
		all[0].Meter = s.request.Meter
		all[0].Cost, err = parseUnits("--units", texts[0])
	} else {
		all, err = parseAmounts("--units", texts)
	}
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.Cost < 1 {
			// To the engine, 0 means all that is left.
			return usageError("--units %d: want at least 1, or leave it out to give back all that is left", a.Cost)
		}
	}
	s.request.Meter, back.Units, back.More = all[0].Meter, all[0].Cost, all[1:]
	return nil
}
