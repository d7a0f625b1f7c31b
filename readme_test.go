package headroom_test

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	_ "github.com/lumcast/headroom/embedded" // whose change runs the test again
)

// TestTheReadmesProgramRuns builds the Go program in README.md, and runs it twice: it prints what
// README.md says, and charges once.
func TestTheReadmesProgramRuns(t *testing.T) {
	program, prints := readme(t)
	if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
		t.Errorf("the program is not formatted (%v)", err)
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "readme")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	// Built from here, its imports are this module and what this module requires.
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	lines := strings.SplitAfter(prints, "\n")
	again := strings.Repeat(lines[len(lines)-2], 4)
	for {
		week, stores := headroom.ISOWeek(time.Now()), t.TempDir()
		first, second := runIn(t, stores, binary), runIn(t, stores, binary)
		if headroom.ISOWeek(time.Now()) != week {
			continue // it turned meanwhile, and what is used with it
		}
		if first != prints || second != again {
			t.Errorf("it printed\n%sand then\n%swant\n%sand then\n%s", first, second, prints, again)
		}
		return
	}
}

// runIn runs a program in a directory and returns what it prints.
func runIn(t *testing.T, dir, program string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program)
	c.Dir = dir // where its store comes to lie
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// readme returns the Go program of README.md, and the next block after it: what it prints.
func readme(t *testing.T) (program, prints string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```go\n")
	program, rest, _ = strings.Cut(rest, "```\n")
	_, rest, _ = strings.Cut(rest, "```\n")
	prints, rest, ok := strings.Cut(rest, "```\n")
	if !ok || strings.Contains(rest, "```go\n") {
		t.Fatal("README.md does not have one block of Go, and after it what that prints")
	}
	return program, prints
}
