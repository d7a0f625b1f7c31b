package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) extendCommand() *cobra.Command {
	var (
		spend spending
		lasts = lastsFlag{name: "for"}
	)
	cmd := &cobra.Command{
		Use:     "extend SUBJECT --operation ID --for DURATION",
		Short:   "Let a hold last longer, or shorter, from now on",
		Long:    `Let a live hold last from now on as long as --for says. A hold that has expired cannot be extended: its units have come back, and others may have them.`,
		Example: `  headroom extend alice --operation job-17 --for 30m`,
		Args:    arguments("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "operation", "the id of the hold"); err != nil {
				return err
			}
			if err := needed(cmd, "for", "how long the hold lasts from now on: --for 30m"); err != nil {
				return err
			}
			return a.decide(cmd, args, &spend, said{done: "extended", again: "extended before"},
				func(ctx context.Context, e *headroom.Engine, r headroom.Request) (answer, error) {
					return untilExpiry(e.Extend(ctx, r, lasts.Duration))
				})
		},
	}
	spend.operationFlags(cmd)
	cmd.Flags().Var(&lasts, "for", "how long the hold lasts from now on: 2h, 90m, 3d")
	return cmd
}
