package storetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// oracle is the rules once more, written as plainly as can be and without the help of what they check: maps and loops, one writer, nothing kept but in memory.
// It keeps no counts. It keeps what every operation has where, and adds that up when it is asked.
type oracle struct {
	plans    map[string]map[string][]ration // by plan and meter
	counters map[string][]ration            // by meter: those that any plan limits, sorted by name. Only name and daily count
	horizon  time.Duration
	third    bool              // a generation more is kept
	stored   map[string]string // plans, by subject
	books    map[headroom.Key]*book
}

// ration is a limit of a plan.
type ration struct {
	name       string
	daily      bool // by day, else by week
	units      int64
	mode       headroom.Mode
	carry      int64
	thresholds []int
}

// book is what is known of one subject and meter.
type book struct {
	windows    map[string]*standingWindow // by limit: where it stands; none if nothing was charged yet
	works      []*work                    // all that was ever charged or held
	ids        map[string]*work           // those of which the id is remembered
	gifts      map[string]*gift           // grants
	young, old time.Time                  // labels of the two generations of ids

	// What a store with the host's clock does not give up yet: the generation before those, remembered at times at which it is not over.
	older time.Time
	aside map[string]*work
}

type standingWindow struct {
	start   time.Time
	carried int64
}

// work is what an id stands for.
type work struct {
	kind     headroom.Kind
	cost     int64 // of a hold and of one that ended the estimate
	estimate int64 // of what was settled
	back     int64 // refunded
	recorded bool
	expires  time.Time // of a hold
	of       string    // of a refund
	within   string    // the organisation that pays for a deduction too
	pieces   []piece   // sorted by start
	drawn    []draw
	crossed  []crossing
	label    time.Time // of its generation; none while it is held. A hold that is over has the earliest that it can have: it ages once somebody clears it away
	moved    bool      // a piece was taken back from a window that a wrong clock had opened
}

// piece is what an operation has of a limit in one window.
type piece struct {
	limit string
	shown time.Time // start of the window by which it was charged
	in    time.Time // start of the window in which it counts
	units int64
}

type draw struct {
	from  *gift
	units int64
}

// gift is a grant.
type gift struct {
	id      string
	units   int64
	expires time.Time
}

type crossing struct {
	limit   string
	percent int
	start   time.Time
}

// mondayOf is the start of the week that holds t. Day 0 of Unix time was a Thursday.
func mondayOf(t time.Time) time.Time {
	days := dayOf(t).Unix() / 86400
	since := (days + 3) % 7
	if since < 0 {
		since += 7
	}
	return time.Unix((days-since)*86400, 0).UTC()
}

// dayOf is the start of the day that holds t.
func dayOf(t time.Time) time.Time {
	days := t.Unix() / 86400
	if t.Unix()%86400 < 0 {
		days--
	}
	return time.Unix(days*86400, 0).UTC()
}

// start is that of the window that holds t.
func (l ration) start(t time.Time) time.Time {
	if l.daily {
		return dayOf(t)
	}
	return mondayOf(t)
}

func (l ration) end(start time.Time) time.Time {
	if l.daily {
		return start.Add(day)
	}
	return start.Add(week)
}

// window is the one that begins at start. A week belongs to the year of its Thursday.
func (l ration) window(start time.Time) headroom.Window {
	w := headroom.Window{Key: start.Format(time.DateOnly), Start: start, End: l.end(start)}
	if !l.daily {
		thursday := start.Add(3 * day)
		w.Key = fmt.Sprintf("%04d-W%02d", thursday.Year(), (thursday.YearDay()-1)/7+1)
	}
	return w
}

func (o *oracle) book(k headroom.Key) *book {
	if o.books[k] == nil {
		o.books[k] = &book{windows: map[string]*standingWindow{}, ids: map[string]*work{}, aside: map[string]*work{}, gifts: map[string]*gift{}}
	}
	return o.books[k]
}

// plan is the subject's stored plan, else the caller's, else the default.
func (o *oracle) plan(subject, callers string) string {
	switch stored := o.stored[subject]; {
	case stored != "":
		return stored
	case callers != "":
		return callers
	}
	return "free"
}

