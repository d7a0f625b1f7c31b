package main

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/saturate"
)

// shownHolds is how many ends of holds a person is shown. With --json all are shown.
const shownHolds = 10

// print writes the explanation for a person, who may know nothing about Headroom.
func (x *explanation) print(w *bufio.Writer) {
	fmt.Fprintln(w, x.plan())
	fmt.Fprintln(w)
	fmt.Fprintln(w, x.verdict())
	if back := x.comingBack(); back != "" {
		fmt.Fprintln(w, back)
	}
	fmt.Fprintln(w)
	for _, l := range x.decision.Limits {
		if l.Limit != headroom.Unlimited {
			fmt.Fprintln(w, x.limit(l))
		}
	}
	x.printHolds(w)
	x.printGrants(w)
}

// plan says what the subject may spend.
func (x *explanation) plan() string {
	var limits []string
	for _, l := range x.decision.Limits {
		if l.Limit != headroom.Unlimited {
			limits = append(limits, x.units(l.Limit-x.carried(l))+" "+each(x.periods[l.Name])+inMode(l.Mode))
		}
	}
	plan := fmt.Sprintf("%s is on plan %s", printable(x.subject), printable(x.decision.Plan))
	if len(limits) == 0 {
		plan = fmt.Sprintf("%s, which sets no limit on %s.", plan, printable(x.meter))
	} else {
		plan = fmt.Sprintf("%s: at most %s.", plan, list(limits))
	}
	if x.decision.Unseen {
		plan += " Nothing is stored of this subject yet: the name may be mistyped."
	}
	return plan
}

// verdict says whether the cost fits now, and what does.
func (x *explanation) verdict() string {
	fits := x.fits()
	most := fmt.Sprintf("At most %s fit now", x.units(fits))
	switch {
	case fits == headroom.Unlimited:
		return "Any cost fits now: no limit refuses."
	case fits == 0:
		most = "Nothing fits now"
	}
	switch {
	case !x.asked:
		return most + ": " + x.left(x.strictest(fits)) + "."
	case x.decision.Allowed:
		return fmt.Sprintf("%s fit now, and up to %s would.", x.units(x.decision.Cost), thousands(fits))
	}
	return fmt.Sprintf("%s are refused now: %s. %s.", x.units(x.decision.Cost), x.left(x.inTheWay()), most)
}

// left says how many units limits and grants have left.
func (x *explanation) left(limits []headroom.LimitState) string {
	var items []string
	for _, l := range limits {
		items = append(items, fmt.Sprintf("limit %s has %s left", l.Name, thousands(l.Remaining)))
	}
	if x.decision.Granted > 0 {
		items = append(items, fmt.Sprintf("grants have %s", thousands(x.decision.Granted)))
	}
	return list(items)
}

// comingBack says when the cost fits. If no cost was given, it says when anything fits. It is "" if
// that is now.
func (x *explanation) comingBack() string {
	they := "They fit"
	if !x.asked {
		they = "Something fits"
	}
	switch {
	case x.again.IsZero() && (x.decision.Allowed || !x.asked):
		return ""
	case x.again.IsZero():
		for _, l := range x.inTheWay() {
			if x.decision.Reason == headroom.ReasonNeverFits && x.decision.Cost > saturate.Add(l.Limit, x.decision.Granted) {
				return fmt.Sprintf("%s at no time under this plan: limit %s allows %s in a whole window.",
					they, l.Name, thousands(l.Limit))
			}
		}
		return fmt.Sprintf("%s at no time that can be told yet.", they)
	}
	var when []string
	zone := time.UTC
	if len(x.turns) > 0 {
		when = append(when, "limit "+list(x.turns)+" starts again")
		zone = x.periods[x.turns[0]].Location()
	}
	switch {
	case x.holds == 1:
		when = append(when, "a hold ends")
	case x.holds > 1:
		when = append(when, thousands(x.holds)+" holds end")
	}
	unless := "nothing else is spent until then"
	if holds := holdsJSON(x.usage); len(holds) > 0 && !holds[0].Expires.After(x.again) {
		unless = "no hold is settled or extended and " + unless
	}
	return fmt.Sprintf("%s from %s on, in %s, when %s, if %s.", they, inZone(x.again, zone), span(x.again.Sub(x.now)), list(when), unless)
}

