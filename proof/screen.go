package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/lumcast/headroom/proof/report"
)

// screen writes a line to standard error for each thing that is done. On a terminal it shows below
// them what is under way.
type screen struct {
	mu   sync.Mutex
	live bool // a terminal
	bar  *progressbar.ProgressBar
	name string // of what the bar shows
}

func newScreen() *screen { return &screen{live: term.IsTerminal(int(os.Stderr.Fd()))} }

// begin notes what runs now.
func (s *screen) begin(args []string) { s.say("go test " + strings.Join(args, " ") + "\n") }

// say prints text above the bar.
func (s *screen) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.above(text)
}

func (s *screen) above(text string) {
	s.wipe()
	fmt.Fprint(os.Stderr, text)
}

// row shows a row that is done. The caller holds mu.
func (s *screen) row(r report.Row) {
	s.above(
		fmt.Sprintf("  %s, %s: %s %s, %d violations, %s. %s\n", r.Part, r.Name, grouped(r.Count), r.Unit,
			r.Violations, took(r.Took), r.Note),
	)
}

// progress shows how far a long run has come.
func (s *screen) progress(at report.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.show(at)
}

// show is like progress, for a caller that holds mu. A total of 0 means that it is not known.
func (s *screen) show(at report.Progress) {
	if !s.live {
		return
	}
	total := at.Total
	if total <= 0 {
		total, at.Total = -1, at.Done // a spinner that counts
	}
	if s.bar == nil || s.name != at.Name {
		s.wipe()
		s.name = at.Name
		s.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(os.Stderr),
			progressbar.OptionSetDescription(at.Name), progressbar.OptionShowCount(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	_ = s.bar.Set64(min(at.Done, at.Total)) // the bar does not matter
}

func (s *screen) wipe() {
	if s.bar != nil {
		_ = s.bar.Clear()
		s.bar = nil
	}
}

// clear removes the bar.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
}
