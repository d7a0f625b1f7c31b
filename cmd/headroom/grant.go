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
		Short: "Give a subject units on top of its plan, once",
		Long: `Give SUBJECT UNITS on top of those of its plan, until they expire: as goodwill, a gift or a
purchase. An --id is granted only once.

The plan's own units are spent first, then those of the grant that expires first. No window
ends earlier or later because of a grant.

If you give --for in place of --expires, a repeat keeps the first expiry, for as long as ids
are remembered. In a script that may run again much later, use --expires.`,
		Example: `  headroom grant alice 50 --id goodwill-204 --expires 2026-06-30
  headroom grant alice 50 --id goodwill-204 --for 720h
  headroom grant alice 500 --id invoice-9311 --for 90d`,
		Args: arguments("SUBJECT", "UNITS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "id", "an id for the grant, so that it is given only once"); err != nil {
				return err
			}
			if cmd.Flags().Changed("expires") == cmd.Flags().Changed("for") {
				return usageError("want either --expires, a time, or --for, a duration, so that the grant ends")
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
						given.note = "the grant has expired"
					}
					return given, err
				})
		},
	}
	spend.at.name = "at"
	meterFlag(cmd, &spend.request.Meter)
	cmd.Flags().Var(&spend.at, "at", atUsage)
	cmd.Flags().StringVar(&id, "id", "", "id for the grant")
	cmd.Flags().Var(&expires, "expires", "when the grant ends")
	cmd.Flags().Var(&lasts, "for", "how long the grant lasts from now on, like 720h or 30d")
	return cmd
}
