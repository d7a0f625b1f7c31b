package dynamostore_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// mover is a process that charges ids until it is to move some to the ledger, and stops in the
// midst of that.
type mover struct {
	*rig
	ids       []string // that it charged
	stopped   chan struct{}
	goes, end chan struct{}
}

// mover returns one that has stopped: before it copies ids or, if copied, before it removes what it
// has copied.
func (r *rig) mover(prefix string, copied bool, settings ...setting) *mover {
	r.Helper()
	m := &mover{rig: r.another(settings...), stopped: make(chan struct{}), goes: make(chan struct{}), end: make(chan struct{})}
	var once sync.Once
	moves := false
	m.wire.reset(func(x *exchange) (*http.Response, error) {
		if x.op == "BatchWriteItem" && !copied || x.op == "UpdateItem" && moves {
			once.Do(func() { close(m.stopped); <-m.goes })
		}
		moves = moves || x.op == "BatchWriteItem"
		return x.pass()
	})
	go func() {
		defer close(m.end)
		for i := range 60 {
			id := fmt.Sprint(prefix, i)
			m.ids = append(m.ids, id)
			if _, err := m.deduct("u", id, 1); err != nil {
				r.Error(err)
			}
			select {
			case <-m.stopped:
				return
			default:
			}
		}
		r.Error("no ids move")
		close(m.stopped)
	}()
	<-m.stopped
	return m
}

// finish lets it go on, and waits for its end.
func (m *mover) finish() {
	close(m.goes)
	<-m.end
}

// keeper is a process that charges, and for which nothing can be moved.
func (r *rig) keeper(settings ...setting) *rig {
	k := r.another(settings...)
	k.wire.reset(func(x *exchange) (*http.Response, error) {
		if x.op == "BatchWriteItem" {
			return x.say(http.StatusBadRequest, "AccessDeniedException")
		}
		return x.pass()
	})
	return k
}

// remembers is how many ids the item itself holds of the young generation.
func (r *rig) remembers() int {
	return len(r.item("u")["quotaOps"].(*types.AttributeValueMemberM).Value)
}

// TestTwoWhoMoveOtherIDsAtOnce: case 6. They have no id in common, and still the later one must not
// remove its own as if nobody had moved any meanwhile: who has seen how far the moving had come,
// and has looked into the ledger since, would charge them again.
func TestTwoWhoMoveOtherIDsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		early := r.mover("z-", true)
		k := r.keeper()
		for i := range 25 { // as many as move at once, and before the others in the order of names
			if _, err := k.deduct("u", fmt.Sprintf("a-%02d", i), 1); err != nil {
				t.Fatal(err)
			}
		}
		late := r.mover("a-x-", false)
		used := r.count("u")
		early.finish()
		r.has("u", "quotaGen", n(1))

		third := r.another()
		third.admit("u", "third", 1, used+1) // from now on it knows how far the moving has come
		third.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op == "UpdateItem" && x.n == 2 {
				late.finish()
			}
			return x.pass()
		})
		third.replay("u", "a-00", 1, used+1)
		if sent := third.wire.requests(); sent[0] != "Query" {
			t.Fatalf("sent %q: the ledger was not looked at first", sent)
		}
	})
}

// TestAMoveThatGoesOnTwoEpochsLater: a process that slept meanwhile has copied ids that were
// forgotten since, and were then charged anew and look the same. What it has copied is no longer
// remembered: it must not remove the new ones.
func TestAMoveThatGoesOnTwoEpochsLater(t *testing.T) {
	year, err := headroom.ParsePeriod("year")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{{Meter: "slots", Name: "year", Units: 1000, Period: year}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, engine string) {
		both := []setting{under(catalog), horizon(headroom.DefaultHorizon)}
		r := newRig(t, engine, both...)
		asleep := r.mover("z-", true, both...)
		k := r.keeper(both...)
		for i := range 3 {
			r.at(tuesday.Add(time.Duration(i+1) * headroom.DefaultHorizon))
			if _, err := k.deduct("u", fmt.Sprint("ages-", i), 1); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range asleep.ids {
			if d, err := k.deduct("u", id, 1); err != nil || !d.Allowed || d.Replay {
				t.Fatalf("%s: %+v, %v", id, d, err)
			}
		}
		asleep.finish()
		other := r.another(both...)
		for _, id := range asleep.ids {
			if d, err := other.deduct("u", id, 1); err != nil || !d.Replay {
				t.Fatalf("%s is charged again: %+v, %v", id, d, err)
			}
		}
	})
}

// TestAMoveStopsAtANewerFormat: a newer program may keep ids elsewhere.
func TestAMoveStopsAtANewerFormat(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		m := r.mover("z-", true)
		item, had := r.item("u"), r.remembers()
		item["quotaFormat"] = n(99)
		r.put(item)
		m.finish()
		if has := r.remembers(); has != had {
			t.Errorf("of %d ids %d are left", had, has)
		}
		r.has("u", "quotaFormat", n(99))
	})
}
