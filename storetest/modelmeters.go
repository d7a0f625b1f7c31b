package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lumcast/headroom"
)

// other is the other one of the two meters of the model.
var other = map[string]string{"slots": "tokens", "tokens": "slots"}

// joint are the parts of a request of both meters.
type joint [2]*call

// joint returns the calls of both meters of r.
func (p *play) joint(r headroom.Request) (all joint) {
	for i, part := range []headroom.Amount{{Meter: r.Meter, Cost: r.Cost}, r.More[0]} {
		own := r
		own.Meter, own.Cost, own.More = part.Meter, part.Cost, nil
		all[i] = p.oracle.call(own, p.at(r.Now))
		all[i].also = other[part.Meter]
	}
	return all
}

// deduct is a deduction of both meters, or neither. dry writes nothing.
func (j joint) deduct(dry bool) (all []answer, code headroom.Code) {
	remembers := slices.ContainsFunc(j[:], func(c *call) bool { return c.known() != nil })
	refused := false
	for i, c := range j {
		a := answer{}
		switch from := j[1-i].known(); {
		case c.known() == nil && remembers: // the other meter remembers it longer
			a = c.replay(&work{kind: headroom.KindDeduct, cost: c.r.Cost, recorded: from.recorded}, from.reason(), false)
		case !dry && c.known() != nil && c.known().within != "":
			a = failed(headroom.Conflict)
		default:
			c.dry = true
			a = c.ask(c.now, "")
		}
		if a.code != "" {
			return nil, a.code
		}
		refused = refused || !a.Allowed
		all = append(all, a)
	}
	for i, c := range j {
		if dry || refused || remembers {
			continue
		}
		c.dry = false
		all[i] = c.ask(c.now, "")
	}
	return all, ""
}

// refund gives back all that is left of an operation in both meters.
func (j joint) refund(id string) (all []answer, code headroom.Code) {
	for _, c := range j {
		have := c.book.ids[id]
		if have != nil && (have.kind != headroom.KindRefund || have.of != c.r.Operation || have.also != c.also) {
			return nil, headroom.Conflict
		}
		if _, sound := c.stands(c.book, c.plan, c.key.Meter, c.now, false); !sound {
			return nil, headroom.Invalid
		}
	}
	for _, c := range j {
		a := c.refund(id, 0)
		if a.code != "" {
			return nil, a.code
		}
		all = append(all, a)
	}
	return all, ""
}

// several deducts from both meters, or looks whether it could.
func (p *play) several() {
	p.tick()
	r := p.request()
	r.Meter = one(p, "first meter", "slots", "tokens")
	r.More = []headroom.Amount{{Meter: other[r.Meter], Cost: one[int64](p, "of the other", 0, 1, 5, 7, 30, 201)}}
	r.Cost = min(r.Cost, 301)
	r.SkipClosed = false
	known := func(w *work) bool { return w.also != "" }
	if w := p.some(headroom.Key{Subject: r.Subject, Meter: r.Meter}, &r, known); w != nil && !odds(p, "another cost again", 6) {
		r.Cost = w.cost
		if its := p.oracle.book(headroom.Key{Subject: r.Subject, Meter: other[r.Meter]}).ids[r.Operation]; its != nil {
			r.More[0].Cost = its.cost
		}
	}
	if !p.prepareBoth(&r) {
		return
	}
	p.host = p.w.now() // what a host guesses is the matter of other steps
	dry := odds(p, "only a look", 5)
	ask := p.engine.Deduct
	if dry {
		ask = p.engine.Preflight
	}
	d, err := ask(context.Background(), r)
	if p.distrusted(r.Now, err) {
		return
	}
	all, code := p.joint(r).deduct(dry)
	p.compareParts("both meters", r, d, err, all, code)
	if !dry {
		p.wroteBoth(r, all)
	}
}

// prepareBoth is prepare of both meters. It reports false if there is nothing to ask.
func (p *play) prepareBoth(r *headroom.Request) bool {
	for _, meter := range []string{r.Meter, other[r.Meter], r.Meter} {
		of := *r
		of.Meter, of.More = meter, nil
		if !p.prepare(r.Subject, &of) {
			return false
		}
		r.Operation = of.Operation
	}
	return true
}

// refundBoth refunds what was charged in both meters.
func (p *play) refundBoth() {
	p.tick()
	r := headroom.Request{Meter: one(p, "named by", "slots", "tokens"), Subject: p.key().Subject, Operation: "none", Now: p.given()}
	r.More = []headroom.Amount{{Meter: other[r.Meter]}}
	key := headroom.Key{Subject: r.Subject, Meter: r.Meter}
	if w := p.some(key, &r, func(w *work) bool { return w.also != "" && w.kind == headroom.KindDeduct && !w.moved }); w == nil {
		return
	}
	asked := r.Operation
	if !p.prepareBoth(&r) || r.Operation != asked {
		return
	}
	id := one(p, "refund of both", fmt.Sprint("both ", p.step), "both a", "both b")
	for _, meter := range []string{"slots", "tokens"} {
		of := headroom.Key{Subject: r.Subject, Meter: meter}
		p.gone(of, id, p.at(r.Now))
		w := p.oracle.book(of).ids[r.Operation]
		if w == nil || w.moved || w.also == "" {
			return // one has forgotten it, which a rule of its own tests
		}
		if p.mayBeGone(w) {
			return // a write that clears the way in one meter may sweep the id of the other
		}
	}
	b, its := p.oracle.book(key), p.oracle.book(headroom.Key{Subject: r.Subject, Meter: other[r.Meter]})
	if known := b.ids[id]; known != nil && known.of != r.Operation || (known == nil) != (its.ids[id] == nil) {
		return
	}
	d, err := p.engine.Refund(context.Background(),
		headroom.RefundRequest{Subject: r.Subject, Meter: r.Meter, Operation: r.Operation, ID: id, Now: r.Now})
	if p.distrusted(r.Now, err) {
		return
	}
	all, code := p.joint(r).refund(id)
	p.compareParts("refund of both "+id, r, d, err, all, code)
	p.wroteBoth(r, all)
}

// compareParts is compare of a decision about both meters.
func (p *play) compareParts(call string, r headroom.Request, d headroom.Decision, err error, all []answer, code headroom.Code) {
	var got, want []string
	for _, part := range d.Parts {
		p.learn(headroom.Key{Subject: part.Subject, Meter: part.Meter}, part.Decision)
		got = append(got, part.Meter+": "+p.text(part.Decision))
	}
	for i, a := range all {
		want = append(want, []string{r.Meter, other[r.Meter]}[i]+": "+full(a.Decision))
	}
	p.compare(call, r, strings.Join(got, "\n"), err, strings.Join(want, "\n"), code)
}

// wroteBoth is wrote of a decision about both meters.
func (p *play) wroteBoth(r headroom.Request, all []answer) {
	if !slices.ContainsFunc(all, func(a answer) bool { return !a.Allowed }) {
		for _, a := range all {
			p.wrote(r.Now, a)
		}
	}
}
