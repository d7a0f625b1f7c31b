package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/replay"
	"github.com/lumcast/headroom/whatif"
)

// whatifFlags are the settings of one comparison.
type whatifFlags struct {
	configs []string
	meter   string
	picture string
	top     int
}

func (a *app) whatifCommand() *cobra.Command {
	var f whatifFlags
	cmd := &cobra.Command{
		Use:   "whatif LOG.csv[.gz] --config A.yaml --config B.yaml",
		Short: "Compare what several configurations would admit and refuse, on one log",
		Long: `Replay one log of finished work under several configurations, and compare them: what would
have been admitted and refused, which subjects would have been hit hardest, and how each week
would have gone. The log has the same form as for "replay".

Each configuration gets an empty store in memory, and every subject has its default plan. --store
has no effect. With --svg the comparison is also drawn, for a README or a slide, on a light or
dark background.`,
		Example: `  headroom whatif usage.csv.gz --config week-200.yaml --config week-400.yaml
  headroom whatif usage.csv.gz --config a.yaml --config b.yaml --svg whatif.svg --top 8
  headroom whatif usage.csv.gz --config a.yaml --config b.yaml --json`,
		Args: arguments("LOG.csv"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.whatif(cmd.Context(), args[0], f)
		},
	}
	meterFlag(cmd, &f.meter)
	// This replaces the flag that all verbs have, which is given only once.
	cmd.Flags().StringArrayVar(&f.configs, "config", nil, "a configuration to try; give one for each (default:\n$HEADROOM_CONFIG, or else the built-in plan)")
	cmd.Flags().StringVar(&f.picture, "svg", "", "draw the comparison into this file")
	cmd.Flags().IntVar(&f.top, "top", 5, "how many of the hardest hit subjects to show")
	return cmd
}

// comparison is what is shown.
type comparison struct {
	log      string // its name
	meter    string
	top      int // how many of the hardest hit subjects to show
	outcomes []whatif.Outcome
}

func (a *app) whatif(ctx context.Context, log string, f whatifFlags) error {
	if f.top < 0 {
		return usageError("--top %d: want at least 0", f.top)
	}
	if log == "-" {
		return usageError("want a file: the log is read once for each configuration, but standard input only once")
	}
	scenarios, err := a.scenarios(f.configs, f.meter)
	if err != nil {
		return err
	}
	c := comparison{log: filepath.Base(log), meter: f.meter, top: f.top}
	for _, s := range scenarios {
		o, err := a.outcome(ctx, log, f.meter, s)
		if errors.Is(err, context.Canceled) {
			return headroom.Errorf(codeInterrupted, nil, "interrupted; nothing was compared")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		c.outcomes = append(c.outcomes, o)
	}
	if f.picture != "" {
		if err := draw(f.picture, c); err != nil {
			return err
		}
	}
	if a.json {
		a.printJSON(comparisonJSON(c))
		return nil
	}
	a.printComparison(c)
	return nil
}

// scenarios reads the configurations, each named by its file.
func (a *app) scenarios(paths []string, meter string) ([]whatif.Scenario, error) {
	if len(paths) == 0 {
		paths = []string{a.env("HEADROOM_CONFIG")}
	}
	var scenarios []whatif.Scenario
	for _, path := range paths {
		cfg, name := config.Default(), "built-in"
		if path != "" {
			var err error
			if cfg, err = config.Load(path); err != nil {
				return nil, err
			}
			name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
			if slices.ContainsFunc(scenarios, func(s whatif.Scenario) bool { return s.Name == name }) {
				name = path
			}
		}
		scenarios = append(scenarios, whatif.Scenario{Name: name, About: limitsInWords(cfg.Catalog, meter), Catalog: cfg.Catalog})
	}
	return scenarios, nil
}

// limitsInWords says what the default plan limits.
func limitsInWords(c *headroom.Catalog, meter string) string {
	var limits []string
	for _, p := range c.Plans() {
		for _, l := range p.Limits {
			if p.Name == c.Default() && l.Meter == meter {
				limits = append(limits,
					fmt.Sprintf("%s %s %s%s", thousands(l.Units), printable(meter), each(l.Period), inMode(l.Mode)))
			}
		}
	}
	return cmp.Or(list(limits), "no limit")
}

// outcome replays the log once.
func (a *app) outcome(ctx context.Context, log, meter string, s whatif.Scenario) (o whatif.Outcome, err error) {
	file, err := openFile(log)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return whatif.Run(ctx, file, meter, s, func(row *replay.BadRow) { a.tell("headroom: %s: %v\n", s.Name, row) })
}

// draw writes the picture, whole or not at all.
func draw(path string, c comparison) error {
	picture, err := c.svg()
	if err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		// Write into a pipe or a link, rather than replace it.
		if err := os.WriteFile(path, picture, 0o666); err != nil {
			return usageError("the picture cannot be written: %v", err)
		}
		return nil
	}
	whole := path + ".new"
	err = os.WriteFile(whole, picture, 0o666)
	if err == nil {
		err = os.Rename(whole, path)
	}
	if err != nil {
		_ = os.Remove(whole) // it may not be there
		return usageError("the picture cannot be written: %v", err)
	}
	return nil
}

