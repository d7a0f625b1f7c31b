package headroom

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"slices"
	"time"
)

// ClockTolerance is how far clocks may usually disagree. A stored window that starts later than
// this after the present, or a clock that lags behind an earlier reading by more than this, is a
// fault.
const ClockTolerance = 5 * time.Minute

// errNeedHistory asks for a view with the whole history.
var errNeedHistory = errors.New("the decision needs the whole history")

// standing is how one counter stands at the time of a view.
type standing struct {
	limit    Limit   // with the units of the plan in force
	stored   Counter // as the store has it
	window   Window  // the window that a charge would go to
	opens    bool    // a charge would open that window
	carried  int64   // what the window may use beside its own units
	count    int64   // units charged and held in that window
	held     int64   // of these, units of live holds
	expired  int64   // of these, units of expired holds that nobody has cleared away
	exhausts bool    // a charge takes all that the limit leaves, and the rest from grants
	// fold are closed windows whose units belong into that window: a wrong clock had opened them.
	fold []Total
}

// standingOf finds the window in which a charge at the time of v would count. With skipClosed it
// looks no further back than the stored window: nothing is charged, or brought back, to an older
// one.
func standingOf(l Limit, v View, skipClosed bool) (standing, error) {
	stored, now := v.State.Counters[l.Name], v.Now
	s := standing{limit: l, stored: stored, window: l.Period.At(now)}
	switch {
	case stored.Window.IsZero():
		s.opens = true
	case !stored.Window.End.After(now):
		s.opens = true
		s.carried = carry(l, stored, s.window, v.State.Buckets)
		if s.window.Start.Before(stored.Window.End) {
			// The period was cut differently before, and the stored window held until now. The
			// first window of the new kind begins where it ended.
			s.window.Start = stored.Window.End
		}
	case stored.Window.Start.After(now.Add(ClockTolerance)) && !skipClosed:
		// A wrong clock opened a window of the future. What was charged there, and in windows
		// closed since the present one, was charged now. Nothing is carried over: what the present
		// window could is not known any more, and what the future one could is no second allowance.
		if stored.Partial {
			return s, errNeedHistory
		}
		if err := s.foldBack(); err != nil {
			return s, err
		}
	default:
		// The stored window holds now, or began a moment ago by another's clock, or the request's
		// own is over: windows never go back.
		s.window, s.count, s.carried = stored.Window, stored.Count, stored.Carried
	}
	s.countHolds(v)
	return s, nil
}

// foldBack adds up what was counted in the present window and in those after it.
func (s *standing) foldBack() error {
	s.count = s.stored.Count
	for _, t := range s.stored.Past {
		if t.Start.Before(s.window.Start) || t.Unknown {
			continue
		}
		if s.count > anyCount(t.Units) {
			return invalid("the counts of windows that a wrong clock opened add up beyond int64")
		}
		s.count += t.Units
		s.fold = append(s.fold, t)
	}
	return nil
}

// countHolds finds what of the count is held.
func (s *standing) countHolds(v View) {
	if s.opens {
		return
	}
	for _, b := range v.State.Buckets {
		switch {
		case b.Limit != s.limit.Name || b.countsIn().Before(s.window.Start):
		case b.over(v.Now):
			s.expired = sum(s.expired, b.Units)
		default:
			s.held = sum(s.held, b.Units)
		}
	}
	// A writer that knows nothing of holds may have counted less than they say.
	s.held = min(s.held, s.count)
	s.expired = min(s.expired, s.count-s.held)
}

// sum adds two numbers that are not negative, up to the greatest that there is: what is stored may
// be damaged.
func sum(a, b int64) int64 { return min(a, anyCount(b)) + b }

// carry returns how many units a window that opens may use beside its own: what the stored window
// left over, and the windows after it in which nobody did anything. What a hold held at the end of
// the stored window counts as used, whatever became of the hold later. So it does not matter when
// the first write of a window comes.
func carry(l Limit, stored Counter, opening Window, buckets []Bucket) int64 {
	most := min(l.CarryOver, multiple(l.Units, HistoryWindows))
	if most == 0 {
		return 0
	}
	used := stored.Count
	for _, b := range buckets {
		if b.Limit == l.Name && b.over(stored.Window.End) && !b.countsIn().Before(stored.Window.Start) {
			used -= min(b.Units, used)
		}
	}
	carried := max(0, min(most, standing{limit: l, carried: stored.Carried}.allowance()-max(0, used)))
	for w := l.Period.At(stored.Window.End); carried < most && w.Start.Before(opening.Start); w = l.Period.At(w.End) {
		carried += min(l.Units, most-carried)
	}
	return carried
}

// multiple returns units times n, or Unlimited if that is beyond int64.
func multiple(units, n int64) int64 {
	if units > Unlimited/n {
		return Unlimited
	}
	return units * n
}

// allowance returns how many units the window may use in all.
func (s standing) allowance() int64 {
	if s.limit.Units > anyCount(s.carried) {
		return Unlimited
	}
	return s.limit.Units + s.carried
}

// most returns how many units a window of the limit may use at best: if the one before it leaves
// enough over.
func (s standing) most() int64 {
	s.carried = max(s.carried, min(s.limit.CarryOver, multiple(s.limit.Units, HistoryWindows)))
	return s.allowance()
}

