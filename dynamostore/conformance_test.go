package dynamostore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/proof/report"
	"github.com/lumcast/headroom/storetest"
)

// TestConformance tests all rules on Dynoxide and the contract on dynalite; the long version tests
// all rules on both. Dynalite differs for the store in that it does not send the item along when a
// condition fails. On an engine in memory that does not either, package memdynamo tests all rules.
func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		if engine != dynoxide && !report.Long() {
			storetest.Contract(t, harness(engine))
			return
		}
		began, before := time.Now(), tables.Load()
		storetest.Run(t, harness(engine))
		report.Add(t, report.Row{
			Part: "rules", Name: engine, Count: tables.Load() - before, Unit: "stores", Took: time.Since(began),
		})
	})
}

func TestConcurrent(t *testing.T) {
	each(t, func(t *testing.T, engine string) { storetest.Concurrent(t, harness(engine)) })
}

func TestModel(t *testing.T) {
	each(t, func(t *testing.T, engine string) { storetest.Model(t, harness(engine)) })
}

func harness(engine string) storetest.Harness {
	var names sync.Map // of the tables of each store
	open := func(tb testing.TB, clock func() time.Time, table string) headroom.Store {
		store, err := dynamostore.New(enginetest.Client(tb, engine, &wire{clock: clock}, 3), dynamostore.Options{Table: table})
		if err == nil {
			err = store.CreateTables(context.Background())
		}
		if err != nil {
			tb.Fatal(err)
		}
		names.Store(headroom.Store(store), table)
		return store
	}
	return storetest.Harness{
		Checks: 10,
		Open: func(tb testing.TB, clock func() time.Time) headroom.Store {
			return open(tb, clock, fmt.Sprintf("users-%d", tables.Add(1)))
		},
		Reopen: func(tb testing.TB, closed headroom.Store, clock func() time.Time) headroom.Store {
			table, _ := names.Load(closed)
			return open(tb, clock, table.(string))
		},
	}
}
