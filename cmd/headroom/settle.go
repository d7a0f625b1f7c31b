package main

import (
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) settleCommand() *cobra.Command {
	var spend spending
	cmd := &cobra.Command{
		Use:   "settle SUBJECT UNITS --operation ID",
		Short: "Charge the true cost of work whose units were held, and end the hold",
		Long: `Charge SUBJECT for UNITS, the true cost of work whose units were held, and end the hold.
The exit status is 0 if the units were charged. It is 1 if they were refused, and the hold
then stays as it was.

The held units are sure to be there. If the true cost is higher, the rest must fit the limit.
If it does not fit, the settlement is refused. With --over record the rest is then charged
past the limit, since the work is done. After a hold has expired or was released, settle
charges the whole cost as if nothing had been held.

An id is settled only once. If you do not know the outcome, repeat the same command.`,
		Example: `  headroom settle alice 26 --operation job-17
  headroom settle alice 41 --operation job-17 --over record`,
	}
	spend.flags(cmd)
	spend.costsFlag(cmd, "SUBJECT", "UNITS")
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
