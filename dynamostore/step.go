package dynamostore

import (
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// form is how a counter stands in an item.
type form byte

const (
	formAbsent  form = iota // it stands in no window
	formOurs                // it stands in the window that Headroom knows
	formTurned              // a writer that knows only window and count has begun another window
	formForeign             // such a writer has begun a window, and Headroom knows none
)

// form names the form of a counter that a step is about.
func (l layout) form(meter string, step headroom.Step, seen item) form {
	turn, turned := seen.turned[step.Limit]
	main := l.counter(meter, step.Limit).window != ""
	switch {
	case step.From.IsZero():
		return formAbsent
	case main && (!seen.formatted || turned && turn.known.IsZero()):
		return formForeign
	case turned:
		return formTurned
	}
	return formOurs
}

// stepWrite writes one step of a change for an item as it was seen.
type stepWrite struct {
	*expression
	headroom.Step
	names counterNames
	form  form
	seen  item
	moves bool // the counter stands in another window after the step
	marks bool // corrected totals have a version, as they do from format 2 on
}

func (l layout) buildStep(e *expression, meter string, step headroom.Step, seen item) {
	w := stepWrite{
		expression: e, Step: step, names: l.counter(meter, step.Limit), form: l.form(meter, step, seen), seen: seen,
		moves: step.From.IsZero() || !step.To.Start.Equal(step.From.Start) || !step.To.End.Equal(step.From.End),
		marks: l.writes(seen) != formatOne,
	}
	w.guardWindow()
	w.guardCount()
	w.guardTotals()
	w.writeWindow()
	w.writeCount()
	w.writeTotals()
}

// main reports whether the counter is the one that other writers know.
func (w stepWrite) main() bool { return w.names.window != "" }

// total returns the path of what the history keeps of a window under a kind of key.
func (w stepWrite) total(kind string, start time.Time) string {
	return w.name(w.names.past, pastKey{kind, start}.String())
}

// guardWindow guards that the counter stands in the window that the step starts from, and that the
// window may use beside its own units what the step assumes.
func (w stepWrite) guardWindow() {
	span := w.name(w.names.span)
	switch {
	case w.form == formAbsent && w.main():
		window := w.name(w.names.window)
		w.require("(attribute_not_exists(" + window + ") OR " + window + " = " + w.value(str("")) + ")")
	case w.form == formAbsent || w.form == formForeign:
		w.absent(span)
	case w.form == formTurned:
		w.equal(span, str(spanText(w.seen.turned[w.Limit].known)))
	default:
		w.equal(span, str(spanText(w.From)))
	}
	if w.form != formAbsent && w.main() {
		w.equal(w.name(w.names.window), str(w.From.Key))
	}
	switch carried := w.name(w.names.carried); {
	case w.moves || w.Corrects():
	case w.Carried != 0:
		w.equal(carried, num(w.Carried))
	default:
		w.absent(carried)
	}
}

// guardCount guards that the count is where the step needs it.
func (w stepWrite) guardCount() {
	count := w.name(w.names.count)
	anywhere := (w.Opens || w.Corrects()) && w.Min <= 0 && w.Max == math.MaxInt64
	switch {
	case w.seen.uncounted[w.Limit]:
		w.absent(count)
	case w.form != formAbsent && !anywhere:
		w.require(count + " BETWEEN " + w.value(num(w.Min)) + " AND " + w.value(num(w.Max)))
	}
}

// guardTotals guards that the history has what the step takes back or corrects.
func (w stepWrite) guardTotals() {
	if w.Opens && w.form != formAbsent {
		w.isMap(w.name(w.names.past))
	}
	for _, t := range w.Fold {
		if w.seen.holdsTotal(w.Limit, t.Start) {
			w.equal(w.total("", t.Start), num(t.Units))
		}
	}
	fromLedger := false
	for _, t := range w.Past {
		if w.main() { // the windows of others are turned by nobody who keeps no totals
			w.absent(w.total(unknownPast, t.Start))
		}
		if w.seen.holdsTotal(w.Limit, t.Start) {
			w.require(w.total("", t.Start) + " >= " + w.value(num(max(1, -t.Units)))) // 0 is no total
		} else {
			w.absent(w.total("", t.Start))
			fromLedger = true
		}
	}
	if fromLedger {
		// Since the look at the ledger no total has moved there.
		w.equal(w.name(w.names.past, morePast), num(w.seen.past[w.Limit].moved))
	}
}

func (w stepWrite) writeWindow() {
	if w.form == formTurned {
		for _, start := range w.seen.turned[w.Limit].lost {
			w.set(w.total(unknownPast, start), &types.AttributeValueMemberBOOL{Value: true})
		}
	}
	if w.moves || w.form == formTurned || w.form == formForeign {
		w.set(w.name(w.names.span), str(spanText(w.To)))
	}
	if !w.moves {
		return
	}
	if w.main() {
		w.set(w.name(w.names.window), str(w.To.Key))
	}
	if carried := w.name(w.names.carried); w.Carried != 0 {
		w.set(carried, num(w.Carried))
	} else {
		w.remove(carried)
	}
}

// writeCount writes the count, and the map of totals where it is not there yet.
func (w stepWrite) writeCount() {
	count, past := w.name(w.names.count), w.name(w.names.past)
	none := &types.AttributeValueMemberM{}
	switch {
	case w.form == formAbsent:
		w.setTo(past, "if_not_exists("+past+", "+w.value(none)+")")
	case w.Opens:
		w.setTo(w.total("", w.From.Start), "if_not_exists("+count+", "+w.value(num(0))+")")
	case w.form == formForeign:
		w.set(past, none)
	}
	add := w.Add
	for _, t := range w.Fold {
		add += t.Units
	}
	switch {
	case w.form == formAbsent || w.Opens || w.seen.uncounted[w.Limit]:
		w.set(count, num(add))
	case add != 0:
		w.add(count, add)
	}
}

// writeTotals takes totals back, and corrects others. One that lies in the ledger comes back into
// the item, as a later version.
func (w stepWrite) writeTotals() {
	for _, t := range w.Fold {
		if w.seen.holdsTotal(w.Limit, t.Start) {
			w.remove(w.total("", t.Start))
		}
	}
	for _, t := range w.Past {
		at, corrected := w.total("", t.Start), w.total(versionPast, t.Start)
		inItem := w.seen.holdsTotal(w.Limit, t.Start)
		switch {
		case !w.marks:
			w.set(w.total(oncePast, t.Start), &types.AttributeValueMemberBOOL{Value: true})
		case inItem:
			w.setTo(corrected, "if_not_exists("+corrected+", "+w.value(num(0))+") + "+w.value(num(1)))
		default:
			w.set(corrected, num(w.seen.movedPast[w.Limit][t.Start.Unix()]+1))
		}
		if inItem {
			w.setTo(at, at+" + "+w.value(num(t.Units)))
			continue
		}
		all := w.seen.state.Counters[w.Limit].Past
		if i := slices.IndexFunc(all, func(p headroom.Total) bool { return p.Start.Equal(t.Start) }); i >= 0 {
			w.set(at, num(all[i].Units+t.Units))
		}
	}
}

// holdsTotal reports whether the item itself, rather than the ledger, holds a total. Of an item
// that was not seen yet this is assumed.
func (it item) holdsTotal(limit string, start time.Time) bool {
	return it.past == nil || it.past[limit].attrs[pastKey{"", start}.String()] != nil
}
