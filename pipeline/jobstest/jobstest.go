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

// Run tests the tables that open returns, each of them empty, several at the same time.
func Run(t *testing.T, open func(t *testing.T) pipeline.Jobs) {
	for _, rule := range []struct {
		name string
		test func(t *testing.T, jobs pipeline.Jobs)
	}{
		{"WhatIsWrittenIsRead", whatIsWrittenIsRead},
		{"OnlyTheStateThatWasSeenIsReplaced", onlyTheStateThatWasSeenIsReplaced},
		{"OfManyAtOnceOneWrites", ofManyAtOnceOneWrites},
		{"TheJobOpenForLongestIsFoundFirst", theJobOpenForLongestIsFoundFirst},
		{"EveryOpenJobIsFoundInOneOrder", everyOpenJobIsFoundInOneOrder},
		{"TheBookmarkIsKept", theBookmarkIsKept},
		{"JobsAreListedByUserAndStatus", jobsAreListedByUserAndStatus},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel() // to make a table is mostly waiting
			rule.test(t, open(t))
		})
	}
}

func whatIsWrittenIsRead(t *testing.T, jobs pipeline.Jobs) {
	const id = "a/b ü 日本"
	full := pipeline.Job{
		ID: id, UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 3, Returns: 2,
		Class: "neural", Seconds: 899.25, Cost: 1<<62 + 1, Plan: "free", Held: true, Operation: id + "\n3",
		Week: "2026-W23", Decision: "admitted", Reason: "no reason",
		RequestedAt: noon, StartedAt: noon.Add(time.Second), FinishedAt: noon.Add(time.Minute),
		UpdatedAt: noon.Add(1234 * time.Millisecond),
	}
	if j, found, err := jobs.Get(t.Context(), id); err != nil || found {
		t.Fatal(j, found, err)
	}
	swap(t, jobs, pipeline.Job{}, full, true)
	want(t, jobs, full)
	// A field that is empty in the next record is gone.
	bare := pipeline.Job{ID: id, UserID: "alice", Status: pipeline.Failed, Attempt: 3, UpdatedAt: noon}
	swap(t, jobs, full, bare, true)
	want(t, jobs, bare)
}

func onlyTheStateThatWasSeenIsReplaced(t *testing.T, jobs pipeline.Jobs) {
	is := pipeline.Job{ID: "a", UserID: "alice", Status: pipeline.Running, Attempt: 1, UpdatedAt: noon}
	swap(t, jobs, pipeline.Job{}, is, true)
	next := is
	next.Status = pipeline.Failed
	swap(t, jobs, pipeline.Job{}, next, false)
	for _, change := range []func(was *pipeline.Job){
		func(was *pipeline.Job) { was.UserID = "bob" },
		func(was *pipeline.Job) { was.Status = pipeline.Queued },
		func(was *pipeline.Job) { was.Charge = pipeline.Charged },
		func(was *pipeline.Job) { was.Attempt = 2 },
		func(was *pipeline.Job) { was.Attempt = 0 },
		func(was *pipeline.Job) { was.Returns = 1 },
	} {
		was := is
		change(&was)
		swap(t, jobs, was, next, false)
	}
	// A job without a record has no state that could be replaced.
	was := pipeline.Job{ID: "b", UserID: "alice", Status: pipeline.Running, Attempt: 1}
	swap(t, jobs, was, pipeline.Job{ID: "b", UserID: "alice", Status: pipeline.Failed, Attempt: 1}, false)
	want(t, jobs, is)
	swap(t, jobs, is, next, true)
}

