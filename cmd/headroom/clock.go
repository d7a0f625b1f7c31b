package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/embedded"
)

func (a *app) clockCommand() *cobra.Command {
	return group("clock", "Show the clock of a store, or accept it after it was wrong", &cobra.Command{
		Use:   "show",
		Short: "Show the clock that the store uses",
		Long: `Show where the store takes the time from. The embedded store uses this host's clock and
remembers the latest time at which it has written. If the clock is more than 5 minutes
behind that time, the store does not trust it, and decides nothing.

The exit status is 0 if the clock is trusted, and 1 if not.`,
		Example: `  headroom clock show
  headroom clock show --json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.clock(cmd.Context(), func(store *embedded.Store) error { return a.showClock(cmd.Context(), store) })
		},
	}, &cobra.Command{
		Use:   "accept",
		Short: "Declare that this host's clock is right now",
		Long: `Declare that this host's clock is right now, and that the later time which the store
remembers was wrong. The store then decides again. Some windows may lie in the future,
because the wrong clock opened them. The next deduction for each subject moves them to the
current window, and nothing that was charged is lost.

Only the embedded store ever needs this.`,
		Example: `  headroom clock show
  headroom clock accept`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.clock(cmd.Context(), func(store *embedded.Store) error {
				if store == nil {
					return usageError("this store has no clock to accept; see \"headroom clock show\"")
				}
				if err := store.AcceptClock(cmd.Context()); err != nil {
					return err
				}
				return a.showClock(cmd.Context(), store)
			})
		},
	})
}

// clock calls use with the embedded store, or with nil if the store is of another kind.
func (a *app) clock(ctx context.Context, use func(*embedded.Store) error) error {
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	n, err := a.storeName()
	if err != nil {
		return err
	}
	if n.kind != "embedded" {
		return use(nil)
	}
	return a.withStore(ctx, cfg, func(store headroom.Store) error { return use(store.(*embedded.Store)) })
}

func (a *app) showClock(ctx context.Context, store *embedded.Store) error {
	n, err := a.storeName()
	if err != nil {
		return err
	}
	if store == nil {
		source := "this host's clock"
		if n.kind == "dynamodb" {
			source = "the Date of DynamoDB's answers"
		}
		if a.json {
			a.printJSON(map[string]any{"store": n.describe(), "source": source, "trusted": true})
			return nil
		}
		fmt.Fprintf(a.stdout, "%s uses %s: there is nothing to accept\n", n.describe(), source)
		return nil
	}
	c, err := store.Clock(ctx)
	if err != nil {
		return err
	}
	var highWater *time.Time
	mark := "none yet"
	if !c.HighWater.IsZero() {
		highWater, mark = &c.HighWater, c.HighWater.Format(time.RFC3339)
	}
	if a.json {
		a.printJSON(map[string]any{
			"store": n.describe(), "source": "this host's clock", "now": c.Now, "high_water": highWater, "trusted": c.Trusted,
		})
	} else {
		table(a.stdout, "ll", [][]string{
			{"store", n.describe()},
			{"this host's clock", c.Now.Format(time.RFC3339)},
			{"latest write", mark},
			{"trusted", yesNo(c.Trusted)},
		})
	}
	if !c.Trusted {
		if !a.json {
			fmt.Fprintln(a.stdout, "\nOne of the two times is wrong. Make sure that the clock is right, then run: headroom clock accept")
		}
		return errRefused
	}
	return nil
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
