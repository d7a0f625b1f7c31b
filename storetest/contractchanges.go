package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lumcast/headroom"
)

// This file has what the rules of the contract are made of: the changes that they send, and how
// they show and compare what comes back.

var (
	young    = epoch(base, horizon)
	thisWeek = headroom.ISOWeek(base)
	lastWeek = headroom.ISOWeek(base.Add(-week))
	nextWeek = headroom.ISOWeek(monday)
	ahead    = headroom.ISOWeek(base.Add(year))
)

// anyMax is a Max above every count of these rules, with room for what they add.
const anyMax = 1 << 62

// opened is the first change of a key: it opens a limit's counter this week, at so many units.
func opened(limit string, units int64) headroom.Change {
	c := next()
	c.Epoch, c.Rotate = time.Time{}, young
	c.Steps = []headroom.Step{{Limit: limit, To: thisWeek, Opens: true, Max: anyMax, Add: units}}
	return c
}

// next is a later change, in the present generation of ids, with nothing in it yet.
func next() headroom.Change { return headroom.Change{Plan: "free", PlanOrNone: true, Epoch: young} }

// steps is a later change of counters.
func steps(s ...headroom.Step) headroom.Change {
	c := next()
	c.Steps = s
	return c
}

// step adds units to the counter "week", which stands in this week and counts from least to most.
func step(add, least, most int64) headroom.Step {
	return headroom.Step{Limit: "week", From: thisWeek, To: thisWeek, Min: least, Max: most, Add: add}
}

// charge is a deduction of units under an id, on a limit of 200 a week.
func charge(id string, units int64) headroom.Change {
	c := steps(step(units, 0, 200-units))
	c.Records = []headroom.RecordStep{{ID: id, Is: charged(units)}}
	return c
}

// charged is the record of a deduction of so many units this week.
func charged(units int64) *headroom.Record {
	return &headroom.Record{
		Kind: headroom.KindDeduct, Cost: units,
		Windows: []headroom.ChargedWindow{{Limit: "week", Start: thisWeek.Start, Units: units}},
	}
}

// reserved is the record of a hold of so many units this week.
func reserved(units int64) *headroom.Record {
	r := charged(units)
	r.Kind, r.Expires = headroom.KindHold, base.Add(time.Hour)
	return r
}

// everything is the first change of a key with something of all that a store keeps.
func everything() headroom.Change {
	c := opened("week", 40)
	c.Records = []headroom.RecordStep{{ID: "charged", Is: charged(30)}, {ID: "held", Is: reserved(10)}}
	c.Grants = []headroom.GrantStep{{ID: "gift", Is: &headroom.Grant{Units: 50, Used: 5, Expires: base.Add(week)}}}
	c.Debts = []headroom.DebtStep{{ID: "charged", Is: debt("acme", 30)}}
	c.Buckets = []headroom.BucketStep{adds(until(1, ""), 1), adds(until(1, "week"), 10)}
	return c
}

// partial reports whether some totals of closed windows are kept elsewhere.
func partial(v headroom.View) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(v.State.Counters)), func(c headroom.Counter) bool { return c.Partial })
}

// differ shows the lines in which two views differ, but for the time; nothing if they are the same.
func differ(got, want headroom.View) string {
	has, needs := strings.Split(viewText(got), "\n"), strings.Split(viewText(want), "\n")
	text := ""
	for _, line := range has {
		if !slices.Contains(needs, line) {
			text += "\tgot:  " + line + "\n"
		}
	}
	for _, line := range needs {
		if !slices.Contains(has, line) {
			text += "\twant: " + line + "\n"
		}
	}
	return text
}

// viewText shows a view but for the time, one thing a line.
func viewText(v headroom.View) string {
	s := fmt.Sprintf("plan %q\nids of %s and of %s\n", v.State.Plan, short(v.State.Epoch.UTC()), short(v.State.EpochBefore.UTC()))
	for _, name := range sorted(v.State.Counters) {
		c := v.State.Counters[name]
		s += fmt.Sprintf("count of %q is %d and %d carried over, in %s\n", name, c.Count, c.Carried, span(c.Window))
		for _, t := range c.Past {
			s += fmt.Sprintf("total of %q in the window from %s is %d\n", name, short(t.Start.UTC()), t.Units)
		}
	}
	if v.State.Series != 0 || !v.State.Swept.IsZero() {
		s += fmt.Sprintf("buckets of series %d are swept up to %s\n", v.State.Series, short(v.State.Swept.UTC()))
	}
	for _, b := range v.State.Buckets {
		s += fmt.Sprintf("%s has %d units%s\n", bucketText(b.BucketKey), b.Units, inText(b.In))
	}
	for _, id := range sorted(v.State.Grants) {
		g := v.State.Grants[id]
		s += fmt.Sprintf("grant %q of %d, %d used, until %s\n", id, g.Units, g.Used, short(g.Expires.UTC()))
	}
	for _, id := range sorted(v.State.Debts) {
		s += fmt.Sprintf("debt %q is %s\n", id, v.State.Debts[id])
	}
	for _, id := range sorted(v.Records) {
		s += fmt.Sprintf("record %q is %s\n", id, v.Records[id])
	}
	return s
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// guardsText shows the guards of a change, one a line.
func guardsText(c headroom.Change) string {
	s := fmt.Sprintf("\tplan %q%s\n\tids of %s\n", c.Plan, map[bool]string{true: " or none"}[c.PlanOrNone], short(c.Epoch.UTC()))
	for _, x := range c.Steps {
		s += fmt.Sprintf("\tcount of %q is %d to %d, in %s\n", x.Limit, x.Min, x.Max, span(x.From))
	}
	for _, r := range c.Records {
		s += fmt.Sprintf("\trecord %q is %s\n", r.ID, orNothing(r.Was))
	}
	for _, g := range c.Grants {
		if s += fmt.Sprintf("\tgrant %q is ", g.ID); g.Was == nil {
			s += "not there\n"
		} else {
			s += fmt.Sprintf("of %d until %s, %d to %d used\n", g.Was.Units, short(g.Was.Expires.UTC()), g.Min, g.Max)
		}
	}
	for _, d := range c.Debts {
		s += fmt.Sprintf("\tdebt %q is %s\n", d.ID, orNothing(d.Was))
	}
	return s
}

func orNothing[T fmt.Stringer](v *T) string {
	if v == nil {
		return "not there"
	}
	return (*v).String()
}
