package storetest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// caller is a subject whose calls are charged in several meters.
type caller struct {
	w       *world
	engine  *headroom.Engine
	catalog *headroom.Catalog
	subject string
}

// usage is what is used, or held, of requests, tokens and money.
type usage [3]int64

// meterNames are the meters of a call, in the order in which it asks for them.
var meterNames = []string{"requests", "tokens", "money"}

// newCaller returns a subject that may make 60 requests a day, with 10,000 tokens and 100,000
// micro-dollars a week. It is nil if the store joins no meters, as it need not.
func newCaller(t *testing.T, h Harness) *caller {
	w := newWorld(t, h)
	if _, ok := w.store.(headroom.Joiner); !ok {
		return nil
	}
	c := w.limited(
		headroom.Limit{Meter: "requests", Name: "day", Period: period(t, "day"), Units: 60},
		headroom.Limit{Meter: "tokens", Name: "week", Units: 10_000},
		headroom.Limit{Meter: "money", Name: "week", Units: 100_000, Thresholds: []int{50}},
	)
	return &caller{w, w.engine(w.store, c, headroom.Options{}), c, "s" + rand.Text()[:10]}
}

// call is a request of so many units.
func (c *caller) call(id string, n usage) headroom.Request {
	return headroom.Request{
		Subject: c.subject, Meter: "requests", Operation: id, Cost: n[0],
		More: []headroom.Amount{{Meter: "tokens", Cost: n[1]}, {Meter: "money", Cost: n[2]}},
	}
}

// alone is a request of one of the meters.
func (c *caller) alone(meter, id string, cost int64) headroom.Request {
	return headroom.Request{Subject: c.subject, Meter: meter, Operation: id, Cost: cost}
}

// deduct deducts a call.
func (c *caller) deduct(id string, n usage) headroom.Decision {
	c.w.Helper()
	d, err := c.engine.Deduct(c.w.Context(), c.call(id, n))
	return c.sound("Deduct "+id, d, err)
}

// sound checks that a decision about a call is of one piece: its parts are those of the meters in
// the order asked, it is allowed if all are, and it shows the first that refuses.
func (c *caller) sound(what string, d headroom.Decision, err error) headroom.Decision {
	c.w.Helper()
	if err != nil {
		c.w.Fatalf("%s: %v", what, err)
	}
	if len(d.Parts) != len(meterNames) {
		c.w.Fatalf("%s: a decision of %d parts: want one for each of %d meters", what, len(d.Parts), len(meterNames))
	}
	shown := 0
	allowed := true
	for i, p := range d.Parts {
		if p.Subject != c.subject || p.Meter != meterNames[i] || len(p.Decision.Parts) != 0 {
			c.w.Errorf("%s: part %d is of %q, meter %q, with %d parts: want %q, %q and none", what, i, p.Subject, p.Meter, len(p.Decision.Parts), c.subject, meterNames[i])
		}
		if allowed && !p.Allowed {
			shown = i
		}
		allowed = allowed && p.Allowed
	}
	if p := d.Parts[shown]; d.Allowed != allowed || d.Meter != p.Meter || full(d) != full(p.Decision) {
		c.w.Errorf("%s: the decision is %t and shows meter %q, %s: want %t, and its part %q, %s", what, d.Allowed, d.Meter, full(d), allowed, p.Meter, full(p.Decision))
	}
	return d
}

// admits checks a decision that allows.
func (c *caller) admits(what string, d headroom.Decision, why headroom.Reason, replay bool) {
	c.w.Helper()
	for _, p := range d.Parts {
		if !p.Allowed || p.Reason != why || p.Replay != replay {
			c.w.Fatalf("%s: meter %q: %s: want it %s, replay %t", what, p.Meter, text(p.Decision), why, replay)
		}
	}
}

// refuses checks a decision that the meters of the names refuse, and no others.
func (c *caller) refuses(what string, d headroom.Decision, meters ...string) {
	c.w.Helper()
	for _, p := range d.Parts {
		if p.Allowed == slices.Contains(meters, p.Meter) {
			c.w.Fatalf("%s: meter %q: %s: want it refused by %q", what, p.Meter, text(p.Decision), meters)
		}
	}
}

