package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/lumcast/headroom"
)

// tick lets time pass, and sets what the store's clock and the host's clock show. With a store that
// has only the host's clock, they are one.
func (p *play) tick() {
	p.step++
	if odds(p, "week turns", 16) {
		p.now = mondayOf(p.now).Add(week + one(p, "around", 0, -time.Second, time.Second, time.Minute, 4*time.Minute, 6*time.Minute))
	} else if odds(p, "time passes", 5) {
		p.now = p.now.Add(
			one(p, "passes", time.Second, time.Second, time.Minute, time.Minute, time.Hour, 5*time.Hour, 5*time.Hour,
				day, 3*day, 6*day, week, 16*day),
		)
	}
	lie := func(whose string) time.Duration {
		if !odds(p, whose+" clock lies", 8) {
			return 0
		}
		return one(p, "lie", -2*time.Second, -4*time.Minute, -5*time.Minute-time.Second, -3*day, -3*week, week, 5*week, year)
	}
	if p.w.set(p.now.Add(lie("the store's"))); !p.steady(p.w.now()) {
		p.w.set(p.now)
	}
	p.host = p.w.now()
	if p.host.After(p.latest) {
		p.latest = p.host
	}
	if !p.w.h.HostClock {
		p.host = p.host.Add(lie("the host's"))
	}
}

// steady reports whether the same holds are expired at t as at the right time. If a wrong clock
// finds more of them expired, a write may clear them away or leave them, and then it would be
// chance whether they count later.
func (p *play) steady(t time.Time) bool {
	for _, b := range p.oracle.books {
		for _, w := range b.works {
			if w.lapsed(t) != w.lapsed(p.now) {
				return false
			}
		}
	}
	return true
}

// accept tells a store with the host's clock that its clock is right now.
func (p *play) accept() {
	p.w.set(p.now)
	p.host, p.written, p.seen = p.now, p.now, p.now
	if p.now.After(p.latest) {
		p.latest = p.now
	}
	if p.w.h.HostClock {
		if err := p.w.h.Accept(context.Background(), p.store); err != nil {
			p.Fatalf("accept the clock: %v", err)
		}
	}
}

// distrusted reports whether err is the clock error of a store with the host's clock. It fails the
// test if that error is missing, or given without need.
func (p *play) distrusted(now time.Time, err error) bool {
	if !p.w.h.HostClock || !now.IsZero() {
		return false
	}
	clock := p.host
	failed := errors.Is(err, headroom.ClockUntrusted)
	if clock.Before(p.written.Add(-headroom.ClockTolerance)) && !failed {
		p.Fatalf("the clock shows %s after it showed %s: error %v, want %s", clock, p.written, err, headroom.ClockUntrusted)
	}
	if !clock.Before(p.seen.Add(-headroom.ClockTolerance)) && failed {
		p.Fatalf("the clock shows %s after it showed %s: %v", clock, p.seen, err)
	}
	if clock.After(p.seen) {
		p.seen = clock
	}
	if failed && odds(p, "accept", 2) {
		p.accept()
	}
	return failed
}

// given draws a time that the caller gives, or none.
func (p *play) given() time.Time {
	if !odds(p, "caller gives the time", 6) {
		return time.Time{}
	}
	if t := p.now.Add(one(p, "offset", 0, 0, 0, -time.Minute, -8*day, -40*day, 8*day, year)); p.steady(t) {
		return t
	}
	return time.Time{}
}

// at is the time by which a call is decided, and guess the time by which the engine makes its first
// guess.
func (p *play) at(given time.Time) time.Time {
	if given.IsZero() {
		return p.w.now()
	}
	return given
}

func (p *play) guess(given time.Time) time.Time {
	if given.IsZero() {
		return p.host
	}
	return given
}

// wrote notes the reading of the host's clock by which something was written.
func (p *play) wrote(given time.Time, a answer) {
	if given.IsZero() && a.Allowed && !a.Replay && p.host.After(p.written) {
		p.written = p.host
	}
}
