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
		Short: "Charge a cost once, if enough units are left",
		Long: `Charge SUBJECT for COST units, if enough are left. The exit status is 0 if they were
charged. It is 1 if they were refused, and then nothing has changed.

Call it after the work has succeeded. An operation id is charged only once. If you do not
know the outcome, repeat the same command. With --over record, units that do not fit are
charged past the limit, since the work is done.

With --at-least, fewer units than COST are charged if no more are left: all that there are, if
there are so many. The answer says how many. A repeat must ask for the same, and gets the same
number.

With --cost, given once for each meter, one piece of work is charged in several meters: in
all of them or in none. The first is the one that other commands may name it by.

You may leave out --operation only if the configuration says "remember: none" for the meter.
Each such command is then a charge of its own, even if it is meant as a repeat.

With --within, an organisation is charged too. It is a subject with a plan of its own. Either
both are charged, or neither is. After an error, repeat the same command, and each is charged
once. The charge to the organisation has an id of its own, made from the operation and
SUBJECT. To refund it, use that id, which --json shows.`,
		Example: `  headroom deduct alice 30 --operation job-17
  headroom deduct alice 30 --operation job-17 --over record
  headroom deduct alice 30 --operation job-17 --began 2026-05-31T20:00:00Z
  headroom deduct alice 30 --operation job-17 --within acme
  headroom deduct alice 1000 --operation job-18 --at-least 100
  headroom deduct alice --operation call-5 --cost requests=1 --cost tokens=1850`,
	}
	spend.flags(cmd)
	spend.costsFlag(cmd, "SUBJECT", "COST")
	spend.leastFlag(cmd)
	over := spend.overFlag(cmd)
	cmd.Flags().Var(&began, "began", "when the work began; if that is too long ago for the id to be\nremembered, the answer is an error, and nothing is charged twice")
	cmd.Flags().StringVar(&within, "within", "", "an organisation to charge too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "operation", "the id of the work, by which it is charged only once"); err != nil {
			cfg, bad := a.loadConfig()
			if bad != nil || len(spend.costs) > 0 || cfg.Catalog.NeedsID(spend.request.Meter) || cmd.Flags().Changed("within") {
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
	Allowed bool `json:"allowed"`
	// "organisation", "user", or "" if neither refuses
	RefusedBy string `json:"refused_by"`
	// null if the user refuses; it is not charged then
	Organisation *jsonDecision `json:"organisation"`
	// null if the organisation refuses; the user is not asked then
	User *jsonDecision `json:"user"`
	// Operation is the id of the organisation's charge. A refund of that charge names it.
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
	// If the user refuses, the organisation's decision is about the end of its hold. Nobody asked for
	// that.
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
