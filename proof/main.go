// Command proof runs the long versions of the tests that show that Headroom's count is right. It
// prints what they did as a table. See docs/proof.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/lumcast/headroom/proof/report"
)

// part is something that can be run by itself.
type part struct {
	name string
	run  func(p *proof) error
}

var parts = []part{
	{"interleavings", tests("./proof/interleave")},
	{"linearizability", tests("./proof/linear")},
	{"faulty network", tests("./proof/network")},
	{"killed processes", tests("./embedded")},
	{"a subject's past", tests("./dynamostore", "-run", "TestASubjectsPastLeavesItsItem")},
	{"many holds", tests("./dynamostore", "-run", "TestAnyNumberOfHolds")},
	{"rules", tests("./dynamostore", "-run", "^TestConformance$")},
	{"clocks", clocks},
	{"pipeline", histories},
	{"the checker's engine", tests("./internal/memdynamo")},
	{"all days", tests(".", "-run", "TestISOWeekOfEveryDay")},
	{"fuzz", fuzz},
}

// proof is one run.
type proof struct {
	ctx      context.Context
	file     string // where tests report to
	out      *screen
	fuzzTime time.Duration

	// Guarded by out.mu.
	rows []report.Row
	read int64 // how far file has been read
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	only := flag.String("part", "", "run only these parts, separated by commas")
	asJSON := flag.Bool("json", false, "print the rows as JSON, one a line; took is in seconds")
	fuzzTime := flag.Duration("fuzztime", 5*time.Minute, "how long each fuzz target runs")
	flag.Usage = func() {
		_, _ = fmt.Fprintf(flag.CommandLine.Output(),
			"Run the long versions of the tests that show that the count is right, and print a table. "+
				"`make tools` comes first.\n\n"+
				"  go run ./proof\n  go run ./proof -part \"clocks,fuzz\" -fuzztime 30s\n\nParts: %s\n\n",
			strings.Join(names(), ", "))
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected %q: parts are chosen with -part", flag.Args())
	}
	if *fuzzTime <= 0 {
		return fmt.Errorf("fuzztime %s: want more than 0", *fuzzTime)
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headroom-proof-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := &proof{ctx: ctx, file: filepath.Join(dir, "rows"), out: newScreen(), fuzzTime: *fuzzTime}
	var failures []error
	for _, part := range chosen {
		if err := p.do(part); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", part.name, err))
		}
		if ctx.Err() != nil {
			failures = append(failures, errors.New("interrupted: the table holds what was done by then"))
			break
		}
	}
	p.out.clear()
	if err := p.print(*asJSON); err != nil {
		return err
	}
	return errors.Join(failures...)
}

// do runs a part. A part that does not say what it did, or that did nothing, has shown nothing, and
// that is an error.
func (p *proof) do(one part) error {
	err := one.run(p)
	if err != nil || p.ctx.Err() != nil {
		return err
	}
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	reported := false
	for _, r := range p.rows {
		if r.Part != one.name {
			continue
		}
		if reported = true; r.Count == 0 {
			err = errors.Join(err, fmt.Errorf("%s: 0 %s, so nothing was shown", r.Name, r.Unit))
		}
	}
	if !reported {
		return errors.New("no row was reported, so nothing was shown")
	}
	return err
}

func names() []string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

func choose(only string) ([]part, error) {
	if only == "" {
		return parts, nil
	}
	var chosen []part
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("no part is named %q; there are: %s", strings.TrimSpace(name),
				strings.Join(names(), ", "))
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}

// print prints the table, or the rows as JSON.
func (p *proof) print(asJSON bool) error {
	slices.SortStableFunc(p.rows,
		func(a, b report.Row) int { return slices.Index(names(), a.Part) - slices.Index(names(), b.Part) })
	if asJSON {
		to := json.NewEncoder(os.Stdout)
		for _, r := range p.rows {
			if err := to.Encode(
				map[string]any{
					"part": r.Part, "name": r.Name, "count": r.Count, "unit": r.Unit,
					"note": r.Note, "violations": r.Violations, "took": r.Took.Seconds(),
				},
			); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| part\t| of what\t| how much\t|\t| violations\t| time\t|")
	fmt.Fprintln(w, "|---\t|---\t|---:\t|---\t|---:\t|---:\t|")
	for _, r := range p.rows {
		fmt.Fprintf(w, "| %s\t| %s\t| %s %s\t| %s\t| %d\t| %s\t|\n", r.Part, r.Name,
			grouped(r.Count), r.Unit, r.Note, r.Violations, took(r.Took))
	}
	return w.Flush()
}

// grouped writes a number with commas between its thousands.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// took shows a duration in seconds, or in minutes and seconds.
func took(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
}
