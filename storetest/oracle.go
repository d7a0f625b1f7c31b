package storetest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// oracle is the rules written a second time, as plainly as possible and without the code that they
// check. It has one writer, and keeps everything in memory. It keeps no counts. It keeps what each
// operation has in each window, and adds that up when it is asked.
type oracle struct {
	plans    map[string]map[string][]ration // by plan and meter
	counters map[string][]ration            // by meter: every limit of any plan, sorted by name
	horizon  time.Duration
	third    bool              // one more generation of ids is kept
	stored   map[string]string // plans, by subject
	books    map[headroom.Key]*book
}

// book is what is known of one subject and meter.
type book struct {
	subject    string
	windows    map[string]*standingWindow // the stored window of each limit that was charged
	works      []*work                    // all that was ever charged or held
	ids        map[string]*work           // those whose ids are remembered
	gifts      map[string]*gift           // grants
	young, old time.Time                  // labels of the two generations of ids

	// A store with the host's clock keeps one more generation, and remembers it at every time at
	// which it is not over.
	older time.Time
	aside map[string]*work
}

// work is what an id stands for.
type work struct {
	kind     headroom.Kind
	cost     int64 // for a hold, also one that has ended, the estimate
	estimate int64 // of a settled work
	asked    int64 // what was asked for, if fewer units could be admitted
	least    int64 // the least that would do then
	back     int64 // refunded
	recorded bool
	expires  time.Time // of a hold
	of       string    // of a refund
	within   string    // the organisation that pays for a deduction too
	also     string    // the other meter that the request was about
	pieces   []piece   // sorted by start
	drawn    []draw
	crossed  []crossing
	label    time.Time // that of its generation
	moved    bool      // a piece was taken back from a window that a wrong clock had opened
}

// piece is what an operation counts in one window of a limit.
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

func (o *oracle) book(k headroom.Key) *book {
	if o.books[k] == nil {
		o.books[k] = &book{
			subject: k.Subject,
			windows: map[string]*standingWindow{}, ids: map[string]*work{}, aside: map[string]*work{},
			gifts: map[string]*gift{},
		}
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

// stand is how a limit stands.
type stand struct {
	ration
	start          time.Time
	opens, brought bool // the next charge begins that window, or brings it back
	carried        int64
	used, held     int64
}

// stands returns how the limits stand at a time. It reports false if a window that is brought back
// adds up beyond int64.
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

// storedStands returns how the limits stand in the stored windows, whatever the time is.
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

// most is the most that any window could allow.
func (s stand) most() int64 {
	s.carried = max(s.carried, s.cap())
	return s.allowance()
}

func (s stand) remaining() int64 { return s.allowance() - s.used - s.held }

// carry is what is carried over into the window that starts at to. It goes from window to window,
// beginning with the stored one, and takes what each left at its end.
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

// live returns the grants that can be drawn on, in that order.
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

// decision shows how the limits stand. asked is the part of the cost that is new, and charged says
// that the counts have it already.
func (o *oracle) decision(b *book, all []stand, plan string, now time.Time, why headroom.Reason, cost, asked int64,
	charged bool) headroom.Decision {
	refused := why == headroom.ReasonOverLimit || why == headroom.ReasonNeverFits
	d := headroom.Decision{
		Allowed: !refused && why != headroom.ReasonClosed, Reason: why, Plan: plan, Cost: cost, Limit: math.MaxInt64,
		Remaining: math.MaxInt64, Granted: b.granted(now), Unseen: o.unseen(b),
	}
	var strictest *stand
	never := func(s *stand) bool { return refused && asked-d.Granted > s.most() }
	for i := range all {
		s := &all[i]
		l := headroom.LimitState{
			Name: s.name, Mode: s.mode, Window: s.window(s.start), Used: s.used, Held: s.held, Limit: s.allowance(),
			Remaining: max(0, s.remaining()),
		}
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

// shows sets the window of a decision to the one in which the operation was charged.
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

// unseen reports whether nobody has written about a subject: each write begins a generation of ids.
func (o *oracle) unseen(b *book) bool { return b.young.IsZero() && o.stored[b.subject] == "" }

// usage is what a subject has used at the time now.
func (o *oracle) usage(key headroom.Key, now time.Time) (headroom.Usage, headroom.Code) {
	b, plan := o.book(key), o.plan(key.Subject, "")
	all, sound := o.stands(b, plan, key.Meter, now, false)
	if !sound {
		return headroom.Usage{}, headroom.Invalid
	}
	u := headroom.Usage{
		Unseen:  o.unseen(b),
		Subject: key.Subject, Meter: key.Meter, Plan: plan,
		Granted: b.granted(now), Grants: map[string]headroom.GrantUsage{}, Holds: b.held(now),
	}
	for _, g := range b.live(now) {
		u.Grants[g.id] = headroom.GrantUsage{Units: g.units, Used: g.units - b.left(g, now), Expires: g.expires}
	}
	for i, l := range o.decision(b, all, plan, now, "", 0, 0, true).Limits {
		u.Limits = append(u.Limits, headroom.LimitUsage{LimitState: l, History: b.history(all[i])})
	}
	return u, ""
}

// held is what live holds reserve, by when they end. The windows are those that the pieces count
// in.
func (b *book) held(now time.Time) (all []headroom.HeldUntil) {
	by := map[time.Time]*headroom.HeldUntil{}
	for _, w := range b.works {
		if w.kind != headroom.KindHold || !w.expires.After(now) {
			continue
		}
		h := by[w.expires]
		if h == nil {
			h = &headroom.HeldUntil{Expires: w.expires}
			by[w.expires] = h
		}
		h.Holds++
		for _, d := range w.drawn {
			h.Granted += d.units
		}
		for _, p := range w.pieces {
			i := slices.IndexFunc(h.Windows, func(w headroom.ChargedWindow) bool { return w.Limit == p.limit && w.Start.Equal(p.in) })
			switch {
			case i >= 0:
				h.Windows[i].Units += p.units
			case p.units > 0:
				h.Windows = append(h.Windows, headroom.ChargedWindow{Limit: p.limit, Start: p.in, Units: p.units})
			}
		}
	}
	for _, end := range slices.SortedFunc(maps.Keys(by), time.Time.Compare) {
		h := *by[end]
		slices.SortFunc(h.Windows, func(a, b headroom.ChargedWindow) int {
			return cmp.Or(cmp.Compare(a.Limit, b.Limit), a.Start.Compare(b.Start))
		})
		all = append(all, h)
	}
	return all
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
