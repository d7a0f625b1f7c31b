package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// call is one request, by whom and when.
type call struct {
	*oracle
	key  headroom.Key
	book *book
	r    headroom.Request
	plan string
	now  time.Time // the store's time
	dry  bool      // nothing is written
	also string    // the other meter of the request
}

func (o *oracle) call(r headroom.Request, now time.Time) *call {
	key := headroom.Key{Subject: r.Subject, Meter: r.Meter}
	o.book(key).recall(now, o.horizon)
	return &call{oracle: o, key: key, book: o.book(key), r: r, plan: o.plan(r.Subject, r.Plan), now: now}
}

// answer is a decision, or the code of an error.
type answer struct {
	headroom.Decision
	code headroom.Code
}

func failed(c headroom.Code) answer { return answer{code: c} }

// known is what the operation's id stands for.
func (c *call) known() *work { return c.book.ids[c.r.Operation] }

// asks reports whether the request is what w stands for, which was admitted at so many units.
func (c *call) asks(w *work, units int64) bool {
	if w.least > 0 {
		units = w.asked
	}
	return units == c.r.Cost && w.least == c.r.AtLeast
}

// deduct is a deduction by a host whose clock shows guess, on a store whose time is now. If the
// stored state is what the host guesses, the guess is written. If not, the store says so, and the
// store's time decides.
func (c *call) deduct(guess time.Time) answer {
	if w := c.known(); w != nil && w.within != "" {
		return failed(headroom.Conflict)
	}
	return c.ask(guess, "")
}

// ask is a deduction within an organisation. If within is empty, it does not matter who pays beside
// the subject.
func (c *call) ask(guess time.Time, within string) answer {
	w := c.known()
	if c.r.Operation == "" && !c.dry {
		c.r.Began = time.Time{}
	}
	switch {
	case w != nil && w.also != c.also:
		return failed(headroom.Conflict)
	case w == nil && !guess.Equal(c.now) && c.guessed(guess):
		w = &work{kind: headroom.KindDeduct, cost: c.r.Cost, within: within}
		a := c.charge(w, c.r.Cost, guess)
		if c.known() == w && epoch(c.now, c.horizon).After(c.book.young) {
			c.write(c.now)
			c.remember(c.r.Operation, w) // filed by the store's time
		}
		return a
	case w == nil:
		return c.charge(&work{kind: headroom.KindDeduct, cost: c.r.Cost, within: within, also: c.also}, c.r.Cost, c.now)
	case w.kind != headroom.KindDeduct || !c.asks(w, w.cost):
		return failed(headroom.Conflict)
	}
	return c.replay(w, w.reason(), false)
}

// guessed reports whether the host's guess is right. Every limit must stand in the window of the
// host's clock with nothing carried over, the plan must be the assumed one, the cost must fit, and
// it must cross the same thresholds as if nothing had been used.
func (c *call) guessed(guess time.Time) bool {
	if !c.book.young.Equal(epoch(guess, c.horizon)) || !c.r.Began.IsZero() && guess.Sub(c.r.Began) > c.horizon/2 {
		return false // the host reads first if the operation is old
	}
	if plan := cmp.Or(c.r.Plan, "free"); c.plan != plan {
		return false
	}
	for _, l := range c.rations(c.plan, c.key.Meter) {
		w := c.book.windows[l.name]
		if w == nil || !w.start.Equal(l.start(guess)) || w.carried != 0 {
			return false
		}
		s := stand{ration: l, start: w.start}
		s.count(c.book, c.now)
		if count := s.used + s.held; count > math.MaxInt64-c.r.Cost || l.mode == headroom.Hard && c.r.Cost > 0 && c.r.Cost > l.units-count {
			return false
		}
		for _, t := range l.thresholds {
			if crosses, before := reached(s, t, c.r.Cost); c.r.Cost > 0 && (before || crosses != (c.r.Cost >= least(l.units, t))) {
				return false
			}
		}
	}
	return true
}

// least is the smallest count above 0 that is at least so many percent of an allowance.
func least(allowance int64, percent int) int64 {
	if allowance == math.MaxInt64 {
		return math.MaxInt64
	}
	n := allowance / 100 * int64(percent)
	for n*100 < allowance%100*int64(percent)+allowance/100*int64(percent)*100 {
		n++
	}
	return max(1, n)
}

