package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) grantCommand() *cobra.Command {
	var (
		spend   spending
		id      string
		expires = timeFlag{name: "expires"}
		lasts   = lastsFlag{name: "for"}
	)
	cmd := &cobra.Command{
		Use:   "grant SUBJECT UNITS --id ID --expires TIME",
		Short: "Give a subject units beside those of its plan, once",
		Long: `Give SUBJECT UNITS beside those of its plan, until they expire: for goodwill, a gift, a purchase. One --id is granted once.

The plan's own units go first, then those of the grant that expires first. The end of a window does not move for them. With --for in place of --expires, a repeat keeps the expiry of the first, for as long as ids are remembered: a script that may run again much later gives --expires.`,
		Example: `  headroom grant alice 50 --id goodwill-204 --expires 2026-06-30
  headroom grant alice 50 --id goodwill-204 --for 720h
  headroom grant alice 500 --id invoice-9311 --for 90d`,
		Args: arguments("SUBJECT", "UNITS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "id", "an id for the grant, by which it is given only once"); err != nil {
				return err
			}
			if cmd.Flags().Changed("expires") == cmd.Flags().Changed("for") {
				return usageError("want either --expires, a time, or --for, a duration: when is what is left of the grant gone?")
			}
			return a.decide(cmd, args, &spend, said{done: "granted", again: "granted before"},
				func(ctx context.Context, e *headroom.Engine, r headroom.Request) (answer, error) {
					d, err := e.Grant(ctx, headroom.GrantRequest{
						Subject: r.Subject, Meter: r.Meter, ID: id, Units: r.Cost, Expires: expires.Time, Lasts: lasts.Duration, Now: r.Now,
					})
					given := answer{Decision: d, expires: expires.UTC().Truncate(time.Second)}
					if err != nil || lasts.Duration == 0 {
						return given, err
					}
					u, err := e.Usage(ctx, headroom.UsageRequest{Subject: r.Subject, Meter: r.Meter, Now: r.Now})
					if given.expires = u.Grants[id].Expires; given.expires.IsZero() {
						given.note = "the grant has expired since"
					}
					return given, err
				})
		},
	}
	spend.at.name = "at"
	meterFlag(cmd, &spend.request.Meter)
	cmd.Flags().Var(&spend.at, "at", "decide as of this time, for trials: it takes the place of every clock")
	cmd.Flags().StringVar(&id, "id", "", "id of the grant")
	cmd.Flags().Var(&expires, "expires", "when what is left of the grant is gone")
	cmd.Flags().Var(&lasts, "for", "how long the grant lasts from now on: 720h, 30d")
	return cmd
}
