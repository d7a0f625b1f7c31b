// Package report brings what a test of the proof did to the program that prints the table.
package report

import (
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"
)

// file is the environment variable that names the file for the rows. If it is set, the long
// versions of the tests run.
const file = "HEADROOM_PROOF"

// Long reports whether the long versions of the tests are asked for.
func Long() bool { return os.Getenv(file) != "" }

// Of returns few in an ordinary test and many in the proof.
func Of(few, many int) int {
	if Long() {
		return many
	}
	return few
}

// Row is a line of the table.
type Row struct {
	Part       string // "interleavings"
	Name       string // what was done, "a week's turn"
	Count      int64  // how many
	Unit       string // of what: "histories"
	Note       string // more figures, for a reader
	Violations int
	Took       time.Duration
}

// Progress is how far a long run has come.
type Progress struct {
	Name        string
	Done, Total int64
}

// Line is a line of the file. It has a row or a progress.
type Line struct {
	Row      *Row      `json:",omitempty"`
	Progress *Progress `json:",omitempty"`
}

// Add reports a row. If the test has failed, the row has at least one violation.
func Add(tb testing.TB, r Row) {
	tb.Helper()
	if tb.Failed() {
		r.Violations = max(r.Violations, 1)
	}
	tb.Logf("%s, %s: %d %s, %d violations, %s %s", r.Part, r.Name, r.Count, r.Unit, r.Violations,
		r.Took.Round(time.Millisecond), r.Note)
	if err := write(Line{Row: &r}); err != nil {
		tb.Error(err)
	}
}

var (
	mu   sync.Mutex
	last = map[string]time.Time{}
)

// Step reports how far a long run has come. It may be called often.
func Step(name string, done, total int64) {
	mu.Lock()
	defer mu.Unlock()
	if !Long() || done < total && time.Since(last[name]) < time.Second {
		return
	}
	last[name] = time.Now()
	_ = write(Line{Progress: &Progress{name, done, total}}) // progress does not matter
}

func write(l Line) error {
	name := os.Getenv(file)
	if name == "" {
		return nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n')) // one write: several processes may add lines
	if bad := f.Close(); err == nil {
		err = bad
	}
	return err
}