type jsonComparison struct {
	Log            string        `json:"log"`
	Meter          string        `json:"meter"`
	Configurations []jsonOutcome `json:"configurations"`
}

type jsonOutcome struct {
	Name     string `json:"name"`
	Limits   string `json:"limits"` // what the default plan limits, in words
	Rows     int64  `json:"rows"`
	Admitted int64  `json:"admitted"`
	Refused  int64  `json:"refused"`
	NeverFit int64  `json:"never_fit"`
	Replayed int64  `json:"replayed"`
	Late     int64  `json:"late"`
	Errors   int64  `json:"errors"`

	UnitsCharged int64   `json:"units_charged"`
	UnitsRefused int64   `json:"units_refused"`
	RefusedShare float64 `json:"refused_share"` // the share of the units asked for, from 0 to 1

	Subjects        int        `json:"subjects"`
	SubjectsRefused int        `json:"subjects_refused"`
	HitHardest      []jsonHit  `json:"hit_hardest"`
	Weeks           []jsonWeek `json:"weeks"`
}

type jsonHit struct {
	Subject      string  `json:"subject"`
	UnitsCharged int64   `json:"units_charged"`
	UnitsRefused int64   `json:"units_refused"`
	RefusedShare float64 `json:"refused_share"`
}

type jsonWeek struct {
	Window       jsonWindow `json:"window"`
	UnitsCharged int64      `json:"units_charged"`
	UnitsRefused int64      `json:"units_refused"`
}

func comparisonJSON(c comparison) jsonComparison {
	j := jsonComparison{Log: c.log, Meter: c.meter, Configurations: []jsonOutcome{}}
	for _, o := range c.outcomes {
		out := jsonOutcome{
			Name: o.Name, Limits: o.About, Rows: o.Rows, Admitted: o.Admitted, Refused: o.Refused, NeverFit: o.NeverFit,
			Replayed: o.Replayed, Late: o.Late, Errors: o.Errors,
			UnitsCharged: o.Charged, UnitsRefused: o.RefusedUnits, RefusedShare: share(o.Tally),
			Subjects: len(o.Subjects), SubjectsRefused: o.SubjectsRefused(), HitHardest: []jsonHit{}, Weeks: []jsonWeek{},
		}
		for _, hit := range whatif.Hardest([]whatif.Outcome{o}, c.top) {
			t := hit.By[0]
			out.HitHardest = append(out.HitHardest, jsonHit{
				Subject: hit.Subject, UnitsCharged: t.Charged, UnitsRefused: t.RefusedUnits, RefusedShare: share(t),
			})
		}
		for _, w := range o.Weeks {
			out.Weeks = append(out.Weeks, jsonWeek{Window: windowJSON(w.Window), UnitsCharged: w.Charged, UnitsRefused: w.Refused})
		}
		j.Configurations = append(j.Configurations, out)
	}
	return j
}

