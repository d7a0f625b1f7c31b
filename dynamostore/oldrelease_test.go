package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/internal/oldrelease"
)

// plansOfBoth is the configuration of both releases. The windows are years, so that none turns
// while the test runs.
const plansOfBoth = `
horizon: 15d
default_plan: wide
plans:
  wide: {limits: [{meter: slots, name: week, window: year, units: 100000, thresholds: []}]}
  tight: {limits: [{meter: slots, name: week, window: year, units: 30, thresholds: []}]}
`

// releases are the release before and this one, on one table.
type releases struct {
	t      *testing.T
	engine *headroom.Engine // this one
	store  *dynamostore.Store
	raw    *dynamodb.Client
	table  string
	args   []string // of the old program: store and configuration
}

func bothReleases(t *testing.T, opts dynamostore.Options) *releases {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if opts.Table == "" {
		opts.Table = fmt.Sprintf("beside-%d", tables.Add(1))
	}
	file := filepath.Join(t.TempDir(), "headroom.yaml")
	if err := os.WriteFile(file, []byte(plansOfBoth), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("plans", []byte(plansOfBoth))
	if err != nil {
		t.Fatal(err)
	}
	r := &releases{t: t, raw: enginetest.Client(t, dynoxide, &wire{}, 1), table: opts.Table}
	if r.store, err = dynamostore.New(enginetest.Client(t, dynoxide, &wire{}, 3), opts); err != nil {
		t.Fatal(err)
	}
	if err := r.store.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.engine, err = headroom.New(r.store, cfg.Catalog, headroom.Options{}); err != nil {
		t.Fatal(err)
	}
	r.args = []string{"--config", file, "--store", "dynamodb:" + opts.Table + "?region=eu-west-1&endpoint=" + enginetest.Start(t, dynoxide)}
	return r
}

// old asks the release before. It returns whether it said yes.
func (r *releases) old(verb ...string) bool {
	r.t.Helper()
	out, status := oldrelease.Run(r.t, append(verb, r.args...)...)
	if status == 2 {
		r.t.Errorf("the old release, asked to %q: %s", verb, out)
	}
	return status == 0
}

// this asks this release.
func (r *releases) this(verb ...string) bool {
	r.t.Helper()
	ctx := context.Background()
	operation := func(id string, units string) headroom.Request {
		n, err := strconv.ParseInt(units, 10, 64)
		if err != nil {
			r.t.Fatal(err)
		}
		return headroom.Request{Subject: verb[1], Meter: "slots", Operation: id, Cost: n}
	}
	var d headroom.Decision
	var err error
	switch verb[0] {
	case "deduct":
		d, err = r.engine.Deduct(ctx, operation(verb[4], verb[2]))
	case "hold":
		d, err = r.engine.Hold(ctx, operation(verb[4], verb[2]), time.Hour)
	case "settle":
		d, err = r.engine.Settle(ctx, operation(verb[4], verb[2]))
	case "release":
		d, err = r.engine.Release(ctx, operation(verb[3], "0").Held())
	case "refund":
		units, bad := strconv.ParseInt(verb[7], 10, 64)
		if bad != nil {
			r.t.Fatal(bad)
		}
		d, err = r.engine.Refund(ctx, headroom.RefundRequest{Subject: verb[1], Meter: "slots", Operation: verb[3], ID: verb[5], Units: units})
	case "grant":
		units, bad := strconv.ParseInt(verb[2], 10, 64)
		if bad != nil {
			r.t.Fatal(bad)
		}
		d, err = r.engine.Grant(ctx, headroom.GrantRequest{Subject: verb[1], Meter: "slots", ID: verb[4], Units: units, Lasts: 24 * time.Hour})
	default:
		r.t.Fatal(verb)
	}
	if err != nil {
		r.t.Errorf("this release, asked to %q: %v", verb, err)
	}
	return err == nil && d.Allowed
}

// work is one piece of work, as both releases do it, and what it comes to.
func work(subject string, n int) (verbs [][]string, used int64) {
	id, units := fmt.Sprintf("5e0fdc1e-3f0c-4d55-9f3d-%012d", n), int64(2+n%7)
	deduct := []string{"deduct", subject, fmt.Sprint(units), "--operation", id}
	refund := func(units int64) []string {
		return []string{"refund", subject, "--operation", id, "--id", "refund-" + id, "--units", fmt.Sprint(units)}
	}
	switch n % 3 {
	case 0:
		return [][]string{deduct, refund(1)}, units - 1
	case 1:
		return [][]string{deduct, refund(units)}, 0
	}
	return [][]string{deduct}, units
}

// TestTwoReleasesAtOnce lets the release before this one and this one do the same work on the same
// items at the same time, while this one still writes what the other reads. Holds are not among it:
// with its first hold of this release an item gets a format that the other does not read.
func TestTwoReleasesAtOnce(t *testing.T) {
	r := bothReleases(t, dynamostore.Options{Format: 1})
	const pieces = 45
	subjects := []string{"ann", "bob"}
	var want int64
	for n := range pieces {
		_, used := work("", n)
		want += used
	}
	var all sync.WaitGroup
	for _, subject := range subjects {
		for _, ask := range []func(...string) bool{r.old, r.this} {
			for part := range 2 { // two of each release, which begin at different ends
				all.Go(func() {
					for i := range pieces {
						n := i
						if part == 1 {
							n = pieces - 1 - i
						}
						verbs, _ := work(subject, n)
						for _, verb := range verbs {
							if !ask(verb...) {
								t.Errorf("%q is refused", verb)
							}
						}
					}
				})
			}
		}
	}
	all.Wait()
	for _, subject := range subjects {
		u, err := r.engine.Usage(t.Context(), headroom.UsageRequest{Subject: subject, Meter: "slots"})
		if err != nil || u.Limits[0].Used != want || u.Limits[0].Held != 0 {
			t.Errorf("%s has used %d and holds %d, %v, want %d", subject, u.Limits[0].Used, u.Limits[0].Held, err, want)
		}
		out, status := oldrelease.Run(t, append([]string{"usage", subject, "--json"}, r.args...)...)
		if status != 0 || !strings.Contains(out, fmt.Sprintf(`"used":%d,`, want)) {
			t.Errorf("the old release reads of %s: %s, want %d used", subject, out, want)
		}
		// Ids have moved to the ledger on the way: both releases looked there.
		item := r.item(subject)
		if gen, ok := item["quotaGen"].(*types.AttributeValueMemberN); !ok || gen.Value == "0" {
			t.Errorf("no ids of %s have moved: %v", subject, item["quotaGen"])
		}
		if format, ok := item["quotaFormat"].(*types.AttributeValueMemberN); !ok || format.Value != "1" {
			t.Errorf("the item of %s is of format %v", subject, item["quotaFormat"])
		}
	}
}

// TestTwoReleasesAreNeverOver lets both admit until nothing is left of a plan and of a grant that
// both have made.
func TestTwoReleasesAreNeverOver(t *testing.T) {
	r := bothReleases(t, dynamostore.Options{Format: 1})
	if err := r.engine.SetPlan(t.Context(), "cid", "tight"); err != nil {
		t.Fatal(err)
	}
	const tries, limit = 20, 30 + 12
	var admitted atomic.Int64
	var all sync.WaitGroup
	for name, ask := range map[string]func(...string) bool{"old": r.old, "this": r.this} {
		for part := range 2 {
			all.Go(func() {
				if !ask("grant", "cid", "12", "--id", "goodwill", "--for", "24h") {
					t.Error("the grant is refused")
				}
				for i := range tries {
					if ask("deduct", "cid", "1", "--operation", fmt.Sprintf("%s-%d-%d", name, part, i)) {
						admitted.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	if n := admitted.Load(); n != limit {
		t.Errorf("%d of %d were admitted, want %d", n, 4*tries, limit)
	}
}

// TestTheOldReleaseRefusesWhatItCannotRead writes an item in the newest format.
func TestTheOldReleaseRefusesWhatItCannotRead(t *testing.T) {
	r := bothReleases(t, dynamostore.Options{})
	if !r.this("deduct", "dan", "5", "--operation", "a") {
		t.Fatal("refused")
	}
	before := r.item("dan")
	for _, verb := range [][]string{
		{"deduct", "dan", "5", "--operation", "b"}, {"deduct", "dan", "5", "--operation", "a"}, {"hold", "dan", "5", "--operation", "c", "--for", "1h"},
		{"refund", "dan", "--operation", "a", "--id", "r"}, {"grant", "dan", "5", "--id", "g", "--for", "24h"}, {"usage", "dan"}, {"preflight", "dan", "1"},
	} {
		out, status := oldrelease.Run(t, append(append(verb, "--json"), r.args...)...)
		if status != 2 || !strings.Contains(out, `"code":"format"`) {
			t.Errorf("%q: status %d: %s", verb, status, out)
		}
	}
	if after := r.item("dan"); !reflect.DeepEqual(after, before) {
		t.Errorf("the old release has changed it to\n%v\nit was\n%v", after, before)
	}
	// What the release before has written is read, and is of the newest format after the next write.
	if !r.old("deduct", "eve", "7", "--operation", "a") || !r.this("deduct", "eve", "7", "--operation", "a") || !r.this("deduct", "eve", "3", "--operation", "b") {
		t.Error("refused")
	}
	if u, err := r.engine.Usage(t.Context(), headroom.UsageRequest{Subject: "eve", Meter: "slots"}); err != nil || u.Limits[0].Used != 10 {
		t.Errorf("%+v, %v, want 10 used", u, err)
	}
	if _, status := oldrelease.Run(t, append([]string{"usage", "eve"}, r.args...)...); status != 2 {
		t.Errorf("the old release still reads it: status %d", status)
	}
	// This release refuses a format that is newer than it, too.
	item := r.item("eve")
	item["quotaFormat"] = &types.AttributeValueMemberN{Value: "99"}
	if _, err := r.raw.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &r.table, Item: item}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.engine.Deduct(t.Context(), headroom.Request{Subject: "eve", Meter: "slots", Operation: "c", Cost: 1}); !errors.Is(err, headroom.Unreadable) {
		t.Error(err)
	}
}

func (r *releases) item(subject string) map[string]types.AttributeValue {
	r.t.Helper()
	out, err := r.raw.GetItem(r.t.Context(), &dynamodb.GetItemInput{TableName: &r.table, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{"userId": &types.AttributeValueMemberS{Value: subject}}})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Item
}

// TestHoldsOfTheReleaseBefore: this release settles, extends and gives back what the release before
// holds. From then on that release refuses the subject, changes nothing, and says why.
func TestHoldsOfTheReleaseBefore(t *testing.T) {
	r := bothReleases(t, dynamostore.Options{Format: 1})
	for _, id := range []string{"settled", "released", "kept", "a-hold-with-a-long-id-of-its-own"} {
		if !r.old("hold", "ann", "20", "--operation", id, "--for", "1h") {
			t.Fatal("refused")
		}
	}
	request := func(operation string, cost int64) headroom.Request {
		return headroom.Request{Subject: "ann", Meter: "slots", Operation: operation, Cost: cost}
	}
	before := r.item("ann")
	if u, err := r.engine.Usage(t.Context(), headroom.UsageRequest{Subject: "ann", Meter: "slots"}); err != nil || u.Limits[0].Held != 80 || len(u.Holds) == 0 {
		t.Errorf("usage: %+v, %v", u, err)
	}
	if after := r.item("ann"); !reflect.DeepEqual(after, before) {
		t.Error("a look has changed the item")
	}
	if d, err := r.engine.Settle(t.Context(), request("settled", 15)); err != nil || d.Used != 15 || d.Held != 60 {
		t.Errorf("settle: %+v, %v", d, err)
	}
	if d, err := r.engine.Release(t.Context(), request("released", 0).Held()); err != nil || d.Used != 15 || d.Held != 40 {
		t.Errorf("release: %+v, %v", d, err)
	}
	if d, err := r.engine.Hold(t.Context(), request("kept", 20), time.Hour); err != nil || !d.Replay || d.Expires.IsZero() {
		t.Errorf("hold: %+v, %v", d, err)
	}
	before = r.item("ann")
	for _, verb := range [][]string{{"settle", "ann", "20", "--operation", "kept"}, {"usage", "ann"}, {"deduct", "ann", "5", "--operation", "b"}} {
		if out, status := oldrelease.Run(t, append(append(verb, "--json"), r.args...)...); status != 2 || !strings.Contains(out, `"code":"format"`) {
			t.Errorf("%q: status %d: %s", verb, status, out)
		}
	}
	if after := r.item("ann"); !reflect.DeepEqual(after, before) {
		t.Error("the release before has changed the item")
	}
	for id, held := range map[string]int64{"kept": 25, "a-hold-with-a-long-id-of-its-own": 30} {
		if d, err := r.engine.Settle(t.Context(), request(id, held)); err != nil || !d.Allowed || d.Replay {
			t.Errorf("settle %s: %+v, %v", id, d, err)
		}
	}
	if u, err := r.engine.Usage(t.Context(), headroom.UsageRequest{Subject: "ann", Meter: "slots"}); err != nil || u.Limits[0].Used != 70 || u.Limits[0].Held != 0 {
		t.Errorf("usage: %+v, %v", u, err)
	}
}
