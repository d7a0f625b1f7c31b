package embedded

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/oldrelease"
)

// The release before and this one take turns on one directory: each finds what the other wrote, replays it,
// refunds it and settles it, and adds its own. Neither takes what the other changed for damage.
func TestReleaseBeforeWorksOnTheSameStore(t *testing.T) {
	dir := t.TempDir()
	old := func(status int, says string, args ...string) {
		t.Helper()
		out, got := oldrelease.Run(t, append(args, "--json", "--store", "embedded:"+dir)...)
		if got != status || !strings.Contains(out, says) {
			t.Errorf("%v: status %d, want %d that says %s: %s", args, got, status, says, out)
		}
	}
	young := func(what string, call func(*headroom.Engine) (headroom.Decision, error), used, held int64, replay bool) {
		t.Helper()
		s := open(t, nil, dir, time.Now)
		d, err := call(engine(t, s, 200))
		if err != nil || !d.Allowed || d.Used != used || d.Held != held || d.Replay != replay {
			t.Errorf("%s: %+v, %v", what, d, err)
		}
		closeStore(t, s)
	}
	request := func(operation string, cost int64) headroom.Request {
		return headroom.Request{Subject: "ann", Meter: "slots", Operation: operation, Cost: cost}
	}
	old(0, `"used":50`, "deduct", "ann", "50", "--operation", "a")
	old(0, `"held":20`, "hold", "ann", "20", "--operation", "h", "--for", "1h")
	young("replay", func(e *headroom.Engine) (headroom.Decision, error) { return e.Deduct(t.Context(), request("a", 50)) }, 50, 20, true)
	young("refund", func(e *headroom.Engine) (headroom.Decision, error) {
		return e.Refund(t.Context(), headroom.RefundRequest{Subject: "ann", Meter: "slots", Operation: "a", ID: "r", Units: 10})
	}, 40, 20, false)
	young("settle", func(e *headroom.Engine) (headroom.Decision, error) { return e.Settle(t.Context(), request("h", 15)) }, 55, 0, false)
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
