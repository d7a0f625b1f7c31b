package embedded

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumcast/headroom"
)

// While the release before may open the store, a request of several meters is an error that says
// so, and nothing is written. Once the store writes the newest format, it is charged.
func TestFormatOneHasNoSeveralMeters(t *testing.T) {
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "requests", Name: "week", Units: 10}, {Meter: "tokens", Name: "week", Units: 100},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := headroom.Request{Subject: "ann", Meter: "requests", Operation: "a", Cost: 1, More: []headroom.Amount{{Meter: "tokens", Cost: 30}}}
	dir := t.TempDir()
	for _, format := range []int{1, 2} {
		s, err := Open(dir, Options{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		e, err := headroom.New(s, c, headroom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.Deduct(t.Context(), call)
		refused := headroom.CodeOf(err) == headroom.Rejected && strings.Contains(err.Error(), "newest format")
		if format == 1 && !refused || format == 2 && (err != nil || !d.Allowed || d.Replay) {
			t.Errorf("in format %d: %+v, %v", format, d, err)
		}
		for i, meter := range []string{"requests", "tokens"} {
			u, err := e.Usage(t.Context(), headroom.UsageRequest{Subject: "ann", Meter: meter})
			if want := []int64{1, 30}[i] * int64(format-1); err != nil || u.Limits[0].Used != want {
				t.Errorf("in format %d, meter %q: %+v, %v: want %d used", format, meter, u, err, want)
			}
		}
		closeStore(t, s)
	}
}

// A power cut loses a change of several keys as a whole, or not at all: of two subjects in two
// meters each, and of calls under way. What was acknowledged before it is there in all of them.
func TestSeveralKeysSurviveAPowerCutTogether(t *testing.T) {
	const calls, cuts = 40, 12
	mem := vfs.NewCrashableMem()
	clock := &hand{monday}
	s := open(t, mem, "db", clock.read)
	keys := []headroom.Key{{Subject: "ann", Meter: "requests"}, {Subject: "bob", Meter: "tokens"}, {Subject: "cleo", Meter: "tokens"}}
	week := headroom.ISOWeek(monday)
	commit := func(id string, first bool) {
		var all []headroom.Change
		for _, key := range keys {
			c := headroom.Change{
				Key: key, Horizon: headroom.DefaultHorizon, Epoch: monday,
				Records: []headroom.RecordStep{{ID: id, Is: &headroom.Record{Kind: headroom.KindDeduct, Cost: 1}}},
				Steps:   []headroom.Step{{Limit: "week", From: week, To: week, Max: 1 << 40, Add: 1}},
			}
			if first {
				c.Epoch, c.Rotate, c.Steps[0].From, c.Steps[0].Opens = time.Time{}, monday, headroom.Window{}, true
			}
			all = append(all, c)
		}
		if _, made, err := s.CommitAll(t.Context(), all); err != nil || !made {
			t.Errorf("commit %s: %t, %v", id, made, err)
		}
	}
	commit("first", true)
	var acknowledged atomic.Int64
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range calls {
				commit(fmt.Sprint(w, "-", i), false)
				acknowledged.Add(1)
			}
		})
	}
	for n := range cuts {
		least := acknowledged.Load() + 1 // and the first
		after := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: n * 100 / cuts, RNG: rand.New(rand.NewPCG(uint64(n), 1))})
		found := open(t, after, "db", clock.read)
		var counts []int64
		for _, key := range keys {
			v, err := found.Load(t.Context(), headroom.Query{Key: key})
			if err != nil {
				t.Fatal(err)
			}
			counts = append(counts, v.State.Counters["week"].Count)
		}
		if counts[0] < least || counts[1] != counts[0] || counts[2] != counts[0] {
			t.Errorf("cut %d: the counts are %d after %d that were acknowledged: want as many of each key", n, counts, least)
		}
	}
	writers.Wait()
}
