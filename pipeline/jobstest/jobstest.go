// Package jobstest holds the tests that each table of jobs passes.
package jobstest

import (
	"context"
	"fmt"
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
		ID: "a/b ü 日本", UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 3, Returns: 2,
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
			{ID: "a", UserID: "alice", Status: pipeline.Running, Attempt: 1, Returns: 1},
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
	t.Run("TheJobOpenForLongestIsFoundFirst", func(t *testing.T) {
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
		// The place is that of the request; whether it has changed since, only its record tells.
		opened(t, jobs, pipeline.Opened{}, noon.Add(-time.Hour), "changed just now", "oldest", "older", "old")
		opened(t, jobs, pipeline.Opened{Since: noon.Add(-5 * time.Hour), ID: "changed just now"}, noon.Add(-time.Hour), "oldest", "older", "old")
		opened(t, jobs, pipeline.Opened{Since: noon.Add(-4 * time.Hour), ID: "older"}, noon, "old", "new")
		opened(t, jobs, pipeline.Opened{}, noon.Add(-3*time.Hour), "changed just now", "oldest", "older")
		// A run that leaves younger jobs alone goes on after a place that is later than its time.
		opened(t, jobs, pipeline.Opened{Since: noon.Add(-time.Minute), ID: "new"}, noon.Add(-time.Hour))
		// One that has come to its end is found no more.
		swap(t, jobs, pipeline.Job{ID: "older", UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 1},
			pipeline.Job{ID: "older", UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.Charged, Attempt: 1, UpdatedAt: noon.Add(-4 * time.Hour)}, true)
		opened(t, jobs, pipeline.Opened{}, noon.Add(-time.Hour), "changed just now", "oldest", "old")
		n := 0
		if err := jobs.Open(t.Context(), pipeline.Opened{}, noon, func(pipeline.Opened) bool { n++; return false }); err != nil || n != 1 {
			t.Errorf("%d jobs after the first, %v", n, err)
		}
	})
	t.Run("EveryOpenJobIsFoundInOneOrder", func(t *testing.T) {
		jobs := open(t)
		var want []string
		for i := range 300 { // in every shard; many of one instant
			j := pipeline.Job{ID: fmt.Sprintf("job-%03d", i), UserID: "alice", Status: pipeline.Running, Attempt: 1, UpdatedAt: noon.Add(time.Duration(i/50) * time.Minute)}
			swap(t, jobs, pipeline.Job{}, j, true)
			want = append(want, j.ID)
		}
		opened(t, jobs, pipeline.Opened{}, noon.Add(time.Hour), want...)
		for _, i := range []int{0, 1, 49, 50, 173, 298, 299} {
			opened(t, jobs, pipeline.Opened{Since: noon.Add(time.Duration(i/50) * time.Minute), ID: want[i]}, noon.Add(time.Hour), want[i+1:]...)
		}
	})
	t.Run("TheBookmarkIsKept", func(t *testing.T) {
		jobs := open(t)
		for _, at := range []pipeline.Opened{{}, {Since: noon.Add(1234 * time.Millisecond), ID: "a/b ü"}, {Since: noon, ID: "b"}, {}} {
			if err := jobs.SetBookmark(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			if got, err := jobs.Bookmark(t.Context()); err != nil || got != at {
				t.Errorf("%+v, %v, want %+v", got, err, at)
			}
		}
		// It is no job.
		if err := jobs.SetBookmark(t.Context(), pipeline.Opened{Since: noon, ID: "b"}); err != nil {
			t.Fatal(err)
		}
		if err := jobs.List(t.Context(), pipeline.Filter{}, func(j pipeline.Job) bool { t.Errorf("listed: %+v", j); return true }); err != nil {
			t.Error(err)
		}
		opened(t, jobs, pipeline.Opened{}, noon.Add(time.Hour))
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

func opened(t *testing.T, jobs pipeline.Jobs, after pipeline.Opened, before time.Time, want ...string) {
	t.Helper()
	var ids []string
	if err := jobs.Open(t.Context(), after, before, func(o pipeline.Opened) bool { ids = append(ids, o.ID); return true }); err != nil || !slices.Equal(ids, want) {
		t.Errorf("after %v: %q, %v, want %q", after, ids, err, want)
	}
}
