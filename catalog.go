package headroom

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Catalog holds the plans and the price lists. NewCatalog checks it once, and it never changes.
type Catalog struct {
	fallback string
	plans    map[string]Plan
	prices   map[string]Prices
	// counters are by meter: each counter that some plan limits, sorted by name. Their units mean
	// nothing.
	counters map[string][]Limit
	hard     map[[2]string]bool // by meter and name: the limits that are hard in some plan

	horizon  time.Duration            // of meters without one in memory; zero: as long as each needs
	memory   map[string]Memory        // by meter
	horizons map[string]time.Duration // by meter: what follows from the two
}

// NewCatalog returns a catalog of plans and price lists, which it checks. A fault is Invalid.
// fallback names the plan of a subject that has none stored and for which the caller names none.
// prices are by meter.
//
// Counters belong to a meter, not to a plan. Every limit of a meter is counted for every subject,
// and enforced if the subject's plan has it. So a change of plan opens no empty window. Two plans
// that limit the same counter must cut time in the same way.
func NewCatalog(fallback string, plans []Plan, prices map[string]Prices) (*Catalog, error) {
	c := &Catalog{
		fallback: fallback, plans: map[string]Plan{}, prices: map[string]Prices{},
		counters: map[string][]Limit{}, hard: map[[2]string]bool{},
	}
	periods := map[[2]string]Period{}
	for _, p := range plans {
		if err := c.addPlan(p, periods); err != nil {
			return nil, err
		}
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

// addPlan adds a plan and its counters. periods are those of all counters so far.
func (c *Catalog) addPlan(p Plan, periods map[[2]string]Period) error {
	if err := checkName("plan", p.Name); err != nil {
		return err
	}
	if strings.Contains(p.Name, "+") {
		return invalid("plan %q: a + in a stored plan begins a subject's own limits", p.Name)
	}
	if _, twice := c.plans[p.Name]; twice {
		return invalid("plan %q is given twice", p.Name)
	}
	seen := map[[2]string]bool{}
	for _, l := range p.Limits {
		if err := l.validate(p.Name); err != nil {
			return err
		}
		at := [2]string{l.Meter, l.Name}
		if seen[at] {
			return invalid("plan %q limits %q of meter %q twice", p.Name, l.Name, l.Meter)
		}
		seen[at] = true
		if err := c.addCounter(l, periods); err != nil {
			return err
		}
		if l.Mode == Hard {
			c.hard[at] = true
		}
	}
	c.plans[p.Name] = p.clone()
	return nil
}

// addCounter adds the counter of l, unless another plan has brought it. periods are those of all
// counters so far.
func (c *Catalog) addCounter(l Limit, periods map[[2]string]Period) error {
	at := [2]string{l.Meter, l.Name}
	have, found := periods[at]
	if found && have != l.Period {
		return invalid(
			"limit %q of meter %q is by %s in one plan and by %s in another: give one of them another name",
			l.Name, l.Meter, have, l.Period)
	}
	if !found {
		periods[at] = l.Period
		l.Thresholds = nil // each plan has its own
		c.counters[l.Meter] = append(c.counters[l.Meter], l)
	}
	return nil
}

// checkMostLimits returns an error if a meter has more limits than a store can count in one write.
func (c *Catalog) checkMostLimits(most int) error {
	for _, meter := range slices.Sorted(maps.Keys(c.counters)) {
		if n := len(c.counters[meter]); n > most {
			return invalid("meter %q has %d limits in all plans together: this store takes at most %d", meter, n, most)
		}
	}
	return nil
}

// DefaultCatalog returns the catalog that holds when nothing is configured: the plan "free" with
// 200 slots an ISO week, notices at 80 and 100 percent, and slots at 1 (standard), 2 (neural) and 4
// (generative) a minute.
func DefaultCatalog() *Catalog {
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

// WithUnits returns the catalog with each limit of the meter set to units, in every plan. A trial
// run of another limit needs that.
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

// resolve returns the plan that holds for a subject: the stored one, or else the caller's, or else
// the default. A subject's own limits follow the name of the plan: "free+slots/week=500".
func (c *Catalog) resolve(stored, callers string) (plan, error) {
	name := cmp.Or(stored, callers, c.fallback)
	base, more, own := strings.Cut(name, "+")
	of, ok := c.plans[base]
	if !ok {
		return plan{}, invalid(
			"unknown plan %q: the configuration has %s",
			base, strings.Join(slices.Sorted(maps.Keys(c.plans)), ", "))
	}
	p := plan{name: name, limits: of.Limits}
	if !own {
		return p, nil
	}
	p.overrides = map[string]int64{}
	for part := range strings.SplitSeq(more, "+") {
		// The name of a meter may have an = in it, but that of a limit has none.
		equals := max(0, strings.LastIndexByte(part, '='))
		limit := part[:equals]
		units, err := strconv.ParseInt(strings.TrimPrefix(part[equals:], "="), 10, 64)
		if _, twice := p.overrides[limit]; twice || err != nil || units < 0 || !c.hasCounter(limit) {
			return plan{}, invalid(
				"plan %q: %q is no limit of its own: want METER/LIMIT=UNITS once, of a limit that some plan has",
				name, part)
		}
		p.overrides[limit] = units
	}
	return p, nil
}

// hasCounter reports whether "meter/limit" names a counter.
func (c *Catalog) hasCounter(name string) bool {
	slash := strings.LastIndexByte(name, '/')
	return slash > 0 && slices.ContainsFunc(c.counters[name[:slash]], func(l Limit) bool { return l.Name == name[slash+1:] })
}

// WithMemory returns the catalog with other settings of how its meters remember operation ids. all
// is the horizon of the meters that have none of their own.
//
// If all is zero, a meter remembers ids for its longest hard window and a day, at least
// DefaultHorizon and at most MaxHorizon. So nothing is charged twice within a window, and a charge
// can be refunded while its window runs.
func (c *Catalog) WithMemory(all time.Duration, meters map[string]Memory) (*Catalog, error) {
	if err := checkHorizon(all); err != nil {
		return nil, err
	}
	for _, meter := range slices.Sorted(maps.Keys(meters)) {
		if _, ok := c.counters[meter]; !ok {
			return nil, invalid("unknown meter %q: no plan limits it", meter)
		}
		if err := checkHorizon(meters[meter].Horizon); err != nil {
			return nil, invalid("meter %q: %s", meter, err.Message)
		}
	}
	with := *c
	with.horizon, with.memory = all, maps.Clone(meters)
	with.remember()
	return &with, nil
}

// remember works out the horizon of each meter once, since each decision asks for it.
func (c *Catalog) remember() {
	c.horizons = make(map[string]time.Duration, len(c.counters))
	for meter := range c.counters {
		c.horizons[meter] = cmp.Or(c.memory[meter].Horizon, c.horizon, min(c.needed(meter), MaxHorizon))
	}
}

// Meters returns the names of all meters that some plan limits, sorted.
func (c *Catalog) Meters() []string { return slices.Sorted(maps.Keys(c.counters)) }

// Horizon returns how long the operation ids of a meter are remembered at least.
func (c *Catalog) Horizon(meter string) time.Duration {
	return cmp.Or(c.horizons[meter], c.horizon, DefaultHorizon)
}

// NeedsID reports whether a charge of the meter must have an operation id.
func (c *Catalog) NeedsID(meter string) bool { return !c.memory[meter].None }

// needed returns the longest hard window of a meter and a day, or DefaultHorizon if that is longer.
func (c *Catalog) needed(meter string) time.Duration {
	longest, _ := c.longestHard(meter)
	return max(DefaultHorizon, longest+day)
}

// longestHard returns the length of the longest hard window of a meter, and the name of its limit.
func (c *Catalog) longestHard(meter string) (longest time.Duration, name string) {
	for _, l := range c.counters[meter] {
		if of := l.Period.longest(); c.hard[[2]string{meter, l.Name}] && of > longest {
			longest, name = of, l.Name
		}
	}
	return longest, name
}

// Warnings returns a sentence for each thing in the catalog that is legal but most likely not
// meant.
func (c *Catalog) Warnings() (all []string) {
	for _, meter := range c.Meters() {
		horizon, needed := c.Horizon(meter), c.needed(meter)
		if horizon >= needed {
			continue
		}
		longest, limit := c.longestHard(meter)
		why := "a queue may bring a message again, or an execution be started again, up to 14 days later"
		if longest > horizon {
			why = fmt.Sprintf("a window of its limit %q lasts %s: late in it a repeat is charged again, and a refund finds no charge", limit, inDays(longest))
		}
		if longest+day > MaxHorizon {
			why += fmt.Sprintf(" (%s is the most that can be remembered)", inDays(MaxHorizon))
		} else {
			why += "; want at least " + inDays(needed)
		}
		all = append(all, fmt.Sprintf("meter %q remembers operation ids for %s, but %s", meter, inDays(horizon), why))
	}
	return all
}
