package memstore_test

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/storetest"
)

var harness = storetest.Harness{
	Open: func(_ testing.TB, clock func() time.Time) headroom.Store { return memstore.New(clock) },

	Checks: 300,
}

func TestRules(t *testing.T)      { storetest.Run(t, harness) }
func TestConcurrent(t *testing.T) { storetest.Concurrent(t, harness) }
func TestModel(t *testing.T)      { storetest.Model(t, harness) }
