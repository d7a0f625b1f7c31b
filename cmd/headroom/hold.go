package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) holdCommand() *cobra.Command {
	var (
		spend spending
		lasts = lastsFlag{name: "for"}
	)
	cmd := &cobra.Command{
		Use:   "hold SUBJECT UNITS --operation ID --for DURATION",
		Short: "Reserve units before the work, if they are there",
		Long: `Reserve UNITS, an estimate, for SUBJECT before the work begins: exit status 0 if they are held, 1 if refused, and then nothing has changed.

Held units count against the limit, so that parallel jobs cannot all pass on the same last units. When the work is done, "settle" charges its true cost; when it failed, "release" gives the units back. If neither comes, they come back by themselves when the time of --for is over.

Let it last longer than the work can take, with its retries. A repeat of the same command is answered with the first decision and moves no expiry: see "extend".`,
		Example: `  headroom hold alice 30 --operation job-17 --for 2h
  headroom settle alice 26 --operation job-17`,
		Args: arguments("SUBJECT", "UNITS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "operation", "the id of the piece of work, by which it is settled or released later"); err != nil {
				return err
			}
			if err := needed(cmd, "for", "how long the units stay reserved if nothing else happens, longer than the work can take: --for 2h"); err != nil {
				return err
			}
			return a.decide(cmd, args, &spend, said{done: "held", again: "held before"},
				func(ctx context.Context, e *headroom.Engine, r headroom.Request) (answer, error) {
					return untilExpiry(e.Hold(ctx, r, lasts.Duration))
				})
		},
	}
	spend.flags(cmd)
	cmd.Flags().Var(&lasts, "for", "how long the units stay reserved: 2h, 90m, 3d")
	return cmd
}

// untilExpiry says of a decision when the hold of its operation ends.
func untilExpiry(d headroom.Decision, err error) (answer, error) {
	a := answer{Decision: d, expires: d.Expires}
	if err == nil && d.Allowed && d.Expires.IsZero() {
		// The first decision stands, as for every repeat, but whoever is about to begin the work must know.
		a.note = "nothing is held under this id any more: it was settled or released, or its time is over"
	}
	return a, err
}