// has checks what is used and held of each meter.
func (c *caller) has(what string, used, held usage) {
	c.w.Helper()
	for i, meter := range meterNames {
		u, err := c.engine.Usage(c.w.Context(), headroom.UsageRequest{Subject: c.subject, Meter: meter})
		if err != nil || u.Limits[0].Used != used[i] || u.Limits[0].Held != held[i] {
			c.w.Fatalf("%s: meter %q: %+v, %v: want %d used and %d held", what, meter, u, err, used[i], held[i])
		}
	}
}

// fails checks that a request fails with a code and an error that says so.
func (c *caller) fails(what string, err error, code headroom.Code, says string) {
	c.w.Helper()
	if headroom.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		c.w.Errorf("%s: the error is %v: want %s, with %q", what, err, code, says)
	}
}

func allMetersOrNone(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	c.refuses("the very first does not fit", c.deduct("first", usage{1, 10_001, 23_000}), "tokens")
	c.has("after a refusal", usage{}, usage{})
	c.admits("a call", c.deduct("a", usage{1, 1850, 23_000}), headroom.ReasonAdmitted, false)
	c.has("after a call", usage{1, 1850, 23_000}, usage{})
	c.refuses("its tokens do not fit", c.deduct("b", usage{1, 9000, 23_000}), "tokens")
	c.refuses("neither tokens nor money fit", c.deduct("b", usage{1, 9000, 80_000}), "tokens", "money")
	c.refuses("the requests do not fit", c.deduct("b", usage{60, 1, 1}), "requests")
	c.has("after refusals", usage{1, 1850, 23_000}, usage{})
	c.admits("a refused call may be asked again", c.deduct("b", usage{1, 8150, 77_000}), headroom.ReasonAdmitted, false)
	c.has("all is used", usage{2, 10_000, 100_000}, usage{})
	c.admits("a call that costs nothing", c.deduct("free", usage{}), headroom.ReasonAdmitted, false)
}

func partsOfMeters(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	d := c.deduct("a", usage{1, 4000, 60_000})
	for i, p := range d.Parts {
		want := []int64{59, 6000, 40_000}[i]
		if p.Remaining != want || p.Cost != []int64{1, 4000, 60_000}[i] {
			t.Errorf("part %q: %s: want %d left", p.Meter, text(p.Decision), want)
		}
	}
	if crossed := d.Parts[2].Crossed; len(crossed) != 1 || crossed[0].Percent != 50 || len(d.Parts[1].Crossed) != 0 {
		t.Errorf("60 percent of the money is spent, and the parts cross %v, %v", crossed, d.Parts[1].Crossed)
	}
	d = c.deduct("b", usage{1, 7000, 30_000})
	if d.Allowed || d.Meter != "tokens" || d.Reason != headroom.ReasonOverLimit || d.Remaining != 6000 {
		t.Errorf("7,000 tokens of 6,000: meter %q, %s", d.Meter, text(d))
	}
	if p := d.Parts[0]; !p.Allowed || p.Used != 1 || p.Remaining != 59 {
		t.Errorf("the part that would fit: %s: want 1 used and 59 left", text(p.Decision))
	}
}

func repeatOfMeters(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	c.deduct("a", usage{1, 1850, 23_000})
	for range 3 {
		c.admits("a repeat", c.deduct("a", usage{1, 1850, 23_000}), headroom.ReasonAdmitted, true)
	}
	other := c.call("a", usage{1, 1850, 23_000})
	slices.Reverse(other.More)
	if d, err := c.engine.Deduct(t.Context(), other); err != nil || !d.Replay {
		t.Errorf("a repeat that names the meters in another order: %s, %v", text(d), err)
	}
	for i := range meterNames {
		n := usage{1, 1850, 23_000}
		n[i]++
		_, err := c.engine.Deduct(t.Context(), c.call("a", n))
		c.fails("a repeat that costs more "+meterNames[i], err, headroom.Conflict, "one piece of work")
	}
	fewer := c.call("a", usage{1, 1850})
	fewer.More = fewer.More[:1]
	_, err := c.engine.Deduct(t.Context(), fewer)
	c.fails("a repeat of fewer meters", err, headroom.Conflict, "money")
	c.has("after all repeats", usage{1, 1850, 23_000}, usage{})
	if _, err := c.engine.Deduct(t.Context(), c.alone("tokens", "single", 7)); err != nil {
		t.Fatal(err)
	}
	_, err = c.engine.Deduct(t.Context(), c.call("single", usage{1, 7, 1}))
	c.fails("an id that one of the meters knows alone", err, headroom.Conflict, "alone")
	c.has("after a conflict", usage{1, 1857, 23_000}, usage{})
}

