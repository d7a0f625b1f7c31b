package storetest

import (
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// hold reserves units for so long.
func (c *call) hold(lasts time.Duration) answer {
	c.r.Over = headroom.RefuseOverLimit
	switch w := c.known(); {
	case lasts > c.horizon:
		return failed(headroom.Invalid)
	case w == nil:
		return c.until(lasts, c.charge(&work{kind: headroom.KindHold, cost: c.r.Cost, expires: holdEnd(c.now, lasts)}, c.r.Cost, c.now))
	case c.r.Renew && c.asks(w, w.cost) && (w.kind == headroom.KindReleased || w.lapsed(c.now)):
		return c.until(lasts, c.holdAgain(w, lasts))
	case (w.kind == headroom.KindHold || w.kind == headroom.KindReleased) && c.asks(w, w.cost),
		w.kind == headroom.KindSettled && c.asks(w, w.estimate):
		return c.replay(w, headroom.ReasonAdmitted, true)
	}
	return failed(headroom.Conflict)
}

// holdEnd is when a hold ends: at the first multiple of a length that divides a minute, an hour or
// a day, and is at most a sixteenth of the hold's.
func holdEnd(now time.Time, lasts time.Duration) time.Time {
	step := time.Second
	for _, of := range []time.Duration{time.Second, time.Minute, time.Hour} {
		for n := of; n <= lasts/16; n += of {
			if (60*of)%n == 0 && n < 60*of && of != time.Hour || (24*time.Hour)%n == 0 && of == time.Hour && n <= 12*of {
				step = max(step, n)
			}
		}
	}
	for n := day; n <= lasts/16; n *= 2 {
		step = n
	}
	end := now.Add(lasts)
	if over := time.Duration(end.UnixNano()) % step; over > 0 {
		end = end.Add(step - over)
	}
	return end
}

// until adds to an answer until when its hold is live, if one was taken.
func (c *call) until(lasts time.Duration, a answer) answer {
	if a.code == "" && a.Allowed {
		a.Expires, a.Live = holdEnd(c.now, lasts), true
	}
	return a
}

// settle charges the true cost of work that is or was held.
func (c *call) settle() answer {
	w := c.known()
	switch {
	case w == nil:
		return failed(headroom.NotFound)
	case w.kind == headroom.KindSettled && w.cost == c.r.Cost:
		return c.replay(w, w.reason(), false)
	case w.kind == headroom.KindReleased, w.kind == headroom.KindHold && !w.expires.After(c.now):
		// This is a plain deduction, and what was held no longer counts.
		return c.ended(w, c.r.Cost, func(w *work) {
			w.drawn = nil
			for i := range w.pieces {
				w.pieces[i].units = 0
			}
		})
	case w.kind != headroom.KindHold:
		return failed(headroom.Conflict)
	case c.r.Cost > w.cost:
		return c.ended(w, c.r.Cost-w.cost, func(*work) {})
	}
	a := c.giveBack(w.cost-c.r.Cost, w, headroom.ReasonAdmitted, c.r.Cost, func() {
		w.kind, w.estimate, w.cost = headroom.KindSettled, w.cost, c.r.Cost
		c.remember(c.r.Operation, w)
	})
	if a.code == "" {
		all, _ := c.stands(c.book, c.plan, c.key.Meter, c.now, false)
		a.Crossed = c.notices(w, all, headroom.ReasonAdmitted)
	}
	return a
}

// ended charges units for a work that was held, after change has been applied to it. If they are
// not charged, the work stays as it was.
func (c *call) ended(w *work, units int64, change func(*work)) answer {
	before := *w
	before.pieces, before.drawn, before.crossed = slices.Clone(w.pieces), slices.Clone(w.drawn), slices.Clone(w.crossed)
	w.kind, w.estimate, w.cost = headroom.KindSettled, w.cost, c.r.Cost
	change(w)
	// A live hold counts as held until it is charged.
	if before.kind == headroom.KindHold && before.expires.After(c.now) {
		w.kind = headroom.KindHold
	}
	a := c.charge(w, units, c.now)
	if a.code != "" || !a.Allowed {
		*w = before
		return a
	}
	w.kind = headroom.KindSettled
	c.remember(c.r.Operation, w)
	if before.kind == headroom.KindHold {
		// The units that the decision showed as held are charged now.
		all := c.storedStands(c.book, c.plan, c.key.Meter, c.now)
		a.Decision = w.shows(c.decision(c.book, all, c.plan, c.now, a.Reason, c.r.Cost, units, true), all, false)
		a.Crossed = c.notices(w, all, a.Reason)
	}
	return a
}

// giveBack takes units off a work. The answer has the given reason and cost.
func (c *call) giveBack(units int64, w *work, why headroom.Reason, cost int64, then func()) answer {
	all, sound := c.stands(c.book, c.plan, c.key.Meter, c.now, c.r.SkipClosed)
	if !sound {
		return failed(headroom.Invalid)
	}
	c.write(c.now)
	for i := len(w.drawn) - 1; i >= 0; i-- {
		n := min(units, w.drawn[i].units)
		w.drawn[i].units -= n
		units -= n
	}
	w.drawn = slices.DeleteFunc(w.drawn, func(d draw) bool { return d.units == 0 })
	for _, s := range all {
		rest, back := units, false
		for i := len(w.pieces) - 1; i >= 0; i-- {
			if p := &w.pieces[i]; p.limit == s.name && rest > 0 && p.units > 0 {
				if s.opens && s.carry > 0 && !back {
					c.move(s) // what was left at the window's end does not change any more
				}
				back = true
				n := min(rest, p.units)
				p.units -= n
				rest -= n
			}
		}
	}
	then()
	all, _ = c.stands(c.book, c.plan, c.key.Meter, c.now, false)
	return answer{Decision: w.shows(c.decision(c.book, all, c.plan, c.now, why, cost, cost, true), all, w.kind == headroom.KindHold)}
}

// lapsed reports whether w is a hold that has expired.
func (w *work) lapsed(now time.Time) bool {
	return w.kind == headroom.KindHold && !w.expires.After(now)
}

func (c *call) release() answer {
	w := c.known()
	switch {
	case w == nil:
		return failed(headroom.NotFound)
	case w.lapsed(c.now):
		return failed(headroom.Expired)
	case w.kind == headroom.KindReleased:
		return c.replay(w, headroom.ReasonReleased, false)
	case w.kind != headroom.KindHold:
		return failed(headroom.Conflict)
	}
	return c.giveBack(w.cost, w, headroom.ReasonReleased, w.cost, func() {
		w.kind = headroom.KindReleased
		c.remember(c.r.Operation, w)
	})
}

func (c *call) extend(lasts time.Duration) answer {
	w := c.known()
	switch {
	case lasts > c.horizon:
		return failed(headroom.Invalid)
	case w == nil:
		return failed(headroom.NotFound)
	case w.lapsed(c.now):
		return failed(headroom.Expired)
	case w.kind != headroom.KindHold:
		return failed(headroom.Conflict)
	case w.expires.Equal(holdEnd(c.now, lasts)):
		a := c.replay(w, headroom.ReasonExtended, true)
		return a
	}
	return c.until(lasts, c.giveBack(0, w, headroom.ReasonExtended, w.cost, func() {
		w.expires = holdEnd(c.now, lasts)
		c.remember(c.r.Operation, w)
	}))
}

// refund gives back units of the operation, under an id of its own.
func (c *call) refund(id string, units int64) answer {
	if w := c.book.ids[id]; w != nil {
		if w.kind != headroom.KindRefund || w.of != c.r.Operation || units != 0 && units != w.cost || w.also != c.also {
			return failed(headroom.Conflict)
		}
		return c.replay(w, headroom.ReasonRefunded, false)
	}
	w := c.known()
	switch {
	case w == nil:
		return failed(headroom.NotFound)
	case w.kind != headroom.KindDeduct && w.kind != headroom.KindSettled:
		return failed(headroom.Conflict)
	case units > w.cost-w.back:
		return failed(headroom.Invalid)
	case units == 0:
		units = w.cost - w.back
	}
	a := c.giveBack(units, w, headroom.ReasonRefunded, units, func() {
		w.back += units
		c.remember(id, &work{kind: headroom.KindRefund, cost: units, of: c.r.Operation, also: c.also})
		c.remember(c.r.Operation, w)
	})
	if a.code == "" {
		// A refund shows the present windows, not those in which the operation was charged.
		all, _ := c.stands(c.book, c.plan, c.key.Meter, c.now, false)
		a.Decision = c.decision(c.book, all, c.plan, c.now, headroom.ReasonRefunded, units, units, true)
	}
	return a
}

// grant adds units until expires.
func (c *call) grant(units int64, expires time.Time) answer {
	g := c.book.gifts[c.r.Operation]
	w := c.known()
	if w == nil && g != nil && g.expires.After(c.now) {
		w = &work{kind: headroom.KindGrant, cost: g.units, expires: g.expires}
	}
	switch {
	case w != nil && (w.kind != headroom.KindGrant || w.cost != units || !w.expires.Equal(expires)):
		return failed(headroom.Conflict)
	case w != nil:
		return c.replay(w, headroom.ReasonGranted, false)
	case !expires.After(c.now):
		return failed(headroom.Invalid)
	}
	w = &work{kind: headroom.KindGrant, cost: units, expires: expires}
	return c.giveBack(0, w, headroom.ReasonGranted, units, func() {
		for id, g := range c.book.gifts {
			if !g.expires.After(c.now) {
				delete(c.book.gifts, id)
			}
		}
		c.book.gifts[c.r.Operation] = &gift{id: c.r.Operation, units: units, expires: expires}
		c.remember(c.r.Operation, w)
	})
}

// within charges an organisation too: it holds there, charges the user, and settles.
func (o *oracle) within(organisation string, r headroom.Request, guess, now time.Time) (org, user answer, allowed bool) {
	at := r
	at.Subject, at.Plan, at.Operation = organisation, "", headroom.OperationWithin(r.Subject, r.Operation)
	c, u := o.call(at, now), o.call(r, now)
	if org = c.reserve(); org.code != "" {
		return org, answer{}, false
	}
	if w := u.known(); !org.Allowed && (w == nil || w.kind != headroom.KindDeduct) {
		return org, answer{}, false
	}
	// A charge that names no organisation was made by the release before, if the organisation has
	// its id as that left it.
	at.Operation = r.Operation
	before, w := o.call(at, now), u.known()
	unsaid := w != nil && w.within == ""
	if w != nil && w.kind == headroom.KindDeduct && w.within != organisation && !(unsaid && w.cost == r.Cost && before.witnesses()) {
		user = failed(headroom.Conflict)
	} else {
		user = u.ask(guess, organisation)
	}
	if user.code != "" || !user.Allowed {
		return c.withoutUser(org, user)
	}
	if unsaid {
		c.giveUp()
		c = before
	}
	c.r.Over, c.r.SkipClosed = headroom.RecordOverLimit, false
	if c.known() == nil {
		org = c.charge(&work{kind: headroom.KindSettled, cost: r.Cost, estimate: r.Cost}, r.Cost, now)
	} else {
		org = c.settle()
	}
	if org.code != "" {
		return org, answer{}, false
	}
	return org, user, true
}

// reserve holds at the organisation, anew if an earlier hold has ended.
func (c *call) reserve() answer {
	const lasts = 5 * time.Minute
	if w := c.known(); w != nil && c.asks(w, w.cost) && (w.kind == headroom.KindReleased || w.lapsed(c.now)) {
		return c.holdAgain(w, lasts)
	}
	return c.hold(lasts)
}

// witnesses reports whether the organisation knows the id as the release before left it.
func (c *call) witnesses() bool {
	w := c.known()
	return w != nil && (w.kind == headroom.KindSettled && w.estimate == c.r.Cost || w.kind == headroom.KindHold && w.cost == c.r.Cost)
}

// giveUp gives back what is held at the organisation, and forgets the id.
func (c *call) giveUp() {
	w := c.known()
	if w == nil || w.kind != headroom.KindHold || w.lapsed(c.now) {
		return
	}
	c.giveBack(w.cost, w, headroom.ReasonReleased, w.cost, func() {
		w.kind = headroom.KindReleased
		delete(c.book.ids, c.r.Operation)
	})
}

// withoutUser is what becomes of the organisation's part where the user was refused, or the user's
// part failed.
func (c *call) withoutUser(org, user answer) (answer, answer, bool) {
	if w := c.known(); w != nil && w.kind == headroom.KindSettled && user.code == "" {
		return failed(headroom.Conflict), answer{}, false
	}
	// What another delivery holds stays, unless no repeat will charge the user.
	if final := user.code == "" || user.code == headroom.Conflict || user.code == headroom.TooOld; final || !org.Replay {
		c.giveUp()
	}
	if user.code != "" {
		return user, answer{}, false
	}
	all, _ := c.stands(c.book, c.plan, c.key.Meter, c.now, false)
	org.Decision = c.decision(c.book, all, c.plan, c.now, headroom.ReasonReleased, c.r.Cost, c.r.Cost, true)
	return org, user, false
}

// holdAgain holds again for an id whose hold has ended.
func (c *call) holdAgain(w *work, lasts time.Duration) answer {
	c.r.Over = headroom.RefuseOverLimit
	before := *w
	before.pieces, before.drawn, before.crossed = slices.Clone(w.pieces), slices.Clone(w.drawn), slices.Clone(w.crossed)
	w.kind, w.pieces, w.drawn, w.crossed, w.expires = headroom.KindHold, nil, nil, nil, holdEnd(c.now, lasts)
	a := c.charge(w, c.r.Cost, c.now)
	if a.code != "" || !a.Allowed {
		*w = before
	}
	return a
}
