package embedded

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/oldrelease"
)

// turns lets the release before and this one take turns on one directory.
type turns struct {
	*testing.T
	dir string
}

// old runs the release before, and expects its status and a part of what it says.
func (on turns) old(status int, says string, args ...string) {
	on.Helper()
	out, got := oldrelease.Run(on.T, append(args, "--json", "--store", "embedded:"+on.dir)...)
	if got != status || !strings.Contains(out, says) {
		on.Errorf("%v: status %d, want %d that says %s: %s", args, got, status, says, out)
	}
}

// young calls this release, writing a format.
func (on turns) young(format int, call func(*Store, *headroom.Engine)) {
	on.Helper()
	s, err := Open(on.dir, Options{Format: format})
	if err != nil {
		on.Fatal(err)
	}
	defer closeStore(on, s)
	call(s, engine(on, s, 200))
}

// The release before and this one take turns on one directory: each finds what the other wrote,
// replays it, refunds it and settles it, and adds its own. Neither takes what the other changed for
// damage.
func TestReleaseBeforeWorksOnTheSameStore(t *testing.T) {
	on := turns{t, t.TempDir()}
	old := on.old
	young := func(what string, call func(*headroom.Engine) (headroom.Decision, error), used, held int64, replay bool) {
		t.Helper()
		on.young(0, func(_ *Store, e *headroom.Engine) {
			if d, err := call(e); err != nil || !d.Allowed || d.Used != used || d.Held != held || d.Replay != replay {
				t.Errorf("%s: %+v, %v", what, d, err)
			}
		})
	}
	request := func(operation string, cost int64) headroom.Request {
		return headroom.Request{Subject: "ann", Meter: "slots", Operation: operation, Cost: cost}
	}
	old(0, `"used":50`, "deduct", "ann", "50", "--operation", "a")
	young("replay", func(e *headroom.Engine) (headroom.Decision, error) { return e.Deduct(t.Context(), request("a", 50)) }, 50, 0, true)
	young("refund", func(e *headroom.Engine) (headroom.Decision, error) {
		return e.Refund(t.Context(), headroom.RefundRequest{Subject: "ann", Meter: "slots", Operation: "a", ID: "r", Units: 10})
	}, 40, 0, false)
	young("another cost", func(e *headroom.Engine) (headroom.Decision, error) { return e.Deduct(t.Context(), request("h", 15)) }, 55, 0, false)
	young("deduct", func(e *headroom.Engine) (headroom.Decision, error) { return e.Deduct(t.Context(), request("b", 5)) }, 60, 0, false)
	old(0, `"replay":true`, "deduct", "ann", "5", "--operation", "b")
	old(0, `"used":57`, "refund", "ann", "--operation", "b", "--id", "r2", "--units", "3")
	for n := range 3 {
		old(0, fmt.Sprintf(`"used":%d`, 58+2*n), "deduct", "ann", "1", "--operation", fmt.Sprint("old", n))
		young("another", func(e *headroom.Engine) (headroom.Decision, error) {
			return e.Deduct(t.Context(), request(fmt.Sprint("new", n), 1))
		}, int64(59+2*n), 0, false)
	}
	old(1, "over_limit", "deduct", "ann", "140", "--operation", "too much")
}

