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
	Holds          []HeldUntil           // what live holds reserve, by when they end
	// Debts are charges for which an organisation could not be settled yet, by operation.
	Debts  map[string]DebtUsage
	Limits []LimitUsage // one for each counter of the meter, sorted by name
}

// HeldUntil is what the live holds reserve that end at one time.
type HeldUntil struct {
	Expires time.Time
	Holds   int64 // how many there are
	Granted int64 // units drawn from grants
	// Windows tell where the other units count, sorted by limit.
	Windows []ChargedWindow
}

// Units returns how many units the holds reserve, wherever they count. A limit whose window turned
// while a hold was settled may count fewer.
func (h HeldUntil) Units() int64 {
	most, by := int64(0), map[string]int64{}
	for _, w := range h.Windows {
		by[w.Limit] += w.Units
		most = max(most, by[w.Limit])
	}
	return most + h.Granted
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
	return e.rules.usage(e.rules.adopted(v, of.key(), of.Now), of)
}

// usage shows v as a charge at its time would find it.
func (k rules) usage(v View, r Request) (Usage, error) {
	plan, standings, err := k.place(v, r)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Subject: r.Subject, Meter: r.Meter, Plan: plan.name, Unseen: v.State.unseen(), Granted: grantsLeft(v), Grants: map[string]GrantUsage{}, Holds: v.heldUntil(), Debts: map[string]DebtUsage{}}
	for _, id := range liveGrants(v) {
		u.Grants[id] = GrantUsage(v.grant(id))
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
			for _, b := range v.State.Buckets {
				t.Units -= s.stored.heldIn(b, s.limit.Name, t.Start)
			}
			if t.Units > 0 || t.Unknown {
				l.History = append(l.History, WindowTotal{Window: s.at(t.Start), Units: max(0, t.Units), Unknown: t.Unknown})
			}
		}
		u.Limits = append(u.Limits, l)
	}
	return u, nil
}

// heldUntil adds up what live holds reserve, the earliest end first.
func (v View) heldUntil() (all []HeldUntil) {
	for _, b := range v.State.Buckets {
		if b.over(v.Now) || b.Units == 0 {
			continue
		}
		if len(all) == 0 || !all[len(all)-1].Expires.Equal(b.Expires) {
			all = append(all, HeldUntil{Expires: b.Expires})
		}
		switch u := &all[len(all)-1]; {
		case b.Limit != "":
			in := b.countsIn()
			if stored := v.State.Counters[b.Limit].Window.Start; in.After(stored) {
				in = stored // a wrong clock had opened the other one
			}
			u.Windows = addWindow(u.Windows, ChargedWindow{Limit: b.Limit, Start: in, Units: b.Units})
		case b.Grant != "":
			u.Granted += b.Units
		default:
			u.Holds += b.Units
		}
	}
	return all
}

// heldIn returns how many units a bucket has in the window that starts at start. Units that it
// claims in a window after the stored one were folded into the stored one.
func (c Counter) heldIn(b Bucket, limit string, start time.Time) int64 {
	in := b.countsIn()
	if b.Limit == limit && (in.Equal(start) || in.After(start) && start.Equal(c.Window.Start)) {
		return b.Units
	}
	return 0
}