func knownAtEachMeter(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	c.deduct("a", usage{1, 1850, 23_000})
	for i, meter := range meterNames {
		r := c.alone(meter, "a", usage{1, 1850, 23_000}[i])
		_, err := c.engine.Deduct(t.Context(), r)
		c.fails("a deduction of "+meter, err, headroom.Conflict, "one piece of work")
		_, err = c.engine.Hold(t.Context(), r, time.Hour)
		c.fails("a hold of "+meter, err, headroom.Conflict, "one piece of work")
		_, err = c.engine.Settle(t.Context(), r)
		c.fails("a settlement of "+meter, err, headroom.Conflict, "one piece of work")
	}
	c.has("after all of that", usage{1, 1850, 23_000}, usage{})
}

func metersTurnApart(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	c.deduct("a", usage{50, 4000, 40_000})
	c.w.set(base.Add(day))
	c.admits("the next day", c.deduct("b", usage{50, 4000, 40_000}), headroom.ReasonAdmitted, false)
	c.has("the next day", usage{50, 8000, 80_000}, usage{})
	c.admits("a repeat of the day before", c.deduct("a", usage{50, 4000, 40_000}), headroom.ReasonAdmitted, true)
	c.w.set(base.Add(2 * day))
	c.refuses("a day with requests and a week without tokens", c.deduct("c", usage{50, 4000, 1}), "tokens")
	c.has("after a refusal in a new day", usage{0, 8000, 80_000}, usage{})
	c.w.set(monday.Add(time.Hour))
	c.admits("the next week", c.deduct("c", usage{60, 10_000, 100_000}), headroom.ReasonAdmitted, false)
	c.has("the next week", usage{60, 10_000, 100_000}, usage{})
}

func metersDrawOnGrants(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	c.deduct("a", usage{1, 9990, 10})
	g := headroom.GrantRequest{Subject: c.subject, Meter: "tokens", ID: "gift", Units: 100, Lasts: week}
	if _, err := c.engine.Grant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	c.refuses("no gift is so large", c.deduct("b", usage{1, 200, 10}), "tokens")
	d := c.deduct("b", usage{1, 60, 10})
	c.admits("a call that draws on the gift", d, headroom.ReasonAdmitted, false)
	if d.Parts[1].Granted != 50 || d.Parts[0].Granted != 0 {
		t.Errorf("60 tokens, 10 of the plan: %d left of the gift", d.Parts[1].Granted)
	}
	c.refuses("a gift of tokens is none of money", c.deduct("c", usage{1, 10, 100_000}), "money")
	c.has("after all", usage{2, 10_000, 20}, usage{})
}

func metersPreflight(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	look := func(id string, n usage) headroom.Decision {
		t.Helper()
		d, err := c.engine.Preflight(t.Context(), c.call(id, n))
		return c.sound("Preflight "+id, d, err)
	}
	c.admits("before anything", look("", usage{1, 1850, 23_000}), headroom.ReasonAdmitted, false)
	c.refuses("too many tokens", look("", usage{1, 10_001, 1}), "tokens")
	c.has("a look writes nothing", usage{}, usage{})
	c.deduct("a", usage{1, 9000, 23_000})
	c.refuses("too many tokens for what is left", look("b", usage{1, 1001, 1}), "tokens")
	c.admits("a repeat", look("a", usage{1, 9000, 23_000}), headroom.ReasonAdmitted, true)
	_, err := c.engine.Preflight(t.Context(), c.call("a", usage{2, 9000, 23_000}))
	c.fails("another cost", err, headroom.Conflict, "one piece of work")
}

func manyCallsOfMeters(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	const calls = 60
	id := func(i int) string { return fmt.Sprintf("call-%03d-of-an-execution-with-a-long-name", i) }
	for i := range calls {
		c.admits("a call", c.deduct(id(i), usage{1, 10, 100}), headroom.ReasonAdmitted, false)
	}
	for i := range calls {
		c.admits("a repeat", c.deduct(id(i), usage{1, 10, 100}), headroom.ReasonAdmitted, true)
		_, err := c.engine.Deduct(t.Context(), c.alone("tokens", id(i), 10))
		c.fails("a deduction of one meter", err, headroom.Conflict, "one piece of work")
	}
	c.has("after many calls", usage{calls, calls * 10, calls * 100}, usage{})
	for i := range calls {
		d, err := c.engine.Refund(t.Context(), headroom.RefundRequest{Subject: c.subject, Meter: "money", Operation: id(i), ID: "back " + id(i)})
		if err != nil || len(d.Parts) != 3 {
			t.Fatalf("a refund: %s, %v", full(d), err)
		}
	}
	c.has("after refunds of all", usage{}, usage{})
}

