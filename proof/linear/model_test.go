package linear_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lumcast/headroom"
)

type verb string

const (
	deduct  verb = "deduct"
	hold    verb = "hold"
	settle  verb = "settle"
	release verb = "release"
	refund  verb = "refund"
	grant   verb = "grant"
	setPlan verb = "set plan"
	usage   verb = "usage"
)

// ids are the ids that clients use. The first are for operations, then come those for refunds and
// for grants. Now and then one is used for something else.
var ids = [...]string{"op-0", "op-1", "op-2", "op-3", "refund-0", "refund-1", "grant-0", "grant-1"}

const (
	operations = 4
	firstGrant = 6
)

// limits are the units a week of each plan. A subject without a plan is on free.
var limits = map[string]int64{"": 12, "free": 12, "pro": 20}

// ask is what a client asks.
type ask struct {
	verb
	id, of int   // of a refund the charge is of
	units  int64 // cost of an operation, units of a refund or grant
	record bool  // charge past the limit
	lasts  int32 // of a hold or grant, in seconds
	plan   string
}

// reply is what came back.
type reply struct {
	code           headroom.Code // of an error
	allowed        bool
	replay         bool
	reason         headroom.Reason
	plan           string
	week           int8
	cost           int64
	used, held     int64
	limit, left    int64
	granted        int64
	past           int64  // of usage: what was charged last week
	grants, living string // of usage: live grants and live holds
}

// state is all that a subject has. It keeps no counts. It keeps what each id has in each week, and
// adds that up. Times are seconds from the beginning of a history. The weeks are 1 and, after the
// turn, 2.
type state struct {
	plan  string
	week  int8 // in which the counter stands; 0: there is none yet
	works [len(ids)]work
}

// work is what an id stands for.
type work struct {
	verb              // deduct, hold, settle, release, refund or grant; none: nothing
	cost     int64    // of a hold, also of one that was released, the estimate
	estimate int64    // of a settlement
	back     int64    // refunded
	recorded bool     // past the limit
	expires  int32    // of a hold or grant
	of       int      // of a refund
	in       [3]bool  // weeks in which it counts or counted
	own      [3]int64 // units of the plan by week
	drawn    [4]draw  // units of grants, in their order
}

type draw struct {
	grant int
	units int64
}

// times are the times at which an operation decides, checks which holds have expired, and shows how
// the limits stand.
type times struct{ at, swept, shown int32 }

// turn is when the week turns, in seconds.
const turn int32 = 10

func weekOf(t int32) int8 {
	if t < turn {
		return 1
	}
	return 2
}

// window returns the week to which a charge would go. Windows never go back.
func (s *state) window(at int32) int8 { return max(s.week, weekOf(at)) }

// counted reports whether a work counts. A hold counts only while it lives.
func (w *work) counted(swept int32) bool { return w.verb != hold || w.expires > swept }

func (s *state) count(week int8, swept int32) (used, held int64) {
	for i := range s.works {
		switch w := &s.works[i]; {
		case w.verb != hold:
			used += w.own[week]
		case w.counted(swept):
			held += w.own[week]
		}
	}
	return used, held
}

// left returns what a grant has left.
func (s *state) left(grant int, swept int32) int64 {
	left := s.works[grant].cost
	for i := range s.works {
		for _, d := range s.works[i].drawn {
			if d.grant == grant && d.units > 0 && s.works[i].counted(swept) {
				left -= d.units
			}
		}
	}
	return left
}

// grants returns the live grants, in the order in which they are drawn on.
func (s *state) grants(at int32) (live []int) {
	for i := range s.works {
		if s.works[i].verb == grant && s.works[i].expires > at {
			live = append(live, i)
		}
	}
	slices.SortFunc(live, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.works[a].expires, s.works[b].expires), cmp.Compare(ids[a], ids[b]))
	})
	return live
}

func (s *state) granted(at, swept int32) (sum int64) {
	for _, g := range s.grants(at) {
		sum += s.left(g, swept)
	}
	return sum
}

// stand adds to a reply how the limit stands in a week.
func (s *state) stand(week int8, at, swept int32, r reply) reply {
	r.plan, r.limit = cmp.Or(s.plan, "free"), limits[s.plan]
	r.used, r.held = s.count(week, swept)
	r.left, r.granted = max(0, r.limit-r.used-r.held), s.granted(at, swept)
	r.week = cmp.Or(r.week, week)
	return r
}

func (w *work) first() int8 {
	for week, in := range w.in {
		if in {
			return int8(week)
		}
	}
	return 0
}

func (w *work) last() (last int8) {
	for week, in := range w.in {
		if in {
			last = int8(week)
		}
	}
	return last
}

// after is the reply to what was written.
func (s *state) after(t times, why headroom.Reason, cost int64, week int8) reply {
	return s.stand(s.window(t.shown), t.shown, max(t.swept, t.shown), reply{allowed: true, reason: why, cost: cost, week: week})
}

