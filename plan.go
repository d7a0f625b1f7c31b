package headroom

import "slices"

// Unlimited is the limit, and the remaining units, that a decision shows if the plan sets no limit.
const Unlimited = 1<<63 - 1

// MaxThreshold is the greatest threshold, in percent of a limit.
const MaxThreshold = 1000

// Mode says what a limit does to what goes past it.
type Mode byte

const (
	Hard   Mode = iota // refuse it
	Soft               // admit it, and say so in the decision
	Shadow             // a limit on trial: admit it, and say that it would have been refused
)

// String returns the mode's name as it stands in a configuration.
func (m Mode) String() string { return [...]string{"hard", "soft", "shadow"}[min(m, Shadow)] }

// Limit is the most units of a meter in one window.
type Limit struct {
	Meter string // what is counted, "slots"
	// Name is the name of the counter that the limit looks at, "week": at most 32 lower-case
	// letters, digits, - and _.
	Name   string
	Period Period // zero: the ISO week in UTC
	Units  int64  // at least 0
	Mode   Mode   // zero: Hard

	// CarryOver is how many units a window may use beside its own, if the window before it left
	// them over. That includes what was carried into the window before. At most 52 times Units
	// counts. Zero: none.
	//
	// Units that a hold held at a window's end were not left over, whatever became of the hold.
	// Nothing is carried into a window that a wrong clock had closed too early, once the clock's
	// fault is repaired.
	CarryOver int64
	// MaxHolds is how many holds a subject may have at a time on the meter, whatever they take. The
	// least of the limits of a plan counts. Zero: any number.
	MaxHolds int64
	// Thresholds are percents of the limit, rising, from 1 to MaxThreshold. A decision says which
	// of them it crossed. Empty: none.
	Thresholds []int
}

func (l Limit) validate(plan string) error {
	if err := checkName("meter", l.Meter); err != nil {
		return err
	}
	if !plainName(l.Name) {
		return invalid("limit %q of plan %q: want 1 to 32 lower-case letters, digits, - or _", l.Name, plan)
	}
	if l.Units < 0 || l.CarryOver < 0 {
		return invalid(
			"limit %q of plan %q: %d units, %d carried over: want at least 0",
			l.Name, plan, l.Units, l.CarryOver)
	}
	if l.MaxHolds < 0 {
		return invalid("limit %q of plan %q: %d holds: want at least 1, or 0 for any number", l.Name, plan, l.MaxHolds)
	}
	if l.Mode > Shadow {
		return invalid("limit %q of plan %q: unknown mode %d", l.Name, plan, l.Mode)
	}
	for i, percent := range l.Thresholds {
		if percent < 1 || percent > MaxThreshold || i > 0 && percent <= l.Thresholds[i-1] {
			return invalid(
				"limit %q of plan %q: thresholds %v: want rising percents from 1 to %d",
				l.Name, plan, l.Thresholds, MaxThreshold)
		}
	}
	return nil
}

// Plan is a named set of limits.
type Plan struct {
	Name   string
	Limits []Limit
}

func (p Plan) clone() Plan {
	p.Limits = slices.Clone(p.Limits)
	for i := range p.Limits {
		p.Limits[i].Thresholds = slices.Clone(p.Limits[i].Thresholds)
	}
	return p
}

// plan is a plan as it holds for one subject.
type plan struct {
	name      string // as it is stored or given, with the overrides
	limits    []Limit
	overrides map[string]int64 // units by "meter/limit"
}

// mostHolds returns how many holds there may be on a meter. It is 0 if there may be any number.
func (p plan) mostHolds(meter string) (most int64) {
	for _, l := range p.limits {
		if l.Meter == meter && l.MaxHolds > 0 && (most == 0 || l.MaxHolds < most) {
			most = l.MaxHolds
		}
	}
	return most
}

// limit returns what the plan says about a counter. The units are Unlimited if it says nothing.
func (p plan) limit(counter Limit) Limit {
	l := Limit{Meter: counter.Meter, Name: counter.Name, Period: counter.Period, Units: Unlimited}
	for _, of := range p.limits {
		if of.Meter == counter.Meter && of.Name == counter.Name {
			l = of
		}
	}
	if units, ok := p.overrides[l.Meter+"/"+l.Name]; ok {
		l.Units = units
	}
	return l
}
