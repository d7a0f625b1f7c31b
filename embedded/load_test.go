package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/lumcast/headroom"
)

// What the store is put under while its process is killed, its power cut and its disk full: a load
// of every kind of write over the turns of windows, a book of what was asked and answered, and an
// audit of what is stored.

// step is one call of a load. Its fields are what a line of text can hold.
type step struct {
	Kind        headroom.Kind // what the id stands for after it
	Subject, ID string
	Of          string // KindRefund: the charge
	Cost        int64
}

// poor has so few units that it is at its limits most of the time; nobody else has any limit to
// speak of.
const (
	poor     = "poor"
	poorPlan = "free+slots/day=25+slots/week=60"
)

var poorLimits = map[string]int64{"day": 25, "week": 60}

const loadWriters = 16

var loadSubjects = []string{"user0", "user1", "user2", "user3", "user4", "user5", "user6", poor, poor}

// loadEngine returns an engine by whose plan every subject but one has units enough, by day and by
// week.
func loadEngine(s *Store, horizon time.Duration) (*headroom.Engine, error) {
	day, err := headroom.ParsePeriod("day")
	if err != nil {
		return nil, err
	}
	catalog, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "slots", Name: "week", Units: 1 << 40}, {Meter: "slots", Name: "day", Period: day, Units: 1 << 40},
	}}}, nil)
	if err != nil {
		return nil, err
	}
	e, err := headroom.New(s, catalog, headroom.Options{Clock: s.clock.read, Horizon: horizon})
	if err != nil {
		return nil, err
	}
	return e, e.SetPlan(context.Background(), poor, poorPlan)
}

// perform calls the engine. It reports false of a call that was answered, and changed nothing.
func (p step) perform(e *headroom.Engine) (done bool, err error) {
	ctx, r := context.Background(), headroom.Request{Subject: p.Subject, Meter: "slots", Operation: p.ID, Cost: p.Cost}
	var d headroom.Decision
	switch p.Kind {
	case headroom.KindDeduct:
		d, err = e.Deduct(ctx, r)
	case headroom.KindHold:
		d, err = e.Hold(ctx, r, time.Hour)
	case headroom.KindSettled:
		d, err = e.Settle(ctx, r)
	case headroom.KindReleased:
		d, err = e.Release(ctx, r.Held())
	case headroom.KindRefund:
		d, err = e.Refund(ctx, headroom.RefundRequest{Subject: p.Subject, Meter: "slots", Operation: p.Of, ID: p.ID, Units: p.Cost})
	case headroom.KindGrant:
		d, err = e.Grant(ctx, headroom.GrantRequest{Subject: p.Subject, Meter: "slots", ID: p.ID, Units: p.Cost, Lasts: 24 * time.Hour})
	}
	if errors.Is(err, headroom.Expired) || errors.Is(err, headroom.TooMany) || errors.Is(err, headroom.Contended) {
		return false, nil
	}
	return d.Allowed, err
}

// moving is a clock that goes on with each call, and now and then by hours, though never while a
// call is under way: that would be a clock that lags.
type moving struct {
	calls sync.RWMutex
	nanos atomic.Int64
}

func movingFrom(at time.Time) *moving {
	m := &moving{}
	m.nanos.Store(at.UnixNano())
	return m
}

func (m *moving) read() time.Time { return time.Unix(0, m.nanos.Load()).UTC() }

// reach sets the clock to t if it is behind.
func (m *moving) reach(t time.Time) {
	if !t.IsZero() {
		m.nanos.Store(max(m.nanos.Load(), t.UnixNano()))
	}
}

func (m *moving) jump(most time.Duration) {
	m.calls.Lock()
	m.nanos.Add(rand.Int64N(int64(most)))
	m.calls.Unlock()
}

// load calls an engine from several writers until one of them fails.
type load struct {
	engine *headroom.Engine
	clock  *moving
	prefix string // of ids: no two loads of one book have the same
	repeat []step // what comes before anything else
	steps  int    // of each writer; 0: until one fails
	book   scribe
}

// scribe hears of every step before its call and once it is answered.
type scribe interface {
	begun(p step, at time.Time)
	answered(p step, done bool)
}

