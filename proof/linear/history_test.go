package linear_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lumcast/headroom"
)

const (
	meter  = "slots"
	turned = turn + 10 // what the clock shows after the turn of the week
	brief  = turn + 5  // a hold or grant that lasts so long from the beginning ends with the turn

	// fillers are ids that take the room of those of a history. On DynamoDB they do not all fit
	// into the item.
	fillers = 24
)

// monday is when the first week turns.
var monday = time.Date(2031, time.June, 2, 0, 0, 0, 0, time.UTC)

// op is a call of a history, and what became of it.
type op struct {
	client int
	ask    ask
	fault  fault

	call, back   int64 // by the batch's count of events
	began, ended int32 // what the clock showed then
	reply        reply
	err          error
	trace        trace
}

// fault is what happens to a call.
type fault struct {
	kind  trouble
	after int32 // so many of its requests
}

type trouble string

const (
	none     trouble = ""
	drop     trouble = "the request is lost"
	lose     trouble = "the answer is lost"
	leave    trouble = "the caller gives up, and the request goes on"
	cancel   trouble = "the caller gives up after the answer"
	deadline trouble = "a deadline"
)

// trace is what was seen of a call's requests to the store.
type trace struct {
	fault
	cancel   context.CancelFunc
	requests atomic.Int32
	lost     atomic.Int32 // writes that were passed on and had no answer
	late     atomic.Bool  // they may take effect after the call
}

type traceKey struct{}

// traced returns the trace of the call to which a request belongs, or nil.
func traced(ctx context.Context) *trace {
	t, _ := ctx.Value(traceKey{}).(*trace)
	return t
}

// strikes reports whether the fault hits the next request.
func (t *trace) strikes() bool {
	return t != nil && t.requests.Add(1)-1 == t.after && t.kind != none && t.kind != deadline
}

// struck reports whether the fault can have hit a request.
func (t *trace) struck() bool {
	return t.kind == deadline || t.kind != none && t.requests.Load() > t.after
}

// history is what is asked of one subject.
type history struct {
	number  uint64
	subject string
	clients int
	full    bool // there are fillers
	ops     []*op
	failed  error // an error of the fillers, after which nothing was asked
}

// world is a store as the histories see it. It has one clock, and an engine for each process.
type world struct {
	name    string
	seed    uint64
	clock   atomic.Int64 // Unix seconds
	engines []*headroom.Engine
	idle    func() // waits until no request is under way that nobody waits for
	clients int    // at most; at least 3, unless this is less
	calls   int    // of each client at most
	atOnce  int    // histories at the same time
	calm    bool   // no faults
}

func (w *world) now() time.Time { return time.Unix(w.clock.Load(), 0).UTC() }

// batch is a number of histories that happen at the same time, and share the turn of the week.
type batch struct {
	*world
	start  int64 // Unix seconds
	events atomic.Int64
	turnAt int64 // the event at which the week turns; 0: it does not
	turned sync.Once
	turn   [2]atomic.Int64 // the events between which it did
	ended  int32
}

// plan draws a history from the seed.
func (w *world) plan(number uint64) *history {
	r := rand.New(rand.NewPCG(w.seed, number))
	h := &history{number: number, subject: fmt.Sprintf("%s/%x/%d", w.name, w.seed, number), clients: min(3, w.clients)}
	h.clients += r.IntN(w.clients - h.clients + 1)
	h.full = r.IntN(20) == 0
	costs := make([]int64, len(ids))
	for i := range costs {
		costs[i] = 1 + r.Int64N(6)
	}
	for c := range h.clients {
		for range w.calls/2 + r.IntN(w.calls-w.calls/2+1) {
			o := &op{client: c, ask: draws(r, costs)}
			if !w.calm && r.IntN(6) == 0 {
				o.fault = fault{[]trouble{drop, lose, lose, leave, cancel, deadline}[r.IntN(6)], int32(r.IntN(3))}
			}
			h.ops = append(h.ops, o)
		}
	}
	return h
}

