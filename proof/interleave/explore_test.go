package interleave

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/lumcast/headroom/internal/memdynamo"
)

// most is how many clients a world may have. It is also how many requests may be on their way while
// no client waits for them.
const most = 3

// state is all that the rest of a schedule depends on.
type state struct {
	tables int32
	node   [most]int32 // of each client: what it has been answered
	batch  [most]uint8 // rows of its pending BatchWriteItem that are written
	ghost  [most]uint8 // of each client: what was true since its operation began, for the invariants
	late   [2]int32    // requests on their way whose clients have given them up, sorted; 0: none
	clock  uint8       // index of the engine's time
	faults uint8       // that may still happen
	past   uint8       // bits of what has happened in this schedule, for the invariants
}

// Bits of state.ghost and state.past.
const (
	lacked  = 1 << iota // the units that the operation asks for were not there at some moment
	faulted             // a fault has happened
)

// step is what the scheduler chooses.
type step struct {
	client int8
	kind   stepKind
	arg    int32 // the rows of a batch that are written; the late request, or the deletion
}

type stepKind uint8

const (
	begins   stepKind = iota // the client looks at its clock and begins an operation
	answered                 // its request is done and answered
	row                      // a row of its batch is written
	lost                     // its request is lost, and the connection breaks
	unheard                  // its request is done, and the connection breaks before the answer
	delayed                  // the connection breaks, the request is still on its way
	arrives                  // a request on its way is done
	crash                    // the process ends before its request is done
	crashed                  // the process ends after it
	conflict                 // its request is refused for a transaction in progress
	partial                  // its batch is answered with rows left over
	// its request is done, and the Date of the answer is that of the time before
	behind
	deletes // time to live deletes a row of the ledger
	tick    // the engine's clock steps
)

// explorer goes through a world.
type explorer struct {
	*world
	mutate func(r request) request // what becomes of a request before it is done. Nil: nothing

	tables   interned[string]
	values   []memdynamo.Tables
	requests interned[string]
	parsed   []request
	answers  interned[answer]
	outcomes interned[string]    // of a client's operations so far,
	lists    map[int32][]outcome // and what they are
	nodes    []node
	kids     map[kid]int32
	begun    map[string]int32     // nodes at which an operation is about to begin
	done     map[doneKey][2]int32 // tables and answer
	books    map[int32]*books
	checked  map[checkKey]string
	probed   map[checkKey]string

	states []state
	seen   map[state]bool
	parent []int32
	how    []step
	steps  int64
	limit  int          // on the states. 0: none
	shown  atomic.Int64 // states so far, for whoever watches
}

type checkKey struct {
	before, after, arg int32
	clock              uint8
}

type doneKey struct {
	tables, request int32
	clock           uint8
}

type kid struct{ node, request, answer int32 }

// interned gives equal things one small number, from 1.
type interned[T comparable] struct {
	number map[T]int32
	of     []T
}

func (i *interned[T]) put(v T) (n int32, fresh bool) {
	if n, ok := i.number[v]; ok {
		return n, false
	}
	if i.number == nil {
		i.number, i.of = map[T]int32{}, make([]T, 1)
	}
	n = int32(len(i.of))
	i.number[v], i.of = n, append(i.of, v)
	return n, true
}

func newExplorer(w *world) *explorer {
	if w.catalog == nil {
		w.catalog = simple
	}
	return &explorer{
		world: w, nodes: make([]node, 1), values: make([]memdynamo.Tables, 1), parsed: make([]request, 1), kids: map[kid]int32{}, begun: map[string]int32{}, done: map[doneKey][2]int32{},
		books: map[int32]*books{}, checked: map[checkKey]string{}, probed: map[checkKey]string{}, seen: map[state]bool{}, lists: map[int32][]outcome{},
	}
}

func (x *explorer) table(t memdynamo.Tables) int32 {
	n, fresh := x.tables.put(t.Text())
	if fresh {
		x.values = append(x.values, t)
	}
	return n
}

func (x *explorer) request(r request) int32 {
	n, fresh := x.requests.put(r.op + " " + r.body)
	if fresh {
		x.parsed = append(x.parsed, r)
	}
	return n
}

// violation is a schedule that breaks an invariant.
type violation struct {
	what     string
	schedule []string
}

func (v *violation) String() string {
	s := v.what
	for i, line := range v.schedule {
		s += fmt.Sprintf("\n%3d. %s", i+1, line)
	}
	return s
}

