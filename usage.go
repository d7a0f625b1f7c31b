package headroom

import (
	"context"
	"time"
)

// Usage is what a subject has used of a meter.
type Usage struct {
	Subject, Meter string
	Plan           string
	Unseen         bool                  // as in Decision: nothing is stored of the subject
	Granted        int64                 // units that live grants have left
	Grants         map[string]GrantUsage // live grants, by id
	Holds          map[string]HoldUsage  // live holds, by operation
	// Debts are charges for which an organisation could not be settled yet, by operation.
	Debts  map[string]DebtUsage
	Limits []LimitUsage // one for each counter of the meter, sorted by name
}

// HoldUsage is a live hold.
type HoldUsage struct {
	Units   int64 // what is held in all
	Expires time.Time
	// Windows tell where the units count, sorted by limit. What a hold draws from grants counts in
	// none.
	Windows []ChargedWindow
}

// GrantUsage is a live grant.
type GrantUsage struct {
	Units   int64 // what was granted
	Used    int64 // of these, what was drawn
	Expires time.Time
}

// DebtUsage is a charge for which an organisation could not be settled yet.
type DebtUsage struct {
	Organisation string
	Units        int64
	Since        time.Time // when the subject was charged
}

// LimitUsage is how one limit stands in the present window, and what was used in those before it.
type LimitUsage struct {
	LimitState
	// closed windows in which something was charged, the latest first, at most HistoryWindows
	History []WindowTotal
}

// WindowTotal is what was charged in a closed window.
type WindowTotal struct {
	Window  Window
	Units   int64
	Unknown bool // a writer that does not keep history closed the window
}

// UsageRequest asks what a subject has used of a meter.
type UsageRequest struct {
	Subject, Meter string
	Plan           string    // as in Request
	Now            time.Time // as in Request
}

// Usage reads what a subject has used of a meter. A subject that nobody has seen has used nothing,
// and Usage.Unseen tells it from one that has been seen.
// If Usage sees debts it settles them, as each look does: see DeductWithin.
func (e *Engine) Usage(ctx context.Context, r UsageRequest) (Usage, error) {
	of := Request{Subject: r.Subject, Meter: r.Meter, Plan: r.Plan, Now: r.Now}
	if err := e.validate(of, false); err != nil {
		return Usage{}, err
	}
	q := Query{Key: of.key(), Now: r.Now, History: true}
	v, err := e.store.Load(ctx, q)
	if err != nil {
		return Usage{}, err
	}
	if len(v.State.Debts) > 0 {
		after, _, _ := e.settleDebts(ctx, q, v, v.State.Debts, &silent{})
		v.State.Debts = after.State.Debts // the rest is the subject's as it was seen
	}
	return e.rules.usage(v, of)
}

// usage shows v as a charge at its time would find it.
func (k rules) usage(v View, r Request) (Usage, error) {
	plan, standings, err := k.place(v, r)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Subject: r.Subject, Meter: r.Meter, Plan: plan.name, Unseen: v.State.unseen(), Granted: grantsLeft(v), Grants: map[string]GrantUsage{}, Holds: map[string]HoldUsage{}, Debts: map[string]DebtUsage{}}
	for _, id := range liveGrants(v) {
		u.Grants[id] = GrantUsage(v.grant(id))
	}
	for id, h := range v.State.Holds {
		if !h.expired(v.Now) {
			u.Holds[id] = HoldUsage{Units: h.Cost, Expires: h.Expires, Windows: h.Windows}
		}
	}
	for id, d := range v.State.Debts {
		u.Debts[id] = DebtUsage{Organisation: d.To, Units: d.Cost, Since: d.Since}
	}
	for _, s := range standings {
		step := Step{From: s.stored.Window, To: s.window, Opens: s.opens, Fold: s.fold}
		l := LimitUsage{LimitState: s.show(0, true)}
		for _, t := range step.apply(s.stored).Past {
			if t.Start.Equal(s.window.Start) {
				continue // known to be incomplete already
			}
			for _, h := range v.State.Holds {
				t.Units -= s.stored.heldIn(h, s.limit.Name, t.Start)
			}
			if t.Units > 0 || t.Unknown {
				l.History = append(l.History, WindowTotal{Window: s.at(t.Start), Units: max(0, t.Units), Unknown: t.Unknown})
			}
		}
		u.Limits = append(u.Limits, l)
	}
	return u, nil
}

// heldIn returns how many units a hold has in the window that starts at start. Units that it claims
// in a window after the stored one were folded into the stored one.
func (c Counter) heldIn(hold Record, limit string, start time.Time) (units int64) {
	for _, w := range hold.Windows {
		if w.Limit == limit && (w.Start.Equal(start) || w.Start.After(start) && start.Equal(c.Window.Start)) {
			units += w.Units
		}
	}
	return units
}
