package dynamostore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lumcast/headroom"
)

// TestMovedIDsKeepTheirOrganisation: rule 5 and case 52 hold for ids that lie in the ledger.
func TestMovedIDsKeepTheirOrganisation(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		now := time.Date(2031, time.May, 27, 10, 0, 0, 0, time.UTC)
		store := harness(engine).Open(t, func() time.Time { return now })
		c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 1000}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := headroom.New(store, c, headroom.Options{Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		within := func(organisation, id string) (headroom.DecisionWithin, error) {
			return e.DeductWithin(t.Context(), organisation, request("user", id, 1))
		}
		const jobs = 60
		for i := range jobs {
			if j, err := within("acme", fmt.Sprintf("job-with-a-long-id-%02d", i)); err != nil || !j.Allowed {
				t.Fatalf("%d: %+v, %v", i, j, err)
			}
		}
		for i := range jobs {
			id := fmt.Sprintf("job-with-a-long-id-%02d", i)
			if _, err := within("globex", id); !errors.Is(err, headroom.Conflict) {
				t.Fatalf("%s within another organisation: %v", id, err)
			}
			if _, err := e.Deduct(t.Context(), request("user", id, 1)); !errors.Is(err, headroom.Conflict) {
				t.Fatalf("%s alone: %v", id, err)
			}
			if j, err := within("acme", id); err != nil || !j.User.Replay || !j.Organisation.Replay {
				t.Fatalf("the repeat of %s: %+v, %v", id, j, err)
			}
		}
		for subject, want := range map[string]int64{"user": jobs, "acme": jobs, "globex": 0} {
			u, err := e.Usage(t.Context(), headroom.UsageRequest{Subject: subject, Meter: "slots"})
			if err != nil || u.Limits[0].Used != want || u.Limits[0].Held != 0 {
				t.Errorf("%s has used %d and holds %d, want %d: %v", subject, u.Limits[0].Used, u.Limits[0].Held, want, err)
			}
		}
	})
}

// TestADamagedRowOfADebtBlocksNoOther: in no partition of the list, and it is logged. The rows of
// one key follow one another, so one that tells the key still leads to its debts.
func TestADamagedRowOfADebtBlocksNoOther(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		leave := func(user, organisation string) {
			debt := headroom.Debt{To: organisation, Cost: 7, Since: tuesday}
			c := headroom.Change{
				Key: headroom.Key{Subject: user, Meter: "slots"}, PlanOrNone: true,
				Debts: []headroom.DebtStep{{ID: "work of " + user, Is: &debt}},
			}
			if _, done, err := r.store.Commit(t.Context(), c); !done || err != nil {
				t.Fatal(done, err)
			}
		}
		putRow := func(row attributes) {
			in := &dynamodb.PutItemInput{TableName: aws.String(r.opts.Table + "-ledger"), Item: row}
			if _, err := r.raw.PutItem(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
		leave("ann", "acme")
		rows := r.ledger()
		leave("ben", "acme")
		for _, row := range rows {
			if row["subject"] != nil {
				row["since"] = s("yesterday")
				putRow(row)
			}
		}
		for shard := range 16 {
			putRow(attributes{"key": s(fmt.Sprintf("owes#%02d", shard)), "row": s("!"), "subject": n(7)})
		}
		// An item that does not read.
		leave("cid", "acme")
		r.put(attributes{"userId": s("cid"), "quotaWeek": n(7)})
		done, err := r.engine.FinishDebts(t.Context())
		if done != (headroom.Finished{Settled: 2}) || !errors.Is(err, headroom.Unreadable) {
			t.Errorf("%+v, %v", done, err)
		}
		if used := r.used("acme"); used != 14 {
			t.Errorf("acme has used %d", used)
		}
		if log := r.log.String(); strings.Count(log, "does not read") < 17 {
			t.Errorf("the log tells of fewer than 17 rows: %s", log)
		}
		leave("dan", "acme")
		if _, err := r.engine.Forget(t.Context(), "dan", nil); err != nil {
			t.Errorf("dan cannot be forgotten: %v", err)
		}
		if used := r.used("acme"); used != 21 || r.item("dan") != nil {
			t.Errorf("acme has used %d, of dan there is %v", used, r.item("dan"))
		}
	})
}
