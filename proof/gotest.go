package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lumcast/headroom/proof/report"
)

// timeout is the limit for one run of go test, on a slow machine.
const timeout = "4h"

// tests is a part whose tests report their rows themselves. The arguments are those of go test.
func tests(args ...string) func(*proof) error {
	return func(p *proof) error {
		_, err := p.goTest(args...)
		return err
	}
}

// sequences are how many random sequences of operations each store gets, which is what it does in
// some minutes. Each engine below dynamostore gets as many. Meanwhile clocks stand, jump, fall
// back, run ahead and disagree.
var sequences = []struct {
	store string
	many  int
}{{"memstore", 20_000}, {"embedded", 5_000}, {"dynamostore", 50}}

var passed = regexp.MustCompile(`OK, passed (\d+) tests`)

// clocks compares each store with a model of the rules while clocks lie, and lets crowds of writers
// ask by such clocks.
func clocks(p *proof) error {
	var failures []error
	for _, s := range sequences {
		failures = append(failures,
			p.checks("clocks", s.store, "^(TestModel|TestConcurrent)$", "sequences", s.many))
	}
	return errors.Join(failures...)
}

// histories compares the pipeline with a plain model while every call fails now and then.
func histories(p *proof) error {
	return p.checks("pipeline", "pipeline", "^TestAnyHistoryEndsWithEachFinishedJobChargedOnce$",
		"histories", 50_000)
}

// checks runs tests of a package that try random things, and reports how many they have tried.
func (p *proof) checks(part, pkg, run, unit string, many int) error {
	begun := time.Now()
	out, err := p.goTest("./"+pkg, "-run", run, "-rapid.checks", strconv.Itoa(many), "-v")
	if p.ctx.Err() != nil {
		return err
	}
	r := report.Row{Part: part, Name: pkg, Unit: unit, Took: time.Since(begun)}
	for _, m := range passed.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		r.Count += n
	}
	if err == nil && r.Count == 0 {
		err = fmt.Errorf("go test ./%s says of no %s that they passed", pkg, unit)
	}
	if err != nil {
		r.Violations++
	}
	p.add(r)
	return err
}

// atOnce is how many targets are fuzzed at the same time, by one worker each.
const atOnce = 2

var target = regexp.MustCompile(`^Fuzz\w+$`)

// fuzz runs every fuzz target of the module.
func fuzz(p *proof) error {
	all, err := p.fuzzTargets()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	done := int64(0)
	slots := make(chan struct{}, atOnce)
	for _, o := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r, err := p.fuzzes(o)
			mu.Lock()
			defer mu.Unlock()
			if p.ctx.Err() != nil {
				return
			}
			if err != nil {
				r.Violations++
				failures = append(failures, err)
			}
			p.add(r)
			done++
			p.out.progress(report.Progress{Name: "fuzz", Done: done, Total: int64(len(all))})
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// fuzzTarget is a fuzz target of a package.
type fuzzTarget struct{ pkg, name string }

// fuzzTargets lists the fuzz targets of all packages.
func (p *proof) fuzzTargets() (all []fuzzTarget, err error) {
	listing, err := p.goTest("-list", "^Fuzz", "./...")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(listing) {
		if line = strings.TrimSpace(line); target.MatchString(line) {
			found = append(found, line)
			continue
		}
		// The line of a package comes after the lines of its targets.
		if words := strings.Fields(line); len(words) > 1 && words[0] == "ok" {
			for _, name := range found {
				all = append(all, fuzzTarget{words[1], name})
			}
		}
		found = nil
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no fuzz target was found in:\n%s", listing)
	}
	return all, nil
}

// fuzzes runs one fuzz target.
func (p *proof) fuzzes(o fuzzTarget) (report.Row, error) {
	begun := time.Now()
	out, err := p.goTest("-run", "^$", "-fuzz", "^"+o.name+"$", "-fuzztime", p.fuzzTime.String(),
		"-fuzzminimizetime", "3s", "-parallel", "1", o.pkg)
	name := "headroom" // the root
	if o.pkg != module {
		name = strings.TrimPrefix(o.pkg, module+"/")
	}
	return report.Row{
		Part:  "fuzz",
		Name:  name + " " + o.name,
		Count: execs(out),
		Unit:  "inputs",
		Took:  time.Since(begun),
	}, err
}

const module = "github.com/lumcast/headroom"

var execsLine = regexp.MustCompile(`execs: (\d+)`)

// execs reads the number of inputs from the output of a fuzz run.
func execs(out string) (n int64) {
	for _, m := range execsLine.FindAllStringSubmatch(out, -1) {
		n, _ = strconv.ParseInt(m[1], 10, 64)
	}
	return n
}

// goTest runs go test with the long versions switched on, and adds the rows that the tests report.
// It prints the output of tests that fail.
func (p *proof) goTest(args ...string) (string, error) {
	cmd := exec.CommandContext(
		p.ctx,
		"go",
		append([]string{"test", "-count=1", "-timeout", timeout}, args...)...)
	cmd.Env = append(os.Environ(), "HEADROOM_PROOF="+p.file)
	// Interrupted, go test removes what it has built.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p.out.begin(args)
	for tick := time.NewTicker(time.Second / 2); ; {
		select {
		case <-tick.C:
			p.collect()
			continue
		case err := <-ended:
			tick.Stop()
			p.collect()
			if err != nil && p.ctx.Err() == nil {
				p.out.say(out.String())
				err = fmt.Errorf("go test %s: %w", strings.Join(args, " "), err)
			}
			return out.String(), err
		}
	}
}

// collect reads the lines that tests have reported since the last time.
func (p *proof) collect() {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	f, err := os.Open(p.file)
	if err != nil {
		return // none yet
	}
	defer func() { _ = f.Close() }() // it was only read
	if _, err := f.Seek(p.read, 0); err != nil {
		return
	}
	lines := bufio.NewReader(f)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return // the rest of the line is still to come
		}
		p.read += int64(len(text))
		var l report.Line
		if err := json.Unmarshal(text, &l); err != nil {
			continue
		}
		if l.Row != nil {
			p.rows = append(p.rows, *l.Row)
			p.out.row(*l.Row)
		}
		if l.Progress != nil {
			p.out.show(*l.Progress)
		}
	}
}

// add adds a row that this program has made itself.
func (p *proof) add(r report.Row) {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	p.rows = append(p.rows, r)
	p.out.row(r)
}
