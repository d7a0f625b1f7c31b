package replay

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/saturate"
)

// Tally counts rows by what became of them. Rows is always the sum of Admitted, Refused, Replayed,
// Late and Errors.
type Tally struct {
	Rows     int64
	Admitted int64
	Refused  int64
	NeverFit int64 // of those refused: greater than the limit by themselves
	// charged before: by an earlier run, by an earlier row of the same id, or by a try of this row
	// whose answer was lost
	Replayed int64
	Late     int64 // of a window that had closed for the subject: counted, not charged
	Errors   int64 // bad rows, skipped

	Charged      int64 // units newly charged; Unlimited if the sum is beyond int64
	RefusedUnits int64 // units asked for in vain, the same way
}

// Summary is what a replay did.
type Summary struct {
	Tally
	Subjects []SubjectTally // the heaviest first: by units charged and refused together
	// Windows are the windows in which something was admitted or refused, in the order of their
	// starts. They belong to one limit: the hard one with the shortest windows. If no limit of the
	// meter is hard, it is the one with the shortest windows.
	Windows []WindowTally
}

// SubjectTally is the share of one subject in a Summary.
type SubjectTally struct {
	Subject string
	Tally
}

// WindowTally is the share of one window in a Summary.
type WindowTally struct {
	Window headroom.Window
	Tally
}

// ChargedWindows returns in how many windows something was charged.
func (s Summary) ChargedWindows() int {
	n := 0
	for _, w := range s.Windows {
		if w.Charged > 0 {
			n++
		}
	}
	return n
}

// Asked returns how many units were asked for, whether they were charged or refused.
func (t Tally) Asked() int64 { return saturate.Add(t.Charged, t.RefusedUnits) }

// count notes a decision.
func (t *Tally) count(d headroom.Decision) {
	t.Rows++
	switch {
	case d.Replay:
		t.Replayed++
	case d.Reason == headroom.ReasonClosed:
		t.Late++
	case d.Allowed:
		t.Admitted++
		t.Charged = saturate.Add(t.Charged, d.Cost)
	default:
		t.Refused++
		if d.Reason == headroom.ReasonNeverFits {
			t.NeverFit++
		}
		t.RefusedUnits = saturate.Add(t.RefusedUnits, d.Cost)
	}
}

// fail notes a bad row.
func (t *Tally) fail() {
	t.Rows++
	t.Errors++
}

func (t *Tally) merge(o Tally) {
	t.Rows += o.Rows
	t.Admitted += o.Admitted
	t.Refused += o.Refused
	t.NeverFit += o.NeverFit
	t.Replayed += o.Replayed
	t.Late += o.Late
	t.Errors += o.Errors
	t.Charged = saturate.Add(t.Charged, o.Charged)
	t.RefusedUnits = saturate.Add(t.RefusedUnits, o.RefusedUnits)
}

// tallies hold what one worker counts. No two workers share them.
type tallies struct {
	all      Tally
	subjects map[string]*Tally
	limits   map[string]*limitTallies
}

// limitTallies hold what is counted for each window of one limit.
type limitTallies struct {
	hard bool // it can refuse, under the plan of some subject
	// of its windows: one that begins late, since they were cut differently before, is shorter than
	// the others
	longest time.Duration
	windows map[time.Time]*WindowTally
}

func newTallies() *tallies {
	return &tallies{subjects: map[string]*Tally{}, limits: map[string]*limitTallies{}}
}

func (t *tallies) count(subject string, d headroom.Decision) {
	t.all.count(d)
	s, ok := t.subjects[subject]
	if !ok {
		s = &Tally{}
		t.subjects[subject] = s
	}
	s.count(d)
	if d.Replay || d.Reason == headroom.ReasonClosed {
		return // the limits are shown as they stand now, not when it was decided
	}
	// Subjects may be on different plans. So which limit to show is known only after all decisions.
	for _, state := range d.Limits {
		l := t.limit(state.Name)
		l.hard = l.hard || state.Mode == headroom.Hard && state.Limit != headroom.Unlimited
		l.longest = max(l.longest, state.Window.End.Sub(state.Window.Start))
		l.window(state.Window).count(d)
	}
}

func (t *tallies) limit(name string) *limitTallies {
	l, ok := t.limits[name]
	if !ok {
		l = &limitTallies{windows: map[time.Time]*WindowTally{}}
		t.limits[name] = l
	}
	return l
}

func (l *limitTallies) window(w headroom.Window) *WindowTally {
	have, ok := l.windows[w.Start]
	if !ok {
		have = &WindowTally{Window: w}
		l.windows[w.Start] = have
	}
	return have
}

// merge adds what another worker counted for the same limit.
func (l *limitTallies) merge(o *limitTallies) {
	l.hard = l.hard || o.hard
	l.longest = max(l.longest, o.longest)
	for _, w := range o.windows {
		l.window(w.Window).merge(w.Tally)
	}
}

// shown returns the windows of the limit that a summary shows, by start.
func (t *tallies) shown() (windows []WindowTally) {
	if len(t.limits) == 0 {
		return nil
	}
	rank := func(l *limitTallies) int {
		if l.hard {
			return 0
		}
		return 1
	}
	name := slices.MinFunc(slices.Collect(maps.Keys(t.limits)), func(a, b string) int {
		l, m := t.limits[a], t.limits[b]
		return cmp.Or(cmp.Compare(rank(l), rank(m)), cmp.Compare(l.longest, m.longest), strings.Compare(a, b))
	})
	for _, w := range t.limits[name].windows {
		windows = append(windows, *w)
	}
	slices.SortFunc(windows, func(a, b WindowTally) int { return a.Window.Start.Compare(b.Window.Start) })
	return windows
}

// sum adds up what the workers counted. A subject belongs to one worker, but a window to all of
// them.
func sum(parts []*tallies) Summary {
	var s Summary
	all := newTallies()
	for _, part := range parts {
		s.merge(part.all)
		for subject, t := range part.subjects {
			s.Subjects = append(s.Subjects, SubjectTally{Subject: subject, Tally: *t})
		}
		for name, l := range part.limits {
			all.limit(name).merge(l)
		}
	}
	slices.SortFunc(s.Subjects, func(a, b SubjectTally) int {
		return cmp.Or(cmp.Compare(b.Asked(), a.Asked()), strings.Compare(a.Subject, b.Subject))
	})
	s.Windows = all.shown()
	return s
}
