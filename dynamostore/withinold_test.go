package dynamostore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
)

// newer is this release on the same table, which writes the newest format.
func (r *releases) newer() *headroom.Engine {
	r.t.Helper()
	cfg, err := config.Parse("plans", []byte(plansOfBoth))
	if err != nil {
		r.t.Fatal(err)
	}
	store, err := dynamostore.New(enginetest.Client(r.t, dynoxide, &wire{}, 3), dynamostore.Options{Table: r.table})
	if err != nil {
		r.t.Fatal(err)
	}
	engine, err := headroom.New(store, cfg.Catalog, headroom.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	return engine
}

func (r *releases) within(e *headroom.Engine, user, id string, cost int64) headroom.DecisionWithin {
	r.t.Helper()
	j, err := e.DeductWithin(r.t.Context(), "acme", request(user, id, cost))
	if err != nil || !j.Allowed {
		r.t.Errorf("%s of %s: %+v, %v", id, user, j, err)
	}
	return j
}

func (r *releases) uses(want map[string]int64) {
	r.t.Helper()
	for subject, used := range want {
		u, err := r.engine.Usage(r.t.Context(), headroom.UsageRequest{Subject: subject, Meter: "slots"})
		if err != nil || u.Limits[0].Used != used || u.Limits[0].Held != 0 {
			r.t.Errorf("%s has used %d and holds %d, want %d: %v", subject, u.Limits[0].Used, u.Limits[0].Held, used, err)
		}
	}
}

// TestWithinAfterTheReleaseBefore: what the release before has charged within an organisation is a
// repeat to this one, in format 1 and where the table is brought to format 2.
func TestWithinAfterTheReleaseBefore(t *testing.T) {
	r := bothReleases(t, dynamostore.Options{Format: 1})
	const jobs = 12
	id := func(user string, n int) string { return fmt.Sprintf("%s-%d", user, n) }
	users := []string{"ann", "bob"}
	old := func(user, id string) {
		if !r.old("deduct", user, "5", "--operation", id, "--within", "acme") {
			t.Errorf("%s is refused by the release before", id)
		}
	}
	var all sync.WaitGroup
	for _, user := range users {
		all.Go(func() {
			for n := range jobs {
				old(user, id(user, n))
			}
		})
	}
	all.Wait()
	for _, user := range users {
		for n := range jobs {
			r.within(r.engine, user, id(user, jobs-1-n), 5)
		}
	}
	r.uses(map[string]int64{"ann": 5 * jobs, "bob": 5 * jobs, "acme": 10 * jobs})

	// A repeat leaves nothing at a user that the release before does not know. A hold that it makes at
	// the organisation does.
	for _, subject := range []string{"ann", "bob"} {
		item := r.item(subject)
		if format, ok := item["quotaFormat"].(*types.AttributeValueMemberN); !ok || format.Value != "1" || item["quotaDebts"] != nil {
			t.Errorf("the item of %s is of format %v, with debts %v", subject, item["quotaFormat"], item["quotaDebts"])
		}
	}
	for _, table := range []string{r.table, r.table + "-ledger"} {
		out, err := r.raw.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range out.Items {
			text, err := json.Marshal(item) // a "<" as an escape
			if err != nil || strings.Contains(string(text), `\u003c`) || strings.Contains(string(text), "owes#") {
				t.Errorf("%s has %s: %v", table, text, err)
			}
		}
	}

	// The next release of this program writes format 2. What was charged before is a repeat to it.
	newer := r.newer()
	for _, user := range users {
		for n := range jobs {
			if j := r.within(newer, user, id(user, n), 5); !j.User.Replay || !j.Organisation.Replay || j.Operation != id(user, n) {
				t.Errorf("%s is charged again: %+v", id(user, n), j)
			}
		}
	}
	r.uses(map[string]int64{"ann": 5 * jobs, "bob": 5 * jobs, "acme": 10 * jobs})
	// Now both may call their work by one name, and whoever still writes format 1 repeats it.
	for _, user := range users {
		if j := r.within(newer, user, "one", 7); j.User.Replay || j.Organisation.Replay || j.Operation != headroom.OperationWithin(user, "one") {
			t.Errorf("the first of %s: %+v", user, j)
		}
	}
	for _, e := range []*headroom.Engine{r.engine, newer} {
		for _, user := range users {
			if j := r.within(e, user, "one", 7); !j.User.Replay || !j.Organisation.Replay {
				t.Errorf("the repeat of %s: %+v", user, j)
			}
		}
	}
	// A user whose item nobody has brought to format 2 yet, beside an organisation whose item is.
	for _, e := range []*headroom.Engine{r.engine, newer, r.engine} {
		if j := r.within(e, "cyd", "one", 7); !j.User.Replay && j.Operation != "one" {
			t.Errorf("cyd: %+v", j)
		}
	}
	r.uses(map[string]int64{"ann": 5*jobs + 7, "bob": 5*jobs + 7, "cyd": 7, "acme": 10*jobs + 21})
}
