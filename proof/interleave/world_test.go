package interleave

import (
	"fmt"
	"strings"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/memdynamo"
)

// world is what a checker goes through.
type world struct {
	name    string
	times   []time.Time // the engine's clock shows the first, and steps to the next at any moment
	catalog *headroom.Catalog
	horizon time.Duration // 0: the default
	clients []script
	before  []past // what has happened before the world begins
	// full is for ids that fill the item before that, by deductions of 1. They go on until ids have
	// moved to the ledger n times if it is 2n, or until just before that if it is 2n-1.
	full   int
	fullAt time.Time // when that was. Zero: the first of times
	faults int       // how many may happen in one schedule
	kinds  faults    // which
	// a window of the future is brought back: which window a record counts in is not as it says
	folds   bool
	totals  bool // operations ask about totals of closed windows in the ledger
	expires bool // time to live deletes rows of the ledger whose time is over, at any moment
	tight   bool // the item of "u" has as many bytes as an item may have
	earlier bool // what is before was written by the release before, in format 1
	format  int  // in which items are written. 0: the newest
	noOld   bool // the engine does not send the item along when a condition fails

	invariants invariants
	whole      bool   // its brief form has all operations
	two        bool   // its brief form has two clients
	large      bool   // too large for the race detector
	only       string // of violations only such as begin with this count
}

// past is an operation that was done, with nobody beside it, before a world begins.
type past struct {
	at time.Time
	op op
}

// script is what one client does.
type script struct {
	ops      []op
	skew     time.Duration // of the host's clock
	attempts int           // that the SDK makes of one request. 0: 1
}

// faults are kinds of them.
type faults uint8

const (
	mayLose     faults = 1 << iota // a request or an answer
	mayCrash                       // a process, which is begun anew and repeats its operation
	mayDelay                       // a request, beyond the connection that it came by
	mayConflict                    // with a transaction in progress
	mayLeave                       // rows of a batch
	mayGoBack                      // the Date of an answer, to the time before
)

// invariants of a world take the place of the usual ones, which hold for what Headroom writes. nil:
// the usual one. more is checked besides, at the end of a schedule.
type invariants struct {
	lacks   func(x *explorer, o op, tables int32, clock uint8) bool
	check   func(x *explorer, before, after int32, clock uint8) string
	decided func(x *explorer, o op, out outcome, s state, lacked bool) string
	ended   func(x *explorer, s state) string
	more    func(x *explorer, s state) string
	text    func(x *explorer, tables int32) string
}

// begin returns the tables from which a world begins.
func (w *world) begin() memdynamo.Tables {
	t := memdynamo.New(map[string][]string{"users": {"userId"}, ledger: {"key", "row"}})
	if w.full > 0 {
		at := w.fullAt
		if at.IsZero() {
			at = w.times[0]
		}
		for i, moves := 0, 0; 2*moves < w.full; i++ {
			after := w.after(t, past{at, op{verb: "deduct", id: fill(i), cost: 1}})
			if len(after.Items(ledger)) > len(t.Items(ledger)) {
				moves++
			}
			if 2*moves > w.full {
				break
			}
			t = after
		}
	}
	for _, p := range w.before {
		t = w.after(t, p)
	}
	if w.tight {
		t = t.Limited(t.Size("users", "u"))
	}
	return t
}

// fill is the id that fills an item in the place of i.
func fill(i int) string { return fmt.Sprintf("fill-the-item-%02d", i) }

// after returns the tables after something has happened.
func (w *world) after(t memdynamo.Tables, p past) memdynamo.Tables {
	one := *w
	one.clients, one.times, one.faults, one.folds, one.before, one.fullAt = []script{{ops: []op{p.op}}}, []time.Time{p.at}, 0, true, nil, time.Time{}
	if w.earlier {
		one.format = 1
	}
	one.invariants.ended, one.invariants.more = func(*explorer, state) string { return "" }, nil
	x := newExplorer(&one)
	if v := x.explore(t); v != nil {
		panic(fmt.Sprintf("world %q: before it begins: %s", w.name, v))
	}
	return x.values[x.states[len(x.states)-1].tables]
}

// asksAbout reports whether a row is of an id that an operation of the world names.
func (w *world) asksAbout(row string) bool {
	for _, s := range w.clients {
		for _, o := range s.ops {
			for _, id := range []string{o.id, o.of} {
				// and NUL before a version
				if id != "" && (strings.Contains(row, `"op#`+id+`"`) || strings.Contains(row, `"op#`+id+`\`)) {
					return true
				}
			}
		}
	}
	return w.totals && strings.Contains(row, `"past#`)
}
