package network_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/proof/report"
)

const (
	meter = "slots"

	// near and far are limits.
	near, far = 20, 1 << 40
	// lifetime is how many operations a subject near its limit gets. Another gets three times as
	// many, so that its ids move to the ledger table.
	lifetime = 40
	// asksAgain is how often a caller asks until it leaves the outcome open.
	asksAgain = 4
	// lasts is how long holds last: longer than a run.
	lasts = 60 * 24 * time.Hour
	// length is that of a week.
	length = 7 * 24 * time.Hour
	// callers is how many ask at the same time.
	callers = 24
	// looks is how many operations there are for each look at an item.
	looks = 16
	// waits is the longest that the SDK waits before it sends a request again.
	waits = 500 * time.Microsecond
)

// monday is when the first week turns.
var monday = time.Date(2031, time.June, 2, 0, 0, 0, 0, time.UTC)

// run is one run under one fault or several, with two processes. The SDK of one sends a request up
// to three times, and that of the other once.
type run struct {
	*testing.T
	name    string
	seed    uint64
	many    int64
	late    bool // requests may have their effect after their caller had an answer
	proxy   *proxy
	raw     *dynamodb.Client // past the proxy
	table   string
	engines []*headroom.Engine
	clock   atomic.Int64 // Unix seconds

	begun                               atomic.Int64 // operations
	refusals, failures, open, overtaken atomic.Int64
	moved                               int // ids in the ledger table

	mu         sync.Mutex
	live       []*account
	all        []*account
	violations []string
}

func (n *run) now() time.Time { return time.Unix(n.clock.Load(), 0).UTC() }

func (n *run) week(t time.Time) int { return int(t.Sub(monday.Add(-length)) / length) }

func client(url string, attempts int) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(url), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return rand.N(waits), nil })
		}),
	})
}

var tables atomic.Int64

// quiet drops the warnings that ids could not be moved to the ledger table. Under these faults they
// are expected.
var quiet = slog.New(slog.DiscardHandler)

