package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

func (a *app) plansCommand() *cobra.Command {
	return group("plans", "Check a configuration, or set a subject's plan",
		a.plansCheckCommand(), a.plansSetCommand(), a.plansUnsetCommand())
}

func (a *app) plansCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration, and show what it says",
		Long: `Check a configuration file, and show its plans and prices. Without FILE, show the
configuration in force. If something is wrong, you are told the line and the column.

These are the keys, each with the value that it has if it is left out:

  default_plan: free           # the plan of a subject that has no other
  horizon: 15d                 # how long operation ids are remembered, for all meters: days, or
                               # hours and minutes (360h, 90m). If it is left out, each meter
                               # remembers for its longest hard window and a day, at least 15d
  meters:                      # what is true for a meter in every plan
    slots: {remember: 15d}     # how long its operation ids are remembered. With none, a charge
                               # needs no id, and a repeat charges again
  plans:                       # by name
    free:
      limits:                  # may be empty, which means no limit
        - meter: slots         # what is counted
          name: week           # the counter; plans with the same one share what was used
          window: week         # an ISO week in UTC
          units: 200           # the most in one window
          mode: hard           # soft admits what goes past it, and says so
                               # shadow only counts and reports
          carry_over: 0        # how many unused units the next window may use too, at most
          thresholds: [80, 100] # percentages at which a decision carries a notice
          # max_holds: 50      # how many holds a subject may have at a time on the meter;
                               # any number if it is left out
  prices:                      # by meter
    slots:
      step: 60                 # how much one rate buys: 60 seconds (1 if it is left out)
      rates: {standard: 1, neural: 2, generative: 4}
  dynamodb:
    meter: slots               # what the attributes window and count are about
    limit: week
    attributes: {subject: userId, window: quotaWeek, count: quotaCount, plan: plan, prefix: quota}
    format: 2                  # format of items; 1 while the release before writes them too
  embedded:
    format: 2                  # format of rows; 1 while the release before writes them too`,
		Example: `  headroom plans check headroom.yaml
  headroom plans check
  headroom plans check headroom.yaml --json`,
		Args: arguments("[FILE]"),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := a.loadConfig()
			if len(args) == 1 {
				cfg, err = config.Load(args[0])
			}
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(configJSON(cfg))
				return nil
			}
			a.printConfig(cfg)
			return nil
		},
	}
}

func (a *app) plansSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "set SUBJECT PLAN[+METER/LIMIT=UNITS]",
		Short: "Store the plan of a subject, with limits of its own",
		Long: `Store the plan of SUBJECT, for all its meters. It takes effect with the next decision. What was
used stays used.

A subject may have limits of its own, which follow the plan's name: free+slots/week=500 is the
plan free, but with 500 slots a week. Some plan must have a limit of that name, which says how
long its windows are.`,
		Example: `  headroom plans set alice pro
  headroom plans set alice free+slots/week=500
  headroom plans set acme free+slots/week=5000+slots/day=900 --config headroom.yaml`,
		Args: arguments("SUBJECT", "PLAN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] == "" {
				return usageError("plan is empty; to remove a subject's plan, run \"headroom plans unset\"")
			}
			return a.setPlan(cmd, args[0], args[1])
		},
	}
}

func (a *app) plansUnsetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unset SUBJECT",
		Short: "Remove the stored plan of a subject",
		Long: `Remove the stored plan of SUBJECT. From the next decision on, it has the plan that the caller
names, or else the default plan.`,
		Example: `  headroom plans unset alice`,
		Args:    arguments("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setPlan(cmd, args[0], "")
		},
	}
}

func (a *app) setPlan(cmd *cobra.Command, subject, plan string) error {
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
		if err := engine.SetPlan(cmd.Context(), subject, plan); err != nil {
			return err
		}
		holds := cmp.Or(plan, cfg.Catalog.Default())
		if a.json {
			a.printJSON(map[string]any{"subject": subject, "plan": holds, "stored": plan != ""})
			return nil
		}
		fmt.Fprintf(a.stdout, "%s: plan %s\n", printable(subject), printable(holds))
		return nil
	})
}

