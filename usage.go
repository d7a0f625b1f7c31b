package headroom

import (
	"context"
	"time"
)

// Usage is what a subject has used of a meter.
type Usage struct {
	Subject, Meter string
	Plan           string
	Limits         []LimitUsage // one for each counter of the meter, sorted by name
}

// LimitUsage is how one limit stands in the present window, and what was used in those before it.
type LimitUsage struct {
	Name      string
	Window    Window
	Used      int64
	Held      int64
	Limit     int64         // Unlimited if the plan sets none
	Remaining int64         // Limit - Used - Held, at least 0
	History   []WindowTotal // closed windows in which something was charged, the latest first, at most HistoryWindows
}

// WindowTotal is what was charged in a closed window.
type WindowTotal struct {
	Window  Window
	Units   int64
	Unknown bool // a writer that does not keep history closed the window
}

// Usage reads what a subject has used of a meter. now takes the place of every clock unless it is zero. A subject that nobody has seen has used nothing.
func (e *Engine) Usage(ctx context.Context, key Key, now time.Time) (Usage, error) {
	if err := checkText("subject", key.Subject, MaxSubject); err != nil {
		return Usage{}, err
	}
	if err := e.checkMeter(key.Meter); err != nil {
		return Usage{}, err
	}
	v, err := e.store.Load(ctx, Query{Key: key, Now: now, History: true})
	if err != nil {
		return Usage{}, err
	}
	return e.rules.usage(v, key)
}

// usage shows v as a charge at its time would find it.
func (k rules) usage(v View, key Key) (Usage, error) {
	plan, standings, err := k.standings(v, Request{Meter: key.Meter})
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Subject: key.Subject, Meter: key.Meter, Plan: plan}
	for _, s := range standings {
		step := Step{From: s.stored.Window, To: s.window, Fold: s.fold}
		l := LimitUsage{Name: s.limit.Name, Window: s.window, Used: s.count, Limit: s.limit.Units, Remaining: max(0, s.remaining())}
		for _, t := range step.apply(s.stored).Past {
			if t.Start.Equal(s.window.Start) {
				continue // known to be incomplete already
			}
			l.History = append(l.History, WindowTotal{Window: s.limit.Period.At(t.Start), Units: t.Units, Unknown: t.Unknown})
		}
		u.Limits = append(u.Limits, l)
	}
	return u, nil
}