// What is charged within an organisation is read by the release before, if it is written for it, or
// else while nothing is owed. While something is owed that release refuses the debtor, changes
// nothing, and says why; others it serves. Once the debt is finished it goes on.
func TestReleaseBeforeMeetsDebts(t *testing.T) {
	on := turns{t, t.TempDir()}
	within := func(e *headroom.Engine, subject, id string) {
		t.Helper()
		j, err := e.DeductWithin(t.Context(), "acme", headroom.Request{Subject: subject, Meter: "slots", Operation: id, Cost: 10})
		if err != nil || !j.Allowed {
			t.Errorf("%s of %s: %+v, %v", id, subject, j, err)
		}
	}
	on.young(1, func(_ *Store, e *headroom.Engine) { within(e, "ann", "a") })
	on.old(0, `"replay":true`, "deduct", "ann", "10", "--operation", "a")
	on.old(0, `"used":7`, "refund", "ann", "--operation", "a", "--id", "r", "--units", "3")
	on.old(2, "newer program", "usage", "acme") // the organisation has had a hold

	on.young(2, func(_ *Store, e *headroom.Engine) { within(e, "ann", "b") })
	on.old(0, `"used":18`, "deduct", "ann", "1", "--operation", "c")
	on.old(2, "newer program", "deduct", "acme", "1", "--operation", "c")

	owed := headroom.Debt{To: "acme", Cost: 5, Since: time.Now().UTC().Truncate(time.Second)}
	// a charge whose caller died before the organisation was settled
	on.young(0, func(s *Store, _ *headroom.Engine) {
		v, err := s.Load(t.Context(), headroom.Query{Key: slots("ann")})
		if err != nil {
			t.Fatal(err)
		}
		c := headroom.Change{Key: slots("ann"), PlanOrNone: true, Epoch: v.State.Epoch, Debts: []headroom.DebtStep{{ID: "d", Is: &owed}}}
		if _, done, err := s.Commit(t.Context(), c); !done || err != nil {
			t.Fatal(done, err)
		}
	})
	for range 2 {
		on.old(2, "newer program", "deduct", "ann", "1", "--operation", "e")
		on.old(2, "newer program", "usage", "ann")
	}
	on.old(0, `"used":1`, "deduct", "ben", "1", "--operation", "e")
	// A store that writes for the release before leaves no new debt, and finishes what is there.
	on.young(1, func(_ *Store, e *headroom.Engine) {
		if n, err := e.FinishDebts(t.Context()); n.Settled != 1 || err != nil {
			t.Errorf("%+v, %v", n, err)
		}
	})
	on.old(0, `"used":19`, "deduct", "ann", "1", "--operation", "e")
	on.young(1, func(_ *Store, e *headroom.Engine) {
		if u, err := e.Usage(t.Context(), headroom.UsageRequest{Subject: "acme", Meter: "slots"}); err != nil || u.Limits[0].Used != 25 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

// TestHoldsOfTheReleaseBefore: this release settles, extends and gives back what the release before
// holds. From then on that release refuses the subject, changes nothing, and says why.
func TestHoldsOfTheReleaseBefore(t *testing.T) {
	on := turns{t, t.TempDir()}
	for _, id := range []string{"settled", "released", "kept"} {
		on.old(0, `"held":`, "hold", "ann", "20", "--operation", id, "--for", "1h")
	}
	request := func(operation string, cost int64) headroom.Request {
		return headroom.Request{Subject: "ann", Meter: "slots", Operation: operation, Cost: cost}
	}
	on.young(0, func(_ *Store, e *headroom.Engine) {
		if d, err := e.Preflight(t.Context(), request("", 141)); err != nil || d.Allowed || d.Held != 60 {
			t.Errorf("a look: %+v, %v", d, err)
		}
		if u, err := e.Usage(t.Context(), headroom.UsageRequest{Subject: "ann", Meter: "slots"}); err != nil || u.Limits[0].Held != 60 {
			t.Errorf("usage: %+v, %v", u, err)
		}
	})
	on.old(0, `"held":60`, "usage", "ann") // a look has changed nothing
	on.young(0, func(_ *Store, e *headroom.Engine) {
		if d, err := e.Settle(t.Context(), request("settled", 15)); err != nil || d.Used != 15 || d.Held != 40 {
			t.Errorf("settle: %+v, %v", d, err)
		}
		if d, err := e.Release(t.Context(), request("released", 0).Held()); err != nil || d.Used != 15 || d.Held != 20 {
			t.Errorf("release: %+v, %v", d, err)
		}
		if d, err := e.Hold(t.Context(), request("kept", 20), time.Hour); err != nil || !d.Replay || d.Expires.IsZero() {
			t.Errorf("hold: %+v, %v", d, err)
		}
	})
	for range 2 {
		on.old(2, "newer program", "settle", "ann", "20", "--operation", "kept")
		on.old(2, "newer program", "usage", "ann")
	}
	on.young(0, func(_ *Store, e *headroom.Engine) {
		if d, err := e.Settle(t.Context(), request("kept", 25)); err != nil || d.Used != 40 || d.Held != 0 {
			t.Errorf("settle: %+v, %v", d, err)
		}
	})
}
