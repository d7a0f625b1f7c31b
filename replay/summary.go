package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/saturate"
)

// Tally counts rows by how they fell. Rows is always the sum of Admitted, Refused, Replayed, Late and Errors.
type Tally struct {
	Rows     int64
	Admitted int64
	Refused  int64
	NeverFit int64 // of those refused: greater than the limit by themselves
	Replayed int64 // charged before: by an earlier run, by an earlier row of the same id, or by a try of this row whose answer was lost
	Late     int64 // of a window that had closed for the subject: counted, not charged
	Errors   int64 // bad rows, skipped

	Charged      int64 // units newly charged; Unlimited if the sum is beyond int64
	RefusedUnits int64 // units asked for in vain, the same way
}

// Summary is what a replay did.
type Summary struct {
	Tally
	Subjects []SubjectTally // the heaviest first: by units charged and refused together
	Windows  []WindowTally  // those of the decisions, by start
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

// ChargedWindows is the number of windows in which something was charged.
func (s Summary) ChargedWindows() int {
	n := 0
	for _, w := range s.Windows {
		if w.Charged > 0 {
			n++
		}
	}
	return n
}

// Asked is the units that a row stood for, charged or in vain.
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

// tallies are what one worker counts. No two workers share one.
type tallies struct {
	all      Tally
	subjects map[string]*Tally
	windows  map[time.Time]*WindowTally
}

func newTallies() *tallies {
	return &tallies{subjects: map[string]*Tally{}, windows: map[time.Time]*WindowTally{}}
}

func (t *tallies) count(subject string, d headroom.Decision) {
	t.all.count(d)
	s, ok := t.subjects[subject]
	if !ok {
		s = &Tally{}
		t.subjects[subject] = s
	}
	s.count(d)
	if d.Window.IsZero() {
		return
	}
	w, ok := t.windows[d.Window.Start]
	if !ok {
		w = &WindowTally{Window: d.Window}
		t.windows[d.Window.Start] = w
	}
	w.count(d)
}

// sum joins what the workers counted. A subject belongs to one worker, a window to any.
func sum(parts []*tallies) Summary {
	var s Summary
	windows := map[time.Time]*WindowTally{}
	for _, part := range parts {
		s.merge(part.all)
		for subject, t := range part.subjects {
			s.Subjects = append(s.Subjects, SubjectTally{Subject: subject, Tally: *t})
		}
		for start, w := range part.windows {
			if have, ok := windows[start]; ok {
				have.merge(w.Tally)
			} else {
				windows[start] = w
			}
		}
	}
	slices.SortFunc(s.Subjects, func(a, b SubjectTally) int {
		return cmp.Or(cmp.Compare(b.Asked(), a.Asked()), strings.Compare(a.Subject, b.Subject))
	})
	for _, w := range windows {
		s.Windows = append(s.Windows, *w)
	}
	slices.SortFunc(s.Windows, func(a, b WindowTally) int { return a.Window.Start.Compare(b.Window.Start) })
	return s
}