// rations are the limits of a plan, of every counter of the meter.
func (o *oracle) rations(plan, meter string) []ration {
	all := slices.Clone(o.counters[meter])
	for i := range all {
		all[i] = ration{name: all[i].name, daily: all[i].daily, units: math.MaxInt64}
		for _, l := range o.plans[plan][meter] {
			if l.name == all[i].name {
				all[i] = l
			}
		}
	}
	return all
}

// stand is how a limit stands.
type stand struct {
	ration
	start          time.Time
	opens, brought bool // the next charge begins that window, or brings it back
	carried        int64
	used, held     int64
}

// stands are how the limits stand at a time. It reports false if what is to be brought back adds up beyond int64.
func (o *oracle) stands(b *book, plan, meter string, now time.Time, skipClosed bool) ([]stand, bool) {
	var all []stand
	sound := true
	for _, l := range o.rations(plan, meter) {
		s := stand{ration: l, start: l.start(now)}
		switch w := b.windows[l.name]; {
		case w == nil:
			s.opens = true
		case !now.Before(l.end(w.start)):
			s.opens, s.carried = true, b.carry(l, *w, s.start)
		case w.start.Sub(now) > 5*time.Minute && !skipClosed:
			s.brought = true
		default:
			s.start, s.carried = w.start, w.carried
		}
		sound = s.count(b, now) && sound
		all = append(all, s)
	}
	return all, sound
}

// as they are stored, whatever the time is.
func (o *oracle) storedStands(b *book, plan, meter string, now time.Time) []stand {
	var all []stand
	for _, l := range o.rations(plan, meter) {
		w := b.windows[l.name]
		s := stand{ration: l, start: w.start, carried: w.carried}
		s.count(b, now)
		all = append(all, s)
	}
	return all
}

// count adds up what is charged and held. It reports false if that is beyond int64.
func (s *stand) count(b *book, now time.Time) bool {
	s.used, s.held = 0, 0
	for _, w := range b.works {
		for _, p := range w.pieces {
			if p.limit != s.name || s.opens || p.in.Before(s.start) || p.in.After(s.start) && !s.brought {
				continue
			}
			switch {
			case w.kind != headroom.KindHold:
				if s.used > math.MaxInt64-p.units {
					return false
				}
				s.used += p.units
			case w.expires.After(now):
				s.held += p.units
			}
		}
	}
	return s.used <= math.MaxInt64-s.held
}

func (s stand) allowance() int64 {
	if s.units > math.MaxInt64-s.carried {
		return math.MaxInt64
	}
	return s.units + s.carried
}

// most is what a window could allow at best.
func (s stand) most() int64 {
	s.carried = max(s.carried, s.cap())
	return s.allowance()
}

func (s stand) remaining() int64 { return s.allowance() - s.used - s.held }

// cap is the most that can be carried over.
func (l ration) cap() int64 {
	if l.units > math.MaxInt64/52 {
		return l.carry
	}
	return min(l.carry, 52*l.units)
}

// carry is what is carried into the window that starts at to: what the one before it left at its end, and so on from the one in which the limit stands.
func (b *book) carry(l ration, from standingWindow, to time.Time) int64 {
	end := l.end(from.start)
	left := stand{ration: l, carried: from.carried}.allowance()
	for _, w := range b.works {
		for _, p := range w.pieces {
			if p.limit == l.name && p.in.Equal(from.start) && (w.kind != headroom.KindHold || w.expires.After(end)) {
				left -= p.units
			}
		}
	}
	left = max(0, min(left, l.cap()))
	for end.Before(to) && left < l.cap() {
		left = min(l.units+left, l.cap())
		end = l.end(end)
	}
	return left
}

// left is what a grant has left.
func (b *book) left(g *gift, now time.Time) int64 {
	left := g.units
	for _, w := range b.works {
		for _, d := range w.drawn {
			if d.from == g && (w.kind != headroom.KindHold || w.expires.After(now)) {
				left -= d.units
			}
		}
	}
	return left
}

// live are the grants that can be drawn on, in the order in which they are.
func (b *book) live(now time.Time) []*gift {
	var live []*gift
	for _, id := range slices.Sorted(maps.Keys(b.gifts)) {
		if g := b.gifts[id]; g.expires.After(now) {
			live = append(live, g)
		}
	}
	slices.SortStableFunc(live, func(a, b *gift) int { return a.expires.Compare(b.expires) })
	return live
}