// draws draws a request.
func draws(r *rand.Rand, costs []int64) ask {
	verbs := []verb{
		deduct, deduct, deduct, deduct, deduct, hold, hold, hold, settle, settle, settle, release, release, refund,
		grant, setPlan, usage, usage,
	}
	a := ask{verb: verbs[r.IntN(len(verbs))], id: r.IntN(operations)}
	switch odd := r.IntN(25) == 0; {
	case odd:
		a.id = r.IntN(len(ids)) // which may be that of something else
	case a.verb == deduct: // the ids of deductions and of holds are not all the same
		a.id = r.IntN(operations - 1)
	case a.verb == hold || a.verb == settle || a.verb == release:
		a.id = 1 + r.IntN(operations-1)
	case a.verb == refund:
		a.id = operations + r.IntN(firstGrant-operations)
	case a.verb == grant:
		a.id = firstGrant + r.IntN(len(ids)-firstGrant)
	}
	a.units = costs[a.id]
	switch {
	case r.IntN(20) == 0:
		a.units = []int64{0, 7, 13, 21}[r.IntN(4)]
	case a.verb == settle:
		a.units = max(0, a.units-2+r.Int64N(5))
	}
	a.lasts = []int32{brief, 3600}[r.IntN(2)]
	switch a.verb {
	case deduct, settle:
		a.record = r.IntN(6) == 0
	case refund:
		for a.of = r.IntN(operations); a.of == a.id; a.of = r.IntN(operations) {
		}
		a.units = r.Int64N(5)
	case grant:
		a.units = max(1, a.units)
	case setPlan:
		a.plan = []string{"", "free", "pro", "pro"}[r.IntN(4)]
	case release, usage:
		a.units = 0
	}
	return a
}

// run plays the histories. No other batch has them.
func (b *batch) run(histories []*history) {
	b.clock.Store(b.start)
	var all sync.WaitGroup
	for _, h := range histories {
		all.Go(func() { b.play(h) })
	}
	all.Wait()
	b.idle()
	b.ended = b.offset()
}

func (b *batch) offset() int32 { return int32(b.clock.Load() - b.start) }

func (b *batch) play(h *history) {
	if h.full {
		for i := range fillers {
			r := headroom.Request{Subject: h.subject, Meter: meter, Operation: fmt.Sprint("filler ", i), Now: time.Unix(b.start, 0)}
			if _, err := b.engines[0].Deduct(context.Background(), r); err != nil {
				h.failed = fmt.Errorf("a filler: %w", err)
				return
			}
		}
	}
	var all sync.WaitGroup
	for client := range h.clients {
		all.Go(func() {
			for _, o := range h.ops {
				if o.client == client {
					b.do(h, o)
				}
			}
		})
	}
	all.Wait()
}

// event counts an event, and turns the week when it is time.
func (b *batch) event() int64 {
	n := b.events.Add(1)
	if b.turnAt != 0 && n >= b.turnAt {
		b.turned.Do(func() {
			b.turn[0].Store(b.events.Add(1))
			b.clock.Store(b.start + int64(turned))
			b.turn[1].Store(b.events.Add(1))
		})
	}
	return b.events.Add(1)
}

func (b *batch) do(h *history, o *op) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if o.fault.kind == deadline {
		ctx, stop = context.WithTimeout(ctx, time.Duration(o.fault.after)*time.Millisecond)
		defer stop()
	}
	o.trace.fault, o.trace.cancel = o.fault, stop
	ctx = context.WithValue(ctx, traceKey{}, &o.trace)
	o.began = b.offset()
	o.call = b.event()
	o.reply, o.err = send(ctx, b.engines[(o.client+int(h.number))%len(b.engines)], h.subject, o.ask, b.start)
	o.back = b.events.Add(1)
	o.ended = b.offset()
}

