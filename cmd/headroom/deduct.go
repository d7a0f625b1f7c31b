package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

func (a *app) deductCommand() *cobra.Command {
	var (
		spend  spending
		within string
		began  = timeFlag{name: "began"}
	)
	cmd := &cobra.Command{
		Use:   "deduct SUBJECT COST --operation ID",
		Short: "Charge a cost once, if the units are there",
		Long: `Charge SUBJECT for COST units, if they are there: exit status 0 if they were charged, 1 if refused, and then nothing has changed.

Call it after the work has succeeded. One operation id is charged once: repeat the same command whenever its outcome is not known. With --over record the units are charged past the limit too, since the work is done.

Only if the configuration says "remember: none" of the meter may --operation be left out: each such command is a charge of its own, a repeat too.

With --within the cost is charged to an organisation too, which is a subject with a plan of its own: both are charged, or neither. After an error, repeat the same command: each is charged once. The organisation has an id of its own for it, of the operation and SUBJECT together, which --json shows: its part is refunded by that.`,
		Example: `  headroom deduct alice 30 --operation job-17
  headroom deduct alice 30 --operation job-17 --over record
  headroom deduct alice 30 --operation job-17 --began 2026-05-31T20:00:00Z
  headroom deduct alice 30 --operation job-17 --within acme`,
		Args: arguments("SUBJECT", "COST"),
	}
	spend.flags(cmd)
	over := spend.overFlag(cmd)
	cmd.Flags().Var(&began, "began", "when the work began: an operation older than the horizon is an error, never charged twice")
	cmd.Flags().StringVar(&within, "within", "", "the organisation that pays too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "operation", "the id by which this piece of work is charged only once"); err != nil {
			cfg, bad := a.loadConfig()
			if bad != nil || cfg.Catalog.NeedsID(spend.request.Meter) || cmd.Flags().Changed("within") {
				return cmp.Or(bad, err)
			}
		}
		if err := over(); err != nil {
			return err
		}
		spend.request.Began = began.Time
		if cmd.Flags().Changed("within") {
			return a.deductWithin(cmd, args, &spend, within)
		}
		return a.decide(cmd, args, &spend, charged, plainly((*headroom.Engine).Deduct))
	}
	return cmd
}

var charged = said{done: "allowed", again: "charged before"}

type jsonJoint struct {
	Allowed      bool          `json:"allowed"`
	RefusedBy    string        `json:"refused_by"`   // "organisation", "user", or "" if both admit it
	Organisation *jsonDecision `json:"organisation"` // null if the user refuses: then it is not charged
	User         *jsonDecision `json:"user"`         // null if the organisation refuses: then it was not asked
	// Operation is the organisation's id of the charge, by which its part is refunded.
	Operation string `json:"organisation_operation,omitempty"`
}

func (a *app) deductWithin(cmd *cobra.Command, args []string, s *spending, organisation string) error {
	cfg, r, err := a.asked(args, s)
	if err != nil {
		return err
	}
	return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
		j, err := engine.DeductWithin(cmd.Context(), organisation, r)
		if err != nil {
			return err
		}
		a.printJoint(organisation, r, j)
		if !j.Allowed {
			return errRefused
		}
		return nil
	})
}

func (a *app) printJoint(organisation string, r headroom.Request, j headroom.DecisionWithin) {
	// If the user refuses, the organisation's decision is that on the end of its hold, which is not what was asked.
	byOrganisation := !j.Allowed && !j.Organisation.Allowed
	byUser := !j.Allowed && !byOrganisation
	if a.json {
		out := jsonJoint{Allowed: j.Allowed, Operation: j.Operation}
		if !byUser {
			d := decisionJSON(answer{Decision: j.Organisation})
			out.Organisation = &d
		}
		if !byOrganisation {
			d := decisionJSON(answer{Decision: j.User})
			out.User = &d
		}
		switch {
		case byOrganisation:
			out.RefusedBy = "organisation"
		case byUser:
			out.RefusedBy = "user"
		}
		a.printJSON(out)
		return
	}
	line := func(who string, d headroom.Decision, rest string) {
		fmt.Fprintf(a.stdout, "%s: %s%s\n", printable(who), sentence(charged, r.Meter, answer{Decision: d}), rest)
	}
	switch {
	case byOrganisation:
		line(organisation, j.Organisation, "; "+printable(r.Subject)+" is not charged")
	case byUser:
		line(r.Subject, j.User, "; "+printable(organisation)+" is not charged")
	default:
		line(r.Subject, j.User, "")
		line(organisation, j.Organisation, "")
	}
}