// reached reports whether units more reach a threshold now, and whether it was reached before.
func reached(s stand, percent int, units int64) (now, before bool) {
	t, count := least(s.allowance(), percent), s.used+s.held
	return count < t && count+units >= t && s.allowance() != math.MaxInt64, count >= t
}

// charge decides whether units more may be charged, or held, for w, by the time at.
func (c *call) charge(w *work, units int64, at time.Time) answer {
	isNew := c.known() == nil
	if isNew && !c.r.Began.IsZero() && at.Sub(c.r.Began) > c.horizon {
		return failed(headroom.TooOld)
	}
	all, sound := c.stands(c.book, c.plan, c.key.Meter, at, c.r.SkipClosed)
	if !sound {
		return failed(headroom.Invalid)
	}
	if c.r.SkipClosed && c.late(all, at) {
		return answer{Decision: c.decision(c.book, all, c.plan, c.now, headroom.ReasonClosed, c.r.Cost, c.r.Cost, false)}
	}
	cost := c.r.Cost
	show := func(why headroom.Reason, charged bool) headroom.Decision {
		return c.decision(c.book, all, c.plan, c.now, why, cost, units, charged)
	}
	own, drawn, lacking := c.split(all, units, at)
	why := headroom.ReasonAdmitted
	if c.r.AtLeast > 0 && lacking > 0 {
		if there := units - lacking; there < c.r.AtLeast {
			units = c.r.AtLeast
		} else {
			units, cost, lacking = there, there, 0
		}
	}
	switch {
	case lacking > 0 && c.r.Over != headroom.RecordOverLimit:
		return answer{Decision: show(c.refusal(all, units), false)}
	case lacking > 0:
		why = headroom.ReasonRecorded
	}
	own += lacking
	if slices.ContainsFunc(all, func(s stand) bool { return s.used+s.held > math.MaxInt64-own }) {
		return failed(headroom.Invalid)
	}
	if c.dry {
		return answer{Decision: show(why, false)}
	}
	if c.r.AtLeast > 0 {
		w.asked, w.least, w.cost = c.r.Cost, c.r.AtLeast, cost
	}
	c.write(at)
	c.enter(w, all, own)
	w.drawn = append(w.drawn, drawn...)
	w.recorded = why == headroom.ReasonRecorded
	if isNew {
		c.book.works = append(c.book.works, w)
	}
	c.remember(c.r.Operation, w)
	all = c.storedStands(c.book, c.plan, c.key.Meter, c.now)
	d := w.shows(show(why, true), all, w.kind == headroom.KindHold)
	d.Crossed, d.Unremembered = c.notices(w, all, why), c.r.Operation == ""
	return answer{Decision: d}
}

// late reports whether a window of the request is over, because a later one is stored.
func (c *call) late(all []stand, at time.Time) bool {
	return slices.ContainsFunc(all, func(s stand) bool {
		stored := c.book.windows[s.name]
		return stored != nil && stored.start.After(at)
	})
}

// split says where units come from: first the plan's own, as many as every limit that refuses
// leaves; then the grants. lacking is what neither has.
func (c *call) split(all []stand, units int64, at time.Time) (own int64, drawn []draw, lacking int64) {
	own = units
	for _, s := range all {
		if s.mode == headroom.Hard {
			own = min(own, max(0, s.remaining()))
		}
	}
	lacking = units - own
	for _, g := range c.book.live(at) {
		if n := min(lacking, c.book.left(g, at)); n > 0 {
			drawn = append(drawn, draw{g, n})
			lacking -= n
		}
	}
	return own, drawn, lacking
}

// refusal is the reason for a refusal: whether another window could have enough units, or none ever
// could.
func (c *call) refusal(all []stand, units int64) headroom.Reason {
	more := units - c.book.granted(c.now)
	if slices.ContainsFunc(all, func(s stand) bool { return s.mode == headroom.Hard && more > s.most() }) {
		return headroom.ReasonNeverFits
	}
	return headroom.ReasonOverLimit
}

