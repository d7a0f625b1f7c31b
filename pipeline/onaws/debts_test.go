package onaws_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// indebted is a stack in which users owe to organisations, of which one item is damaged, and in
// which a finished job waits for its charge.
func indebted(t *testing.T) *onaws.Stack {
	t.Helper()
	sdk := (&network{}).sdk()
	sdk.BaseEndpoint = aws.String(enginetest.Start(t, "dynoxide"))
	table := open(t, "dynoxide").Table
	stack, err := onaws.New(sdk, onaws.Settings{
		Users: table + "-users", Jobs: table, StateMachine: machine, Options: pipeline.Options{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := stack.Store.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC().Truncate(time.Second)
	for user, organisation := range map[string]string{"ann": "acme", "ben": "broken", "cid": "acme", "dan": "globex"} {
		key := headroom.Key{Subject: user, Meter: "slots"}
		debt := headroom.Debt{To: organisation, Cost: 7, Since: at}
		c := headroom.Change{Key: key, PlanOrNone: true, Debts: []headroom.DebtStep{{ID: "work of " + user, Is: &debt}}}
		if _, done, err := stack.Store.Commit(t.Context(), c); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	users := *stack.Jobs
	users.Table = stack.Settings.Users
	put(t, &users, map[string]types.AttributeValue{
		// a number
		"userId": &types.AttributeValueMemberS{Value: "broken"}, "quotaWeek": &types.AttributeValueMemberN{Value: "7"},
	})
	j := pipeline.Job{
		ID: "job", UserID: "eve", Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 1, Class: "standard", Seconds: 60, Cost: 1,
		Operation: "job", RequestedAt: at.Add(-3 * time.Hour), FinishedAt: at.Add(-3 * time.Hour), UpdatedAt: at.Add(-3 * time.Hour),
	}
	if done, err := stack.Jobs.Swap(t.Context(), pipeline.Job{}, j); err != nil || !done {
		t.Fatal(done, err)
	}
	return stack
}

// used is what a subject has used.
func used(t *testing.T, stack *onaws.Stack, subject string) int64 {
	t.Helper()
	u, err := stack.Engine.Usage(t.Context(), headroom.UsageRequest{Subject: subject, Meter: "slots"})
	if err != nil {
		t.Fatal(err)
	}
	return u.Limits[0].Used
}

// TestReconcileFinishesDebts: the scheduled function charges what users owe to organisations. One
// debt that cannot be finished stops neither the others nor the jobs, and the run says so.
func TestReconcileFinishesDebts(t *testing.T) {
	stack := indebted(t)
	r, err := stack.Reconcile(t.Context(), nil)
	if r.Debts != (headroom.Finished{Settled: 3, Left: 1}) || !errors.Is(err, headroom.Unreadable) {
		t.Errorf("%+v, %v", r.Debts, err)
	}
	for subject, want := range map[string]int64{"acme": 14, "globex": 7, "eve": 1} {
		if n := used(t, stack, subject); n != want {
			t.Errorf("%s has used %d, want %d", subject, n, want)
		}
	}
	if r, err := stack.Reconcile(t.Context(), nil); r.Debts != (headroom.Finished{Left: 1}) || !errors.Is(err, headroom.Unreadable) {
		t.Errorf("again: %+v, %v", r.Debts, err)
	}
}
