package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// text shows every field of a decision. In place of a notice's id it shows what the notice is
// about.
func (p *play) text(d headroom.Decision) string {
	d.Crossed = slices.Clone(d.Crossed)
	for i, n := range d.Crossed {
		if about, ok := p.notices[n.ID]; ok {
			d.Crossed[i].ID = about
		}
	}
	return full(d)
}

// learn notes what each notice's id is about. One id must be about one thing, and one thing must
// have one id.
func (p *play) learn(key headroom.Key, d headroom.Decision) {
	for _, n := range d.Crossed {
		about := noticeName(key, n.Limit, n.Percent, n.Window.Start)
		for id, other := range p.notices {
			if (id == n.ID) != (other == about) {
				p.Fatalf("the notice %q is about %s, and %q about %s", id, other, n.ID, about)
			}
		}
		p.notices[n.ID] = about
	}
}

// prepare makes the outcome of a request foreseeable. An expired hold may have been cleared away or
// not, and that must make no difference. So windows are opened and ids aged beforehand, the host
// does not guess, and ids are avoided for which it is chance whether they are still remembered. A
// hold in a window that a wrong clock opened is avoided too. It reports false if the store does not
// trust its clock.
func (p *play) prepare(subject string, r *headroom.Request) bool {
	if !p.foresee(subject, r) {
		return false
	}
	p.gone(headroom.Key{Subject: subject, Meter: r.Meter}, r.Operation, p.at(r.Now))
	return true
}

// gone lets the oracle forget an id that a sweep has removed from the store, if the store may do so
// by now.
func (p *play) gone(key headroom.Key, id string, now time.Time) {
	b := p.oracle.book(key)
	b.recall(now, p.oracle.horizon)
	if w := b.ids[id]; w == nil || !p.mayBeGone(w) {
		return
	}
	v, err := p.store.Load(context.Background(), headroom.Query{Key: key, IDs: []string{id}, Now: now})
	if err != nil {
		p.Fatalf("step %d: load %q: %v", p.step, id, err)
	}
	if _, remembered := v.Records[id]; !remembered {
		p.swept++
		delete(b.ids, id)
		delete(b.aside, id)
	}
}

// mayBeGone reports whether a sweep may have removed an id. That is so once two horizons have
// passed since its generation began.
func (p *play) mayBeGone(w *work) bool {
	return p.w.h.Sweeps && !p.latest.Before(w.label.Add(2*p.oracle.horizon))
}

func (p *play) foresee(subject string, r *headroom.Request) bool {
	key, now := headroom.Key{Subject: subject, Meter: r.Meter}, p.at(r.Now)
	b := p.oracle.book(key)
	if !slices.ContainsFunc(b.works, func(w *work) bool { return w.lapsed(now) }) {
		p.avoid(b, now, r)
		return true
	}
	p.host = p.w.now()
	all, sound := p.oracle.stands(b, p.oracle.plan(subject, ""), r.Meter, now, false)
	if slices.ContainsFunc(all, func(s stand) bool { return s.opens }) || epoch(now, p.oracle.horizon).After(b.young) {
		if sound && !p.deducts(headroom.Request{Subject: subject, Meter: r.Meter, Operation: fmt.Sprint("fresh ", p.step), Now: r.Now}) {
			return false
		}
	}
	p.avoid(b, now, r)
	return true
}

func (p *play) avoid(b *book, now time.Time, r *headroom.Request) {
	w := b.ids[r.Operation]
	if w == nil || w.kind != headroom.KindHold {
		return
	}
	ahead := slices.ContainsFunc(w.pieces, func(x piece) bool { return x.in.After(now.Add(headroom.ClockTolerance)) })
	if ahead || w.moved {
		r.Operation = fmt.Sprint("instead ", p.step)
	}
}

// some mostly draws the id of a remembered work for which f holds, if there is one.
func (p *play) some(key headroom.Key, r *headroom.Request, f func(*work) bool) *work {
	b := p.oracle.book(key)
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(b.ids)) {
		if f(b.ids[id]) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || odds(p, "any id", 4) {
		return nil
	}
	r.Operation = one(p, "known id", ids...)
	return b.ids[r.Operation]
}

