package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// verb is a method of the engine that takes a headroom.Request.
type verb string

const (
	deduct    verb = "deduct"
	preflight verb = "preflight"
	hold      verb = "hold"
	settle    verb = "settle"
	release   verb = "release"
	extend    verb = "extend"
)

// Short names for the reasons of decisions.
const (
	admitted  = headroom.ReasonAdmitted
	past      = headroom.ReasonRecorded
	released  = headroom.ReasonReleased
	extended  = headroom.ReasonExtended
	refunded  = headroom.ReasonRefunded
	granted   = headroom.ReasonGranted
	overLimit = headroom.ReasonOverLimit
	never     = headroom.ReasonNeverFits
)

// ask calls the engine's method for the verb.
func (a account) ask(v verb, r headroom.Request) (headroom.Decision, error) {
	return do(a.w.Context(), a.engine, v, r, a.lasting)
}

// do calls the engine's method for the verb. A hold lasts for the given time, or an hour if that is
// zero.
func do(ctx context.Context, e *headroom.Engine, v verb, r headroom.Request, lasts time.Duration) (headroom.Decision, error) {
	if lasts == 0 {
		lasts = time.Hour
	}
	switch v {
	case deduct:
		return e.Deduct(ctx, r)
	case preflight:
		return e.Preflight(ctx, r)
	case hold:
		return e.Hold(ctx, r, lasts)
	case settle:
		return e.Settle(ctx, r)
	case release:
		return e.Release(ctx, r.Held())
	default:
		return e.Extend(ctx, r.Held(), lasts)
	}
}

// holding returns the account with so much expected to be held.
func (a account) holding(units int64) account { a.held = units; return a }

// granting returns the account with so much expected to be left of grants.
func (a account) granting(units int64) account { a.granted = units; return a }

// lasts returns the account whose holds last for d.
func (a account) lasts(d time.Duration) account { a.lasting = d; return a }

// does asks, and expects a decision with the given reason, after which so much is used and held.
func (a account) does(v verb, id string, cost int64, reason headroom.Reason, used, held int64, mods ...mod) {
	a.w.Helper()
	a.held = held
	r := a.request(id, cost, mods...)
	d, err := a.ask(v, r)
	a.check(string(v), r, d, a.want(r, reason, used), err)
}

// repeats is like does, for a call that was made before.
func (a account) repeats(v verb, id string, cost int64, reason headroom.Reason, used, held int64, mods ...mod) {
	a.w.Helper()
	a.held = held
	r := a.request(id, cost, mods...)
	d, err := a.ask(v, r)
	want := a.want(r, reason, used)
	want.Replay = true
	a.check("repeat of "+string(v), r, d, want, err)
}

// fails asks, and expects an error and that nothing was written.
func (a account) fails(v verb, id string, cost int64, target headroom.Code, mods ...mod) {
	a.w.Helper()
	r := a.request(id, cost, mods...)
	a.unchanged(func() {
		a.w.Helper()
		d, err := a.ask(v, r)
		a.failed(string(v), r, d, err, target)
	}, id)
}

// unchanged runs f, and checks that it changes nothing that is stored.
func (a account) unchanged(f func(), ids ...string) {
	a.w.Helper()
	before := a.stored(ids...)
	f()
	if after := a.stored(ids...); after != before {
		a.w.Fatalf("changed\n%sto\n%s", before, after)
	}
}

func (a account) refundOf(operation, id string, units int64) headroom.RefundRequest {
	return headroom.RefundRequest{Subject: a.subject, Meter: a.meter, Operation: operation, ID: id, Units: units}
}

// refund refunds units, or all that is left if units is 0. It expects that so many come back, after
// which so much is used.
func (a account) refund(operation, id string, units, back, used int64) {
	a.w.Helper()
	a.refunds(operation, id, units, back, used, false)
}

// refundAgain is like refund, for a repeat.
func (a account) refundAgain(operation, id string, units, back, used int64) {
	a.w.Helper()
	a.refunds(operation, id, units, back, used, true)
}

