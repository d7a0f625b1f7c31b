package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) weekCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "week [TIME]",
		Short: "Print the key of the ISO week in UTC that a time lies in",
		Long: `Print the key of the ISO 8601 week in UTC that TIME lies in. TIME is an instant, a day or
the key of a week. Without it, the time is now. With --json you also get the week's first
instant, and the first instant after it.

The year in a key is the year of the week, which may not be the year of the day: 30 December
2024 lies in 2025-W01.`,
		Example: `  headroom week
  headroom week 2024-12-30
  headroom week 2026-05-31T23:59:59-07:00 --json
  headroom week 2026-W22 --json`,
		Args: arguments("[TIME]"),
		RunE: func(_ *cobra.Command, args []string) error {
			w := headroom.ISOWeek(a.now())
			if len(args) == 1 {
				var err error
				if w, err = parseWeek(args[0]); err != nil {
					return err
				}
			}
			if a.json {
				a.printJSON(windowJSON(w))
				return nil
			}
			fmt.Fprintln(a.stdout, w.Key)
			return nil
		},
	}
}

func parseWeek(text string) (headroom.Window, error) {
	if w, err := headroom.ParseISOWeek(text); err == nil {
		return w, nil
	}
	t, err := parseTime("time", text)
	if err != nil {
		return headroom.Window{}, err
	}
	return headroom.ISOWeek(t), nil
}
