package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
)

func (a *app) costCommand() *cobra.Command {
	var meter string
	cmd := &cobra.Command{
		Use:   "cost CLASS SECONDS",
		Short: "Print what a piece of work costs, by its class and length",
		Long: `Print the cost of a piece of work. The cost is the rate of its class times the number of
steps, and a step that was begun counts in full. With the built-in prices that is 1 slot
(standard), 2 slots (neural) or 4 slots (generative) for each minute.

SECONDS is in the unit of the price list. The built-in one counts seconds.`,
		Example: `  headroom cost neural 900
  headroom cost generative 61 --json`,
		Args: arguments("CLASS", "SECONDS"),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			prices, err := cfg.Catalog.Prices(meter)
			if err != nil {
				return err
			}
			quantity, err := strconv.ParseFloat(args[1], 64)
			if err != nil {
				return usageError("quantity %q: want a number", args[1])
			}
			cost, err := prices.Cost(args[0], quantity)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(map[string]any{"meter": meter, "class": args[0], "quantity": quantity, "cost": cost})
				return nil
			}
			fmt.Fprintln(a.stdout, cost)
			return nil
		},
	}
	meterFlag(cmd, &meter)
	return cmd
}

// meterFlag adds --meter.
func meterFlag(cmd *cobra.Command, meter *string) {
	cmd.Flags().StringVar(meter, "meter", "slots", "what is counted")
}