func (p *play) held(v verb) {
	p.tick()
	r := p.request()
	key := headroom.Key{Subject: r.Subject, Meter: r.Meter}
	lasts := min(one(p, "lasts", time.Hour, time.Second, 10*time.Minute, 30*time.Hour, 10*day, 2*year), p.oracle.horizon)
	if v == hold {
		r.Cost = min(r.Cost, 301)
		p.takesLess(&r)
		r.Renew = odds(p, "renews", 3)
	} else if w := p.some(key, &r, func(w *work) bool {
		return w.kind == headroom.KindHold || w.kind == headroom.KindReleased || w.kind == headroom.KindSettled
	}); w != nil {
		r.Cost = one(p, "of the estimate", w.cost, w.cost/2, w.cost+20, w.cost+150, 0)
	}
	if !p.prepare(r.Subject, &r) {
		return
	}
	d, err := do(context.Background(), p.engine, v, r, lasts)
	if p.distrusted(r.Now, err) {
		return
	}
	c := p.oracle.call(r, p.at(r.Now))
	var want answer
	switch v {
	case hold:
		want = c.hold(lasts)
	case settle:
		want = c.settle()
	case release:
		c.r.SkipClosed = false // a release cannot ask for it
		want = c.release()
	default:
		c.r.SkipClosed = false
		want = c.extend(lasts)
	}
	p.learn(key, d)
	p.compare(fmt.Sprintf("%s for %s", v, lasts), r, p.text(d), err, full(want.Decision), want.code)
	p.wrote(r.Now, want)
}

func (p *play) refund() {
	p.tick()
	r := headroom.Request{Meter: p.key().Meter, Subject: p.key().Subject, Operation: "none", Now: p.given()}
	key := headroom.Key{Subject: r.Subject, Meter: r.Meter}
	w := p.some(key, &r, func(w *work) bool { return !w.moved && w.kind != headroom.KindRefund && w.kind != headroom.KindGrant })
	if w != nil {
		r.Cost = one(p, "of the cost", 0, w.cost, w.cost/3, w.cost/2, min(w.cost, 1<<60)+1)
	}
	if w != nil && w.also != "" && r.Cost == 0 {
		r.Cost = 1 // all that is left in both meters is the matter of another step
	}
	id := one(p, "refund", fmt.Sprint("refund ", p.step), "refund a", "refund b", "id 3")
	if known := p.oracle.book(key).ids[id]; known != nil && odds(p, "the same refund", 2) {
		if of := p.oracle.book(key).ids[known.of]; known.kind == headroom.KindRefund && (of == nil || !of.moved) {
			r.Operation, r.Cost = known.of, known.cost
		}
	}
	if !p.prepare(r.Subject, &r) {
		return
	}
	if other := (headroom.Request{Meter: r.Meter, Operation: id}); id == r.Operation {
		return
	} else if p.avoid(p.oracle.book(key), p.at(r.Now), &other); other.Operation != id {
		return
	}
	p.gone(key, id, p.at(r.Now))
	d, err := p.engine.Refund(context.Background(),
		headroom.RefundRequest{Subject: r.Subject, Meter: r.Meter, Operation: r.Operation, ID: id, Units: r.Cost, Now: r.Now})
	if p.distrusted(r.Now, err) {
		return
	}
	want := p.oracle.call(r, p.at(r.Now)).refund(id, r.Cost)
	p.compare("refund "+id, r, p.text(d), err, full(want.Decision), want.code)
	p.wrote(r.Now, want)
}

func (p *play) grant() {
	p.tick()
	key := p.key()
	n := one(p, "grant", 0, 1, 2, 3, 4)
	expires := base.Add(time.Duration(n+1) * one(p, "expires", 5*day, 5*day, 5*day, 6*day))
	units := one(p, "units", int64(n*20+15), int64(n*20+15), 1)
	r := headroom.Request{
		Subject: key.Subject, Meter: key.Meter,
		Operation: one(p, "id", fmt.Sprint("grant ", n), fmt.Sprint("grant ", n), "id 4"), Now: p.given(),
		Cost: units,
	}
	if r.Operation == "id 4" {
		expires = base.Add(2 * year) // so that no id is given to a second grant
	}
	id := r.Operation
	if !p.prepare(r.Subject, &r) || r.Operation != id {
		return
	}
	// An id is not used for a second grant once the first is over.
	if g := p.oracle.book(key).gifts[id]; g != nil && g.expires.After(p.at(r.Now)) {
		expires, units = one(p, "the same", g.expires, g.expires, expires), one(p, "as many", g.units, g.units, units)
	} else if g != nil || p.gifts[fmt.Sprint(key, id)] {
		return
	}
	p.gifts[fmt.Sprint(key, id)] = true
	d, err := p.engine.Grant(context.Background(),
		headroom.GrantRequest{Subject: r.Subject, Meter: r.Meter, ID: id, Units: units, Expires: expires, Now: r.Now})
	if p.distrusted(r.Now, err) {
		return
	}
	r.Cost = units
	want := p.oracle.call(r, p.at(r.Now)).grant(units, expires)
	p.compare("grant until "+short(expires), r, p.text(d), err, full(want.Decision), want.code)
	p.wrote(r.Now, want)
}