// send makes a call. The reply counts weeks from the one that ends at the turn after start.
func send(ctx context.Context, e *headroom.Engine, subject string, a ask, start int64) (reply, error) {
	r := headroom.Request{Subject: subject, Meter: meter, Operation: ids[a.id], Cost: a.units}
	if a.record {
		r.Over = headroom.RecordOverLimit
	}
	lasts := time.Duration(a.lasts) * time.Second
	week := func(w headroom.Window) int8 { return weekOf(int32(w.Start.Unix() - start)) }
	var d headroom.Decision
	var err error
	switch a.verb {
	case deduct:
		d, err = e.Deduct(ctx, r)
	case hold:
		d, err = e.Hold(ctx, r, lasts)
	case settle:
		d, err = e.Settle(ctx, r)
	case release:
		d, err = e.Release(ctx, r.Held())
	case refund:
		d, err = e.Refund(ctx, headroom.RefundRequest{Subject: subject, Meter: meter, Operation: ids[a.of], ID: ids[a.id], Units: a.units})
	case grant:
		d, err = e.Grant(ctx, headroom.GrantRequest{Subject: subject, Meter: meter, ID: ids[a.id], Units: a.units, Lasts: lasts})
	case setPlan:
		return reply{}, e.SetPlan(ctx, subject, a.plan)
	case usage:
		var u headroom.Usage
		if u, err = e.Usage(ctx, headroom.UsageRequest{Subject: subject, Meter: meter}); err != nil {
			return reply{}, err
		}
		l := u.Limits[0]
		out := reply{
			allowed: true, plan: u.Plan, week: week(l.Window), used: l.Used, held: l.Held, limit: l.Limit,
			left: l.Remaining, granted: u.Granted,
		}
		for _, t := range l.History {
			out.past += t.Units
		}
		var grants, living []string
		for _, id := range slices.Sorted(maps.Keys(u.Grants)) {
			grants = append(grants, grantText(id, u.Grants[id].Units, u.Grants[id].Used))
		}
		for _, h := range u.Holds {
			living = append(living, heldText(h.Holds, h.Units()))
		}
		slices.SortFunc(grants, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
		out.grants, out.living = strings.Join(grants, ", "), strings.Join(living, ", ")
		return out, nil
	}
	if err != nil {
		return reply{}, err
	}
	return reply{
		allowed: d.Allowed, replay: d.Replay, reason: d.Reason, plan: d.Plan, week: week(d.Window), cost: d.Cost,
		used: d.Used, held: d.Held, limit: d.Limit, left: d.Remaining, granted: d.Granted,
	}, nil
}

// number returns the index of the id with which a text begins.
func number(text string) int {
	id, _, _ := strings.Cut(text, " ")
	return slices.Index(ids[:], id)
}

// input is a call as the checker sees it. Its output is a reply, or nil if there was no answer.
type input struct {
	ask
	clock []int32 // what the clock showed meanwhile
}

// decided are the codes of errors that are an answer.
var decided = []headroom.Code{headroom.Conflict, headroom.NotFound, headroom.Expired, headroom.Invalid}

// undecided are the codes of errors that say that nothing was decided.
var undecided = []headroom.Code{headroom.Unavailable, headroom.Throttled, headroom.Contended}

// code returns the code of the error in which a call ended, or an empty one.
func (o *op) code() headroom.Code {
	return headroom.CodeOf(o.err)
}

// observed returns the history for the checker, and how many of its calls have an ambiguous
// outcome. It is an error if a call ended in a way that cannot be.
func (b *batch) observed(h *history) (all []porcupine.Operation, ambiguous int, wrong error) {
	if h.failed != nil {
		return nil, 0, h.failed
	}
	ghosts := h.clients
	for _, o := range h.ops {
		ending, effects, err := o.ends()
		if err != nil {
			return nil, 0, err
		}
		if ending == skipped {
			continue
		}
		if ending == answered {
			r := o.reply
			if o.err != nil {
				r = failed(o.code())
			}
			all = append(all, porcupine.Operation{ClientId: o.client, Input: o.input(o.ended), Call: o.call, Output: r, Return: o.back})
		}
		if effects > 0 {
			ambiguous++
		}
		for range effects {
			g := porcupine.Operation{ClientId: ghosts, Input: o.input(o.ended), Call: o.call, Return: o.back}
			if o.trace.late.Load() {
				g.Input, g.Return = o.input(b.ended), b.events.Load()+1
			}
			all = append(all, g)
			ghosts++
		}
	}
	return all, ambiguous, nil
}

// ending is what a call tells the checker.
type ending int

const (
	answered ending = iota // it has an answer, which may be an error
	open                   // its outcome is unknown
	skipped                // nothing was decided
)

// ends says how a call ended, and how many effects it may have beside its answer. It is an error if
// the call cannot have ended so.
func (o *op) ends() (as ending, effects int, err error) {
	effects = int(o.trace.lost.Load())
	switch code := o.code(); {
	case o.err == nil:
	case code == "":
		return skipped, 0, fmt.Errorf("an error without a code: %w", o.err)
	case code == headroom.OutcomeUnknown:
		as, effects = open, max(1, effects)
		o.trace.late.Store(true)
	case slices.Contains(undecided, code) && !o.trace.struck():
		return skipped, 0, fmt.Errorf("nothing was decided, and no fault has struck: %w", o.err)
	case slices.Contains(undecided, code):
		return skipped, 0, nil
	case !slices.Contains(decided, code):
		return skipped, 0, fmt.Errorf("an error that nothing explains: %w", o.err)
	}
	switch o.ask.verb {
	case usage:
		effects = 0
	case setPlan:
	default:
		effects = min(1, effects) // an operation has one effect, however often it is sent
	}
	return as, effects, nil
}

// input returns what the checker sees of a call that ended at the given time.
func (o *op) input(ended int32) input {
	if o.began == ended {
		return input{o.ask, []int32{ended}}
	}
	return input{o.ask, []int32{o.began, ended}}
}

// model returns the model for the checker.
func (h *history) model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any {
			s := state{}
			if h.full {
				s.week = 1
			}
			return []any{s}
		},
		Step: func(from, in, out any) []any { return in.(input).reaches(from.(state), out) },
		DescribeOperation: func(in, out any) string {
			if out == nil {
				return in.(input).String() + " -> ?"
			}
			return fmt.Sprintf("%s -> %s", in.(input).ask, out)
		},
		DescribeState: func(s any) string { return s.(state).String() },
	}
	return m.ToModel()
}

