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
		Long: `Reserve UNITS, an estimate of the cost, for SUBJECT before the work begins. The exit status
is 0 if the units are held. It is 1 if they are refused, and then nothing has changed.

Held units count against the limit, so that parallel jobs cannot all start on the same last
units. When the work is done, "settle" charges its true cost. If the work fails, "release"
gives the units back. If neither happens, the units come back by themselves after the time
that --for gives, or a little later: by less than a sixteenth of it, or than a second. The
answer says when.

With --at-least, fewer units than UNITS are held if no more are left. The answer says how many,
so that the work can be cut to fit: an answer of a language model, for instance.

Let the hold last longer than the work can take with all its retries. If you repeat the same
command, you get the first answer again, and the hold does not last longer. To let it last
longer, see "extend".`,
		Example: `  headroom hold alice 30 --operation job-17 --for 2h
  headroom settle alice 26 --operation job-17
  headroom hold alice 1000 --at-least 100 --operation call-5 --for 10m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "operation", "the id of the work, by which you settle or release it later"); err != nil {
				return err
			}
			if err := needed(cmd, "for", "how long the units stay reserved, which must be longer than the work can take, for instance --for 2h"); err != nil {
				return err
			}
			return a.decide(cmd, args, &spend, said{done: "held", again: "held before"},
				func(ctx context.Context, e *headroom.Engine, r headroom.Request) (answer, error) {
					return untilExpiry(e.Hold(ctx, r, lasts.Duration))
				})
		},
	}
	spend.flags(cmd)
	spend.costsFlag(cmd, "SUBJECT", "UNITS")
	spend.leastFlag(cmd)
	cmd.Flags().Var(&lasts, "for", "how long the units stay reserved, like 2h, 90m or 3d")
	return cmd
}

// untilExpiry adds to a decision when the hold of its operation ends.
func untilExpiry(d headroom.Decision, err error) (answer, error) {
	a := answer{Decision: d, expires: d.Expires}
	if err == nil && d.Allowed && !d.Live {
		// A repeat always gets the first answer, but whoever is about to begin the work must know.
		a.note = "nothing is held under this id any more, since it was settled or released or has expired"
	}
	return a, err
}
