package main

import (
	"os"
	"strings"
	"testing"
)

// TestBurst holds what docs/holds.md says of a burst: nothing is free under holds, and its table is
// what is measured.
func TestBurst(t *testing.T) {
	results, err := measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table(results))

	refuse, record, held, short := results[0], results[1], results[2], results[3]
	if refuse.free() != 980 || refuse.unpaid != jobs-1 {
		t.Errorf("preflight only: %+v", refuse)
	}
	if record.free() != 980 || record.unpaid != 0 || record.used != spent+jobs*cost {
		t.Errorf("preflight with record: %+v", record)
	}
	if held.free() != 0 || held.unpaid != 0 || held.refused != jobs-1 || held.used != limit || held.worked != held.charged {
		t.Errorf("holds: %+v", held)
	}
	// What is not held cannot be kept free: a hold is as good as its estimate, and no job goes unpaid.
	if short.free() != 5 || short.unpaid != 0 || short.worked != short.charged {
		t.Errorf("holds that are too small: %+v", short)
	}

	page, err := os.ReadFile("../../docs/holds.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table(results)) {
		t.Errorf("the table in docs/holds.md is not this one")
	}
}
