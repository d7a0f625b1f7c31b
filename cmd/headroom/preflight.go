package main

import (
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) preflightCommand() *cobra.Command {
	var spend spending
	cmd := &cobra.Command{
		Use:   "preflight SUBJECT COST",
		Short: "Say whether a cost would be admitted now, without writing anything",
		Long: `Say whether COST units would be admitted for SUBJECT now. This is a look before the work.
It writes nothing and promises nothing. The exit status is 0 if the units would be admitted,
and 1 if not.

With --operation, an operation that was charged before counts as a repeat, and is allowed.`,
		Example: `  headroom preflight alice 30
  headroom preflight alice 30 && start-the-work
  headroom preflight alice 1000 --at-least 100`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decide(cmd, args, &spend, charged, plainly((*headroom.Engine).Preflight))
		},
	}
	spend.flags(cmd)
	spend.costsFlag(cmd, "SUBJECT", "COST")
	spend.leastFlag(cmd)
	return cmd
}