func newRun(t *testing.T, engine, name string, seed uint64, many int64, spoil func(headroom.Store) headroom.Store, faults ...fault) *run {
	t.Helper()
	n := &run{
		T: t, name: name, seed: seed, many: many, late: slices.ContainsFunc(faults, fault.late),
		table: fmt.Sprintf("network-%d", tables.Add(1)), live: make([]*account, report.Of(6, 12)),
	}
	n.clock.Store(monday.Add(-10 * time.Second).Unix())
	url := enginetest.Start(t, engine)
	n.raw = client(url, 3)
	n.proxy = &proxy{engine: url, faults: faults, seed: seed, clock: n.now}
	n.proxy.start(t)
	n.proxy.healthy.Store(true)
	limit := func(name string, units int64) headroom.Plan {
		return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: meter, Name: "week", Units: units}}}
	}
	catalog, err := headroom.NewCatalog("near", []headroom.Plan{limit("near", near), limit("far", far)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, attempts := range []int{3, 1} {
		store, err := dynamostore.New(client(n.proxy.url, attempts), dynamostore.Options{Table: n.table, Logger: quiet})
		if err == nil {
			err = store.CreateTables(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		engine, err := headroom.New(spoil(store), catalog, headroom.Options{Clock: n.now, Horizon: lasts})
		if err != nil {
			t.Fatal(err)
		}
		n.engines = append(n.engines, engine)
	}
	return n
}

// subject returns one of the live subjects, or a new one in the place of one that is used up.
func (n *run) subject(r *rand.Rand) *account {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := r.IntN(len(n.live))
	a := n.live[i]
	if a == nil || a.asked >= lifetime && (a.limit == near || a.asked >= 3*lifetime) {
		a = &account{name: fmt.Sprint("u", len(n.all)), plan: "near", limit: near}
		if len(n.all)%3 == 0 {
			a.plan, a.limit = "far", far
		}
		n.live[i], n.all = a, append(n.all, a)
	}
	a.asked++
	return a
}

// violated notes a violation.
func (n *run) violated(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.violations = append(n.violations, fmt.Sprintf(format, args...))
}

func (n *run) found() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.violations)
}

// wrong notes a violation about a work.
func (n *run) wrong(a *account, w *work, err error) {
	n.violated("subject %s, %s of %s, cost %d, estimate %d, first asked for in week %d: %v", a.name, w.verb, w.id,
		w.cost, w.was, w.since, err)
}

// ask asks for a work until it is answered, at most so often.
func (n *run) ask(ctx context.Context, e *headroom.Engine, a *account, w *work, times int) {
	for range times {
		s := a.asks(w, n.week(n.now()))
		d, err := n.call(ctx, e, a, w)
		a.ends(s)
		if n.fails(a, w, err) {
			continue
		}
		if err != nil {
			return
		}
		if err := a.judge(s, w, d, n.week); err != nil {
			n.wrong(a, w, err)
		}
		if !d.Allowed {
			n.refusals.Add(1)
		}
		a.learns(w, d, n.week(d.Window.Start), n.late)
		return
	}
	n.open.Add(1)
}

// fails reports whether a caller asks again after err. An error that nothing explains is a
// violation.
func (n *run) fails(a *account, w *work, err error) bool {
	switch {
	case err == nil:
		return false
	case headroom.CodeOf(err).Retryable():
		n.failures.Add(1)
		return true
	}
	n.wrong(a, w, err)
	return false
}

func (n *run) call(ctx context.Context, e *headroom.Engine, a *account, w *work) (headroom.Decision, error) {
	r := headroom.Request{Subject: a.name, Meter: meter, Operation: w.id, Cost: w.cost, Plan: a.plan}
	switch w.verb {
	case hold:
		return e.Hold(ctx, r, lasts)
	case settle:
		return e.Settle(ctx, r)
	case release:
		return e.Release(ctx, r.Held())
	}
	return e.Deduct(ctx, r)
}

// again asks once more for a work that was answered.
func (n *run) again(ctx context.Context, e *headroom.Engine, a *account, w *work) {
	a.mu.Lock()
	s := a.begin()
	a.mu.Unlock()
	d, err := n.call(ctx, e, a, w)
	a.ends(s)
	if n.fails(a, w, err) || err != nil {
		return
	}
	err = a.judge(s, w, d, n.week)
	if !d.Replay || !d.Allowed {
		err = fmt.Errorf("a repeat is answered with replay %t, %s", d.Replay, d.Reason)
	}
	if err != nil {
		n.wrong(a, w, err)
	}
}

// operate does one operation. After a hold it may settle or release it.
func (n *run) operate(ctx context.Context, r *rand.Rand, number int64) {
	e, a := n.engines[r.IntN(len(n.engines))], n.subject(r)
	if number%looks == 0 {
		n.look(ctx, a)
	}
	kind := r.IntN(10)
	if kind < 2 {
		if w := a.done(r); w != nil {
			n.again(ctx, e, a, w)
			return
		}
	}
	// An id of 16 bytes is the longest that the tables have as it is.
	w := &work{id: fmt.Sprintf("op-%013d", number), verb: deduct, cost: r.Int64N(7)}
	if kind >= 7 {
		w.verb = hold
	}
	a.mu.Lock()
	a.works = append(a.works, w)
	a.mu.Unlock()
	n.ask(ctx, e, a, w, asksAgain)
	if w.verb == deduct || w.state != charged || r.IntN(5) == 0 {
		return
	}
	n.begun.Add(1)
	a.mu.Lock()
	w.was = w.cost
	if w.verb = settle; r.IntN(3) == 0 {
		w.verb = release
	} else {
		w.cost = r.Int64N(9)
	}
	a.mu.Unlock()
	n.ask(ctx, n.engines[r.IntN(len(n.engines))], a, w, asksAgain)
}

// look reads an item as it is.
func (n *run) look(ctx context.Context, a *account) {
	a.mu.Lock()
	s := a.begin()
	a.mu.Unlock()
	out, err := n.raw.GetItem(
		ctx,
		&dynamodb.GetItemInput{
			TableName:      &n.table,
			Key:            map[string]types.AttributeValue{"userId": &types.AttributeValueMemberS{Value: a.name}},
			ConsistentRead: aws.Bool(true),
		},
	)
	a.ends(s)
	if err != nil {
		n.Error(err)
		return
	}
	if out.Item == nil {
		return // nothing was written yet, and nothing acknowledged: the first look at the end tells
	}
	i := itemOf(out.Item)
	if err := a.bounds(s, n.week(i.start), i.count); err != nil {
		n.violated("item of %s: %v", a.name, err)
	}
}

// play does the operations of the run.
func (n *run) play() {
	n.proxy.healthy.Store(false)
	ctx := context.Background()
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(n.seed, uint64(caller)))
			for {
				number := n.begun.Add(1)
				if number > n.many || n.found() > 0 {
					return
				}
				if turn := number * weeks / n.many; turn > (number-1)*weeks/n.many && turn < weeks {
					n.clock.Store(monday.Add(time.Duration(turn-1)*length + 5*time.Second).Unix())
				}
				n.operate(ctx, r, number)
				report.Step("faulty network, "+n.name, number, n.many)
			}
		})
	}
	all.Wait()
	n.proxy.heal()
}