// enter counts units for w in each limit, and notes the thresholds that they cross.
func (c *call) enter(w *work, all []stand, units int64) {
	for _, s := range all {
		c.move(s)
		for _, t := range s.thresholds {
			if crosses, _ := reached(s, t, units); crosses && units > 0 {
				w.crossed = append(w.crossed, crossing{s.name, t, s.start})
			}
		}
		w.add(piece{limit: s.name, shown: s.start, in: s.start, units: units})
	}
}

// add adds a piece. If there is one for the same window, they become one.
func (w *work) add(p piece) {
	for i, have := range w.pieces {
		if have.limit == p.limit && have.shown.Equal(p.shown) && have.in.Equal(p.in) {
			w.pieces[i].units += p.units
			return
		}
	}
	w.pieces = append(w.pieces, p)
	slices.SortStableFunc(w.pieces, func(a, b piece) int { return a.shown.Compare(b.shown) })
}

// move opens a window, or takes those of the future back into the present one.
func (c *call) move(s stand) {
	if !s.opens && !s.brought {
		return
	}
	c.book.windows[s.name] = &standingWindow{s.start, s.carried}
	for _, w := range c.book.works {
		for i, p := range w.pieces {
			if p.limit == s.name && p.in.After(s.start) {
				w.pieces[i].in, w.moved = s.start, true
			}
		}
	}
}

// write lets the ids age, as every write does.
func (c *call) write(at time.Time) {
	if label := epoch(at, c.horizon); label.After(c.book.young) {
		c.book.older, c.book.old, c.book.young = c.book.old, c.book.young, label
		clear(c.book.aside)
	}
	for id, w := range c.book.ids {
		if !w.label.Equal(c.book.young) && !w.label.Equal(c.book.old) {
			delete(c.book.ids, id)
			if c.third && w.label.Equal(c.book.older) {
				c.book.aside[id] = w
			}
		}
	}
}

// recall remembers the ids that were put aside, if their generation is not over at that time.
// Otherwise it puts them aside again.
func (b *book) recall(now time.Time, horizon time.Duration) {
	for id, w := range b.aside {
		if b.older.Add(2 * horizon).After(now) {
			b.ids[id] = w
		} else if b.ids[id] == w {
			delete(b.ids, id)
		}
	}
}

func (c *call) remember(id string, w *work) {
	if id == "" {
		return // the meter permits charges without an id, which nobody can repeat
	}
	c.book.ids[id] = w
	delete(c.book.aside, id)
	w.label = c.book.young
}

// replay answers a repeat.
func (c *call) replay(w *work, why headroom.Reason, ofHold bool) answer {
	all, sound := c.stands(c.book, c.plan, c.key.Meter, c.now, c.r.SkipClosed)
	if !sound {
		return failed(headroom.Invalid)
	}
	cost := w.cost
	if ofHold && w.kind == headroom.KindSettled {
		cost = w.estimate
	}
	d := w.shows(c.decision(c.book, all, c.plan, c.now, why, cost, cost, true), all, ofHold)
	d.Replay = true
	d.Crossed = c.notices(w, all, why)
	if ofHold && w.kind == headroom.KindHold && !w.lapsed(c.now) {
		d.Expires, d.Live = w.expires, true
	}
	return answer{Decision: d}
}

// notices returns all thresholds that a work has crossed, for a decision that charges or holds.
func (c *call) notices(w *work, all []stand, why headroom.Reason) (notices []headroom.Notice) {
	if why != headroom.ReasonAdmitted && why != headroom.ReasonRecorded {
		return nil
	}
	for _, x := range w.crossed {
		for _, s := range all {
			if s.name == x.limit {
				notices = append(notices, c.notice(x, s))
			}
		}
	}
	return notices
}

// notice says that a threshold was crossed. Its id is what it is about. The ids of the engine are
// other texts, and must be as unique.
func (c *call) notice(x crossing, s stand) headroom.Notice {
	return headroom.Notice{
		ID: noticeName(c.key, x.limit, x.percent, x.start), Limit: x.limit, Percent: x.percent,
		Window: s.window(x.start),
	}
}

func noticeName(key headroom.Key, limit string, percent int, start time.Time) string {
	return fmt.Sprintf("%s of %s: %d%% of %s in %d", key.Subject, key.Meter, percent, limit, start.Unix())
}

func (w *work) reason() headroom.Reason {
	if w.recorded {
		return headroom.ReasonRecorded
	}
	return headroom.ReasonAdmitted
}
