package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) releaseCommand() *cobra.Command {
	var spend spending
	cmd := &cobra.Command{
		Use:   "release SUBJECT --operation ID",
		Short: "Give back held units, because the work was not done",
		Long: `Give back the units of a hold, because the work was not done. If the work succeeds after
all, "settle" still charges it, as if nothing had been held.

It is an error if the hold has expired. Nothing is lost then, since its units have come back
by themselves.`,
		Example: `  headroom release alice --operation job-17`,
		Args:    arguments("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "operation", "the id of the hold"); err != nil {
				return err
			}
			return a.decide(cmd, args, &spend, said{done: "released", again: "released before"},
				func(ctx context.Context, e *headroom.Engine, r headroom.Request) (answer, error) {
					d, err := e.Release(ctx, r.Held())
					return answer{Decision: d}, err
				})
		},
	}
	spend.operationFlags(cmd)
	return cmd
}