// again is the reply to a repeat.
func (s *state) again(t times, why headroom.Reason, cost int64, week int8) reply {
	return s.stand(s.window(t.at), t.at, t.swept, reply{allowed: true, replay: true, reason: why, cost: cost, week: week})
}

func failed(c headroom.Code) reply { return reply{code: c} }

// take applies the rules. It returns the state after a request, and the reply. s is a copy.
func (s state) take(a ask, t times) (state, reply) {
	switch a.verb {
	case setPlan:
		s.plan = a.plan
		return s, reply{}
	case usage:
		return s, s.look(t)
	case refund:
		return s.refund(a, t)
	case grant:
		return s.grant(a, t)
	}
	w := &s.works[a.id]
	switch {
	case a.verb == deduct && w.verb == "":
		return s.charge(a, work{verb: deduct, cost: a.units}, a.units, t)
	case a.verb == deduct && w.verb == deduct && w.cost == a.units, a.verb == settle && w.verb == settle && w.cost == a.units:
		return s, s.again(t, w.reason(), w.cost, w.last())
	case a.verb == hold && w.verb == "":
		a.record = false
		return s.charge(a, work{verb: hold, cost: a.units, expires: holdEnd(t.at, a.lasts)}, a.units, t)
	case a.verb == hold && (w.verb == hold || w.verb == release) && w.cost == a.units,
		a.verb == hold && w.verb == settle && w.estimate == a.units:
		return s, s.again(t, headroom.ReasonAdmitted, a.units, w.first())
	case (a.verb == settle || a.verb == release) && w.verb == "":
		return s, failed(headroom.NotFound)
	case a.verb == settle && (w.verb == hold || w.verb == release):
		return s.settle(a, t)
	case a.verb == release && w.verb == hold && !w.counted(t.swept):
		return s, failed(headroom.Expired)
	case a.verb == release && w.verb == release:
		return s, s.again(t, headroom.ReasonReleased, w.cost, w.last())
	case a.verb == release && w.verb == hold:
		*w = work{verb: release, cost: w.cost, in: w.in}
		return s, s.after(t, headroom.ReasonReleased, w.cost, w.last())
	}
	return s, failed(headroom.Conflict)
}

func (w *work) reason() headroom.Reason {
	if w.recorded {
		return headroom.ReasonRecorded
	}
	return headroom.ReasonAdmitted
}

// charge counts units for a work, if they are there. The work is then w.
func (s state) charge(a ask, w work, units int64, t times) (state, reply) {
	week, limit := s.window(t.at), limits[s.plan]
	used, held := s.count(week, t.swept)
	own := min(units, max(0, limit-used-held))
	rest := units - own
	for _, g := range s.grants(t.at) {
		n := min(rest, s.left(g, t.swept))
		rest -= n
		w.draw(g, n)
	}
	w.recorded = rest > 0
	if rest > 0 && !a.record {
		why := headroom.ReasonOverLimit
		if units-s.granted(t.at, t.swept) > limit {
			why = headroom.ReasonNeverFits
		}
		return s, s.stand(week, t.at, t.swept, reply{reason: why, cost: a.units})
	}
	w.own[week] += own + rest
	w.in[week] = true
	s.week, s.works[a.id] = week, w
	shown := w.last()
	if w.verb == hold {
		shown = w.first()
	}
	return s, s.stand(week, t.shown, max(t.swept, t.shown), reply{allowed: true, reason: w.reason(), cost: a.units, week: shown})
}

func (w *work) draw(g int, units int64) {
	for i := range w.drawn {
		if units > 0 && w.drawn[i].units == 0 {
			w.drawn[i] = draw{g, units}
			return
		}
	}
}

// giveBack takes units off a work. Those of grants come off first and then those of the plan, the
// latest first.
func (w *work) giveBack(units int64) {
	for i := len(w.drawn) - 1; i >= 0; i-- {
		n := min(units, w.drawn[i].units)
		units -= n
		if w.drawn[i].units -= n; w.drawn[i].units == 0 {
			w.drawn[i] = draw{}
		}
	}
	for week := len(w.own) - 1; week >= 0; week-- {
		n := min(units, w.own[week])
		units -= n
		w.own[week] -= n
	}
}

func (s state) settle(a ask, t times) (state, reply) {
	w := s.works[a.id]
	held := w.verb == hold && w.counted(t.swept)
	w.verb, w.estimate, w.cost, w.expires = settle, w.cost, a.units, 0
	switch {
	case !held:
		w.own, w.drawn = [3]int64{}, [4]draw{}
		return s.charge(a, w, a.units, t)
	case a.units > w.estimate:
		return s.charge(a, w, a.units-w.estimate, t)
	}
	w.giveBack(w.estimate - a.units)
	s.works[a.id] = w
	return s, s.after(t, headroom.ReasonAdmitted, a.units, w.last())
}

