package headroom

import "slices"

// Unlimited is the limit and the remaining units that a decision shows where the plan sets no limit.
const Unlimited = 1<<63 - 1

// MaxThreshold is the greatest percent of a limit that a threshold may be.
const MaxThreshold = 1000

// Mode says what a limit does to what goes past it.
type Mode byte

const (
	Hard   Mode = iota // refuses it
	Soft               // admits it, and the decision says so
	Shadow             // admits it, and the decision says that it would have been refused: a limit on trial
)

// String returns the mode's name as it stands in a configuration.
func (m Mode) String() string { return [...]string{"hard", "soft", "shadow"}[min(m, Shadow)] }

// Limit is the most units of a meter in one window.
type Limit struct {
	Meter  string // what is counted, "slots"
	Name   string // the counter that the limit looks at, "week": lower-case letters, digits, - and _, at most 32
	Period Period // zero: the ISO week in UTC
	Units  int64  // at least 0
	Mode   Mode   // zero: Hard

	// CarryOver is how many units that were left of a window at its end the next one may use beside its own, those carried into it included. Zero: none. At most 52 times Units counts.
	// What a hold held then was not left, whatever became of it; nor is anything carried into a window that a wrong clock closed too early and that was brought back.
	CarryOver  int64
	Thresholds []int // percents of the limit, rising, 1 to MaxThreshold: a decision says which of them it crossed. Empty: none
}

func (l Limit) validate(plan string) error {
	if err := checkName("meter", l.Meter); err != nil {
		return err
	}
	if !plainName(l.Name) {
		return invalid("limit %q of plan %q: want 1 to 32 lower-case letters, digits, - or _", l.Name, plan)
	}
	if l.Units < 0 || l.CarryOver < 0 {
		return invalid("limit %q of plan %q: %d units, %d carried over: want at least 0", l.Name, plan, l.Units, l.CarryOver)
	}
	if l.Mode > Shadow {
		return invalid("limit %q of plan %q: unknown mode %d", l.Name, plan, l.Mode)
	}
	for i, percent := range l.Thresholds {
		if percent < 1 || percent > MaxThreshold || i > 0 && percent <= l.Thresholds[i-1] {
			return invalid("limit %q of plan %q: thresholds %v: want rising percents from 1 to %d", l.Name, plan, l.Thresholds, MaxThreshold)
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
	name      string // as stored or given, overrides included
	limits    []Limit
	overrides map[string]int64 // units by "meter/limit"
}

// limit returns what the plan says of a counter: nothing, if it does not limit it.
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
