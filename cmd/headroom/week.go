package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) weekCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "week [TIME]",
		Short: "Print the key of the ISO week, in UTC, that holds a time",
		Long: `Print the key of the ISO 8601 week in UTC that holds TIME, which is an instant, a day or a week's key; without it, now. With --json also the week's first instant and the first after it.

The year of a key is the week's own: 30 December 2024 lies in 2025-W01.`,
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