func (s state) refund(a ask, t times) (state, reply) {
	w := &s.works[a.of]
	if have := s.works[a.id]; have.verb != "" {
		if have.verb != refund || have.of != a.of || a.units != 0 && a.units != have.cost {
			return s, failed(headroom.Conflict)
		}
		return s, s.again(t, headroom.ReasonRefunded, have.cost, 0)
	}
	switch {
	case w.verb == "":
		return s, failed(headroom.NotFound)
	case w.verb != deduct && w.verb != settle:
		return s, failed(headroom.Conflict)
	case a.units > w.cost-w.back:
		return s, failed(headroom.Invalid)
	case a.units == 0:
		a.units = w.cost - w.back
	}
	w.back += a.units
	w.giveBack(a.units)
	s.works[a.id] = work{verb: refund, cost: a.units, of: a.of}
	return s, s.after(t, headroom.ReasonRefunded, a.units, 0)
}

func (s state) grant(a ask, t times) (state, reply) {
	switch have := s.works[a.id]; {
	case have.verb == "":
		s.works[a.id] = work{verb: grant, cost: a.units, expires: t.at + a.lasts}
		return s, s.after(t, headroom.ReasonGranted, a.units, 0)
	case have.verb == grant && have.cost == a.units:
		return s, s.again(t, headroom.ReasonGranted, a.units, 0)
	}
	return s, failed(headroom.Conflict)
}

// look is the reply to a usage.
func (s *state) look(t times) reply {
	r := s.stand(s.window(t.at), t.at, t.swept, reply{allowed: true})
	var grants, living []string
	held := map[int32][2]int64{} // by when holds end: how many there are, and what they reserve
	for i := range s.works {
		w := &s.works[i]
		switch {
		case w.verb == grant && w.expires > t.at:
			grants = append(grants, grantText(ids[i], w.cost, w.cost-s.left(i, t.swept)))
		case w.verb == hold && w.counted(t.swept):
			of := held[w.expires]
			held[w.expires] = [2]int64{of[0] + 1, of[1] + w.cost}
		case w.verb != hold && r.week == 2:
			r.past += w.own[1]
		}
	}
	for _, end := range slices.Sorted(maps.Keys(held)) {
		living = append(living, heldText(held[end][0], held[end][1]))
	}
	r.grants, r.living = strings.Join(grants, ", "), strings.Join(living, ", ")
	return r
}

func grantText(id string, units, used int64) string {
	return fmt.Sprintf("%s %d of %d", id, used, units)
}

func heldText(holds, units int64) string { return fmt.Sprintf("%d of %d", holds, units) }

// holdEnd is when a hold ends: one of a quarter of a minute when it was asked to, one of an hour at
// a multiple of three minutes from the turn of the week.
func holdEnd(at, lasts int32) int32 {
	if lasts < 3600 {
		return at + lasts
	}
	return (at-turn+lasts+179)/180*180 + turn
}

// String shows what a state has.
func (s state) String() string {
	parts := []string{fmt.Sprintf("plan %q, week %d", s.plan, s.week)}
	for i, w := range s.works {
		if w.verb == "" {
			continue
		}
		text := fmt.Sprintf("%s: %s %d, by week %v", ids[i], w.verb, w.cost, w.own[1:])
		for _, d := range w.drawn {
			if d.units > 0 {
				text += fmt.Sprintf(", %d of %s", d.units, ids[d.grant])
			}
		}
		if w.expires != 0 {
			text += fmt.Sprintf(", until %d", w.expires)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func (a ask) String() string {
	switch a.verb {
	case usage:
		return "usage"
	case setPlan:
		return fmt.Sprintf("set plan %q", a.plan)
	case refund:
		return fmt.Sprintf("refund %d of %s as %s", a.units, ids[a.of], ids[a.id])
	}
	s := fmt.Sprintf("%s %s %d", a.verb, ids[a.id], a.units)
	if a.verb == hold || a.verb == grant {
		s += fmt.Sprintf(" for %ds", a.lasts)
	}
	if a.record {
		s += ", past the limit if need be"
	}
	return s
}

func (r reply) String() string {
	switch {
	case r.code != "":
		return "error " + string(r.code)
	case r == reply{}:
		return "done"
	}
	s := string(r.reason)
	if r.replay {
		s += " (replay)"
	}
	s += fmt.Sprintf(" %d, on %s week %d: %d used, %d held of %d, %d left, %d granted", r.cost, r.plan, r.week,
		r.used, r.held, r.limit, r.left, r.granted)
	if r.reason == "" {
		s += fmt.Sprintf("; last week %d; grants: %s; holds: %s", r.past, r.grants, r.living)
	}
	return strings.TrimSpace(s)
}
