package network_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lumcast/headroom"
)

// weeks is how many weeks a run goes through.
const weeks = 3

type verb string

const (
	deduct  verb = "deduct"
	hold    verb = "hold"
	settle  verb = "settle"
	release verb = "release"
)

// account is what the ledger knows of one subject.
type account struct {
	name  string
	plan  string
	limit int64

	mu    sync.Mutex
	asked int
	works []*work
	lo    [weeks]int64 // what is counted at least
	hi    [weeks]int64 // and at most
	spans map[*span]bool
}

// work is what is known of one id.
type work struct {
	id      string
	verb    verb  // the last that was asked for
	cost    int64 // its cost; of a hold its estimate
	was     int64 // of a settlement or release, the estimate
	since   int   // the week in which it was first asked for
	held    int   // the week of the hold
	state   state
	settled bool         // nothing more is asked for: a repeat is answered with the first decision
	lo, hi  [weeks]int64 // what it counts at least and at most
}

type state string

const (
	unknown state = "unknown" // whether it is charged
	charged state = "charged"
	refused state = "refused"
)

// span is the time of one call, with bounds for what was counted during it.
type span struct{ lo, hi [weeks]int64 }

// counts sets the least and the most that a work counts.
func (a *account) counts(w *work, lo, hi [weeks]int64) {
	for k := range weeks {
		a.lo[k] += lo[k] - w.lo[k]
		a.hi[k] += hi[k] - w.hi[k]
	}
	w.lo, w.hi = lo, hi
	for s := range a.spans {
		s.see(a)
	}
}

func (s *span) see(a *account) {
	for k := range weeks {
		s.lo[k], s.hi[k] = min(s.lo[k], a.lo[k]), max(s.hi[k], a.hi[k])
	}
}

// begin begins a span.
func (a *account) begin() *span {
	s := &span{a.lo, a.hi}
	if a.spans == nil {
		a.spans = map[*span]bool{}
	}
	a.spans[s] = true
	return s
}

// from returns units in every week from k on.
func from(k int, units int64) (of [weeks]int64) {
	for ; k < weeks; k++ {
		of[k] = units
	}
	return of
}

func in(k int, units int64) (of [weeks]int64) {
	of[k] = units
	return of
}

func plus(a, b [weeks]int64) [weeks]int64 {
	for k := range a {
		a[k] += b[k]
	}
	return a
}

// asks notes that a work is asked for in week k, and begins a span for the call.
func (a *account) asks(w *work, k int) *span {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.state != unknown {
		w.since, w.state = k, unknown
		switch w.verb {
		case deduct, hold:
			a.counts(w, [weeks]int64{}, from(k, w.cost))
		case settle:
			a.counts(w, in(w.held, min(w.was, w.cost)), plus(in(w.held, w.was), from(k, max(0, w.cost-w.was))))
		case release:
			a.counts(w, [weeks]int64{}, in(w.held, w.was))
		}
	}
	return a.begin()
}

// ends ends a span.
func (a *account) ends(s *span) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.spans, s)
}

// learns notes what became of a work in week k. late says that requests may still take effect
// later.
func (a *account) learns(w *work, d headroom.Decision, k int, late bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var units [weeks]int64
	switch {
	case !d.Allowed:
		if w.state = refused; w.verb == settle {
			units = in(w.held, w.was) // it is still held
		}
		if late {
			a.counts(w, units, w.hi)
			return
		}
	case w.verb == deduct:
		w.state, w.settled, units = charged, true, in(k, w.cost)
	case w.verb == hold:
		w.state, w.held, units = charged, k, in(k, w.cost)
	case w.verb == settle:
		w.state, w.settled, units = charged, true, plus(in(w.held, min(w.was, w.cost)), in(k, max(0, w.cost-w.was)))
	case w.verb == release:
		w.state, w.settled = charged, true
	}
	a.counts(w, units, units)
}

// judge compares an answer with the bounds of its span.
func (a *account) judge(s *span, w *work, d headroom.Decision, week func(time.Time) int) error {
	if len(d.Limits) != 1 || d.Reason == headroom.ReasonRecorded {
		return fmt.Errorf("%s, by %d limits", d.Reason, len(d.Limits))
	}
	l := d.Limits[0]
	k := week(l.Window.Start)
	want := w.cost
	if w.verb == release {
		want = w.was
	}
	if d.Cost != want {
		return fmt.Errorf("cost %d, want %d", d.Cost, want)
	}
	if !d.Allowed && s.hi[k] <= a.limit {
		return fmt.Errorf("refused wrongly (%s): at most %d of %d were used, with this one", d.Reason, s.hi[k], a.limit)
	}
	return a.bounds(s, k, l.Used+l.Held)
}

// bounds compares a count with the bounds of its span.
func (a *account) bounds(s *span, k int, count int64) error {
	switch {
	case count > a.limit:
		return fmt.Errorf("over: %d of %d", count, a.limit)
	case count < s.lo[k]:
		return fmt.Errorf("lost: a count of %d, and %d were acknowledged", count, s.lo[k])
	case count > s.hi[k]:
		return fmt.Errorf("too much: a count of %d, and %d were asked for", count, s.hi[k])
	}
	return nil
}

// done returns a work that was answered, so that it can be asked for again.
func (a *account) done(r *rand.Rand) *work {
	a.mu.Lock()
	defer a.mu.Unlock()
	done := slices.DeleteFunc(slices.Clone(a.works), func(w *work) bool { return !w.settled })
	if len(done) == 0 {
		return nil
	}
	return done[r.IntN(len(done))]
}
