package main

import (
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) settleCommand() *cobra.Command {
	var spend spending
	cmd := &cobra.Command{
		Use:   "settle SUBJECT UNITS --operation ID",
		Short: "Charge the true cost of held work, and end the hold",
		Long: `Charge SUBJECT for UNITS, the true cost of an operation that was held, and end the hold: exit status 0 if they were charged, 1 if refused, and then the hold stays as it was.

What was held is there for it. What the true cost has beyond that is charged if it fits; if not, it is refused, or with --over record charged past the limit, since the work is done. Of a hold that has expired or was released it is a plain deduction. One id is settled once: repeat the same command whenever its outcome is not known.`,
		Example: `  headroom settle alice 26 --operation job-17
  headroom settle alice 41 --operation job-17 --over record`,
		Args: arguments("SUBJECT", "UNITS"),
	}
	spend.flags(cmd)
	over := spend.overFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "operation", "the id under which the units were held"); err != nil {
			return err
		}
		if err := over(); err != nil {
			return err
		}
		return a.decide(cmd, args, &spend, said{done: "settled", again: "settled before"}, plainly((*headroom.Engine).Settle))
	}
	return cmd
}
