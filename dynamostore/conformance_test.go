package dynamostore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/storetest"
)

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, engine string) { storetest.Run(t, harness(engine)) })
}

func TestConcurrent(t *testing.T) {
	each(t, func(t *testing.T, engine string) { storetest.Concurrent(t, harness(engine)) })
}

func TestModel(t *testing.T) {
	each(t, func(t *testing.T, engine string) { storetest.Model(t, harness(engine)) })
}

func harness(engine string) storetest.Harness {
	return storetest.Harness{
		Checks: 10,
		Open: func(tb testing.TB, clock func() time.Time) headroom.Store {
			store, err := dynamostore.New(enginetest.Client(tb, engine, &wire{clock: clock}, 3), dynamostore.Options{Table: fmt.Sprintf("users-%d", tables.Add(1))})
			if err == nil {
				err = store.CreateTables(context.Background())
			}
			if err != nil {
				tb.Fatal(err)
			}
			return store
		},
	}
}
