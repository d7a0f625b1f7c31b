// Package jobstest holds the tests that each table of jobs passes.
package jobstest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lumcast/headroom/pipeline"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// Run tests the tables that open returns, each of them empty.
func Run(t *testing.T, open func(t *testing.T) pipeline.Jobs) {
	full := pipeline.Job{
		ID: "a/b ü 日本", UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 3,
		Class: "neural", Seconds: 899.25, Cost: 1<<62 + 1, Plan: "free", Held: true, Operation: "a/b ü 日本\n3", Week: "2026-W23", Decision: "admitted", Reason: "no reason",
		RequestedAt: noon, StartedAt: noon.Add(time.Second), FinishedAt: noon.Add(time.Minute), UpdatedAt: noon.Add(1234 * time.Millisecond),
	}
	t.Run("WhatIsWrittenIsRead", func(t *testing.T) {
		jobs := open(t)
		if j, found, err := jobs.Get(t.Context(), full.ID); err != nil || found {
			t.Fatal(j, found, err)
		}
		swap(t, jobs, pipeline.Job{}, full, true)
		want(t, jobs, full)
		// What is empty in the next record is gone.
		bare := pipeline.Job{ID: full.ID, UserID: "alice", Status: pipeline.Failed, Attempt: 3, UpdatedAt: noon}
		swap(t, jobs, full, bare, true)
		want(t, jobs, bare)
	})
	t.Run("OnlyTheStateThatWasSeenIsReplaced", func(t *testing.T) {
		jobs := open(t)
		is := pipeline.Job{ID: "a", UserID: "alice", Status: pipeline.Running, Attempt: 1, UpdatedAt: noon}
		swap(t, jobs, pipeline.Job{}, is, true)
		next := is
		next.Status = pipeline.Failed
		for _, was := range []pipeline.Job{
			{}, {ID: "a", UserID: "bob", Status: pipeline.Running, Attempt: 1}, {ID: "a", UserID: "alice", Status: pipeline.Queued, Attempt: 1},
			{ID: "a", UserID: "alice", Status: pipeline.Running, Charge: pipeline.Charged, Attempt: 1}, {ID: "a", UserID: "alice", Status: pipeline.Running, Attempt: 2}, {ID: "a", UserID: "alice", Status: pipeline.Running},
		} {
			swap(t, jobs, was, next, false)
		}
		swap(t, jobs, pipeline.Job{ID: "b", UserID: "alice", Status: pipeline.Running, Attempt: 1}, pipeline.Job{ID: "b", UserID: "alice", Status: pipeline.Failed, Attempt: 1}, false)
		want(t, jobs, is)
		swap(t, jobs, is, next, true)
	})
	t.Run("OfManyAtOnceOneWrites", func(t *testing.T) {
		jobs := open(t)
		var all sync.WaitGroup
		won := make([]bool, 10)
		for i := range won {
			all.Go(func() {
				var err error
				won[i], err = jobs.Swap(context.Background(), pipeline.Job{}, pipeline.Job{ID: "a", UserID: "alice", Status: pipeline.Running, Attempt: 1, UpdatedAt: noon})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := len(slices.DeleteFunc(won, func(w bool) bool { return !w })); n != 1 {
			t.Errorf("%d have written", n)
		}
	})
	t.Run("OpenJobsAreFoundOldestFirst", func(t *testing.T) {
		jobs := open(t)
		put := func(id string, status pipeline.Status, charge pipeline.Charge, ago time.Duration) {
			swap(t, jobs, pipeline.Job{}, pipeline.Job{ID: id, UserID: "alice", Status: status, Charge: charge, Attempt: 1, UpdatedAt: noon.Add(-ago)}, true)
		}
		put("new", pipeline.Running, "", time.Minute)
		put("old", pipeline.Running, "", 3*time.Hour)
		put("older", pipeline.Succeeded, pipeline.ChargePending, 4*time.Hour)
		put("oldest", pipeline.Queued, "", 5*time.Hour)
		swap(t, jobs, pipeline.Job{}, pipeline.Job{ID: "changed just now", UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 1, RequestedAt: noon.Add(-5 * time.Hour), UpdatedAt: noon.Add(-time.Minute)}, true)
		put("charged", pipeline.Succeeded, pipeline.Charged, 6*time.Hour)
		put("failed", pipeline.Failed, "", 6*time.Hour)
		put("refused", pipeline.OverQuota, "", 6*time.Hour)
		put("unpaid", pipeline.Unpaid, "", 6*time.Hour)
		listed(t, []string{"oldest", "older", "old"}, func(use func(pipeline.Job) bool) error { return jobs.Open(t.Context(), noon.Add(-time.Hour), use) })
		// One that has come to its end is found no more.
		swap(t, jobs, pipeline.Job{ID: "older", UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 1},
			pipeline.Job{ID: "older", UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.Charged, Attempt: 1, UpdatedAt: noon.Add(-4 * time.Hour)}, true)
		listed(t, []string{"oldest", "old"}, func(use func(pipeline.Job) bool) error { return jobs.Open(t.Context(), noon.Add(-time.Hour), use) })
		n := 0
		if err := jobs.Open(t.Context(), noon, func(pipeline.Job) bool { n++; return false }); err != nil || n != 1 {
			t.Errorf("%d jobs after the first, %v", n, err)
		}
	})
	t.Run("JobsAreListedByUserAndStatus", func(t *testing.T) {
		jobs := open(t)
		for id, user := range map[string]string{"a": "alice", "b": "bob", "c": "alice"} {
			status := pipeline.Running
			if id == "c" {
				status = pipeline.Failed
			}
			swap(t, jobs, pipeline.Job{}, pipeline.Job{ID: id, UserID: user, Status: status, Attempt: 1, UpdatedAt: noon}, true)
		}
		for _, c := range []struct {
			filter pipeline.Filter
			ids    []string
		}{
			{pipeline.Filter{}, []string{"a", "b", "c"}}, {pipeline.Filter{UserID: "alice"}, []string{"a", "c"}},
			{pipeline.Filter{Status: pipeline.Running}, []string{"a", "b"}}, {pipeline.Filter{UserID: "alice", Status: pipeline.Failed}, []string{"c"}}, {pipeline.Filter{UserID: "carol"}, nil},
		} {
			var ids []string
			if err := jobs.List(t.Context(), c.filter, func(j pipeline.Job) bool { ids = append(ids, j.ID); return true }); err != nil {
				t.Fatal(err)
			}
			if slices.Sort(ids); !slices.Equal(ids, c.ids) {
				t.Errorf("%+v: %v, want %v", c.filter, ids, c.ids)
			}
		}
	})
}

func swap(t *testing.T, jobs pipeline.Jobs, was, is pipeline.Job, want bool) {
	t.Helper()
	if done, err := jobs.Swap(t.Context(), was, is); err != nil || done != want {
		t.Fatalf("a change from %+v to %+v: %v, %v, want %v", was, is, done, err, want)
	}
}

func want(t *testing.T, jobs pipeline.Jobs, want pipeline.Job) {
	t.Helper()
	if got, found, err := jobs.Get(t.Context(), want.ID); err != nil || !found || got != want {
		t.Errorf("got\n%+v, %v, %v, want\n%+v", got, found, err, want)
	}
}

func listed(t *testing.T, want []string, list func(func(pipeline.Job) bool) error) {
	t.Helper()
	var ids []string
	if err := list(func(j pipeline.Job) bool { ids = append(ids, j.ID); return true }); err != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, %v, want %v", ids, err, want)
	}
}
