package onaws_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/internal/oldrelease"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// TestTwoReleasesFinishTheSameJobs lets the release before this one and this one reconcile one
// table of jobs at the same time, while this one still writes items that the other reads.
func TestTwoReleasesFinishTheSameJobs(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_REGION", "eu-central-1")
	endpoint := enginetest.Start(t, "dynoxide")
	table := open(t, "dynoxide").Table
	stack, err := onaws.New(aws.Config{Region: "eu-central-1", Credentials: keys, BaseEndpoint: &endpoint}, onaws.Settings{
		Users: table + "-users", Jobs: table, StateMachine: machine, Format: 1, Options: pipeline.Options{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := stack.Store.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	const jobs = 150
	at := time.Now().Add(-3 * time.Hour).UTC()
	for i := range jobs {
		j := pipeline.Job{ID: fmt.Sprintf("job-%03d", i), UserID: fmt.Sprintf("user-%d", i%5), Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 1, Class: "standard", Seconds: 60, Cost: 1,
			Operation: fmt.Sprintf("job-%03d", i), RequestedAt: at, FinishedAt: at, UpdatedAt: at}
		if done, err := stack.Jobs.Swap(t.Context(), pipeline.Job{}, j); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	old := func(verb ...string) string {
		t.Helper()
		out, status := oldrelease.Run(t, append(verb, "--jobs", table, "--region", "eu-central-1", "--endpoint", endpoint,
			"--store", "dynamodb:"+table+"-users?region=eu-central-1&endpoint="+endpoint)...)
		if status != 0 {
			t.Errorf("the old release, asked to %q: status %d\n%s", verb, status, out)
		}
		return out
	}
	// What this release keeps beside the jobs does not disturb the other.
	if err := stack.Jobs.SetRules(t.Context(), stack.Settings.Rules()); err != nil {
		t.Fatal(err)
	}
	if err := stack.Jobs.SetBookmark(t.Context(), pipeline.Opened{Since: at, ID: "job-070"}); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() { old("reconcile", "--state-machine", machine) })
	both.Go(func() {
		if r, err := stack.Pipeline.Reconcile(t.Context(), stack.Settings.Reconcile); err != nil || r.Failed > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	both.Wait()
	open := 0
	if err := stack.Jobs.Open(t.Context(), pipeline.Opened{}, time.Now(), func(pipeline.Opened) bool { open++; return true }); err != nil || open > 0 {
		t.Errorf("%d jobs are open, %v", open, err)
	}
	for i := range 5 {
		user := fmt.Sprintf("user-%d", i)
		if u, err := stack.Engine.Usage(t.Context(), headroom.UsageRequest{Subject: user, Meter: "slots"}); err != nil || u.Limits[0].Used != jobs/5 {
			t.Errorf("%s has used %d, %v, want %d", user, u.Limits[0].Used, err, jobs/5)
		}
	}
	old("jobs", "list", "--most", "1000")
	old("jobs", "show", "job-001")
}
