package main

import (
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) releaseCommand() *cobra.Command {
	var spend spending
	cmd := &cobra.Command{
		Use:   "release SUBJECT --operation ID",
		Short: "Give back held units of work that was not done",
		Long: `Give back the units of a hold whose work was not done. The id then stands for a released hold: if the work succeeds after all, "settle" still charges it, as a plain deduction.

A hold that has expired is an error, and nothing is lost: its units have come back by themselves.`,
		Example: `  headroom release alice --operation job-17`,
		Args:    arguments("SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needed(cmd, "operation", "the id of the hold"); err != nil {
				return err
			}
			return a.decide(cmd, args, &spend, said{done: "released", again: "released before"}, plainly((*headroom.Engine).Release))
		},
	}
	spend.operationFlags(cmd)
	return cmd
}