// explore visits every state that can be reached from the tables.
func (x *explorer) explore(from memdynamo.Tables) *violation {
	s := state{tables: x.table(from), faults: uint8(x.faults)}
	for c := range x.clients {
		s.node[c] = x.process(c, 0, 0)
	}
	x.visit(s, -1, step{})
	var found *violation
	for at := 0; at < len(x.states) && found == nil; at++ {
		final := true
		x.expand(x.states[at], func(how step, to state, wrong string) {
			if final = false; found != nil {
				return
			}
			x.steps++
			x.visit(to, int32(at), how)
			if wrong != "" && strings.HasPrefix(wrong, x.only) {
				found = x.violation(wrong, at, how, to)
			}
		})
		if s := x.states[at]; found == nil && (final || x.idle(s)) {
			if wrong := x.ended(s); wrong != "" && strings.HasPrefix(wrong, x.only) {
				found = &violation{wrong, x.schedule(at)}
			}
		}
		x.shown.Store(int64(len(x.states)))
		if x.limit > 0 && len(x.states) > x.limit && found == nil {
			found = &violation{what: fmt.Sprintf("more than %d states", x.limit)}
		}
	}
	return found
}

func (x *explorer) visit(s state, parent int32, how step) {
	if x.seen[s] {
		return
	}
	x.seen[s] = true
	x.states, x.parent, x.how = append(x.states, s), append(x.parent, parent), append(x.how, how)
}

// idle reports whether every client has come to its end.
func (x *explorer) idle(s state) bool {
	for c := range x.clients {
		if x.nodes[s.node[c]].asks != nothing {
			return false
		}
	}
	return true
}

// expand tells emit all that can happen next, and what is wrong with it.
func (x *explorer) expand(s state, emit func(how step, to state, wrong string)) {
	for i, r := range s.late {
		if r == 0 {
			continue
		}
		to := s
		to.late[i] = 0
		slices.Sort(to.late[:])
		_, wrong := x.apply(&to, r)
		emit(step{-1, arrives, r}, to, wrong)
	}
	if x.idle(s) {
		return
	}
	if int(s.clock) < len(x.times)-1 {
		to := s
		to.clock++
		x.look(&to)
		emit(step{-1, tick, 0}, to, "")
	}
	for _, r := range x.overdue(s) {
		to := s
		to.tables, _ = x.does(s, r)
		emit(step{-1, deletes, r}, to, "")
	}
	for c := range x.clients {
		x.expandClient(s, c, emit)
	}
}

// overdue are requests that delete rows of the ledger, as time to live may do by now. They are for
// rows that an operation asks about. By then nothing may depend on the row.
func (x *explorer) overdue(s state) (all []int32) {
	if !x.expires {
		return nil
	}
	for _, row := range x.values[s.tables].Items(ledger) {
		if expires := num(row["expires"]); expires < x.times[s.clock].Unix() && x.asksAbout(text(str(row["row"]))) {
			key := map[string]any{"key": map[string]string{"S": str(row["key"])}, "row": map[string]string{"S": str(row["row"])}}
			deletion := map[string]any{"DeleteRequest": map[string]any{"Key": key}}
			all = append(all, x.request(request{op: "BatchWriteItem", body: text(map[string]any{"RequestItems": map[string]any{ledger: []any{deletion}}})}))
		}
	}
	return all
}

func (x *explorer) expandClient(s state, c int, emit func(how step, to state, wrong string)) {
	n := &x.nodes[s.node[c]]
	if n.asks == toBegin {
		wrong := x.tell(&s, c, 0, x.beginning(s.clock))
		if n = &x.nodes[s.node[c]]; n.asks != toSend || wrong != "" || int(s.clock) < len(x.times)-1 && x.clients[c].ops[n.op].guesses() {
			emit(step{int8(c), begins, 0}, s, wrong)
			return
		}
		// Where the clock stands still it does not matter when it is read.
	}
	if n.asks != toSend {
		return
	}
	at, r := s.node[c], n.request
	fault := func(kind stepKind, allowed faults, does bool, then func(to *state) string) {
		if s.faults == 0 || x.kinds&allowed == 0 {
			return
		}
		to, wrong := s, ""
		to.faults--
		to.past |= faulted
		if does {
			_, wrong = x.apply(&to, r)
		}
		if bad := then(&to); wrong == "" {
			wrong = bad
		}
		emit(step{int8(c), kind, 0}, to, wrong)
	}
	breaks := func(to *state) string { return x.tell(to, c, r, broken) }
	restarts := func(to *state) string {
		to.node[c], to.batch[c], to.ghost[c] = x.process(c, x.nodes[at].op, x.nodes[at].outcomes), 0, 0
		return ""
	}
	fault(lost, mayLose, false, breaks)
	fault(crash, mayCrash, false, restarts)
	fault(conflict, mayConflict, false, func(to *state) string { return x.tell(to, c, r, x.answer(s.clock, 400, transactionInProgress)) })
	if x.parsed[r].rows != nil {
		x.expandBatch(s, c, r, fault, emit)
		if s.batch[c] == 0 {
			late(fault, s, r, breaks)
		}
		return
	}
	to := s
	code, wrong := x.apply(&to, r)
	if bad := x.tell(&to, c, r, code); wrong == "" {
		wrong = bad
	}
	emit(step{int8(c), answered, 0}, to, wrong)
	fault(unheard, mayLose, true, breaks)
	fault(crashed, mayCrash, true, restarts)
	if s.clock > 0 {
		fault(behind, mayGoBack, true, func(to *state) string {
			if x.lacks(x.clients[c].ops[n.op], s.tables, s.clock-1) || x.lacks(x.clients[c].ops[n.op], to.tables, s.clock-1) {
				to.ghost[c] |= lacked // as far as it can know
			}
			a := x.answers.of[code]
			return x.tell(to, c, r, x.answer(s.clock-1, a.status, a.body))
		})
	}
	if x.parsed[r].writes {
		late(fault, s, r, breaks)
	}
}