// share returns the share of the units asked for that was refused.
func share(t replay.Tally) float64 {
	return float64(t.RefusedUnits) / float64(cmp.Or(t.Asked(), 1))
}

// printComparison prints a column for each configuration.
func (a *app) printComparison(c comparison) {
	var rows [][]string
	for _, o := range c.outcomes {
		rows = append(rows, []string{printable(o.Name), o.About})
	}
	table(a.stdout, "ll", rows)
	for _, rows := range [][][]string{c.totals(), c.hardest(), c.weekly()} {
		if len(rows) > 0 {
			fmt.Fprintln(a.stdout)
			table(a.stdout, "l"+strings.Repeat("r", len(c.outcomes)), rows)
		}
	}
}

// heading returns the first row of a table that has a column for each configuration.
func (c comparison) heading(of string) []string {
	row := []string{of}
	for _, o := range c.outcomes {
		row = append(row, printable(o.Name))
	}
	return row
}

// totals compares the outcomes as a whole.
func (c comparison) totals() [][]string {
	unit := printable(c.meter)
	rows := [][]string{c.heading("")}
	line := func(name string, show func(whatif.Outcome) string) {
		row := []string{name}
		for _, o := range c.outcomes {
			row = append(row, show(o))
		}
		rows = append(rows, row)
	}
	number := func(name string, n func(whatif.Outcome) int64) {
		line(name, func(o whatif.Outcome) string { return thousands(n(o)) })
	}
	// A line of zeros is not worth printing.
	unless0 := func(name string, n func(whatif.Outcome) int64) {
		if slices.ContainsFunc(c.outcomes, func(o whatif.Outcome) bool { return n(o) != 0 }) {
			number(name, n)
		}
	}
	number("rows", func(o whatif.Outcome) int64 { return o.Rows })
	number("rows admitted", func(o whatif.Outcome) int64 { return o.Admitted })
	number("rows refused", func(o whatif.Outcome) int64 { return o.Refused })
	unless0("  greater than a limit", func(o whatif.Outcome) int64 { return o.NeverFit })
	unless0("rows replayed", func(o whatif.Outcome) int64 { return o.Replayed })
	unless0("rows late", func(o whatif.Outcome) int64 { return o.Late })
	unless0("rows in error", func(o whatif.Outcome) int64 { return o.Errors })
	number(unit+" charged", func(o whatif.Outcome) int64 { return o.Charged })
	number(unit+" refused", func(o whatif.Outcome) int64 { return o.RefusedUnits })
	line("share of the "+unit+" refused", func(o whatif.Outcome) string { return percent(o.RefusedUnits, o.Asked()) })
	line("subjects refused at least once", func(o whatif.Outcome) string {
		return fmt.Sprintf("%s of %s", thousands(int64(o.SubjectsRefused())), thousands(int64(len(o.Subjects))))
	})
	return rows
}

// hardest compares what the hardest hit subjects were refused.
func (c comparison) hardest() (rows [][]string) {
	for i, h := range whatif.Hardest(c.outcomes, c.top) {
		if i == 0 {
			rows = append(rows, c.heading("hit hardest: "+printable(c.meter)+" refused, share"))
		}
		row := []string{printable(h.Subject)}
		for _, t := range h.By {
			row = append(row, fmt.Sprintf("%s %8s", thousands(t.RefusedUnits), percent(t.RefusedUnits, t.Asked())))
		}
		rows = append(rows, row)
	}
	return rows
}

// weekly compares the weeks.
func (c comparison) weekly() (rows [][]string) {
	weeks, course := whatif.Course(c.outcomes)
	for i, w := range weeks {
		if i == 0 {
			rows = append(rows, c.heading("week by week: "+printable(c.meter)+" charged / refused"))
		}
		row := []string{w.Key}
		for _, by := range course {
			row = append(row, thousands(by[i].Charged)+" / "+thousands(by[i].Refused))
		}
		rows = append(rows, row)
	}
	return rows
}
