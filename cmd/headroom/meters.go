package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
)

// costsFlag adds --cost, which names several meters in place of the argument with the cost, whose
// name is last. It returns the check of the arguments.
func (s *spending) costsFlag(cmd *cobra.Command, names ...string) {
	cmd.Flags().StringArrayVar(&s.costs, "cost", nil, "METER=UNITS in place of "+names[len(names)-1]+"; give it once for each meter,\nand all are charged or none")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(s.costs) == 0 {
			return arguments(names...)(cmd, args)
		}
		if cmd.Flags().Changed("meter") {
			return usageError("--meter and --cost: --cost names the meters already")
		}
		return arguments(names[:len(names)-1]...)(cmd, args)
	}
}

// parseAmounts reads METER=UNITS, once for each meter. The name of a meter may have an = in it.
func parseAmounts(flag string, texts []string) (all []headroom.Amount, err error) {
	for _, text := range texts {
		equals := strings.LastIndexByte(text, '=')
		if equals < 1 {
			return nil, usageError("%s %q: want METER=UNITS, for instance %s tokens=1850", flag, text, flag)
		}
		units, err := parseUnits(flag, text[equals+1:])
		if err != nil {
			return nil, err
		}
		all = append(all, headroom.Amount{Meter: text[:equals], Cost: units})
	}
	return all, nil
}

// jsonPart is one meter of a decision about several.
type jsonPart struct {
	Subject string `json:"subject"`
	Meter   string `json:"meter"`
	jsonDecision
}

func partsJSON(d answer) (all []jsonPart) {
	for _, p := range d.Parts {
		all = append(all, jsonPart{p.Subject, p.Meter, decisionJSON(answer{Decision: p.Decision, expires: p.Expires})})
	}
	return all
}

// sentences puts a decision into words: one line, or one for each meter. If some meters refuse,
// only they have a line.
func sentences(words said, meter string, d answer) (lines []string) {
	if len(d.Parts) == 0 {
		return []string{sentence(words, meter, d)}
	}
	for _, p := range d.Parts {
		if d.Allowed || !p.Allowed {
			lines = append(lines, sentence(words, p.Meter, answer{Decision: p.Decision, expires: p.Expires, note: d.note}))
		}
	}
	if !d.Allowed {
		lines = append(lines, fmt.Sprintf("none of the %d meters is charged", len(d.Parts)))
	}
	return lines
}
