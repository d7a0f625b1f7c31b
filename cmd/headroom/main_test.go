package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
				e.Setenv("ENDPOINT", endpoint)
				e.Setenv("STORE", "dynamodb:cli?region=local&endpoint="+endpoint)
				e.Setenv("HOLDS", "dynamodb:holds?region=local&endpoint="+endpoint)
				e.Setenv("USERS", "dynamodb:users?region=local&endpoint="+endpoint)
				e.Setenv("OTHER", "dynamodb:other?region=local&ledger=other.ledger&endpoint="+endpoint)
				return home(e)
			}
			testscript.Run(t, p)
		})
	}
}

// scripts are the settings of the scripts in a folder. Beside the usual commands they have "status
// N PROGRAM ARGUMENT...", which wants an exit status.
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

// on runs the program with a store and a clock of the test's own, and returns its exit status and
// what it wrote.
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
	if status != statusError || !strings.Contains(errs, "headroom clock accept") || !strings.HasPrefix(out, `{"error":{"code":"clock_untrusted","message":`) {
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

// TestAnInterruptStopsCleanly interrupts a replay that waits for more of its log.
func TestAnInterruptStopsCleanly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot send an interrupt to another one there")
	}
	cmd := exec.CommandContext(t.Context(), "headroom", "replay", "-", "--json", "--store", "embedded:"+t.TempDir())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The bad row tells when the one before it has been taken up.
	const rows = "completed_at,subject,operation,quality,duration_seconds\n2026-05-25T10:00:00Z,alice,job-1,standard,60\nbad\n"
	if _, err := io.WriteString(stdin, rows); err != nil {
		t.Fatal(err)
	}
	errs := bufio.NewReader(stderr)
	if line, err := errs.ReadString('\n'); err != nil || !strings.HasPrefix(line, "headroom: line 3: ") {
		t.Fatal(line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(errs)
	if err != nil || !strings.HasPrefix(string(rest), "headroom: interrupted after ") || strings.Count(string(rest), "\n") != 1 {
		t.Errorf("stderr %q, %v", rest, err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != statusError {
		t.Errorf("ended by %v, want exit status 2", err)
	}
	if out := stdout.String(); !strings.HasPrefix(out, `{"rows":`) || !strings.Contains(out, `{"error":{"code":"interrupted","message":"interrupted`) {
		t.Errorf("stdout %q", out)
	}
}

// TestNoCredentialsIsOneLine holds that nothing but the error reaches stderr where there are no
// credentials: the SDK has a line of its own for it.
func TestNoCredentialsIsOneLine(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(metadata.Close)
	cmd := exec.CommandContext(t.Context(), "headroom", "usage", "alice", "--store", "dynamodb:quota?region=local&endpoint="+metadata.URL)
	none := t.TempDir()
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "AWS_EC2_METADATA_SERVICE_ENDPOINT="+metadata.URL, "AWS_CONFIG_FILE="+filepath.Join(none, "config"), "AWS_SHARED_CREDENTIALS_FILE="+filepath.Join(none, "credentials"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != statusError {
		t.Errorf("ended by %v, want exit status 2", err)
	}
	if out := stderr.String(); !strings.HasPrefix(out, "headroom: ") || strings.Count(out, "\n") != 1 || !strings.Contains(out, "credentials") {
		t.Errorf("stderr %q", out)
	}
}

// TestTheKeysInTheHelpAreRight reads the configuration that the help of plans check shows: it is
// the one that holds without a file.
func TestTheKeysInTheHelpAreRight(t *testing.T) {
	_, help, _ := on(t, "memory:", time.Now(), "plans", "check", "--help")
	_, shown, found := strings.Cut(help, "left out:\n\n")
	shown, _, ended := strings.Cut(shown, "\n\n")
	if !found || !ended {
		t.Fatalf("no configuration in\n%s", help)
	}
	file := filepath.Join(t.TempDir(), "headroom.yaml")
	if err := os.WriteFile(file, []byte(shown), 0o600); err != nil {
		t.Fatal(err)
	}
	_, got, errs := on(t, "memory:", time.Now(), "plans", "check", file)
	_, want, _ := on(t, "memory:", time.Now(), "plans", "check")
	if got != want || errs != "" {
		t.Errorf("the configuration shown is\n%s\nthe built-in one is\n%s\n%s", got, want, errs)
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