// run returns the failures of the writers.
func (l load) run() error {
	var wg sync.WaitGroup
	var failed atomic.Bool
	errs := make([]error, loadWriters)
	for w := range loadWriters {
		wg.Go(func() {
			made := maker{prefix: fmt.Sprintf("%s-%d", l.prefix, w)}
			for i := w; i < len(l.repeat) && errs[w] == nil; i += loadWriters {
				_, errs[w] = l.call(l.repeat[i])
			}
			for n := 0; errs[w] == nil && !failed.Load() && (n < l.steps || l.steps == 0); n++ {
				p := made.next()
				var done bool
				if done, errs[w] = l.call(p); done {
					made.answered(p)
				}
				if rand.N(50) == 0 {
					l.clock.jump(6 * time.Hour)
				}
			}
			failed.CompareAndSwap(false, errs[w] != nil)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (l load) call(p step) (bool, error) {
	l.clock.calls.RLock()
	defer l.clock.calls.RUnlock()
	l.clock.nanos.Add(rand.Int64N(int64(time.Second)))
	l.book.begun(p, l.clock.read())
	done, err := p.perform(l.engine)
	if err != nil {
		return false, fmt.Errorf("%+v: %w", p, err)
	}
	l.book.answered(p, done)
	return done, nil
}

// maker makes the steps of one writer. Of an id only its own writer knows, so that there is one
// call for it at a time.
type maker struct {
	prefix         string
	n              int
	holds, charges []step // the latest that were neither ended nor refunded
}

func (m *maker) next() step {
	m.n++
	p := step{Kind: headroom.KindDeduct, Subject: loadSubjects[rand.N(len(loadSubjects))], ID: fmt.Sprintf("%s-%d", m.prefix, m.n), Cost: int64(1 + rand.N(7))}
	switch roll := rand.N(100); {
	case roll < 20:
		p.Kind = headroom.KindHold
	case roll < 22:
		p.Kind = headroom.KindGrant
	case roll < 40 && len(m.holds) > 0:
		hold := take(&m.holds)
		p.Kind, p.Subject, p.ID = headroom.KindSettled, hold.Subject, hold.ID
		if rand.N(3) == 0 {
			p.Kind, p.Cost = headroom.KindReleased, hold.Cost
		}
	case roll < 50 && len(m.charges) > 0:
		charge := take(&m.charges)
		p.Kind, p.Subject, p.Of, p.Cost = headroom.KindRefund, charge.Subject, charge.ID, 1+rand.Int64N(charge.Cost)
	}
	return p
}

// take removes one of steps.
func take(steps *[]step) step {
	i := rand.N(len(*steps))
	p := (*steps)[i]
	*steps = slices.Delete(*steps, i, i+1)
	return p
}

func (m *maker) answered(p step) {
	const most = 5
	switch p.Kind {
	case headroom.KindHold:
		m.holds = append(m.holds, p)
	case headroom.KindDeduct, headroom.KindSettled:
		m.charges = append(m.charges, p)
	}
	m.holds, m.charges = m.holds[max(0, len(m.holds)-most):], m.charges[max(0, len(m.charges)-most):]
}

// fact is what must be remembered of an id; the zero fact is nothing.
type fact struct {
	kind           headroom.Kind
	cost, refunded int64
}

func (f fact) String() string {
	if f.kind == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%c%d-%d", f.kind, f.cost, f.refunded)
}

func factOf(r headroom.Record) fact {
	f := fact{r.Kind, r.Cost, r.Refunded}
	if r.Kind == headroom.KindReleased && !r.Expires.IsZero() {
		f.kind = headroom.KindHold // expired, and cleared away by whoever came by
	}
	return f
}

// known is what was answered of an id, and what a call made of it that was not answered, if there
// is one.
type known struct {
	is   fact
	may  *fact
	last time.Time // when a call began that was answered
}

// book is what the callers of a store know.
type book struct {
	mu         sync.Mutex
	ids        map[[2]string]*known // by subject and id
	unanswered map[step]time.Time
	answers    int
	latest     time.Time
}

func newBook() *book { return &book{ids: map[[2]string]*known{}, unanswered: map[step]time.Time{}} }

// after is what a step makes of the ids that it is about.
func (b *book) after(p step) map[[2]string]fact {
	at := func(id string) fact {
		if k := b.ids[[2]string{p.Subject, id}]; k != nil {
			return k.is
		}
		return fact{}
	}
	is := map[[2]string]fact{{p.Subject, p.ID}: {p.Kind, p.Cost, 0}}
	if p.Kind == headroom.KindRefund {
		less := at(p.Of)
		less.refunded += p.Cost
		is[[2]string{p.Subject, p.Of}] = less
	}
	return is
}

func (b *book) begun(p step, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unanswered[p] = at
	for id, f := range b.after(p) {
		if b.ids[id] == nil {
			b.ids[id] = &known{}
		}
		b.ids[id].may = &f
	}
	if at.After(b.latest) {
		b.latest = at
	}
}

func (b *book) answered(p step, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers++
	for id, f := range b.after(p) {
		k := b.ids[id]
		if k.may = nil; done {
			k.is, k.last = f, b.unanswered[p]
		}
	}
	delete(b.unanswered, p)
}

// repeats are the steps that were not answered.
func (b *book) repeats() []step { return slices.Collect(maps.Keys(b.unanswered)) }

// check holds what is stored against the book: all that was answered is there, once and as it was
// answered; what was not is there as it was asked, or not; and nothing else is.
func (b *book) check(t testing.TB, s *Store, horizon time.Duration) {
	t.Helper()
	stored := audit(t, s)
	for id, k := range b.ids {
		r, there := stored[id]
		got := fact{}
		if there {
			got = factOf(r)
		}
		forgotten := !there && s.clock.mark.Sub(k.last) >= horizon
		if got != k.is && (k.may == nil || got != *k.may) && !forgotten {
			t.Errorf("%v is %v, answered was %v, on its way %v", id, got, k.is, k.may)
		}
	}
	for id := range stored {
		if b.ids[id] == nil {
			t.Errorf("%v is stored, and nobody asked for it", id)
		}
	}
	b.checkNeverOver(t, s)
}

// checkNeverOver holds that no window of the poor subject has more than its limits.
func (b *book) checkNeverOver(t testing.TB, s *Store) {
	t.Helper()
	f, err := s.find(slots(poor), time.Time{})
	if err == nil {
		err = s.findHistory(slots(poor), f.entry, slices.Collect(maps.Keys(f.state.Counters)))
	}
	if err != nil {
		t.Fatal(err)
	}
	for limit, c := range f.state.Counters {
		for start, units := range totals(c) {
			if units > poorLimits[limit] {
				t.Errorf("%s has %d units in the %s from %s, more than %d", poor, units, limit, start, poorLimits[limit])
			}
		}
	}
}

// totals are the units of a counter by the start of their window.
func totals(c headroom.Counter) map[time.Time]int64 {
	all := map[time.Time]int64{}
	for _, p := range c.Past {
		all[p.Start] = p.Units
	}
	if !c.Window.IsZero() {
		all[c.Window.Start] = c.Count
	}
	return all
}

// stored is what the rows of one key say, beside the state.
type stored struct {
	found
	// of each id, the holds among them, whether or not it is remembered
	newest map[string]headroom.Record
	of     map[string]generation // in which the id lies
}

// swept returns a record as it counts: a hold that was over and cleared away counts nothing.
func (s stored) swept(r headroom.Record) headroom.Record {
	there := slices.ContainsFunc(s.state.Buckets, func(b headroom.Bucket) bool {
		return b.BucketKey == headroom.BucketKey{Expires: r.Expires, Series: r.Series}
	})
	if r.Kind == headroom.KindHold && !there {
		r.Grants, r.Windows = nil, slices.Clone(r.Windows)
		for i := range r.Windows {
			r.Windows[i].Units = 0
		}
	}
	return r
}

// audit checks that what each subject has used in each window is the sum of its operations, each
// counted once, and that each has its whole cost. It returns what is remembered, by subject and id.
func audit(t testing.TB, s *Store) map[[2]string]headroom.Record {
	t.Helper()
	all, oldest := rows(t, s)
	remembered := map[[2]string]headroom.Record{}
	for key, k := range all {
		sums, drawn := map[string]map[time.Time]int64{}, map[string]int64{}
		for limit := range k.state.Counters {
			sums[limit] = map[time.Time]int64{}
		}
		for id, r := range k.newest {
			if g := k.of[id]; g.kind == noGeneration || g == k.young || g == k.old {
				remembered[[2]string{key.Subject, id}] = r
			}
			r := k.swept(r)
			own := map[string]int64{}
			for _, w := range r.Windows {
				own[w.Limit] += w.Units
				sums[w.Limit][w.Start] += w.Units
			}
			var granted int64
			for _, g := range r.Grants {
				granted += g.Units
				drawn[g.ID] += g.Units
			}
			for limit, units := range own {
				want := r.Cost - r.Refunded
				if r.Kind == headroom.KindReleased {
					want = 0
				}
				if units+granted != want && (r.Kind != headroom.KindHold || units+granted != 0) {
					t.Errorf("%v, %s: %q counts %d by %s", key, id, r, units+granted, limit)
				}
			}
		}
		for limit, c := range k.state.Counters {
			have := totals(c)
			for start := range sums[limit] {
				have[start] += 0
			}
			for start, units := range have {
				gone := len(c.Past) == headroom.HistoryWindows && start.Before(c.Past[len(c.Past)-1].Start)
				if sum := sums[limit][start]; !gone && (sum > units || sum < units && !start.Before(oldest)) {
					t.Errorf("%v has used %d in the %s from %s, its operations add up to %d", key, units, limit, start, sum)
				}
			}
		}
		for id, g := range k.state.Grants {
			if used := drawn[id]; used > g.Used || used < g.Used && !g.Expires.Before(oldest.AddDate(0, 0, 1)) {
				t.Errorf("%v has drawn %d of grant %s, its operations add up to %d", key, g.Used, id, used)
			}
		}
	}
	return remembered
}

// rows reads the whole store, and the label of the oldest generation that was not swept.
func rows(t testing.TB, s *Store) (map[headroom.Key]*stored, time.Time) {
	t.Helper()
	all := map[headroom.Key]*stored{}
	each(t, s, tableState, func(key, _ []byte) {
		var k headroom.Key
		k.Subject, key = cutName(key[1:])
		k.Meter = string(key)
		f, err := s.find(k, time.Time{})
		if err == nil {
			err = s.findHistory(k, f.entry, slices.Collect(maps.Keys(f.state.Counters)))
		}
		if err != nil {
			t.Fatal(err)
		}
		all[k] = &stored{found: f, newest: map[string]headroom.Record{}, of: map[string]generation{}}
	})
	each(t, s, tableOps, func(key, value []byte) {
		label, err := opsLabel(key)
		r, bad := headroom.ParseRecord(string(value))
		if err := errors.Join(err, bad); err != nil {
			t.Fatal(err)
		}
		g := generation{kind: key[1], label: label}
		var k headroom.Key
		k.Subject, key = cutName(key[opsPrefixLen:])
		k.Meter, key = cutName(key)
		of := all[k]
		if of == nil {
			t.Fatalf("%v has operations and no state", k)
		}
		// A charge that is refunded when its generation is the old one lies in both: the young one is
		// looked at first.
		if had, twice := of.of[string(key)]; !twice || label.After(had.label) {
			of.newest[string(key)], of.of[string(key)] = r, g
		}
	})
	for _, k := range all {
		for id, hold := range k.state.OldHolds {
			if g, twice := k.of[id]; twice && (g == k.young || g == k.old) {
				t.Errorf("%s is held, and remembered as %q", id, k.newest[id])
			}
			k.newest[id], k.of[id] = hold, generation{}
		}
	}
	labels, err := s.labels(byClock)
	if err != nil {
		t.Fatal(err)
	}
	if len(labels) == 0 {
		return all, time.Time{}
	}
	return all, labels[0]
}

// each calls f with the rows of a table. Key and value are only valid during the call.
func each(t testing.TB, s *Store, table byte, f func(key, value []byte)) {
	t.Helper()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{table}, UpperBound: []byte{table + 1}})
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		f(it.Key(), it.Value())
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		t.Fatal(err)
	}
}

func cutName(b []byte) (string, []byte) {
	n, size := binary.Uvarint(b)
	b = b[size:]
	return string(b[:n]), b[n:]
}
