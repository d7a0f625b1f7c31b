package headroom

import (
	"cmp"
	"slices"
	"time"
)

// standing is how one counter stands at the time of a view.
type standing struct {
	limit   Limit   // Units are those of the plan in force
	stored  Counter // as the store has it
	window  Window  // the window that a charge would go to
	opens   bool    // that window begins with the charge
	carried int64   // what the window may use beside its own units
	count   int64   // units charged and held in that window
	held    int64   // of these, units of live holds
	dead    int64   // of these, units of expired holds that nobody has cleared away
	fold    []Total // what of the history belongs into that window, because a wrong clock put it elsewhere
}

// standings places each counter of a meter in time, under a plan.
func (k rules) standings(v View, plan plan, meter string) ([]standing, error) {
	var all []standing
	for _, l := range k.catalog.counters[meter] {
		l = plan.limit(l)
		s, err := place(l, v)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// place finds the window in which a charge at the time of v would count.
func place(l Limit, v View) (standing, error) {
	stored, now := v.State.Counters[l.Name], v.Now
	s := standing{limit: l, stored: stored, window: l.Period.At(now)}
	switch {
	case stored.Window.IsZero():
		s.opens = true
	case !stored.Window.End.After(now):
		s.opens = true
		s.carried = carry(l, stored, s.window, v)
		if s.window.Start.Before(stored.Window.End) {
			// The period was cut differently before, and the stored window held until now: the first one of the new kind begins where that ended.
			s.window.Start = stored.Window.End
		}
	case stored.Window.Start.After(now.Add(ClockTolerance)):
		// A wrong clock opened a window of the future. What was charged there, and in windows closed since the present one, was charged now.
		if oldest := len(stored.Past) - 1; stored.Partial && (oldest < 0 || stored.Past[oldest].Start.After(s.window.Start)) {
			return s, errNeedHistory
		}
		s.count, s.carried = stored.Count, stored.Carried
		for _, t := range stored.Past {
			if !t.Start.Before(s.window.Start) && !t.Unknown {
				if s.count > anyCount(t.Units) {
					return s, invalid("the counts of windows that a wrong clock opened add up beyond int64")
				}
				s.count += t.Units
				s.fold = append(s.fold, t)
			}
		}
	default:
		// The stored window holds now, or began a moment ago by another's clock: windows never go back.
		s.window, s.count, s.carried = stored.Window, stored.Count, stored.Carried
	}
	s.holds(v)
	return s, nil
}

// holds finds what of the count is held.
func (s *standing) holds(v View) {
	if s.opens {
		return
	}
	for _, h := range v.State.Holds {
		if units := h.in(s.limit.Name, s.window.Start); h.expired(v.Now) {
			s.dead += units
		} else {
			s.held += units
		}
	}
}

// carry is what the window before leaves over for one that opens.
func carry(l Limit, stored Counter, opening Window, v View) int64 {
	left := l.Units // nothing was used of a window that passed unseen
	if !stored.Window.End.Before(opening.Start) {
		left += stored.Carried - stored.Count
		for _, h := range v.State.Holds {
			if h.expired(v.Now) {
				left += h.in(l.Name, stored.Window.Start)
			}
		}
	}
	return max(0, min(l.CarryOver, left))
}

// allowance is what the window may use in all.
func (s standing) allowance() int64 {
	if s.limit.Units > anyCount(s.carried) {
		return Unlimited
	}
	return s.limit.Units + s.carried
}

// remaining is what the limit leaves; it is negative where more was charged than the limit in force.
func (s standing) remaining() int64 { return s.allowance() - (s.count - s.dead) }

// refuses reports whether the limit stands in the way of cost.
func (s standing) refuses(cost int64) bool {
	return s.limit.Mode == Hard && cost > 0 && cost > s.remaining()
}

// pick returns the strictest of the standings that can refuse: one that can never hold the cost before any other, then the one that leaves least, then the one whose units come back last. With none there is no limit.
func pick(standings []standing, cost int64) standing {
	hard := slices.DeleteFunc(slices.Clone(standings), func(s standing) bool { return s.limit.Mode != Hard })
	if len(hard) == 0 {
		return standing{limit: Limit{Units: Unlimited}}
	}
	return slices.MinFunc(hard, func(a, b standing) int {
		can := func(s standing) int {
			if cost > s.allowance() {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(can(a), can(b)), cmp.Compare(a.remaining(), b.remaining()), b.window.End.Compare(a.window.End), cmp.Compare(a.limit.Name, b.limit.Name))
	})
}

// step is the change that adds own units to the counter. recorded says that the policy charges whether or not they fit, exact that the split between plan and grants holds for this very count only.
// It guards no more than the decision needs: the count may move, but not past the limit and not past a threshold.
func (s standing) step(own int64, recorded, exact bool) (Step, []Crossing, error) {
	if s.count > anyCount(own) {
		return Step{}, nil, invalid("a charge of %d on a count of %d is beyond int64", own, s.count)
	}
	step := Step{Limit: s.limit.Name, From: s.stored.Window, To: s.window, Opens: s.opens, Carried: s.carried, Max: anyCount(own), Add: own, Fold: s.fold}
	if s.limit.Mode == Hard && own > 0 {
		if !recorded {
			step.Max = s.allowance() - own
		} else if s.refuses(own) {
			step.Min = max(0, s.allowance()-own+1) // recorded only if it really did not fit
		}
	}
	var crossed []Crossing
	for _, percent := range s.limit.Thresholds {
		t := threshold(s.allowance(), percent)
		switch {
		case own == 0:
		case s.count >= t:
			step.Min = max(step.Min, t)
		case s.count+own < t:
			step.Max = min(step.Max, t-own-1)
		default:
			step.Min, step.Max = max(step.Min, t-own), min(step.Max, t-1)
			crossed = append(crossed, Crossing{Limit: s.limit.Name, Percent: percent})
		}
	}
	switch {
	case s.opens && s.limit.CarryOver == 0:
		step.Min, step.Max = 0, anyCount(0) // whatever the window before counted
	case s.opens, exact:
		step.Min, step.Max = s.stored.Count, s.stored.Count
	case len(s.fold) > 0:
		folded := s.count - s.stored.Count
		step.Min, step.Max = max(0, step.Min-folded), step.Max-folded
	}
	return step, crossed, nil
}

// maxPercent is the greatest threshold.
const maxPercent = 1000

// threshold is the least count that reaches percent of an allowance, at least 1.
func threshold(allowance int64, percent int) int64 {
	whole, rest := allowance/100, allowance%100
	if whole > Unlimited/maxPercent-1 {
		return Unlimited
	}
	return max(1, whole*int64(percent)+(rest*int64(percent)+99)/100)
}

// spread is where a cost comes from: units of the plan, then grants by earliest expiry.
type spread struct {
	own    int64
	grants []GrantUse
	fits   bool
}

// allocate spreads a cost.
func allocate(standings []standing, v View, cost int64) spread {
	free := cost
	for _, s := range standings {
		if s.limit.Mode == Hard {
			free = min(free, max(0, s.remaining()))
		}
	}
	a := spread{own: free}
	rest := cost - free
	for _, id := range liveGrants(v) {
		if g := v.State.Grants[id]; rest > 0 && g.Used < g.Units {
			n := min(rest, g.Units-g.Used)
			a.grants = append(a.grants, GrantUse{ID: id, Units: n})
			rest -= n
		}
	}
	a.fits = rest == 0
	if !a.fits {
		a.own += rest
	}
	return a
}

// liveGrants returns the ids of the grants that can be drawn on, the earliest expiry first.
func liveGrants(v View) []string {
	var ids []string
	for id, g := range v.State.Grants {
		if g.live(v.Now) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(v.State.Grants[a].Expires.Compare(v.State.Grants[b].Expires), cmp.Compare(a, b))
	})
	return ids
}

// grantsLeft is what live grants have left in all.
func grantsLeft(v View) (left int64) {
	for _, id := range liveGrants(v) {
		if g := v.State.Grants[id]; left <= anyCount(g.Units-g.Used) {
			left += g.Units - g.Used
		} else {
			return Unlimited
		}
	}
	return left
}

// epoch returns the label of the generation of ids that is young at t. Labels are whole multiples of the horizon, so that a generation that is two behind is at least one horizon old.
func (k rules) epoch(t time.Time) time.Time {
	seconds := int64(k.horizon / time.Second)
	into := t.Unix() % seconds
	if into < 0 {
		into += seconds
	}
	return time.Unix(t.Unix()-into, 0).UTC()
}