func ofManyAtOnceOneWrites(t *testing.T, jobs pipeline.Jobs) {
	is := pipeline.Job{ID: "a", UserID: "alice", Status: pipeline.Running, Attempt: 1, UpdatedAt: noon}
	var all sync.WaitGroup
	won := make([]bool, 10)
	for i := range won {
		all.Go(func() {
			var err error
			if won[i], err = jobs.Swap(context.Background(), pipeline.Job{}, is); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(slices.DeleteFunc(won, func(w bool) bool { return !w })); n != 1 {
		t.Errorf("%d have written", n)
	}
}

func theJobOpenForLongestIsFoundFirst(t *testing.T, jobs pipeline.Jobs) {
	put := func(id string, status pipeline.Status, charge pipeline.Charge, ago time.Duration) pipeline.Job {
		j := pipeline.Job{
			ID:        id,
			UserID:    "alice",
			Status:    status,
			Charge:    charge,
			Attempt:   1,
			UpdatedAt: noon.Add(-ago),
		}
		swap(t, jobs, pipeline.Job{}, j, true)
		return j
	}
	put("new", pipeline.Running, "", time.Minute)
	put("old", pipeline.Running, "", 3*time.Hour)
	older := put("older", pipeline.Succeeded, pipeline.ChargePending, 4*time.Hour)
	put("oldest", pipeline.Queued, "", 5*time.Hour)
	put("charged", pipeline.Succeeded, pipeline.Charged, 6*time.Hour)
	put("failed", pipeline.Failed, "", 6*time.Hour)
	put("refused", pipeline.OverQuota, "", 6*time.Hour)
	put("unpaid", pipeline.Unpaid, "", 6*time.Hour)
	// The place of a job is that of its request. Whether it has changed since, only its record tells.
	swap(t, jobs, pipeline.Job{}, pipeline.Job{
		ID: "changed just now", UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 1,
		RequestedAt: noon.Add(-5 * time.Hour), UpdatedAt: noon.Add(-time.Minute),
	}, true)

	from := func(ago time.Duration, id string) pipeline.Opened {
		return pipeline.Opened{Since: noon.Add(-ago), ID: id}
	}
	all := pipeline.Opened{}
	opened(t, jobs, all, noon.Add(-time.Hour), "changed just now", "oldest", "older", "old")
	opened(t, jobs, from(5*time.Hour, "changed just now"), noon.Add(-time.Hour), "oldest", "older", "old")
	opened(t, jobs, from(4*time.Hour, "older"), noon, "old", "new")
	opened(t, jobs, all, noon.Add(-3*time.Hour), "changed just now", "oldest", "older")
	// A run that leaves young jobs alone may begin at a place that is later than its time.
	opened(t, jobs, from(time.Minute, "new"), noon.Add(-time.Hour))

	// A job that has come to its end is found no more.
	ended := older
	ended.Charge = pipeline.Charged
	swap(t, jobs, older, ended, true)
	opened(t, jobs, all, noon.Add(-time.Hour), "changed just now", "oldest", "old")

	// Nobody is told of more jobs than wanted.
	n := 0
	err := jobs.Open(t.Context(), all, noon, func(pipeline.Opened) bool { n++; return false })
	if err != nil || n != 1 {
		t.Errorf("%d jobs after the first, %v", n, err)
	}
}

func everyOpenJobIsFoundInOneOrder(t *testing.T, jobs pipeline.Jobs) {
	var ids []string
	// many of one instant
	since := func(i int) time.Time { return noon.Add(time.Duration(i/50) * time.Minute) }
	// enough for every shard
	for i := range 300 {
		j := pipeline.Job{
			ID:        fmt.Sprintf("job-%03d", i),
			UserID:    "alice",
			Status:    pipeline.Running,
			Attempt:   1,
			UpdatedAt: since(i),
		}
		swap(t, jobs, pipeline.Job{}, j, true)
		ids = append(ids, j.ID)
	}
	opened(t, jobs, pipeline.Opened{}, noon.Add(time.Hour), ids...)
	for _, i := range []int{0, 1, 49, 50, 173, 298, 299} {
		opened(t, jobs, pipeline.Opened{Since: since(i), ID: ids[i]}, noon.Add(time.Hour), ids[i+1:]...)
	}
}

func theBookmarkIsKept(t *testing.T, jobs pipeline.Jobs) {
	keep := func(at pipeline.Opened) {
		t.Helper()
		if err := jobs.SetBookmark(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		if got, err := jobs.Bookmark(t.Context()); err != nil || got != at {
			t.Errorf("%+v, %v, want %+v", got, err, at)
		}
	}
	keep(pipeline.Opened{})
	keep(pipeline.Opened{Since: noon.Add(1234 * time.Millisecond), ID: "a/b ü"})
	keep(pipeline.Opened{Since: noon, ID: "b"})
	keep(pipeline.Opened{})
	// It is no job.
	keep(pipeline.Opened{Since: noon, ID: "b"})
	listed(t, jobs, pipeline.Filter{})
	opened(t, jobs, pipeline.Opened{}, noon.Add(time.Hour))
}

func jobsAreListedByUserAndStatus(t *testing.T, jobs pipeline.Jobs) {
	for _, j := range []pipeline.Job{
		{ID: "a", UserID: "alice", Status: pipeline.Running},
		{ID: "b", UserID: "bob", Status: pipeline.Running},
		{ID: "c", UserID: "alice", Status: pipeline.Failed},
	} {
		j.Attempt, j.UpdatedAt = 1, noon
		swap(t, jobs, pipeline.Job{}, j, true)
	}
	listed(t, jobs, pipeline.Filter{}, "a", "b", "c")
	listed(t, jobs, pipeline.Filter{UserID: "alice"}, "a", "c")
	listed(t, jobs, pipeline.Filter{Status: pipeline.Running}, "a", "b")
	listed(t, jobs, pipeline.Filter{UserID: "alice", Status: pipeline.Failed}, "c")
	listed(t, jobs, pipeline.Filter{UserID: "carol"})
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
	err := jobs.Open(t.Context(), after, before,
		func(o pipeline.Opened) bool { ids = append(ids, o.ID); return true })
	if err != nil || !slices.Equal(ids, want) {
		t.Errorf("after %v: %q, %v, want %q", after, ids, err, want)
	}
}

func listed(t *testing.T, jobs pipeline.Jobs, f pipeline.Filter, want ...string) {
	t.Helper()
	var ids []string
	err := jobs.List(t.Context(), f, func(j pipeline.Job) bool { ids = append(ids, j.ID); return true })
	if slices.Sort(ids); err != nil || !slices.Equal(ids, want) {
		t.Errorf("%+v: %q, %v, want %q", f, ids, err, want)
	}
}