func metersForgetApart(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	with, err := c.catalog.WithMemory(0, map[string]headroom.Memory{"requests": {Horizon: day}, "tokens": {Horizon: 40 * day}})
	if err != nil {
		t.Fatal(err)
	}
	c.engine = c.w.engine(c.w.store, with, headroom.Options{})
	c.deduct("a", usage{1, 1850, 23_000})
	if _, err := c.engine.Hold(t.Context(), c.call("held", usage{1, 50, 500}), time.Hour); err != nil {
		t.Fatal(err)
	}
	for range 4 { // the ids of requests have aged twice by then
		c.w.set(c.w.now().Add(day))
		if _, err := c.engine.Deduct(t.Context(), c.alone("requests", "ages "+c.w.now().String(), 1)); err != nil {
			t.Fatal(err)
		}
	}
	c.has("before the repeat", usage{1, 1850, 23_000}, usage{})
	c.admits("a repeat that one meter has forgotten", c.deduct("a", usage{1, 1850, 23_000}), headroom.ReasonAdmitted, true)
	c.has("after the repeat", usage{1, 1850, 23_000}, usage{})
	late, err := c.engine.Settle(t.Context(), c.call("held", usage{2, 60, 600}))
	c.admits("a settlement that one meter has forgotten", c.sound("Settle", late, err), headroom.ReasonAdmitted, false)
	c.has("after the settlement", usage{3, 1910, 23_600}, usage{})
	late, err = c.engine.Settle(t.Context(), c.call("held", usage{2, 60, 600}))
	c.admits("a repeat of it", c.sound("Settle", late, err), headroom.ReasonAdmitted, true)
	c.has("after the repeat of the settlement", usage{3, 1910, 23_600}, usage{})
}

func badMeters(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	for says, more := range map[string][]headroom.Amount{
		"asked for twice": {{Meter: "tokens", Cost: 1}, {Meter: "tokens", Cost: 1}},
		`"requests"`:      {{Meter: "requests", Cost: 1}},
		"no plan limits":  {{Meter: "words", Cost: 1}},
		"at least 0":      {{Meter: "tokens", Cost: -1}},
		"empty":           {{Cost: 1}},
	} {
		r := c.alone("requests", "a", 1)
		r.More = more
		_, err := c.engine.Deduct(t.Context(), r)
		c.fails("Deduct", err, headroom.Invalid, says)
		_, err = c.engine.Preflight(t.Context(), r)
		c.fails("Preflight", err, headroom.Invalid, says)
		_, err = c.engine.Hold(t.Context(), r, time.Hour)
		c.fails("Hold", err, headroom.Invalid, says)
		_, err = c.engine.Refund(t.Context(), headroom.RefundRequest{Subject: c.subject, Meter: "requests", Operation: "a", ID: "b", More: more})
		c.fails("Refund", err, headroom.Invalid, says)
	}
	_, err := c.engine.Deduct(t.Context(), c.call("", usage{1, 1, 1}))
	c.fails("Deduct without an id", err, headroom.Invalid, "operation id")
	c.has("after errors", usage{}, usage{})
}

func callsAtOnce(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	const calls, fit = 40, 25
	var admitted atomic.Int64
	together(calls, func(i int) {
		r := c.call(id(int64(i)), usage{1, 400, 100})
		for range 2 { // the second time is a repeat, if the first was admitted
			switch d, err := c.engine.Deduct(t.Context(), r); {
			case err != nil:
				t.Errorf("call %d: %v", i, err)
			case d.Allowed && !d.Replay:
				admitted.Add(1)
			}
		}
	})
	if admitted.Load() != fit {
		t.Errorf("%d calls of 400 tokens were admitted: want %d", admitted.Load(), fit)
	}
	c.has("after all", usage{fit, fit * 400, fit * 100}, usage{})
}
