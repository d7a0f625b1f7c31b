package headroom

import (
	"fmt"
	"strconv"
	"time"
)

// Unmet checks the guard of c against v, whose Records are those of the ids in c. It returns the
// empty string if every condition is met, and then c may be applied. Else it says in one line which
// condition is not met, what was found and what is wanted:
//
//	count of "week" is 171, want 0 to 170
//
// If several are not met, it names the first. The line is for people: programs only ask whether it
// is empty.
func (c Change) Unmet(v View) string {
	for _, part := range []func(State, map[string]Record) string{
		c.unmetPlan, c.unmetRecord, c.unmetGrant, c.unmetDebt, c.unmetRoom, c.unmetBucket, c.unmetSeries, c.unmetStep,
	} {
		if unmet := part(v.State, v.Records); unmet != "" {
			return unmet
		}
	}
	return ""
}

func (c Change) unmetPlan(s State, _ map[string]Record) string {
	switch {
	case s.Plan != c.Plan && !(c.PlanOrNone && s.Plan == ""):
		want := strconv.Quote(c.Plan)
		if c.PlanOrNone {
			want += " or none"
		}
		return fmt.Sprintf("plan is %q, want %s", s.Plan, want)
	case !s.Epoch.Equal(c.Epoch):
		return fmt.Sprintf("label of the younger generation of ids is %s, want %s", stamp(s.Epoch), stamp(c.Epoch))
	}
	return ""
}

func (c Change) unmetRecord(s State, records map[string]Record) string {
	for _, r := range c.Records {
		have, there := records[r.ID]
		if r.Old {
			have, there = s.OldHolds[r.ID]
		}
		if unmet := unmetText("record", r.ID, textOf(have, there), textOf(at(r.Was))); unmet != "" {
			return unmet
		}
	}
	return ""
}

func (c Change) unmetDebt(s State, _ map[string]Record) string {
	for _, d := range c.Debts {
		have, there := s.Debts[d.ID]
		if unmet := unmetText("debt", d.ID, textOf(have, there), textOf(at(d.Was))); unmet != "" {
			return unmet
		}
	}
	return ""
}

func (c Change) unmetGrant(s State, _ map[string]Record) string {
	for _, g := range c.Grants {
		have, there := s.Grants[g.ID]
		was, wanted := at(g.Was)
		if unmet := unmetText("grant", g.ID, have.text(there), was.text(wanted)); unmet != "" {
			return unmet
		}
		if there && (have.Used < g.Min || have.Used > g.Max) {
			return fmt.Sprintf("use of grant %q is %d, want %s", g.ID, have.Used, between(g.Min, g.Max, g.Add))
		}
	}
	if before := c.grantsBefore(); c.AllGrants && len(s.Grants) != before {
		return fmt.Sprintf("there are %d grants, want %d", len(s.Grants), before)
	}
	return ""
}

func (c Change) unmetRoom(s State, _ map[string]Record) string {
	grants, debts := c.Grows()
	for _, room := range []struct {
		of               string
		have, more, most int
	}{{"grants", len(s.Grants), grants, MaxGrants}, {"debts", len(s.Debts), debts, MaxDebts}} {
		if room.more > 0 && room.have+room.more > room.most {
			return fmt.Sprintf("there are %d %s, want at most %d", room.have, room.of, room.most-room.more)
		}
	}
	return ""
}

func (c Change) unmetBucket(s State, _ map[string]Record) string {
	for _, b := range c.Buckets {
		at, there := bucketAt(s.Buckets, b.BucketKey)
		switch {
		case !b.There && !c.NewSeries && !s.Swept.Before(b.Expires):
			return fmt.Sprintf("%s may have been cleared away: buckets are swept up to %s", b.text(), stamp(s.Swept))
		case b.There && !there:
			return fmt.Sprintf("%s is not there", b.text())
		case b.There && (s.Buckets[at].Units < b.Min || s.Buckets[at].Units > b.Max):
			return fmt.Sprintf("%s has %d units, want %s", b.text(), s.Buckets[at].Units, between(b.Min, b.Max, b.Add))
		}
	}
	if holds := s.holds() + c.MoreHolds(); c.MostHolds != 0 && holds > c.MostHolds {
		return fmt.Sprintf("there would be %d holds, want at most %d", holds, c.MostHolds)
	}
	return ""
}

