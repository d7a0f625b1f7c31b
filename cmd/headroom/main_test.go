package main

import (
	"bufio"
	"bytes"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lumcast/headroom/internal/enginetest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"headroom": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, scripts("testdata"))
}

// TestScriptsOnDynamoDB runs the scripts that need an engine, on both engines.
func TestScriptsOnDynamoDB(t *testing.T) {
	for _, name := range enginetest.Names() {
		t.Run(name, func(t *testing.T) {
			endpoint := enginetest.Start(t, name)
			p := scripts("testdata/dynamodb")
			home := p.Setup
			p.Setup = func(e *testscript.Env) error {
				e.Setenv("AWS_ACCESS_KEY_ID", "test")
				e.Setenv("AWS_SECRET_ACCESS_KEY", "not-to-be-printed")
				e.Setenv("AWS_EC2_METADATA_DISABLED", "true")
				e.Setenv("STORE", "dynamodb:cli?region=local&endpoint="+endpoint)
				e.Setenv("HOLDS", "dynamodb:holds?region=local&endpoint="+endpoint)
				e.Setenv("OTHER", "dynamodb:other?region=local&ledger=other.ledger&endpoint="+endpoint)
				return home(e)
			}
			testscript.Run(t, p)
		})
	}
}

// scripts are the settings of the scripts in a folder. Beside the usual commands they have "status N PROGRAM ARGUMENT...", which wants an exit status.
func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			// Nothing of the person who runs the tests.
			e.Setenv("HOME", e.Getenv("WORK")+"/home")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: status N PROGRAM ARGUMENT...")
				}
				got := 0
				var exit *exec.ExitError
				err := ts.Exec(args[1], args[2:]...)
				if errors.As(err, &exit) {
					got = exit.ExitCode()
				} else {
					ts.Check(err)
				}
				if want := args[0]; strconv.Itoa(got) != want {
					ts.Fatalf("exit status %d, want %s", got, want)
				}
			},
		},
	}
}

// on runs the program with a store and a clock of the test's own, and returns its exit status and what it wrote.
func on(t *testing.T, store string, now time.Time, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{
		stdin: strings.NewReader(""), stdout: bufio.NewWriter(&out), stderr: &errs,
		env: func(string) string { return "" }, now: func() time.Time { return now },
	}
	status = a.run(append(args, "--store", store))
	return status, out.String(), errs.String()
}

func TestAClockThatWasAhead(t *testing.T) {
	store := "embedded:" + t.TempDir()
	now := time.Date(2026, 5, 28, 12, 0, 0, 0, time.UTC)
	ahead := now.AddDate(1, 0, 0)

	if status, out, errs := on(t, store, ahead, "deduct", "alice", "5", "--operation", "a"); status != statusAllowed {
		t.Fatal(status, out, errs)
	}
	// Back at the right time nothing is decided, and the error says what to do.
	status, out, errs := on(t, store, now, "deduct", "alice", "6", "--operation", "b", "--json")
	if status != statusError || !strings.Contains(errs, "headroom clock accept") || !strings.HasPrefix(out, `{"error":{"code":"clock","message":`) {
		t.Fatal(status, out, errs)
	}
	if status, out, errs = on(t, store, now, "clock", "show"); status != statusRefused || !strings.Contains(out, "trusted            no") {
		t.Fatal(status, out, errs)
	}
	if status, out, errs = on(t, store, now, "clock", "accept"); status != statusAllowed || !strings.Contains(out, "trusted            yes") {
		t.Fatal(status, out, errs)
	}
	if status, out, errs = on(t, store, now, "deduct", "alice", "6", "--operation", "b"); status != statusAllowed || !strings.Contains(out, "11 of 200 used, 189 remain in 2026-W22") {
		t.Fatal(status, out, errs)
	}
}

func TestUsageOfAPerson(t *testing.T) {
	store := "embedded:" + t.TempDir()
	at := time.Date(2026, 5, 15, 12, 0, 0, 0, time.UTC)
	for i, cost := range []string{"138", "200", "96"} {
		if status, out, errs := on(t, store, at.AddDate(0, 0, 7*i), "deduct", "alice", cost, "--operation", cost); status != statusAllowed {
			t.Fatal(status, out, errs)
		}
	}
	status, out, errs := on(t, store, time.Date(2026, 5, 29, 20, 0, 0, 0, time.UTC), "usage", "alice")
	const want = `alice, slots, plan free

2026-W22  ██████████████▍░░░░░░░░░░░░░░░  96 of 200 used (48.0 %), 104 remain
week turns Mon 1 Jun 2026 00:00 UTC, in 2d 4h

2026-W21  ██████████████████████████████  200
2026-W20  ████████████████████▋░░░░░░░░░  138
`
	if status != statusAllowed || out != want || errs != "" {
		t.Errorf("status %d, stderr %q, got\n%swant\n%s", status, errs, out, want)
	}
}