// resolve asks once more, over a network that works, for all that has no answer.
func (n *run) resolve() {
	var all sync.WaitGroup
	slots := make(chan struct{}, callers)
	for _, a := range n.all {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for _, w := range a.works {
				if w.state == unknown {
					n.ask(context.Background(), n.engines[0], a, w, asksAgain)
				}
				if w.state == unknown {
					n.wrong(a, w, errors.New("no answer over a network that works"))
				}
			}
		})
	}
	all.Wait()
}

// audit reads the tables themselves, and compares them with the ledger.
func (n *run) audit() {
	tables := n.read()
	for _, a := range n.all {
		i := tables[a.name]
		n.addsUp(a, i)
		for _, w := range a.works {
			if err := n.compare(w, i.records[w.id]); err != nil {
				n.wrong(a, w, err)
			}
			delete(i.records, w.id)
		}
		for id, text := range i.records {
			n.violated("subject %s has the id %s, which nobody asked for: %s", a.name, id, text)
		}
	}
}

// addsUp compares what an item counts with the sum of its records, and with the bounds of the
// ledger.
func (n *run) addsUp(a *account, i item) {
	sums := map[int64]int64{}
	for id, text := range i.records {
		record, err := headroom.ParseRecord(text)
		if err != nil {
			n.violated("subject %s, id %s: %v", a.name, id, err)
		}
		for _, w := range record.Windows {
			sums[w.Start.Unix()] += w.Units
		}
	}
	counted := maps.Clone(i.past)
	if counted == nil {
		counted = map[int64]int64{}
	}
	if i.count != 0 {
		counted[i.start.Unix()] += i.count
	}
	none := func(_, units int64) bool { return units == 0 }
	maps.DeleteFunc(sums, none)
	maps.DeleteFunc(counted, none)
	if !maps.Equal(sums, counted) {
		n.violated("subject %s: its records add up to %v, and %v is counted", a.name, sums, counted)
	}
	for start, units := range counted {
		k := n.week(time.Unix(start, 0))
		if err := a.bounds(&span{a.lo, a.hi}, k, units); err != nil {
			n.violated("subject %s, week %d: %v", a.name, k, err)
		}
	}
}

// compare compares what is stored under an id with what is known about it.
func (n *run) compare(w *work, text string) error {
	record, _ := headroom.ParseRecord(text)
	is := func(kind headroom.Kind, cost int64) bool {
		return text != "" && record.Kind == kind && record.Cost == cost
	}
	kinds := map[verb]headroom.Kind{
		deduct: headroom.KindDeduct, hold: headroom.KindHold, settle: headroom.KindSettled,
		release: headroom.KindReleased,
	}
	cost := w.cost
	if w.verb == release {
		cost = w.was
	}
	switch {
	case w.state == charged && is(kinds[w.verb], cost),
		w.state == refused && w.verb != settle && text == "",
		w.state == refused && w.verb == settle && is(headroom.KindHold, w.was):
		return nil
	case w.state == refused && n.late && is(kinds[w.verb], cost):
		n.overtaken.Add(1)
		return nil
	}
	return fmt.Errorf("%s, and what is stored is %q", w.state, text)
}

// item is what is stored for a subject.
type item struct {
	start   time.Time // of the week
	count   int64
	past    map[int64]int64   // by the start of the week
	records map[string]string // by id, in the ledger too
}