// reaches returns the states in which s may be after the call, given its output. The clock may have
// turned between any two of its looks.
func (a input) reaches(s state, out any) (next []any) {
	reached := func(n state) {
		if !slices.Contains(next, any(n)) {
			next = append(next, n)
		}
	}
	if out == nil {
		reached(s) // the request never came there
	}
	for i, at := range a.clock {
		for _, swept := range a.clock[i:] {
			for _, shown := range a.clock[i:] {
				if n, r := s.take(a.ask, times{at, swept, shown}); out == nil || out == r {
					reached(n)
				}
			}
		}
	}
	return next
}

// checkTimeout is far longer than any check takes.
const checkTimeout = 2 * time.Minute

// judge says what is wrong with a history, and how many of its calls have an ambiguous outcome.
// wrong is empty if the history is linearizable.
func (b *batch) judge(h *history) (wrong string, ambiguous int) {
	all, ambiguous, err := b.observed(h)
	if err != nil {
		return err.Error(), ambiguous
	}
	switch porcupine.CheckOperationsTimeout(h.model(), all, checkTimeout) {
	case porcupine.Illegal:
		return "not linearizable", ambiguous
	case porcupine.Unknown:
		return fmt.Sprintf("not judged within %s", checkTimeout), ambiguous
	}
	return "", ambiguous
}

// page writes a page that shows a history, and returns its path.
func (b *batch) page(h *history) string {
	all, _, err := b.observed(h)
	if err != nil {
		return "no page"
	}
	model := h.model()
	_, info := porcupine.CheckOperationsVerbose(model, all, checkTimeout)
	f, err := os.CreateTemp("", "headroom-linear-*.html")
	if err == nil {
		err = errors.Join(porcupine.Visualize(model, info, f), f.Close())
	}
	if err != nil {
		return "no page: " + err.Error()
	}
	return f.Name()
}

// text shows a history, each call with the events at its beginning and end.
func (b *batch) text(h *history) string {
	var s strings.Builder
	fmt.Fprintf(&s, "store %s, history %d of HEADROOM_PROOF_SEED=%d, %d clients", b.name, h.number, b.seed, h.clients)
	if h.full {
		fmt.Fprintf(&s, ", after %d other ids", fillers)
	}
	if b.turn[1].Load() != 0 {
		fmt.Fprintf(&s, "\n  [%6d, %6d] the week turns", b.turn[0].Load(), b.turn[1].Load())
	}
	ops := slices.SortedFunc(slices.Values(h.ops), func(a, b *op) int { return cmp.Compare(a.call, b.call) })
	for _, o := range ops {
		fmt.Fprintf(&s, "\n  [%6d, %6d] client %d at %d: %s", o.call, o.back, o.client, o.began, o.ask)
		if o.fault.kind != none {
			fmt.Fprintf(&s, " {%s, %d}", o.fault.kind, o.fault.after)
		}
		if o.err != nil {
			fmt.Fprintf(&s, " -> %v", o.err)
		} else {
			fmt.Fprintf(&s, " -> %s", o.reply)
		}
		if n := o.trace.lost.Load(); n > 0 {
			fmt.Fprintf(&s, " (%d answers lost)", n)
		}
	}
	return s.String()
}