// late breaks the connection of a write that is still on its way, if there is room for one more.
func late(fault func(stepKind, faults, bool, func(*state) string), s state, r int32, breaks func(*state) string) {
	if s.late[0] != 0 {
		return
	}
	fault(delayed, mayDelay, false, func(to *state) string {
		to.late[0] = r
		slices.Sort(to.late[:])
		return breaks(to)
	})
}

// expandBatch writes the rows of a batch one by one, in any order.
func (x *explorer) expandBatch(s state, c int, r int32, fault func(stepKind, faults, bool, func(*state) string), emit func(how step, to state, wrong string)) {
	groups := x.parsed[r].rows
	all := uint8(1)<<len(groups) - 1
	for i, g := range groups {
		bit := uint8(1) << i
		if s.batch[c]&bit != 0 {
			continue
		}
		to := s
		to.batch[c] |= bit
		code, wrong := x.apply(&to, g)
		if to.batch[c] == all {
			to.batch[c] = 0
			if bad := x.tell(&to, c, r, code); wrong == "" {
				wrong = bad
			}
		}
		emit(step{int8(c), row, g}, to, wrong)
	}
	if s.batch[c] != 0 {
		fault(partial, mayLeave, false, func(to *state) string {
			left := x.parsed[r].left(s.batch[c])
			to.batch[c] = 0
			return x.tell(to, c, r, x.answer(s.clock, 200, left))
		})
	}
}

// does returns the tables after a request and the answer to it.
func (x *explorer) does(s state, r int32) (tables, code int32) {
	before := s.tables
	got, ok := x.done[doneKey{before, r, s.clock}]
	if !ok {
		does := x.parsed[r]
		if x.mutate != nil {
			does = x.mutate(does)
		}
		if x.noOld {
			does.body = strings.Replace(does.body, `"ReturnValuesOnConditionCheckFailure":"ALL_OLD",`, "", 1)
		}
		after, status, body := x.values[before].Apply(does.op, []byte(does.body))
		if status != 200 && !conditionFailed(string(body)) && !(x.tight && strings.Contains(string(body), "Item size")) && x.mutate == nil {
			panic(fmt.Sprintf("the engine refuses\n%s\n%s", x.requests.of[r], body))
		}
		got = [2]int32{x.table(after), x.answer(s.clock, status, string(body))}
		x.done[doneKey{before, r, s.clock}] = got
	}
	return got[0], got[1]
}

// apply does a request and checks what it did.
func (x *explorer) apply(s *state, r int32) (code int32, wrong string) {
	before := s.tables
	if s.tables, code = x.does(*s, r); s.tables == before {
		return code, ""
	}
	x.look(s)
	key := checkKey{before, s.tables, 0, s.clock}
	wrong, ok := x.checked[key]
	if !ok {
		wrong = x.check(before, s.tables, s.clock)
		x.checked[key] = wrong
	}
	return code, wrong
}

func (x *explorer) answer(clock uint8, status int, body string) int32 {
	n, _ := x.answers.put(answer{clock: clock + 1, status: status, body: body})
	return n
}

// beginning is what a client is told that begins an operation.
func (x *explorer) beginning(clock uint8) int32 {
	n, _ := x.answers.put(answer{clock: clock + 1})
	return n
}

// look notes for each operation under way what is true now.
func (x *explorer) look(s *state) {
	for c := range x.clients {
		if n := &x.nodes[s.node[c]]; n.asks == toSend && s.ghost[c]&lacked == 0 && x.lacks(x.clients[c].ops[n.op], s.tables, s.clock) {
			s.ghost[c] |= lacked
		}
	}
}

// tell gives a client an answer, and checks the decision if its operation ends with it.
func (x *explorer) tell(s *state, c int, request, answer int32) (wrong string) {
	at := s.node[c]
	began := x.nodes[at].asks == toBegin
	to := x.kid(at, request, answer)
	s.node[c] = to
	if began {
		s.ghost[c] = 0
	}
	if began && x.lacks(x.clients[c].ops[x.nodes[at].op], s.tables, s.clock) {
		s.ghost[c] = lacked
	}
	if x.nodes[to].asks == toSend {
		return ""
	}
	if x.nodes[to].outcomes != x.nodes[at].outcomes {
		wrong = x.decided(c, x.nodes[at].op, x.nodes[to].last, *s)
	}
	s.ghost[c] = 0
	return wrong
}
