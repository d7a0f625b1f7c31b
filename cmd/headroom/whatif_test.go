package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestThePictureInTheDocsIsCurrent draws docs/whatif.svg again. If it fails after a change of the drawing, run the command below in the root of the repository.
func TestThePictureInTheDocsIsCurrent(t *testing.T) {
	const root = "../../"
	picture := filepath.Join(t.TempDir(), "whatif.svg")
	// headroom whatif examples/nasa-ipsc-1993/usage.csv.gz --config examples/whatif/week-200.yaml --config examples/whatif/week-400.yaml --config examples/whatif/day-60-week-200.yaml --svg docs/whatif.svg
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
