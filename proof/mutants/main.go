// Command mutants tells what the tests of a package would not notice. It changes the code in small
// ways, one at a time. It turns a comparison round, makes a condition false, leaves a statement
// out, returns no error, makes a number one greater, or ends a loop after its first round. It runs
// the tests with each change, and lists the changes with which all tests pass. The changes are made
// on an overlay (go help build), so no file of the tree is touched.
//
//	go run ./proof/mutants ./pipeline ./pipeline/onaws
//	go run ./proof/mutants -tests ./storetest/...,./memstore -sample 100 ./memstore
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "mutants:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	tests := flags.String("tests", "",
		"the packages whose tests run, separated by commas. Empty: those that are changed")
	only := flags.String("run", "", "only the tests that go test -run takes for this")
	files := flags.String("files", "", "change only files whose path fits this regular expression")
	skip := flags.String("skip", `\.(Debug|Info|Warn|Error)(Context)?\(`,
		"leave no statement out that fits this regular expression. The default: what is logged")
	at := flags.String("at", "",
		"try only the changes at these places, FILE:LINE or FILE:LINE:COLUMN, separated by commas: those that an earlier run has listed")
	sample := flags.Int("sample", 0, "try so many of the changes, drawn at random. 0: all")
	seed := flags.Uint64("seed", 1, "of that draw")
	jobs := flags.Int("jobs", min(2, runtime.NumCPU()), "how many run at the same time")
	least := flags.Float64("least", 0, "fail if a smaller share is noticed, in percent")
	verbose := flags.Bool("v", false, "tell for each change which test notices it")
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(),
			"Change packages in small ways, one at a time, and list the changes that no test notices.\n\n"+
				"  go run ./proof/mutants [flags] PACKAGES\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("say which packages to change: ./pipeline")
	}
	wanted, err := regexp.Compile(*files)
	if err != nil {
		return err
	}
	unmissed, err := regexp.Compile(*skip)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headroom-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &runner{ctx: ctx, temp: dir, only: *only, jobs: max(1, *jobs), verbose: *verbose, out: os.Stdout}
	if r.packages, err = r.list(flags.Args()); err != nil {
		return err
	}
	r.tests = r.packages
	if *tests != "" {
		if r.tests, err = r.list(strings.Split(*tests, ",")); err != nil {
			return err
		}
	}
	all, err := r.mutants(func(path string) bool { return wanted.MatchString(path) },
		func(s string) bool { return *skip != "" && unmissed.MatchString(s) })
	if err != nil {
		return err
	}
	if *at != "" {
		if all, err = chosen(all, strings.Split(*at, ",")); err != nil {
			return err
		}
	}
	if *sample > 0 && *sample < len(all) {
		rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:*sample]
		slices.SortFunc(all, func(a, b mutant) int {
			return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.start, b.start))
		})
	}
	sum, err := r.try(all)
	if err != nil {
		return err
	}
	fmt.Println(sum)
	if share := sum.share(); share < *least {
		return fmt.Errorf("%.1f %% are noticed, and %g %% are wanted", share, *least)
	}
	return nil
}

// chosen returns the mutants at some places. A place without any is an error: it has moved, or is
// misspelled.
func chosen(all []mutant, places []string) (some []mutant, err error) {
	for _, place := range places {
		n := len(some)
		for _, m := range all {
			line := fmt.Sprintf("%s:%d", m.file, m.at.line)
			if place == line || place == fmt.Sprintf("%s:%d", line, m.at.col) {
				some = append(some, m)
			}
		}
		if len(some) == n {
			return nil, fmt.Errorf("there is nothing to change at %s", place)
		}
	}
	return some, nil
}
