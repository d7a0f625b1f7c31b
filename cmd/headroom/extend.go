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
		Use:   "extend SUBJECT --operation ID --for DURATION",
		Short: "Let a hold last longer, or less long",
		Long: `Let a live hold end after the time that --for gives, counted from now. A hold that has
expired cannot be extended, because its units have come back and may be spent.`,
		Example: `  headroom extend alice --operation job-17 --for 30m`,
		Args:    arguments("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "operation", "the id of the hold"); err != nil {
				return err
			}
			if err := needed(cmd, "for", "how long the hold lasts from now on, for instance --for 30m"); err != nil {
				return err
			}
			return a.decide(cmd, args, &spend, said{done: "extended", again: "extended before"},
				func(ctx context.Context, e *headroom.Engine, r headroom.Request) (answer, error) {
					return untilExpiry(e.Extend(ctx, r.Held(), lasts.Duration))
				})
		},
	}
	spend.operationFlags(cmd)
	cmd.Flags().Var(&lasts, "for", "how long the hold lasts from now on, like 2h, 90m or 3d")
	return cmd
}