func (a *app) printConfig(cfg *config.Config) {
	rows := [][]string{{"PLAN", "METER", "LIMIT", "WINDOW", "UNITS", "MODE", "CARRY-OVER", "THRESHOLDS"}}
	for _, p := range cfg.Catalog.Plans() {
		name := printable(p.Name)
		if p.Name == cfg.Catalog.Default() {
			name += " (default)"
		}
		if len(p.Limits) == 0 {
			rows = append(rows, []string{name, "", "", "", "no limit", "", "", ""})
		}
		for _, l := range p.Limits {
			rows = append(rows, []string{
				name, printable(l.Meter), l.Name, l.Period.String(), thousands(l.Units), l.Mode.String(), thousands(l.CarryOver), thresholds(l),
			})
		}
	}
	table(a.stdout, "llllrlrl", rows)
	for _, p := range cfg.Catalog.Plans() {
		for _, l := range p.Limits {
			if l.MaxHolds > 0 {
				fmt.Fprintf(a.stdout, "\nPlan %s, limit %s: at most %s of %s at a time.\n",
					printable(p.Name), l.Name, count(l.MaxHolds, "hold"), printable(l.Meter))
			}
		}
	}

	rows = [][]string{{"METER", "STEP", "PRICES"}}
	for _, meter := range slices.Sorted(maps.Keys(cfg.Prices)) {
		prices := cfg.Prices[meter]
		var rates []string
		for _, class := range slices.Sorted(maps.Keys(prices.Rates)) {
			rates = append(rates, fmt.Sprintf("%s %s", printable(class), thousands(prices.Rates[class])))
		}
		rows = append(rows, []string{printable(meter), thousands(prices.Step), strings.Join(rates, ", ")})
	}
	fmt.Fprintln(a.stdout)
	table(a.stdout, "lrl", rows)

	rows = [][]string{{"METER", "OPERATION IDS", "REMEMBERED FOR"}}
	for _, meter := range cfg.Catalog.Meters() {
		ids := "needed"
		if !cfg.Catalog.NeedsID(meter) {
			ids = "may be left out"
		}
		rows = append(rows, []string{printable(meter), ids, span(cfg.Catalog.Horizon(meter))})
	}
	fmt.Fprintln(a.stdout)
	table(a.stdout, "lll", rows)
	for _, w := range cfg.Catalog.Warnings() {
		fmt.Fprintf(a.stdout, "\nWarning: %s.\n", printable(w))
	}
}

// thresholds lists the percentages at which a limit gives notice.
func thresholds(l headroom.Limit) string {
	var percents []string
	for _, percent := range l.Thresholds {
		percents = append(percents, strconv.Itoa(percent)+" %")
	}
	return cmp.Or(strings.Join(percents, ", "), "none")
}

func configJSON(cfg *config.Config) any {
	plans := map[string]any{}
	for _, p := range cfg.Catalog.Plans() {
		limits := []any{}
		for _, l := range p.Limits {
			limits = append(limits, map[string]any{
				"meter": l.Meter, "name": l.Name, "window": l.Period.String(), "units": l.Units,
				"mode": l.Mode.String(), "carry_over": l.CarryOver, "max_holds": l.MaxHolds, "thresholds": append([]int{}, l.Thresholds...),
			})
		}
		plans[p.Name] = map[string]any{"limits": limits}
	}
	prices := map[string]any{}
	for meter, p := range cfg.Prices {
		prices[meter] = map[string]any{"step": p.Step, "rates": p.Rates}
	}
	meters := map[string]any{}
	for _, meter := range cfg.Catalog.Meters() {
		meters[meter] = map[string]any{"horizon": cfg.Catalog.Horizon(meter).String(), "operation_needed": cfg.Catalog.NeedsID(meter)}
	}
	return map[string]any{
		"default_plan": cfg.Catalog.Default(), "plans": plans, "prices": prices, "meters": meters,
		"warnings": append([]string{}, cfg.Catalog.Warnings()...),
	}
}
