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
		Short: "Print what work of a class and length costs",
		Long: `Print the cost of work: the rate of its class times the number of steps begun. With the built-in prices that is 1 (standard), 2 (neural) or 4 (generative) slots for each minute begun.

The quantity is in seconds where the price list counts seconds, as the built-in one does.`,
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