func (a account) refunds(operation, id string, units, back, used int64, replay bool) {
	a.w.Helper()
	d, err := a.engine.Refund(a.w.Context(), a.refundOf(operation, id, units))
	r := a.request(id, back)
	want := a.want(r, refunded, used)
	want.Replay = replay
	a.check("refund", r, d, want, err)
}

// refundFails refunds, and expects an error and that nothing was written.
func (a account) refundFails(operation, id string, units int64, target headroom.Code) {
	a.w.Helper()
	a.unchanged(func() {
		a.w.Helper()
		d, err := a.engine.Refund(a.w.Context(), a.refundOf(operation, id, units))
		a.failed("refund", a.request(id, units), d, err, target)
	}, operation, id)
}

func (a account) grantOf(id string, units int64, expires time.Time) headroom.GrantRequest {
	return headroom.GrantRequest{Subject: a.subject, Meter: a.meter, ID: id, Units: units, Expires: expires}
}

// grant adds a grant. It expects that so much is used, and that the grants have left what the
// account says (see granting).
func (a account) grant(id string, units int64, expires time.Time, used int64) {
	a.w.Helper()
	a.grants(id, units, expires, used, false)
}

// grantAgain is like grant, for a repeat.
func (a account) grantAgain(id string, units int64, expires time.Time, used int64) {
	a.w.Helper()
	a.grants(id, units, expires, used, true)
}

func (a account) grants(id string, units int64, expires time.Time, used int64, replay bool) {
	a.w.Helper()
	d, err := a.engine.Grant(a.w.Context(), a.grantOf(id, units, expires))
	r := a.request(id, units)
	want := a.want(r, granted, used)
	want.Replay = replay
	a.check("grant", r, d, want, err)
}

// grantFails grants, and expects an error and that nothing was written.
func (a account) grantFails(id string, units int64, expires time.Time, target headroom.Code) {
	a.w.Helper()
	a.unchanged(func() {
		a.w.Helper()
		d, err := a.engine.Grant(a.w.Context(), a.grantOf(id, units, expires))
		a.failed("grant", a.request(id, units), d, err, target)
	}, id)
}

// usage returns what the engine shows of the account.
func (a account) usage() headroom.Usage {
	a.w.Helper()
	u, err := a.engine.Usage(a.w.Context(), headroom.UsageRequest{Subject: a.subject, Meter: a.meter})
	if err != nil {
		a.w.Fatalf("usage: %v", err)
	}
	return u
}

// period reads a kind of window, such as "day".
func period(t *testing.T, text string) headroom.Period {
	t.Helper()
	p, err := headroom.ParsePeriod(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// decides asks, and expects a decision with the given reason and each limit as figure shows it. It
// returns the decision.
func (a account) decides(v verb, id string, cost int64, reason headroom.Reason, figures ...string) headroom.Decision {
	a.w.Helper()
	d, err := a.ask(v, a.request(id, cost))
	if err != nil || d.Reason != reason || d.Cost != cost || d.Plan != a.plan {
		a.w.Fatalf("%s %q: %s, %v: want it %s", v, id, full(d), err, reason)
	}
	a.agrees(d)
	a.shows(d, figures...)
	return d
}

// shows checks each limit of a decision, as figure shows it.
func (a account) shows(d headroom.Decision, want ...string) {
	a.w.Helper()
	var got []string
	for _, l := range d.Limits {
		if l.Remaining != max(0, l.Limit-l.Used-l.Held) {
			a.w.Errorf("what remains does not add up: %s", limitText(l))
		}
		got = append(got, figure(l, d.LimitName))
	}
	if !slices.Equal(got, want) {
		a.w.Fatalf("decided\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// figure shows a limit in short: "day* 30+5/60 in 2031-05-27" has 30 used and 5 held of 60. A star
// marks the strictest limit, and an exclamation mark one that is over.
func figure(l headroom.LimitState, strictest string) string {
	name := l.Name
	if l.Name == strictest {
		name += "*"
	}
	if l.Mode != headroom.Hard {
		name = l.Mode.String() + " " + name
	}
	if l.Over {
		name += "!"
	}
	return fmt.Sprintf("%s %d+%d/%d in %s", name, l.Used, l.Held, l.Limit, l.Window.Key)
}
