// Package whatif replays one log of finished work under several configurations, and compares what
// each would have admitted and refused.
package whatif

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/saturate"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/replay"
)

// Scenario is a configuration to try. Every subject has its default plan.
type Scenario struct {
	Name    string
	About   string // its limits, in words
	Catalog *headroom.Catalog
}

// Outcome is what a log adds up to under one scenario.
type Outcome struct {
	Name, About string // the scenario's
	replay.Tally
	Subjects []replay.SubjectTally // the one that was refused most units first
	Weeks    []Week                // by start, those in which something was decided
}

// Week is the part of an Outcome that falls into one ISO week, in units. It is the week in which
// the work was finished, whatever windows the limits have.
type Week struct {
	Window           headroom.Window
	Charged, Refused int64
}

// Asked returns how many units the work of the week asked for.
func (w Week) Asked() int64 { return saturate.Add(w.Charged, w.Refused) }

// Run replays log, from its header on, on a store of its own. It calls bad for each row that cannot
// be used.
func Run(ctx context.Context, log io.Reader, meter string, s Scenario,
	bad func(*replay.BadRow)) (Outcome, error) {
	prices, err := s.Catalog.Prices(meter)
	if err != nil {
		return Outcome{}, err
	}
	engine, err := headroom.New(memstore.New(nil), s.Catalog, headroom.Options{})
	if err != nil {
		return Outcome{}, err
	}
	rows, err := replay.NewReader(log)
	if err != nil {
		return Outcome{}, headroom.Errorf(headroom.Invalid, err, "the log cannot be read")
	}
	tap := &tap{Deducter: engine, weeks: map[time.Time]*Week{}}
	sum, err := replay.Run(ctx, tap, rows, replay.Options{Meter: meter, Prices: prices, Bad: bad})
	if err != nil {
		return Outcome{}, err
	}
	o := Outcome{Name: s.Name, About: s.About, Tally: sum.Tally, Subjects: sum.Subjects}
	slices.SortStableFunc(o.Subjects,
		func(a, b replay.SubjectTally) int { return cmp.Compare(b.RefusedUnits, a.RefusedUnits) })
	for _, w := range tap.weeks {
		o.Weeks = append(o.Weeks, *w)
	}
	slices.SortFunc(o.Weeks, func(a, b Week) int { return a.Window.Start.Compare(b.Window.Start) })
	return o, nil
}

// SubjectsRefused returns how many subjects were refused at least once.
func (o Outcome) SubjectsRefused() (n int) {
	for _, s := range o.Subjects {
		if s.Refused > 0 {
			n++
		}
	}
	return n
}

// tap counts by week what passes through it. The windows of a replay would not do, since they
// belong to a limit, and may differ from one configuration to another.
type tap struct {
	replay.Deducter
	mu    sync.Mutex
	weeks map[time.Time]*Week
}

func (t *tap) Deduct(ctx context.Context, r headroom.Request) (headroom.Decision, error) {
	d, err := t.Deducter.Deduct(ctx, r)
	if err != nil || d.Replay || d.Reason == headroom.ReasonClosed {
		return d, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	window := headroom.ISOWeek(r.Now)
	w := t.weeks[window.Start]
	if w == nil {
		w = &Week{Window: window}
		t.weeks[window.Start] = w
	}
	if d.Allowed {
		w.Charged = saturate.Add(w.Charged, d.Cost)
	} else {
		w.Refused = saturate.Add(w.Refused, d.Cost)
	}
	return d, nil
}

// Hit is what one subject was refused under each scenario.
type Hit struct {
	Subject string
	By      []replay.Tally // in the order of the outcomes
}

// most returns the most units that the subject was refused under any scenario.
func (h Hit) most() (units int64) {
	for _, t := range h.By {
		units = max(units, t.RefusedUnits)
	}
	return units
}

// Hardest returns the n subjects that were refused the most units under some scenario, the hardest
// hit first. A subject that was refused nothing is not among them.
func Hardest(outcomes []Outcome, n int) []Hit {
	by := map[string]*Hit{}
	for i, o := range outcomes {
		for _, s := range o.Subjects {
			if by[s.Subject] == nil {
				by[s.Subject] = &Hit{Subject: s.Subject, By: make([]replay.Tally, len(outcomes))}
			}
			by[s.Subject].By[i] = s.Tally
		}
	}
	var hits []Hit
	for _, h := range by {
		if h.most() > 0 {
			hits = append(hits, *h)
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.most(), a.most()), strings.Compare(a.Subject, b.Subject))
	})
	return hits[:min(n, len(hits))]
}

// Course returns the weeks of all outcomes, from the first to the last without a gap. For each
// outcome it also returns what was charged and refused in each of them.
func Course(outcomes []Outcome) (weeks []headroom.Window, by [][]Week) {
	var first, last headroom.Window
	for _, o := range outcomes {
		for _, w := range o.Weeks {
			if first.IsZero() || w.Window.Start.Before(first.Start) {
				first = w.Window
			}
			if last.IsZero() || w.Window.Start.After(last.Start) {
				last = w.Window
			}
		}
	}
	if first.IsZero() {
		return nil, make([][]Week, len(outcomes))
	}
	for w := first; !w.Start.After(last.Start); w = headroom.ISOWeek(w.End) {
		weeks = append(weeks, w)
	}
	for _, o := range outcomes {
		course := make([]Week, len(weeks))
		for i, w := range weeks {
			course[i].Window = w
		}
		for _, w := range o.Weeks {
			// Count in seconds, since a Duration holds no more than 292 years.
			course[(w.Window.Start.Unix()-first.Start.Unix())/(7*24*60*60)] = w
		}
		by = append(by, course)
	}
	return weeks, by
}
