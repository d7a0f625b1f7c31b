package main

import (
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) preflightCommand() *cobra.Command {
	var spend spending
	cmd := &cobra.Command{
		Use:   "preflight SUBJECT COST",
		Short: "Say whether a cost would be admitted now; write nothing",
		Long: `Say whether COST units would be admitted for SUBJECT now: a best-effort look before the work, which writes nothing and promises nothing. Exit status 0 if they would be, 1 if not.

With --operation, an operation that was charged before is allowed as the repeat that it is.`,
		Example: `  headroom preflight alice 30
  headroom preflight alice 30 && start-the-work`,
		Args: arguments("SUBJECT", "COST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decide(cmd, args, &spend, charged, plainly((*headroom.Engine).Preflight))
		},
	}
	spend.flags(cmd)
	return cmd
}