// within deducts for a user within an organisation. Now and then the caller dies before it settles.
func (p *play) within() {
	p.tick()
	organisation, r, ok := p.pairAsks()
	if !ok {
		return
	}
	of := headroom.Key{Subject: r.Subject, Meter: r.Meter}
	engine, dies := p.engine, odds(p, "dies before it settles", 4)
	// only the first call leaves a debt
	if dies = dies && p.oracle.book(of).ids[r.Operation] == nil; dies {
		engine = p.dying(organisation)
	}
	j, err := engine.DeductWithin(context.Background(), organisation, r)
	if p.distrusted(r.Now, err) {
		return
	}
	paid, user, allowed := p.oracle.within(organisation, r, p.guess(r.Now), p.at(r.Now))
	if dies && errors.Is(err, errDied) {
		if !allowed {
			p.Fatalf("step %d: %q was to be settled at %q, and the model refuses it", p.step, r.Operation, organisation)
		}
		if r.Now.IsZero() && p.host.After(p.written) {
			p.written = p.host
		}
		p.finish(of, r.Now)
		return
	}
	p.learn(headroom.Key{Subject: organisation, Meter: r.Meter}, j.Organisation)
	p.learn(of, j.User)
	show := func(org, user string, allowed bool) string {
		return fmt.Sprintf("%t\norganisation: %s\nuser: %s", allowed, org, user)
	}
	p.compare("within "+organisation, r, show(p.text(j.Organisation), p.text(j.User), j.Allowed), err,
		show(full(paid.Decision), full(user.Decision), allowed), paid.code)
	p.wrote(r.Now, paid)
	p.wrote(r.Now, user)
}

// pairAsks draws a request of a user within an organisation. It reports false if there is nothing
// to ask.
func (p *play) pairAsks() (organisation string, r headroom.Request, ok bool) {
	r = p.request()
	organisation = p.prefix + one(p, "organisation", "org", "org", "b")
	if r.Subject == organisation {
		r.Subject = p.prefix + "a"
	}
	r.Cost = min(r.Cost, 301)
	of := headroom.Key{Subject: r.Subject, Meter: r.Meter}
	if w := p.some(of, &r, func(w *work) bool { return w.within != "" }); w != nil {
		organisation, r.Cost = one(p, "the organisation again", w.within, w.within, organisation), w.cost
	}
	if r.Subject == organisation {
		return "", r, false
	}
	asked := r.Operation
	for _, subject := range []string{organisation, r.Subject, organisation} {
		if !p.prepare(subject, &r) {
			return "", r, false
		}
	}
	its := headroom.Request{Meter: r.Meter, Operation: headroom.OperationWithin(r.Subject, r.Operation)}
	org := p.oracle.book(headroom.Key{Subject: organisation, Meter: r.Meter})
	// The write of one part may sweep before the other part is read.
	for _, w := range []*work{p.oracle.book(of).ids[r.Operation], org.ids[r.Operation], org.ids[its.Operation]} {
		if w != nil && p.mayBeGone(w) {
			r.Operation = fmt.Sprint("instead ", p.step)
		}
	}
	id := its.Operation
	if p.avoid(org, p.at(r.Now), &its); its.Operation != id {
		r.Operation = fmt.Sprint("instead ", p.step)
	}
	if r.Operation != asked { // an id that was not used before
		r.Operation += " of both"
	}
	return organisation, r, true
}

var errDied = errors.New("the caller died")

// dying returns an engine whose process dies before it settles at an organisation.
func (p *play) dying(organisation string) *headroom.Engine {
	s := &tap{Store: p.store}
	dead := false
	s.load = func() error {
		if dead {
			return errDied
		}
		return nil
	}
	s.commit = func(ctx context.Context, c headroom.Change, to headroom.Store) (headroom.View, bool, error) {
		settles := slices.ContainsFunc(c.Records,
			func(r headroom.RecordStep) bool { return r.Is != nil && r.Is.Kind == headroom.KindSettled })
		if dead = dead || c.Key.Subject == organisation && settles; dead {
			return headroom.View{}, false, headroom.Errorf(headroom.Unavailable, errDied, "nothing was written")
		}
		return to.Commit(ctx, c)
	}
	e, err := headroom.New(s, p.catalog(), headroom.Options{Horizon: p.oracle.horizon, Clock: func() time.Time { return p.host }})
	if err != nil {
		p.Fatal(err)
	}
	return e
}

// finish lets a sweep or a look pay a key's debt. If the caller gave the time, it is a look at that
// time, which reads no clock.
func (p *play) finish(of headroom.Key, given time.Time) {
	if !given.IsZero() || odds(p, "a look finishes", 2) {
		if u, err := p.engine.Usage(context.Background(),
			headroom.UsageRequest{Subject: of.Subject, Meter: of.Meter, Now: given}); err != nil ||
			len(u.Debts) != 0 {
			p.Fatalf("step %d: a look at %v leaves %v, %v", p.step, of, u.Debts, err)
		}
		return
	}
	// A sweep may find debts of other plays in the same store.
	if n, err := p.engine.FinishDebts(context.Background()); err != nil || n.Settled < 1 {
		p.Fatalf("step %d: a sweep finds %+v, %v: want a debt of %v", p.step, n, err, of)
	}
}
