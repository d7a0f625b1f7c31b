package headroom

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

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

// Plan is a named set of limits.
type Plan struct {
	Name   string
	Limits []Limit
}

// Catalog holds the plans and the price lists. It is validated once, by NewCatalog, and does not change.
type Catalog struct {
	fallback string
	plans    map[string]Plan
	prices   map[string]Prices
	counters map[string][]Limit // by meter: each counter that some plan limits, sorted by name. Units mean nothing here
	hard     map[[2]string]bool // by meter and name: the limits that some plan has as hard ones

	horizon  time.Duration            // of meters that memory gives none. Zero: as long as each needs it
	memory   map[string]Memory        // by meter
	horizons map[string]time.Duration // likewise: what follows from these
}

// NewCatalog checks plans and prices. fallback names the plan of a subject that has none stored and for which the caller names none; prices are by meter.
// Counters belong to a meter, not to a plan: every limit of a meter is counted for every subject, and enforced if the subject's plan has it, so that a change of plan opens no empty window.
// Two plans that limit the same counter must cut time in the same way.
func NewCatalog(fallback string, plans []Plan, prices map[string]Prices) (*Catalog, error) {
	c := &Catalog{fallback: fallback, plans: map[string]Plan{}, prices: map[string]Prices{}, counters: map[string][]Limit{}, hard: map[[2]string]bool{}}
	periods := map[[2]string]Period{}
	for _, p := range plans {
		if err := checkName("plan", p.Name); err != nil {
			return nil, err
		}
		if strings.Contains(p.Name, "+") {
			return nil, invalid("plan %q: a + in a stored plan begins a subject's own limits", p.Name)
		}
		if _, twice := c.plans[p.Name]; twice {
			return nil, invalid("plan %q is given twice", p.Name)
		}
		seen := map[[2]string]bool{}
		for _, l := range p.Limits {
			if err := l.validate(p.Name); err != nil {
				return nil, err
			}
			if at := [2]string{l.Meter, l.Name}; seen[at] {
				return nil, invalid("plan %q limits %q of meter %q twice", p.Name, l.Name, l.Meter)
			} else {
				seen[at] = true
			}
			if err := c.count(l, periods); err != nil {
				return nil, err
			}
			if l.Mode == Hard {
				c.hard[[2]string{l.Meter, l.Name}] = true
			}
		}
		c.plans[p.Name] = p.clone()
	}
	for _, counters := range c.counters {
		slices.SortFunc(counters, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	}
	if _, ok := c.plans[fallback]; !ok {
		return nil, invalid("the default plan %q is not among the plans", fallback)
	}
	for meter, p := range prices {
		if err := p.validate(meter); err != nil {
			return nil, err
		}
		c.prices[meter] = p.clone()
	}
	c.remember()
	return c, nil
}

// count adds the counter of l, unless another plan brought it. periods are those of all counters so far.
func (c *Catalog) count(l Limit, periods map[[2]string]Period) error {
	at := [2]string{l.Meter, l.Name}
	have, found := periods[at]
	if found && have != l.Period {
		return invalid("limit %q of meter %q is by %s in one plan and by %s in another: give one of them another name", l.Name, l.Meter, have, l.Period)
	}
	if !found {
		periods[at] = l.Period
		l.Thresholds = nil // they are a plan's own
		c.counters[l.Meter] = append(c.counters[l.Meter], l)
	}
	return nil
}

// within reports a meter that has more limits than a store can count in one write.
func (c *Catalog) within(most int) error {
	for _, meter := range slices.Sorted(maps.Keys(c.counters)) {
		if n := len(c.counters[meter]); n > most {
			return invalid("meter %q has %d limits in all plans together: this store takes at most %d", meter, n, most)
		}
	}
	return nil
}

// Lumcast returns the catalog that holds when nothing is configured: the plan "free" with 200 slots an ISO week, notices at 80 and 100 percent, and slots at 1 (standard), 2 (neural) and 4 (generative) a minute.
func Lumcast() *Catalog {
	c, err := NewCatalog("free",
		[]Plan{{Name: "free", Limits: []Limit{{Meter: "slots", Name: "week", Units: 200, Thresholds: []int{80, 100}}}}},
		map[string]Prices{"slots": {Step: 60, Rates: map[string]int64{"standard": 1, "neural": 2, "generative": 4}}})
	if err != nil {
		panic("headroom: the built-in catalog does not validate: " + err.Error())
	}
	return c
}

// Plans returns all plans, sorted by name.
func (c *Catalog) Plans() []Plan {
	plans := slices.SortedFunc(maps.Values(c.plans), func(a, b Plan) int { return strings.Compare(a.Name, b.Name) })
	for i := range plans {
		plans[i] = plans[i].clone()
	}
	return plans
}

// Default returns the name of the plan of a subject that has no other.
func (c *Catalog) Default() string { return c.fallback }

// Prices returns the price list of a meter.
func (c *Catalog) Prices(meter string) (Prices, error) {
	p, ok := c.prices[meter]
	if !ok {
		return Prices{}, invalid("meter %q has no price list", meter)
	}
	return p.clone(), nil
}

// WithUnits returns the catalog with every limit of the meter set to units in every plan: what a trial run of another limit needs.
func (c *Catalog) WithUnits(meter string, units int64) (*Catalog, error) {
	plans := c.Plans()
	for i := range plans {
		for j := range plans[i].Limits {
			if plans[i].Limits[j].Meter == meter {
				plans[i].Limits[j].Units = units
			}
		}
	}
	with, err := NewCatalog(c.fallback, plans, c.prices)
	if err != nil {
		return nil, err
	}
	return with.WithMemory(c.horizon, c.memory)
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

// resolve returns the plan that holds for a subject: the stored one, else the caller's, else the default.
// A subject's own limits follow the plan's name, "free+slots/week=500".
func (c *Catalog) resolve(stored, callers string) (plan, error) {
	name := cmp.Or(stored, callers, c.fallback)
	base, more, own := strings.Cut(name, "+")
	of, ok := c.plans[base]
	if !ok {
		return plan{}, invalid("unknown plan %q: the configuration has %s", base, strings.Join(slices.Sorted(maps.Keys(c.plans)), ", "))
	}
	p := plan{name: name, limits: of.Limits}
	if !own {
		return p, nil
	}
	p.overrides = map[string]int64{}
	for part := range strings.SplitSeq(more, "+") {
		// A meter's name may have an = in it, a limit's has none.
		equals := max(0, strings.LastIndexByte(part, '='))
		limit := part[:equals]
		units, err := strconv.ParseInt(strings.TrimPrefix(part[equals:], "="), 10, 64)
		if _, twice := p.overrides[limit]; twice || err != nil || units < 0 || !c.counts(limit) {
			return plan{}, invalid("plan %q: %q is no limit of its own: want METER/LIMIT=UNITS once, of a limit that some plan has", name, part)
		}
		p.overrides[limit] = units
	}
	return p, nil
}

// counts reports whether "meter/limit" names a counter.
func (c *Catalog) counts(name string) bool {
	slash := strings.LastIndexByte(name, '/')
	return slash > 0 && slices.ContainsFunc(c.counters[name[:slash]], func(l Limit) bool { return l.Name == name[slash+1:] })
}

func (p Plan) clone() Plan {
	p.Limits = slices.Clone(p.Limits)
	for i := range p.Limits {
		p.Limits[i].Thresholds = slices.Clone(p.Limits[i].Thresholds)
	}
	return p
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

func plainName(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
