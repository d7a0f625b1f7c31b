package onaws_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

// TestForgettingTakesTheJobsOfOneUser: all of them once none is open, and none before.
func TestForgettingTakesTheJobsOfOneUser(t *testing.T) {
	jobs := open(t, "dynoxide")
	at := time.Date(2031, time.May, 27, 10, 0, 0, 0, time.UTC)
	job := func(id, user string, status pipeline.Status) pipeline.Job {
		j := pipeline.Job{ID: id, UserID: user, Status: status, Attempt: 1, RequestedAt: at, UpdatedAt: at}
		if swapped, err := jobs.Swap(t.Context(), pipeline.Job{}, j); err != nil || !swapped {
			t.Fatal(swapped, err)
		}
		return j
	}
	for i := range 30 {
		job(fmt.Sprint("done-", i), "alice", pipeline.Failed)
	}
	job("bobs", "bob", pipeline.Failed)
	running := job("running", "alice", pipeline.Running)
	if n, err := jobs.Forget(t.Context(), "alice", nil); n != 0 || !errors.Is(err, headroom.Conflict) {
		t.Fatalf("while a job is open: %d jobs, %v", n, err)
	}
	ended := running
	ended.Status = pipeline.Failed
	if swapped, err := jobs.Swap(t.Context(), running, ended); err != nil || !swapped {
		t.Fatal(swapped, err)
	}
	heard := 0
	if n, err := jobs.Forget(t.Context(), "alice", func(n int) { heard = n }); n != 31 || heard != 31 || err != nil {
		t.Errorf("%d jobs, %d heard of, %v: want 31", n, heard, err)
	}
	if n, err := jobs.Forget(t.Context(), "alice", nil); n != 0 || err != nil {
		t.Errorf("again: %d jobs, %v", n, err)
	}
	var left []string
	if err := jobs.List(t.Context(), pipeline.Filter{}, func(j pipeline.Job) bool {
		left = append(left, j.ID)
		return true
	}); err != nil || fmt.Sprint(left) != "[bobs]" {
		t.Errorf("%q are left, %v: want those of bob", left, err)
	}
}
