package dynamostore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

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
		within := func(organisation, id string) (headroom.Joint, error) {
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
			if _, err := within("globex", id); !errors.Is(err, headroom.ErrConflict) {
				t.Fatalf("%s within another organisation: %v", id, err)
			}
			if _, err := e.Deduct(t.Context(), request("user", id, 1)); !errors.Is(err, headroom.ErrConflict) {
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
