package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// pkg is a package as go list describes it.
type pkg struct {
	Dir, ImportPath string
	GoFiles         []string

	took   time.Duration // by its tests without a change
	blocks []block       // of the packages that are changed
}

// block is a part of a file that runs from its beginning to its end, and whether the tests of a
// package reach it.
type block struct {
	file       string // import path and name
	start, end place
	run        bool
}

type place struct{ line, col int }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.line, q.line), cmp.Compare(p.col, q.col))
}

// runner runs tests with changes.
type runner struct {
	ctx             context.Context
	temp            string
	packages, tests []pkg
	only            string
	jobs            int
	verbose         bool

	mu  sync.Mutex
	out io.Writer
}

// verdict is what became of a mutant.
type verdict int

const (
	noticed verdict = iota
	survived
	unreached // survived, since no test comes there
	broken    // does not compile
)

// summary counts the mutants by verdict.
type summary [broken + 1]int

// share is the percentage of mutants that were noticed, of those that compile and are reached.
func (s summary) share() float64 {
	all := s[noticed] + s[survived] + s[unreached]
	if all == 0 {
		return 0
	}
	return 100 * float64(s[noticed]) / float64(all)
}

func (s summary) String() string {
	return fmt.Sprintf(
		"%.1f %% noticed: of %d changes %d were noticed, and %d not, of which no test reaches %d; %d more do not compile",
		s.share(), s[noticed]+s[survived]+s[unreached], s[noticed], s[survived]+s[unreached],
		s[unreached], s[broken])
}

// goes runs the go command and returns its output. Processes that tests have started end with it.
func (r *runner) goes(args ...string) (string, error) {
	cmd := exec.CommandContext(r.ctx, "go", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // tests that panicked leave them
	}
	return out.String(), err
}

// list finds packages by their patterns.
func (r *runner) list(patterns []string) (all []pkg, err error) {
	out, err := exec.CommandContext(r.ctx, "go", append([]string{"list", "-json=Dir,ImportPath,GoFiles"},
		patterns...)...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return nil, fmt.Errorf("go list: %s", failed.Stderr)
	}
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// mutants finds the mutants of all packages.
func (r *runner) mutants(wanted, skip func(string) bool) (all []mutant, err error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for _, p := range r.packages {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			if short, err := filepath.Rel(here, path); err == nil {
				path = short
			}
			if !wanted(path) {
				continue
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			more, err := mutate(path, src, skip)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	return all, nil
}

// try tries each mutant, and prints those that no test notices.
func (r *runner) try(all []mutant) (sum summary, err error) {
	if err := r.measure(); err != nil {
		return sum, err
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, r.jobs)
	done := 0
	for i, m := range all {
		slots <- struct{}{}
		if r.ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			v, by, bad := r.one(i, m)
			r.mu.Lock()
			defer r.mu.Unlock()
			if bad != nil || r.ctx.Err() != nil {
				err = cmp.Or(err, bad)
				return
			}
			sum[v]++
			done++
			switch {
			case v == survived:
				_, _ = fmt.Fprintf(r.out, "NOT NOTICED  %s\n", m)
			case v == unreached:
				_, _ = fmt.Fprintf(r.out, "NOT REACHED  %s\n", m)
			case v == noticed && r.verbose:
				_, _ = fmt.Fprintf(r.out, "noticed      %s  by %s\n", m, by)
			}
			if done%50 == 0 {
				fmt.Fprintf(os.Stderr, "%d of %d: %s\n", done, len(all), sum)
			}
		})
	}
	wg.Wait()
	return sum, cmp.Or(err, r.ctx.Err())
}

// measure runs the tests without a change. It learns how long they take and which code they reach.
func (r *runner) measure() error {
	var names []string
	for _, p := range r.packages {
		names = append(names, p.ImportPath)
	}
	for i := range r.tests {
		p := &r.tests[i]
		profile := filepath.Join(r.temp, fmt.Sprint("reached-", i))
		begun := time.Now()
		if out, err := r.goes("test", "-count=1", "-run", r.only, "-coverpkg", strings.Join(names, ","),
			"-coverprofile", profile, p.ImportPath); err != nil {
			return fmt.Errorf("the tests of %s fail without a change: %w\n%s", p.ImportPath, err, out)
		}
		p.took = time.Since(begun)
		var err error
		if p.blocks, err = blocks(profile); err != nil {
			return err
		}
	}
	slices.SortStableFunc(r.tests, func(a, b pkg) int { return cmp.Compare(a.took, b.took) })
	return nil
}

var profiled = regexp.MustCompile(`^(.+):(\d+)\.(\d+),(\d+)\.(\d+) \d+ (\d+)$`)

// blocks reads a profile of coverage. A package without tests leaves none.
func blocks(profile string) (all []block, err error) {
	f, err := os.Open(profile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m := profiled.FindStringSubmatch(lines.Text())
		if m == nil {
			continue // the first line says what was counted
		}
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[2+i]) // digits, by the pattern
		}
		all = append(all, block{m[1], place{n[0], n[1]}, place{n[2], n[3]}, m[6] != "0"})
	}
	return all, lines.Err()
}

