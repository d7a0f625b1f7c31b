package storetest

import (
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// hold holds a call for an hour.
func (c *caller) hold(id string, n usage) headroom.Decision {
	c.w.Helper()
	d, err := c.engine.Hold(c.w.Context(), c.call(id, n), time.Hour)
	return c.sound("Hold "+id, d, err)
}

// settle settles a call.
func (c *caller) settle(id string, n usage) headroom.Decision {
	c.w.Helper()
	d, err := c.engine.Settle(c.w.Context(), c.call(id, n))
	return c.sound("Settle "+id, d, err)
}

// held names a hold by one of its meters.
func (c *caller) held(meter, id string) headroom.HeldRequest { return c.alone(meter, id, 0).Held() }

func metersSettled(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	d := c.hold("a", usage{1, 4000, 50_000})
	c.admits("a hold", d, headroom.ReasonAdmitted, false)
	for _, p := range d.Parts {
		if p.Expires.Before(base.Add(time.Hour)) || !p.Expires.Equal(d.Expires) {
			t.Errorf("meter %q is held until %s: want an hour, and all meters the same", p.Meter, p.Expires)
		}
	}
	c.has("after a hold", usage{}, usage{1, 4000, 50_000})
	c.admits("a repeat of the hold", c.hold("a", usage{1, 4000, 50_000}), headroom.ReasonAdmitted, true)
	c.refuses("another hold", c.hold("b", usage{1, 7000, 1}), "tokens")
	c.has("after a refusal", usage{}, usage{1, 4000, 50_000})
	c.hold("b", usage{1, 4000, 10_000})
	// Fewer tokens than held, and more money.
	c.admits("a settlement", c.settle("a", usage{1, 1850, 70_000}), headroom.ReasonAdmitted, false)
	c.has("after a settlement", usage{1, 1850, 70_000}, usage{1, 4000, 10_000})
	c.admits("a repeat of the settlement", c.settle("a", usage{1, 1850, 70_000}), headroom.ReasonAdmitted, true)
	_, err := c.engine.Settle(t.Context(), c.call("a", usage{1, 1850, 70_001}))
	c.fails("a settlement at another cost", err, headroom.Conflict, "")
	c.refuses("more than there is", c.settle("b", usage{1, 4000, 30_001}), "money")
	c.has("the hold stays", usage{1, 1850, 70_000}, usage{1, 4000, 10_000})
	r := c.call("b", usage{1, 4000, 30_001})
	r.Over = headroom.RecordOverLimit
	d, err = c.engine.Settle(t.Context(), r)
	if c.sound("Settle", d, err); !d.Allowed || d.Parts[2].Reason != headroom.ReasonRecorded || d.Parts[1].Reason != headroom.ReasonAdmitted {
		t.Errorf("more than there is, recorded: %s and %s", text(d.Parts[1].Decision), text(d.Parts[2].Decision))
	}
	c.has("after all", usage{2, 5850, 100_001}, usage{})
	_, err = c.engine.Settle(t.Context(), c.call("never held", usage{1, 1, 1}))
	c.fails("what was never held", err, headroom.NotFound, "")
}

func metersReleased(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	for _, meter := range meterNames {
		id := "by " + meter
		c.hold(id, usage{1, 4000, 50_000})
		c.has("held", usage{}, usage{1, 4000, 50_000})
		for _, again := range []bool{false, true} {
			d, err := c.engine.Release(t.Context(), c.held(meter, id))
			if err != nil || len(d.Parts) != 3 || !d.Allowed || d.Replay != again || d.Meter != meter {
				t.Errorf("a release by meter %q: %s, %v", meter, full(d), err)
			}
			c.has("released", usage{}, usage{})
		}
		_, err := c.engine.Extend(t.Context(), c.held(meter, id), time.Hour)
		if err == nil {
			t.Errorf("a hold that was released lasts longer by meter %q", meter)
		}
	}
	again := c.call("by tokens", usage{1, 4000, 50_000})
	again.Renew = true
	d, err := c.engine.Hold(t.Context(), again, time.Hour)
	c.admits("the hold anew", c.sound("Hold", d, err), headroom.ReasonAdmitted, false)
	c.has("held anew", usage{}, usage{1, 4000, 50_000})
}

func metersExtended(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	c.hold("a", usage{1, 4000, 50_000})
	d, err := c.engine.Extend(t.Context(), c.held("money", "a"), 3*time.Hour)
	if err != nil || len(d.Parts) != 3 || d.Expires.Before(base.Add(3*time.Hour)) {
		t.Fatalf("Extend: %s, %v", full(d), err)
	}
	c.w.set(base.Add(2 * time.Hour))
	c.has("two hours later", usage{}, usage{1, 4000, 50_000})
	c.admits("a settlement then", c.settle("a", usage{1, 4000, 50_000}), headroom.ReasonAdmitted, false)
	c.has("settled", usage{1, 4000, 50_000}, usage{})
	c.hold("b", usage{1, 1000, 10_000})
	c.w.set(base.Add(8 * time.Hour))
	for _, meter := range meterNames {
		_, err := c.engine.Extend(t.Context(), c.held(meter, "b"), time.Hour)
		c.fails("a hold that is over lasts longer", err, headroom.Expired, "")
		_, err = c.engine.Release(t.Context(), c.held(meter, "b"))
		c.fails("a hold that is over is released", err, headroom.Expired, "")
	}
	c.has("eight hours later", usage{1, 4000, 50_000}, usage{})
}

func metersLate(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	c.hold("a", usage{1, 4000, 50_000})
	c.hold("b", usage{1, 4000, 50_000})
	c.w.set(base.Add(4 * time.Hour))
	c.has("the holds are over", usage{}, usage{})
	c.deduct("other", usage{1, 5000, 10})
	c.admits("late, and there is room", c.settle("a", usage{1, 4000, 50_000}), headroom.ReasonAdmitted, false)
	c.has("after the first", usage{2, 9000, 50_010}, usage{})
	c.refuses("late, and there is none", c.settle("b", usage{1, 4000, 40_000}), "tokens")
	c.has("after the second", usage{2, 9000, 50_010}, usage{})
	r := c.call("b", usage{1, 4000, 40_000})
	r.Over = headroom.RecordOverLimit
	d, err := c.engine.Settle(t.Context(), r)
	if c.sound("Settle", d, err); !d.Allowed {
		t.Errorf("late, and recorded: %s", text(d))
	}
	c.has("after all", usage{3, 13_000, 90_010}, usage{})
}

func metersRefunded(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	refund := func(meter, operation, id string) headroom.Decision {
		t.Helper()
		d, err := c.engine.Refund(t.Context(), headroom.RefundRequest{Subject: c.subject, Meter: meter, Operation: operation, ID: id})
		if err != nil || len(d.Parts) != 3 || d.Reason != headroom.ReasonRefunded || d.Meter != meter {
			t.Fatalf("refund %q by meter %q: %s, %v", id, meter, full(d), err)
		}
		return d
	}
	for _, meter := range meterNames {
		c.deduct("call by "+meter, usage{1, 1850, 23_000})
		c.has("charged", usage{1, 1850, 23_000}, usage{})
		refund(meter, "call by "+meter, "refund by "+meter)
		c.has("refunded", usage{}, usage{})
		if d := refund(meter, "call by "+meter, "refund by "+meter); !d.Replay || !d.Parts[1].Replay {
			t.Errorf("a repeat of the refund by meter %q: %s", meter, full(d))
		}
		if d := refund(meter, "call by "+meter, "another by "+meter); d.Cost != 0 || d.Parts[1].Cost != 0 {
			t.Errorf("another refund by meter %q, when nothing is left: %s", meter, full(d))
		}
		c.has("refunded again", usage{}, usage{})
	}
	c.hold("held", usage{1, 4000, 50_000})
	c.settle("held", usage{1, 1850, 23_000})
	c.w.set(monday.Add(time.Hour))
	c.deduct("next", usage{1, 100, 1000})
	refund("money", "held", "late refund")
	c.has("a refund of last week gives this week nothing", usage{1, 100, 1000}, usage{})
	u, err := c.engine.Usage(t.Context(), headroom.UsageRequest{Subject: c.subject, Meter: "tokens"})
	if err != nil || len(u.Limits[0].History) != 0 {
		t.Errorf("last week after the refund: %+v, %v: want nothing used", u, err)
	}
}

func oneMeterRefunded(t *testing.T, h Harness) {
	c := newCaller(t, h)
	if c == nil {
		return
	}
	c.deduct("a", usage{1, 1850, 23_000})
	r := headroom.RefundRequest{Subject: c.subject, Meter: "money", Operation: "a", ID: "price", Units: 3000}
	for _, again := range []bool{false, true} {
		d, err := c.engine.Refund(t.Context(), r)
		if err != nil || len(d.Parts) != 0 || d.Cost != 3000 || d.Replay != again {
			t.Fatalf("a refund of one meter: %s, %v", full(d), err)
		}
		c.has("a part of the money is back", usage{1, 1850, 20_000}, usage{})
	}
	r.ID, r.Units, r.More = "two", 1000, []headroom.Amount{{Meter: "tokens", Cost: 850}}
	d, err := c.engine.Refund(t.Context(), r)
	if err != nil || len(d.Parts) != 2 {
		t.Fatalf("a refund of two meters: %s, %v", full(d), err)
	}
	c.has("a part of two meters is back", usage{1, 1000, 19_000}, usage{})
	r.More = nil
	_, err = c.engine.Refund(t.Context(), r)
	c.fails("the refund of two meters, now of one", err, headroom.Conflict, "another refund")
	r.ID, r.Units, r.More = "too much", 1, []headroom.Amount{{Meter: "tokens", Cost: 1001}}
	_, err = c.engine.Refund(t.Context(), r)
	c.fails("more than was charged in one of two meters", err, headroom.Invalid, "refunded before")
	c.has("after errors", usage{1, 1000, 19_000}, usage{})
	if _, err := c.engine.Refund(t.Context(), headroom.RefundRequest{Subject: c.subject, Meter: "requests", Operation: "a", ID: "rest"}); err != nil {
		t.Fatal(err)
	}
	c.has("the rest is back", usage{}, usage{})
}