func (b *book) granted(now time.Time) (sum int64) {
	for _, g := range b.live(now) {
		sum += b.left(g, now)
	}
	return sum
}

// decision shows how the limits stand. asked is what is new of the cost; charged says that it is in the counts already.
func (o *oracle) decision(b *book, all []stand, plan string, now time.Time, why headroom.Reason, cost, asked int64, charged bool) headroom.Decision {
	refused := why == headroom.ReasonOverLimit || why == headroom.ReasonNeverFits
	d := headroom.Decision{Allowed: !refused && why != headroom.ReasonClosed, Reason: why, Plan: plan, Cost: cost, Limit: math.MaxInt64, Remaining: math.MaxInt64, Granted: b.granted(now)}
	var strictest *stand
	never := func(s *stand) bool { return refused && asked-d.Granted > s.most() }
	for i := range all {
		s := &all[i]
		l := headroom.LimitState{Name: s.name, Mode: s.mode, Window: s.window(s.start), Used: s.used, Held: s.held, Limit: s.allowance(), Remaining: max(0, s.remaining())}
		if s.mode != headroom.Hard && asked > 0 {
			l.Over = charged && s.remaining() < 0 || !charged && asked > s.remaining()
		}
		d.Limits = append(d.Limits, l)
		if s.mode != headroom.Hard {
			continue
		}
		stricter := strictest == nil
		switch {
		case stricter:
		case never(s) != never(strictest):
			stricter = never(s)
		case s.remaining() != strictest.remaining():
			stricter = s.remaining() < strictest.remaining()
		default:
			stricter = s.end(s.start).After(strictest.end(strictest.start))
		}
		if stricter {
			strictest = s
			d.LimitName, d.Window, d.Used, d.Held, d.Limit, d.Remaining = l.Name, l.Window, l.Used, l.Held, l.Limit, l.Remaining
		}
	}
	return d
}

// shows sets the window of a decision to that of the operation.
func (w *work) shows(d headroom.Decision, all []stand, first bool) headroom.Decision {
	found := false
	for _, p := range w.pieces {
		if p.limit == d.LimitName && !(found && first) {
			found = true
			for _, s := range all {
				if s.name == p.limit {
					d.Window = s.window(p.shown)
				}
			}
		}
	}
	return d
}

// usage is what a subject has used at the time now.
func (o *oracle) usage(key headroom.Key, now time.Time) (headroom.Usage, headroom.Code) {
	b, plan := o.book(key), o.plan(key.Subject, "")
	all, sound := o.stands(b, plan, key.Meter, now, false)
	if !sound {
		return headroom.Usage{}, headroom.CodeInvalid
	}
	u := headroom.Usage{
		Subject: key.Subject, Meter: key.Meter, Plan: plan,
		Granted: b.granted(now), Grants: map[string]headroom.Grant{}, Holds: map[string]headroom.Record{},
	}
	for _, g := range b.live(now) {
		u.Grants[g.id] = headroom.Grant{Units: g.units, Used: g.units - b.left(g, now), Expires: g.expires}
	}
	for id, w := range b.ids {
		if w.kind == headroom.KindHold && w.expires.After(now) {
			u.Holds[id] = headroom.Record{Kind: w.kind, Cost: w.cost, Expires: w.expires}
		}
	}
	for i, l := range o.decision(b, all, plan, now, "", 0, 0, true).Limits {
		u.Limits = append(u.Limits, headroom.LimitUsage{LimitState: l, History: b.history(all[i])})
	}
	return u, ""
}

// history is what was charged in the closed windows of a limit, the latest first.
func (b *book) history(s stand) (all []headroom.WindowTotal) {
	past := map[time.Time]int64{}
	for _, w := range b.works {
		for _, p := range w.pieces {
			if p.limit == s.name && p.in.Before(s.start) && w.kind != headroom.KindHold {
				past[p.in] += p.units
			}
		}
	}
	for _, start := range slices.SortedFunc(maps.Keys(past), func(a, b time.Time) int { return b.Compare(a) }) {
		if past[start] > 0 && len(all) < headroom.HistoryWindows {
			all = append(all, headroom.WindowTotal{Window: s.window(start), Units: past[start]})
		}
	}
	return all
}