func (c Change) unmetSeries(s State, _ map[string]Record) string {
	switch {
	case c.GuardsSeries() && s.Series != c.Series:
		return fmt.Sprintf("series of buckets is %d, want %d", s.Series, c.Series)
	case !c.Sweep.IsZero() && !s.Swept.Equal(c.Swept):
		return fmt.Sprintf("buckets are swept up to %s, want %s", stamp(s.Swept), stamp(c.Swept))
	}
	return ""
}

func (c Change) unmetStep(s State, _ map[string]Record) string {
	for _, step := range c.Steps {
		if unmet := step.unmet(s.Counters[step.Limit]); unmet != "" {
			return unmet
		}
	}
	return ""
}

func (s Step) unmet(c Counter) string {
	if !c.Window.same(s.From) {
		return fmt.Sprintf("window of %q is %s, want %s", s.Limit, c.Window.text(), s.From.text())
	}
	if s.From.same(s.To) && !s.Corrects() && c.Carried != s.Carried {
		return fmt.Sprintf("window of %q carries over %d, want %d", s.Limit, c.Carried, s.Carried)
	}
	for _, f := range s.Fold {
		if t, ok := totalOf(c.Past, f.Start); !ok || t.Units != f.Units {
			return fmt.Sprintf("total of %q from %s is %s, want %d", s.Limit, stamp(f.Start), known(t, ok), f.Units)
		}
	}
	for _, p := range s.Past {
		if t, ok := totalOf(c.Past, p.Start); !ok || t.Units+p.Units < 0 {
			return fmt.Sprintf("total of %q from %s is %s, want at least %d", s.Limit, stamp(p.Start), known(t, ok), max(0, -p.Units))
		}
	}
	if !s.From.IsZero() && (c.Count < s.Min || c.Count > s.Max) {
		return fmt.Sprintf("count of %q is %d, want %s", s.Limit, c.Count, between(s.Min, s.Max, s.Add))
	}
	return ""
}

// text names the bucket for people: `bucket of limit "week" until ...`.
func (k BucketKey) text() string {
	of := "that counts holds"
	switch {
	case k.Limit != "":
		of = fmt.Sprintf("of limit %q from %s", k.Limit, stamp(k.Start))
	case k.Grant != "":
		of = fmt.Sprintf("of grant %q", k.Grant)
	}
	text := fmt.Sprintf("bucket %s until %s", of, stamp(k.Expires))
	if k.Series != 0 {
		text += fmt.Sprintf(" in series %d", k.Series)
	}
	return text
}

// unmetText says that what has an id is not what is wanted, if their texts differ.
func unmetText(what, id, is, want string) string {
	if is == want {
		return ""
	}
	return fmt.Sprintf("%s %q is %s, want %s", what, id, is, want)
}

// text is what a grant gives, however much of it is used, or "none".
func (g Grant) text(there bool) string {
	if !there {
		return "none"
	}
	return fmt.Sprintf("%d units until %s", g.Units, stamp(g.Expires))
}

// textOf is the text of a record or a debt, or "none".
func textOf[T fmt.Stringer](is T, there bool) string {
	if !there {
		return "none"
	}
	return is.String()
}

// at is what p points to, and whether it points to anything.
func at[T any](p *T) (is T, there bool) {
	if p != nil {
		is, there = *p, true
	}
	return is, there
}

// between writes the bounds of a count to which add is added.
func between(least, most, add int64) string {
	switch {
	case most < anyCount(add):
		return fmt.Sprintf("%d to %d", least, most)
	case least <= 0:
		return "any"
	}
	return fmt.Sprintf("at least %d", least)
}

func known(t Total, ok bool) string {
	if !ok {
		return "not known"
	}
	return strconv.FormatInt(t.Units, 10)
}

func (w Window) text() string {
	if w.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%s (%s to %s)", w.Key, stamp(w.Start), stamp(w.End))
}

// stamp writes a time as RFC 3339 does, in UTC, or "none".
func stamp(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