// remaining returns how many units the limit leaves. It is negative if more was charged than the
// limit in force allows.
func (s standing) remaining() int64 { return s.allowance() - (s.count - s.expired) }

// refuses reports whether the limit stands in the way of cost.
func (s standing) refuses(cost int64) bool {
	return s.limit.Mode == Hard && cost > 0 && cost > s.remaining()
}

// show returns the standing as a decision shows it. charged says that cost is already in the count.
func (s standing) show(cost int64, charged bool) LimitState {
	l := LimitState{
		Name: s.limit.Name, Mode: s.limit.Mode, Window: s.window,
		Used: s.count - s.held - s.expired, Held: s.held, Limit: s.allowance(), Remaining: max(0, s.remaining()),
	}
	if s.limit.Mode != Hard && cost > 0 {
		l.Over = charged && s.remaining() < 0 || !charged && cost > s.remaining()
	}
	return l
}

// at returns the window of the limit that starts at start.
func (s standing) at(start time.Time) Window {
	if start.Equal(s.stored.Window.Start) && !s.stored.Window.IsZero() {
		return s.stored.Window
	}
	w := s.limit.Period.At(start)
	w.Start = start // if the period was cut differently before, the first window begins late
	return w
}

// strictest returns the standing that a decision names, of those whose limits are hard. A limit
// that can never hold what was refused comes first, then the one that leaves least, then the one
// whose units come back last. If no limit is hard, it returns one without a limit.
//
// refused is what a refused request asked of the limits, beside what grants have left. It is 0 if
// the request was not refused.
func strictest(standings []standing, refused int64) standing {
	hard := slices.DeleteFunc(slices.Clone(standings), func(s standing) bool { return s.limit.Mode != Hard })
	if len(hard) == 0 {
		return standing{limit: Limit{Units: Unlimited}}
	}
	can := func(s standing) int {
		if refused > s.most() {
			return 0
		}
		return 1
	}
	return slices.MinFunc(hard, func(a, b standing) int {
		return cmp.Or(
			cmp.Compare(can(a), can(b)), cmp.Compare(a.remaining(), b.remaining()),
			b.window.End.Compare(a.window.End), cmp.Compare(a.limit.Name, b.limit.Name),
		)
	})
}

// step returns the change that adds own units to the counter, and the thresholds that this crosses.
// recorded says that the units are charged though they do not fit.
//
// The guard says no more than the decision needs: the count may move meanwhile, but not past the
// limit and not past a threshold.
func (s standing) step(own int64, recorded bool) (Step, []Crossing) {
	step := Step{
		Limit: s.limit.Name, From: s.stored.Window, To: s.window, Opens: s.opens, Carried: s.carried, Fold: s.fold,
		Max: anyCount(own), Add: own,
	}
	if s.limit.Mode == Hard && own > 0 {
		if !recorded {
			step.Max = s.allowance() - own
		} else if s.refuses(own) {
			step.Min = max(0, s.allowance()-own+1) // recorded only if the units really do not fit
		}
	}
	var crossed []Crossing
	for _, percent := range s.limit.Thresholds {
		t, ok := threshold(s.allowance(), percent)
		switch {
		case !ok || own == 0:
		case s.count >= t:
			step.Min = max(step.Min, t)
		case s.count < t-own:
			step.Max = min(step.Max, t-own-1)
		default:
			step.Min, step.Max = max(step.Min, t-own), min(step.Max, t-1)
			crossed = append(crossed, Crossing{Limit: s.limit.Name, Percent: percent, Start: s.window.Start})
		}
	}
	if s.exhausts {
		// Grants give the rest only if the limit leaves no more. So the count must be exact, unless
		// the limit leaves nothing.
		step.Min = max(step.Min, s.allowance()-own+s.expired)
	}
	switch {
	case s.opens && s.limit.CarryOver == 0:
		step.Min, step.Max = 0, anyCount(0) // whatever the window before counted
	case s.opens:
		step.Min, step.Max = s.stored.Count, s.stored.Count
	case len(s.fold) > 0:
		folded := s.count - s.stored.Count
		step.Min, step.Max = max(0, step.Min-folded), step.Max-folded
	}
	return step, crossed
}

// obstructed reports whether expired holds stand in the way of adding own units. They no longer
// count, but the stored count still includes them: the room that they take is needed, or whether a
// threshold is crossed depends on them.
func (s standing) obstructed(own int64) bool {
	if s.expired == 0 || own == 0 {
		return false
	}
	depends := func(percent int) bool {
		t, ok := threshold(s.allowance(), percent)
		return ok && s.count-s.expired < t && t-own <= s.count
	}
	needed := s.limit.Mode == Hard && own > s.allowance()-s.count || s.count > anyCount(own)
	return needed || slices.ContainsFunc(s.limit.Thresholds, depends)
}

// threshold returns the least count that reaches percent of an allowance, at least 1. It reports
// false if no count does.
func threshold(allowance int64, percent int) (int64, bool) {
	hi, lo := bits.Mul64(uint64(allowance), uint64(percent))
	lo, up := bits.Add64(lo, 99, 0)
	if hi += up; hi >= 100 || allowance == Unlimited {
		return 0, false
	}
	count, _ := bits.Div64(hi, lo, 100)
	return max(1, int64(count)), count <= math.MaxInt64
}
