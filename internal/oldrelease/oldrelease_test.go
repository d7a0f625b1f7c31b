package oldrelease_test

import (
	"strings"
	"testing"

	"github.com/lumcast/headroom/internal/oldrelease"
)

func TestOldProgramRuns(t *testing.T) {
	store := "embedded:" + t.TempDir()
	for _, want := range []struct {
		cost   string
		status int
	}{{"150", 0}, {"150", 0}, {"100", 2}} { // charged, a replay, another cost for the same operation
		out, status := oldrelease.Run(t, "deduct", "ann", want.cost, "--operation", "a", "--store", store)
		if status != want.status {
			t.Errorf("cost %s: status %d, want %d: %s", want.cost, status, want.status, out)
		}
	}
	out, status := oldrelease.Run(t, "usage", "ann", "--json", "--store", store)
	if status != 0 || !strings.Contains(out, `"used":150`) {
		t.Errorf("status %d: %s", status, out)
	}
}
