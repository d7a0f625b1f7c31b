package docs

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// noon is when the answers on the pages are given.
const noon = "2026-05-28T12:00:00Z"

// TestTheCommandsAnswerAsShown runs what pages show after a "$" in blocks of code, in order, on a
// store of the page's own. Each command answers as the page says, to the letter.
func TestTheCommandsAnswerAsShown(t *testing.T) {
	program := filepath.Join(t.TempDir(), "headroom")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, root+"/cmd/headroom").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for path, before := range map[string][]string{
		"docs/holds.md":  nil,
		"docs/meters.md": nil,
		"docs/support.md": {
			"deduct alice 120 --operation job-12 --at 2026-05-26T09:00:00Z",
			"deduct alice 50 --operation job-15 --at 2026-05-27T18:00:00Z",
		},
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			store := "embedded:" + filepath.Join(t.TempDir(), "store")
			if path == "docs/meters.md" {
				t.Setenv("HEADROOM_CONFIG", filepath.Join(root, "examples", "meters.yaml"))
			}
			for _, line := range before {
				answer(t, program, store, line)
			}
			all := shown(page{path: path, lines: split(read(t, path))})
			if len(all) < 2 {
				t.Fatalf("found only %d commands", len(all))
			}
			for _, c := range all {
				if got := answer(t, program, store, c.line); got != c.answer {
					t.Errorf("headroom %s\nanswers\n%s\nand the page shows\n%s", c.line, got, c.answer)
				}
			}
		})
	}
}

// answer runs a command at noon, unless it says another time or knows none, and returns what it
// prints.
func answer(t *testing.T, program, store, line string) string {
	t.Helper()
	args := append(strings.Fields(line), "--store", store)
	if args[0] != "plans" && !slices.Contains(args, "--at") {
		args = append(args, "--at", noon)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	var exit *exec.ExitError
	if refused := errors.As(err, &exit) && exit.ExitCode() == 1; err != nil && !refused {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// command is what a page shows of one.
type command struct{ line, answer string }

// shown returns the commands of a page, with the answers below them.
func shown(p page) (all []command) {
	var answer []string
	end := func() {
		if len(all) > 0 && len(answer) > 0 {
			all[len(all)-1].answer = strings.Trim(strings.Join(answer, "\n"), "\n")
		}
		answer = nil
	}
	in := false
	for _, l := range p.lines {
		text := strings.TrimPrefix(l.text, "    ")
		line, prompt := strings.CutPrefix(text, "$ headroom ")
		switch {
		case l.code && prompt:
			end()
			all = append(all, command{line: line})
			in = true
		case l.code && in, in && l.text == "":
			answer = append(answer, text)
		default:
			end()
			in = false
		}
	}
	end()
	return all
}