// reach reports whether the tests of a package reach a place in a file, which is to say the
// innermost block around it. A place in no block, such as a constant or the condition of a switch,
// counts as reached if anything in the file is.
func (p pkg) reach(file string, at place) bool {
	var inner *block
	any := false
	for i, b := range p.blocks {
		if b.file != file {
			continue
		}
		any = any || b.run
		if b.start.compare(at) <= 0 && at.compare(b.end) <= 0 &&
			(inner == nil || inner.start.compare(b.start) <= 0) {
			inner = &p.blocks[i]
		}
	}
	if inner == nil {
		return any
	}
	return inner.run
}

// of returns the package that a mutant changes.
func (r *runner) of(m mutant) (pkg, error) {
	dir, err := filepath.Abs(filepath.Dir(m.file))
	if err != nil {
		return pkg{}, err
	}
	for _, p := range r.packages {
		if p.Dir == dir {
			return p, nil
		}
	}
	return pkg{}, fmt.Errorf("%s is of no package", m.file)
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// one tries a mutant. by is the test that noticed it, if that is known.
func (r *runner) one(n int, m mutant) (v verdict, by string, err error) {
	p, err := r.of(m)
	if err != nil {
		return 0, "", err
	}
	src, err := os.ReadFile(m.file)
	if err != nil {
		return 0, "", err
	}
	var tests []pkg
	for _, t := range r.tests {
		if t.reach(p.ImportPath+"/"+filepath.Base(m.file), m.at) {
			tests = append(tests, t)
		}
	}
	if len(tests) == 0 {
		return unreached, "", nil
	}
	changed := filepath.Join(r.temp, fmt.Sprintf("%d.go", n))
	overlay := filepath.Join(r.temp, fmt.Sprintf("%d.json", n))
	defer os.Remove(changed)
	defer os.Remove(overlay)
	path, err := filepath.Abs(m.file)
	if err != nil {
		return 0, "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return 0, "", err
	}
	if err := errors.Join(os.WriteFile(changed, m.in(src), 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return 0, "", err
	}
	if _, err := r.goes("build", "-overlay", overlay, "-o", os.DevNull, p.ImportPath); err != nil {
		return broken, "", nil
	}
	for _, t := range tests {
		limit := 10*time.Second + 3*t.took // a change may make a loop endless
		out, err := r.goes("test", "-overlay", overlay, "-count=1", "-vet=off", "-failfast", "-run", r.only,
			"-timeout", limit.String(), t.ImportPath)
		if err == nil {
			continue
		}
		by = t.ImportPath
		if name := failed.FindStringSubmatch(out); name != nil {
			by = name[1]
		}
		return noticed, by, nil
	}
	return survived, "", nil
}
