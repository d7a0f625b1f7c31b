package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestAnInterruptedComparison holds that an interrupt has its own code here too, and that nothing
// is drawn.
func TestAnInterruptedComparison(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	picture := filepath.Join(t.TempDir(), "whatif.svg")
	a := &app{stdout: bufio.NewWriter(io.Discard), stderr: io.Discard, env: func(string) string { return "" }, now: time.Now}
	err := a.whatif(ctx, "../../examples/nasa-ipsc-1993/usage.csv.gz", whatifFlags{meter: "slots", picture: picture})
	if headroom.CodeOf(err) != codeInterrupted {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(picture); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a picture was drawn: %v", err)
	}
}

// TestThePictureInTheDocsIsCurrent draws docs/whatif.svg again. If it fails after a change of the
// drawing, run the command below in the root of the repository.
func TestThePictureInTheDocsIsCurrent(t *testing.T) {
	const root = "../../"
	picture := filepath.Join(t.TempDir(), "whatif.svg")
	// headroom whatif examples/nasa-ipsc-1993/usage.csv.gz --config examples/whatif/week-200.yaml
	// --config examples/whatif/week-400.yaml --config examples/whatif/day-60-week-200.yaml --svg
	// docs/whatif.svg
	status, _, errs := on(t, "memory:", time.Now(), "whatif", root+"examples/nasa-ipsc-1993/usage.csv.gz",
		"--config", root+"examples/whatif/week-200.yaml", "--config", root+"examples/whatif/week-400.yaml", "--config", root+"examples/whatif/day-60-week-200.yaml", "--svg", picture)
	if status != statusAllowed {
		t.Fatal(errs)
	}
	drawn, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(root + "docs/whatif.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(drawn, docs) {
		t.Errorf("docs/whatif.svg is not what headroom draws now")
	}
}