// limit says how much of a limit is used, how much remains, and when its window ends.
func (x *explanation) limit(l headroom.LimitState) string {
	p := x.periods[l.Name]
	text := fmt.Sprintf("Limit %s%s: %s in %s. It starts again %s, in %s.", l.Name, inMode(l.Mode),
		counts(l.Used, l.Held, l.Limit, l.Remaining), l.Window.Key, inZone(l.Window.End, p.Location()), span(l.Window.End.Sub(x.now)))
	if carried := x.carried(l); carried > 0 {
		text += fmt.Sprintf(" Of the %s, %s were left over by the window before.", thousands(l.Limit), thousands(carried))
	}
	past := saturate.Add(l.Used, l.Held) - l.Limit
	if x.asked && l.Over {
		past = saturate.Add(past, x.decision.Cost)
	}
	switch {
	case l.Mode == headroom.Hard && l.Used > l.Limit:
		text += fmt.Sprintf(" It is over by %s: work that was done was recorded past it, or the limit was higher before.",
			thousands(l.Used-l.Limit))
	case l.Mode != headroom.Hard && past > 0 && l.Over:
		text += fmt.Sprintf(" The cost would take it %s past the limit; a %s limit refuses nothing.", thousands(past), l.Mode)
	case l.Mode != headroom.Hard && past > 0:
		text += fmt.Sprintf(" It is over by %s; a %s limit refuses nothing.", thousands(past), l.Mode)
	}
	return text
}

func (x *explanation) printHolds(w *bufio.Writer) {
	holds := x.usage.Holds
	if len(holds) == 0 {
		return
	}
	fmt.Fprintf(w, "\nHeld for work that is under way, until it is settled or released, or the hold ends:\n")
	var rows [][]string
	for _, h := range holds[:min(len(holds), shownHolds)] {
		note := ""
		switch here := x.counts(h); {
		case here == 0 && h.Units() > 0:
			note = "counts in no current window"
		case here < h.Units():
			note = thousands(here) + " of it count in a current window"
		}
		by := "1 hold"
		if h.Holds != 1 {
			by = thousands(h.Holds) + " holds"
		}
		until := "until " + instant(h.Expires) + ", in " + span(h.Expires.Sub(x.now))
		rows = append(rows, []string{"  " + by, x.units(h.Units()), until, note})
	}
	table(w, "lrll", rows)
	if more := len(holds) - shownHolds; more > 0 {
		fmt.Fprintf(w, "  and others with %d later ends\n", more)
	}
}

func (x *explanation) printGrants(w *bufio.Writer) {
	grants := grantsJSON(x.usage)
	if len(grants) == 0 {
		return
	}
	fmt.Fprintf(w, "\nGranted on top of the plan, and spent when the plan's own units are used up:\n")
	var rows [][]string
	for _, g := range grants {
		left := fmt.Sprintf("%s of %s left", thousands(g.Units-g.Used), thousands(g.Units))
		rows = append(rows, []string{"  " + printable(g.ID), left, "until " + instant(g.Expires)})
	}
	table(w, "lrl", rows)
}

// units formats a number of units, with the name of the meter.
func (x *explanation) units(n int64) string { return thousands(n) + " " + printable(x.meter) }

// each says how often a period comes: "a week", "every 2 weeks from 2026-01-05".
func each(p headroom.Period) string {
	text := p.String()
	switch {
	case strings.HasPrefix(text, "every "):
		return text
	case strings.HasPrefix(text, "hour"):
		return "an " + text
	}
	return "a " + text
}

// inZone formats an instant in a time zone, and in UTC too if that is another zone.
func inZone(t time.Time, zone *time.Location) string {
	if zone == time.UTC {
		return instant(t.UTC())
	}
	return fmt.Sprintf("%s (%s)", instant(t.In(zone)), instant(t.UTC()))
}

// list joins the items of a sentence: "a, b and c".
func list(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}