func itemOf(attrs map[string]types.AttributeValue) item {
	i := item{past: map[int64]int64{}, records: map[string]string{}}
	number := func(v types.AttributeValue) int64 {
		if v, ok := v.(*types.AttributeValueMemberN); ok {
			n, _ := strconv.ParseInt(v.Value, 10, 64)
			return n
		}
		return 0
	}
	i.count = number(attrs["quotaCount"])
	if span, ok := attrs["quotaSpan"].(*types.AttributeValueMemberS); ok {
		start, _ := strconv.ParseInt(strings.Split(span.Value, "/")[1], 10, 64)
		i.start = time.Unix(start, 0)
	}
	for _, name := range []string{"quotaHolds", "quotaOps", "quotaOpsBefore"} {
		if m, ok := attrs[name].(*types.AttributeValueMemberM); ok {
			for id, text := range m.Value {
				// After the mark comes the version. An id that is there twice makes a text that
				// cannot be read.
				charge, _, _ := strings.Cut(text.(*types.AttributeValueMemberS).Value, " ~")
				i.records[id] += charge
			}
		}
	}
	if m, ok := attrs["quotaPast"].(*types.AttributeValueMemberM); ok {
		for key, v := range m.Value {
			if start, err := strconv.ParseInt(key, 10, 64); err == nil {
				i.past[start] = number(v)
			}
		}
	}
	return i
}

// read reads both tables.
func (n *run) read() map[string]item {
	type place struct{ subject, id string }
	items, versions := map[string]item{}, map[place]string{} // of what is from the ledger
	n.scan(n.table, func(row map[string]types.AttributeValue) {
		items[row["userId"].(*types.AttributeValueMemberS).Value] = itemOf(row)
	})
	n.scan(n.table+"-ledger", func(row map[string]types.AttributeValue) {
		subject := strings.TrimPrefix(row["key"].(*types.AttributeValueMemberS).Value, "5#"+meter)
		id, ok := strings.CutPrefix(row["row"].(*types.AttributeValueMemberS).Value, "op#")
		if !ok {
			return
		}
		n.moved++
		id, version, _ := strings.Cut(id, "\x00") // of one length, so that the later is the greater
		at := place{subject, id}
		if before, moved := versions[at]; items[subject].records[id] == "" || moved && version > before {
			items[subject].records[id], versions[at] = row["charge"].(*types.AttributeValueMemberS).Value, version
		}
	})
	return items
}

func (n *run) scan(table string, row func(map[string]types.AttributeValue)) {
	pages := dynamodb.NewScanPaginator(n.raw, &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.Background())
		if err != nil {
			n.Fatal(err)
		}
		for _, i := range page.Items {
			row(i)
		}
	}
}

// unspoilt returns the store without a fault.
func unspoilt(s headroom.Store) headroom.Store { return s }

// TestAFaultyNetwork: whatever the network does, nothing goes over the limit, is lost, is charged
// twice or is refused wrongly.
func TestAFaultyNetwork(t *testing.T) {
	seed := report.Seed(t)
	// The SDK and HTTP leave much garbage behind, and there is enough memory.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	test := func(engine string, few, many int, name string, faults ...fault) {
		t.Run(engine+"/"+name, func(t *testing.T) {
			began := time.Now()
			n := newRun(t, engine, name+" ("+engine+")", seed, int64(report.Of(few, many)), unspoilt, faults...)
			defer func() {
				report.Add(t, report.Row{
					Part:       "faulty network",
					Name:       n.name,
					Count:      min(n.begun.Load(), n.many),
					Unit:       "operations",
					Violations: len(n.violations),
					Took:       time.Since(began),
					Note: fmt.Sprintf(
						"%d requests, of which %d met a fault; %d calls failed, %d outcomes left open until the end; %d refusals; "+
							"%d charged after a refusal; %d subjects, %d ids moved to the ledger",
						n.proxy.count.Load(), n.proxy.met.Load(), n.failures.Load(), n.open.Load(), n.refusals.Load(),
						n.overtaken.Load(), len(n.all), n.moved),
				})
			}()
			n.play()
			n.resolve()
			n.audit()
			for _, v := range n.violations {
				t.Errorf("seed %d: %s", seed, v)
			}
		})
	}
	for _, f := range faults {
		test("dynoxide", 400, 100_000, string(f), f)
	}
	test("dynoxide", 2_400, 100_000, "all of them", faults...)
	test("dynalite", 150, 5_000, "all of them", faults...)
}
