package interleave

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/proof/report"
)

// Times of worlds: the turn of a week, which is the turn of a day too, the turn of a day alone, and
// the turn of an epoch of ids.
var (
	sunday   = time.Date(2031, time.June, 1, 23, 59, 0, 0, time.UTC)
	monday   = time.Date(2031, time.June, 2, 0, 0, 1, 0, time.UTC)
	saturday = sunday.Add(-day)
	midnight = monday.Add(-day)
	// a Saturday of April 2031
	epoch = time.Unix(int64(headroom.DefaultHorizon/time.Second)*1493, 0).UTC()
)

const (
	day  = 24 * time.Hour
	week = 7 * day
	year = 365 * day
)

func catalog(plans ...headroom.Plan) *headroom.Catalog {
	c, err := headroom.NewCatalog("free", plans, nil)
	if err != nil {
		panic(err)
	}
	return c
}

// weekly is a plan of so many units a week.
func weekly(name string, units int64, thresholds ...int) headroom.Plan {
	return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: units, Thresholds: thresholds}}}
}

var (
	simple   = catalog(weekly("free", 100), weekly("pro", 300), weekly("small", 20))
	carrying = catalog(headroom.Plan{Name: "free", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 100, CarryOver: 30}}})
	fewHolds = catalog(headroom.Plan{Name: "free", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 100, MaxHolds: 3}}})
	// Two limits whose windows turn at different times.
	dayAndWeek = catalog(headroom.Plan{Name: "free", Limits: []headroom.Limit{
		{Meter: "slots", Name: "day", Units: 60, Period: must(headroom.ParsePeriod("day"))}, {Meter: "slots", Name: "week", Units: 100},
	}})
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func deduct(id string, cost int64) op { return op{verb: "deduct", id: id, cost: cost} }
func record1(id string, cost int64) op {
	return op{verb: "deduct", id: id, cost: cost, over: headroom.RecordOverLimit}
}
func hold(id string, cost int64, lasts time.Duration) op {
	return op{verb: "hold", id: id, cost: cost, lasts: lasts}
}
func settle(id string, cost int64, may ...headroom.Code) op {
	return op{verb: "settle", id: id, cost: cost, may: may}
}
func release(id string, may ...headroom.Code) op { return op{verb: "release", id: id, may: may} }
func extend(id string, lasts time.Duration, may ...headroom.Code) op {
	return op{verb: "extend", id: id, lasts: lasts, may: may}
}
func refund(id, of string, units int64, may ...headroom.Code) op {
	return op{verb: "refund", id: id, of: of, cost: units, may: may}
}
func grants(id string, units int64, lasts time.Duration) op {
	return op{verb: "grant", id: id, cost: units, lasts: lasts}
}
func plan(name string) op { return op{verb: "plan", plan: name} }
func within(subject, id string, cost int64) op {
	return op{verb: "within", subject: subject, id: id, cost: cost, within: "o"}
}

func does(o ...op) script { return script{ops: o, attempts: 1} }

func (s script) sends(attempts int) script       { s.attempts = attempts; return s }
func (s script) shows(skew time.Duration) script { s.skew = skew; return s }

func worlds() []*world {
	turn, still := []time.Time{sunday, monday}, []time.Time{sunday}
	all := []*world{
		{
			name: "a week's turn", times: turn,
			before:  []past{{sunday, deduct("old", 90)}},
			clients: []script{does(deduct("a", 50), deduct("d", 30)), does(deduct("b", 40), deduct("e", 10)), does(deduct("c", 20), deduct("f", 60))},
		},
		{
			name: "the first of a new subject", times: turn,
			clients: []script{does(deduct("a", 60), deduct("d", 101)), does(deduct("b", 50), deduct("e", 20)), does(deduct("c", 40), deduct("f", 20))},
		},
		{
			name: "one id, three deliveries", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 40), deduct("b", 30)), does(deduct("a", 40), deduct("b", 30)), does(deduct("a", 40), deduct("c", 20))},
		},
		{
			name: "a lost answer", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 30), deduct("d", 30)), does(deduct("b", 40), deduct("e", 20)), does(deduct("c", 20), deduct("f", 10))},
		},
		{
			name: "a blind resend", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 30), deduct("d", 30)).sends(2), does(deduct("b", 40), deduct("e", 20)).sends(2), does(deduct("c", 20), deduct("f", 10)).sends(3)},
		},
		{
			name: "a request that is delayed", times: turn, faults: 2, kinds: mayDelay,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 30), deduct("d", 30)).sends(2), does(deduct("b", 40), deduct("e", 20)), does(deduct("c", 20), deduct("f", 10))},
		},
		{
			name: "a crash anywhere", times: turn, faults: 2, kinds: mayCrash,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 30), deduct("d", 30)), does(deduct("b", 40), deduct("e", 20)), does(deduct("c", 20), deduct("f", 10))},
		},
		{
			name: "transactions of the application's", times: turn, faults: 2, kinds: mayConflict | mayLose,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 30), deduct("d", 30)), does(deduct("b", 40)), does(deduct("c", 20))},
		},
		{
			name: "an engine that sends no item", times: turn, faults: 2, kinds: mayLose, noOld: true,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 30), deduct("d", 30)), does(deduct("b", 40)), does(deduct("c", 20))},
		},
		{
			name: "clocks that differ", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 30), deduct("d", 30)).shows(-week), does(deduct("b", 40), deduct("e", 20)).shows(year), does(deduct("c", 20), deduct("f", 10)).shows(2 * time.Minute)},
		},
		{
			name: "a window of the future", times: turn, faults: 2, kinds: mayLose, folds: true,
			before:  []past{{sunday, deduct("old", 50)}, {sunday.Add(year), deduct("ahead", 20)}},
			clients: []script{does(deduct("a", 30), deduct("d", 30)), does(deduct("b", 20), refund("q", "ahead", 10)).shows(year), does(refund("r", "old", 10), deduct("c", 20))},
		},
		{
			name: "a hold of the future", times: turn, folds: true,
			before:  []past{{sunday, deduct("old", 40)}, {sunday.Add(week), hold("h", 20, 10*time.Minute)}},
			clients: []script{does(deduct("a", 30), deduct("d", 20)), does(settle("h", 25), refund("r", "h", 5, headroom.Conflict)), does(deduct("b", 20), deduct("c", 10))},
		},
		{
			name: "a hold that expires, and its settlement", times: []time.Time{sunday, sunday.Add(20 * time.Second), sunday.Add(40 * time.Second)}, faults: 2, kinds: mayLose,
			before:  []past{{sunday, hold("h", 60, 30*time.Second)}},
			clients: []script{does(settle("h", 70), deduct("d", 10)), does(deduct("a", 50), deduct("e", 30)), does(deduct("b", 20), deduct("f", 20))},
		},
		{
			name: "a hold that expires, and its release", times: []time.Time{sunday, sunday.Add(20 * time.Second), sunday.Add(40 * time.Second)}, faults: 2, kinds: mayLose,
			before:  []past{{sunday, hold("h", 60, 30*time.Second)}},
			clients: []script{does(release("h", headroom.Expired, headroom.Conflict), hold("i", 60, 30*time.Second)), does(deduct("a", 50), deduct("d", 40)), does(settle("h", 50), deduct("b", 20))},
		},
		{
			name: "a hold that expires, and its extension", times: []time.Time{sunday, sunday.Add(20 * time.Second), sunday.Add(40 * time.Second)}, faults: 2, kinds: mayLose,
			before:  []past{{sunday, hold("h", 60, 30*time.Second)}},
			clients: []script{does(extend("h", 30*time.Second, headroom.Expired), release("h", headroom.Expired)), does(deduct("a", 50), deduct("b", 30)), does(deduct("c", 40), deduct("d", 30))},
		},
		{
			name: "holds at the same time", times: turn, faults: 2, kinds: mayCrash,
			clients: []script{does(hold("a", 60, 10*time.Minute), settle("a", 50, headroom.NotFound)), does(hold("b", 50, 10*time.Minute), settle("b", 50, headroom.NotFound)), does(hold("a", 60, 10*time.Minute), release("a", headroom.Conflict, headroom.NotFound))},
		},
		{
			name: "a settlement over the turn", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, hold("h", 60, 10*time.Minute)}, {sunday, deduct("old", 20)}},
			clients: []script{does(settle("h", 70), refund("r", "h", 20, headroom.Conflict)), does(deduct("a", 95), deduct("d", 30)), does(deduct("b", 20), deduct("c", 20))},
		},
		{
			name: "a plan change", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(plan("pro"), plan("free")), does(deduct("a", 120), deduct("b", 40)), does(deduct("c", 60), deduct("d", 90))},
		},
		{
			name: "a plan that is lowered", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 10)}},
			clients: []script{does(plan("small"), plan("free")), does(deduct("a", 60), refund("r", "old", 10)), does(deduct("b", 40))},
		},
		{
			name: "a plan before the first write", times: still, faults: 2, kinds: mayLose, whole: true,
			clients: []script{does(plan("pro"), plan("small")), does(deduct("a", 60)), does(deduct("b", 15))},
		},
		{
			name: "ids that move to the ledger", times: still, faults: 2, kinds: mayCrash | mayLeave, full: 1,
			clients: []script{does(deduct("a", 1), deduct("d", 1)), does(deduct(fill(3), 1), deduct("e", 1)), does(refund("r", fill(3), 1), deduct("b", 1))},
		},
		{
			name: "two who move ids", times: still, full: 1, faults: 2, kinds: mayLose, whole: true,
			clients: []script{does(deduct("a-has-a-long-id1", 1)), does(deduct("b-has-a-long-id1", 1), deduct("b-has-a-long-id2", 1)), does(deduct("c", 1), deduct("b-has-a-long-id2", 1))},
		},
		{
			name: "ids that have moved", times: still, full: 2, faults: 2, kinds: mayLose,
			clients: []script{does(deduct("a", 1), deduct(fill(3), 1)), does(refund("r", fill(3), 1, headroom.Invalid), deduct("b", 1)), does(refund("q", fill(3), 1, headroom.Invalid))},
		},
		{
			name: "ids that age", times: []time.Time{epoch.Add(-time.Minute), epoch.Add(time.Minute)}, faults: 2, kinds: mayLose,
			before:  []past{{epoch.Add(-headroom.DefaultHorizon - time.Minute), deduct("older", 20)}, {epoch.Add(-time.Minute), deduct("old", 20)}},
			clients: []script{does(deduct("a", 30), deduct("old", 20)), does(deduct("old", 20), refund("r", "old", 10)), does(deduct("b", 20), deduct("a", 30))},
		},
		{
			name: "ids that age, beside holds", times: []time.Time{epoch.Add(-time.Minute), epoch.Add(time.Minute)}, faults: 1, kinds: mayLose,
			before:  []past{{epoch.Add(-time.Minute), deduct("old", 20)}},
			clients: []script{does(hold("h", 20, time.Hour), refund("r", "old", 15, headroom.Invalid)), does(hold("i", 20, time.Hour), refund("q", "old", 15, headroom.Invalid)), does(deduct("old", 20))},
		},
		{
			name: "ids that age, of which some have moved", times: []time.Time{epoch.Add(-time.Minute), epoch.Add(time.Minute)}, full: 2, fullAt: epoch.Add(-day),
			clients: []script{does(deduct("a", 1), deduct(fill(3), 1)), does(refund("r", fill(3), 1), deduct("a", 1)), does(deduct(fill(2), 1))},
		},
		{
			name: "ids of the older generation that move", times: []time.Time{epoch.Add(time.Minute)}, full: 1, fullAt: epoch.Add(-day), faults: 1, kinds: mayCrash,
			clients: []script{does(deduct("a", 1), deduct("b", 1)), does(deduct(fill(3), 1), deduct("c", 1)), does(refund("r", fill(3), 1))},
		},
		{
			name: "moved ids that are forgotten", times: []time.Time{epoch.Add(-time.Minute), epoch.Add(time.Minute)}, full: 2, fullAt: epoch.Add(-headroom.DefaultHorizon - day),
			before:  []past{{epoch.Add(-day), deduct("young", 1)}},
			clients: []script{does(deduct("a", 1), deduct("young", 1)), does(deduct("young", 1), deduct(fill(3), 1)), does(deduct("b", 1))},
		},
		{
			name: "a refund beside a turn", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 80)}},
			clients: []script{does(refund("r", "old", 50), deduct("c", 40)), does(deduct("a", 70), refund("q", "a", 30, headroom.NotFound)), does(deduct("b", 60), deduct("d", 30))},
		},
		{
			name: "two refunds", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 80)}},
			clients: []script{does(refund("r", "old", 50, headroom.Invalid)), does(refund("q", "old", 40, headroom.Invalid), deduct("b", 50)), does(deduct("a", 70), refund("r", "old", 50, headroom.Invalid))},
		},
		{
			name: "grants", times: []time.Time{sunday, sunday.Add(40 * time.Second)}, faults: 2, kinds: mayLose,
			before:  []past{{sunday, grants("g", 50, 30*time.Second)}, {sunday, deduct("old", 60)}},
			clients: []script{does(deduct("a", 60), refund("r", "a", 30, headroom.NotFound)), does(deduct("b", 50), deduct("d", 20)), does(grants("g2", 10, time.Minute), deduct("c", 20))},
		},
		{
			name: "a grant and no charge yet", times: turn, faults: 1, kinds: mayLose,
			before:  []past{{sunday, grants("g", 20, time.Hour)}},
			clients: []script{does(deduct("a", 60), deduct("d", 30)), does(deduct("b", 50)), does(deduct("c", 10))},
		},
		{
			name: "a hold on a grant", times: []time.Time{sunday, sunday.Add(40 * time.Second)}, faults: 2, kinds: mayLose,
			before:  []past{{sunday, grants("g", 50, time.Hour)}, {sunday, deduct("old", 80)}, {sunday, hold("h", 50, 30*time.Second)}},
			clients: []script{does(deduct("a", 30)), does(settle("h", 40), refund("r", "h", 35, headroom.NotFound, headroom.Conflict)), does(deduct("b", 20))},
		},
		{
			name: "a day and a week", times: []time.Time{saturday, midnight, monday}, catalog: dayAndWeek,
			before:  []past{{saturday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 40), deduct("d", 20)), does(deduct("b", 30), refund("r", "old", 20)), does(deduct("c", 10), deduct("e", 30))},
		},
		{
			name: "organisation and user", times: still, faults: 1, kinds: mayLose, two: true, invariants: invariants{more: both},
			clients: []script{does(within("u", "a", 60)), does(within("v", "b", 60)), does(within("u", "c", 40))},
		},
		{
			name: "organisation and two users of one id", times: still, faults: 1, kinds: mayLose, two: true, invariants: invariants{more: both},
			clients: []script{does(within("u", "a", 60)), does(within("v", "a", 60)), does(within("u", "a", 60))},
		},
		{
			name: "organisation and user, one id", times: still, faults: 1, kinds: mayCrash, two: true, invariants: invariants{more: both},
			before:  []past{{sunday, op{verb: "deduct", subject: "u", id: "old", cost: 50}}},
			clients: []script{does(within("u", "a", 40)), does(within("u", "a", 40)), does(within("u", "b", 20))},
		},
		{
			name: "organisation and user, one id, and two crashes", times: still, faults: 2, kinds: mayCrash, two: true, invariants: invariants{more: both},
			before:  []past{{sunday, op{verb: "deduct", subject: "u", id: "old", cost: 50}}},
			clients: []script{does(within("u", "a", 40)), does(within("u", "a", 40))},
		},
		{
			name: "charged past the limit", times: turn, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(record1("a", 60), record1("d", 70)), does(deduct("b", 40), record1("e", 30)), does(refund("r", "old", 30), deduct("c", 20))},
		},
		{
			name: "charged past the limit, beside a grant", times: []time.Time{sunday}, faults: 2, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 100)}},
			clients: []script{does(record1("a", 20), record1("d", 5)), does(grants("g", 30, time.Hour)), does(record1("b", 15))},
		},
		{
			name: "a threshold", times: turn, faults: 2, kinds: mayLose, catalog: catalog(weekly("free", 100, 50, 80)), invariants: invariants{more: crossedOnce},
			before:  []past{{sunday, deduct("old", 30)}},
			clients: []script{does(deduct("a", 15), deduct("d", 15)), does(deduct("b", 15), deduct("e", 15)), does(deduct("c", 20))},
		},
		{
			name: "totals that move", times: []time.Time{saturday, midnight}, faults: 1, kinds: mayLose, totals: true, catalog: dayAndWeek,
			before: each(9, func(i int) past {
				return past{saturday.Add(time.Duration(i-8) * day), deduct(fmt.Sprint("day", i), 10)}
			}),
			clients: []script{does(refund("r", "day0", 5)), does(deduct("a", 30)), does(deduct("b", 10))},
		},
		{
			name: "totals that have moved", times: []time.Time{saturday, midnight}, faults: 1, kinds: mayLose, totals: true, catalog: dayAndWeek,
			before: each(12, func(i int) past {
				return past{saturday.Add(time.Duration(max(0, i-2)-10) * day), deduct(fmt.Sprint("day", i), 10)}
			}),
			clients: []script{does(refund("r", "day1", 5, headroom.Invalid)), does(deduct("a", 30)), does(refund("q", "day2", 10))},
		},
		{
			name: "windows of the future, of which totals have moved", times: turn, folds: true, totals: true,
			before:  each(11, func(i int) past { return past{sunday.Add(time.Duration(i) * week), deduct(fmt.Sprint("ahead", i), 5)} }),
			clients: []script{does(deduct("a", 30)), does(deduct("b", 20)), does(refund("r", "ahead10", 4))},
		},
		{
			name: "windows of the future, more than one write takes back", times: turn[:1], folds: true, faults: 1, kinds: mayCrash, whole: true,
			before:  each(headroom.HistoryWindows, func(i int) past { return past{sunday.Add(time.Duration(i) * week), deduct(fmt.Sprint("ahead", i), 1)} }),
			clients: []script{does(deduct("a", 30)), does(deduct("b", 20))},
		},
		{
			name: "units carried over", times: turn, faults: 2, kinds: mayLose, catalog: carrying,
			before:  []past{{sunday, deduct("old", 60)}, {sunday, hold("h", 20, 10*time.Minute)}, {sunday, hold("i", 10, 30*time.Second)}},
			clients: []script{does(refund("r", "old", 30), deduct("a", 60)), does(deduct("b", 60)), does(release("h", headroom.Expired))},
		},
		{
			name: "beside the seed's own code", times: still, catalog: catalog(weekly("free", seedLimit)), whole: true,
			before:  []past{{sunday, bySeed(50)}},
			clients: []script{does(bySeed(60), bySeed(50)), does(deduct("a", 60), deduct("b", 40)), does(deduct("a", 60), refund("r", "a", 20, headroom.NotFound))},
		},
		{
			name: "a new subject, beside the seed's own code", times: still, catalog: catalog(weekly("free", seedLimit)), whole: true,
			clients: []script{does(bySeed(60), bySeed(50)), does(deduct("a", 60), deduct("b", 40)), does(deduct("a", 60), deduct("c", 41))},
		},
		{
			name: "a week that the seed's own code left", times: turn[1:], catalog: catalog(weekly("free", seedLimit)), faults: 2, kinds: mayLose,
			before:  []past{{sunday, bySeed(50)}},
			clients: []script{does(deduct("a", 60), deduct("d", 100)), does(deduct("b", 80)), does(deduct("a", 60))},
		},
		{
			name: "as many holds as there can be", times: []time.Time{sunday, sunday.Add(time.Minute)}, faults: 1, kinds: mayLose,
			catalog:    fewHolds,
			before:     []past{{sunday, hold("h0", 0, time.Hour)}, {sunday, hold("h1", 0, time.Hour)}, {sunday, hold("short", 0, 30*time.Second)}},
			clients:    []script{does(hold("a", 1, time.Hour)), does(hold("b", 1, time.Hour)), does(release("h1"))},
			invariants: invariants{decided: tooManyHolds},
		},
		{
			name: "as many grants as there can be", times: []time.Time{sunday, sunday.Add(time.Minute)}, faults: 1, kinds: mayLose,
			before: append(each(headroom.MaxGrants-2, func(i int) past { return past{sunday, grants(fmt.Sprint("g", i), 1, time.Hour)} }),
				past{sunday, grants("short", 1, 30*time.Second)}),
			clients: []script{does(grants("a", 1, time.Hour).or(headroom.TooMany)), does(grants("b", 1, time.Hour).or(headroom.TooMany)), does(deduct("c", 115))},
		},
	}
	all = slices.Concat(all, laterWorlds(), debtWorlds(), ledgerWorlds(), unrememberedWorlds(), meterWorlds(), holdWorlds(), fitWorlds())
	for _, w := range all {
		w.large = w.totals || slices.Contains([]string{"organisation and user", "organisation and user, one id", "organisation and user, one id, and two crashes", "organisation and two users of one id", "a hold on a grant", "two who move ids", "as many grants as there can be"}, w.name)
	}
	return all
}

// each makes a list.
func each(n int, of func(i int) past) (all []past) {
	for i := range n {
		all = append(all, of(i))
	}
	return all
}

// or allows an operation to end with an error.
func (o op) or(code headroom.Code) op { o.may = append(o.may, code); return o }

// both is that an organisation and its users were charged for the same.
func both(x *explorer, s state) string {
	all := x.read(s.tables)
	for _, user := range []string{"u", "v"} {
		for id, r := range all.of(user).records {
			if at := all.of("o").records[its(user, id)]; !x.known(user, id) && (at.Kind != headroom.KindSettled || at.Cost != r.Cost) {
				return fmt.Sprintf("rule 13: %s is charged %d for %s, and the organisation has %q", user, r.Cost, id, at.text)
			}
		}
	}
	for id, r := range all.of("o").records {
		of := func(user string) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(all.of(user).records)), func(own string) bool { return its(user, own) == id })
		}
		if !of("u") && !of("v") {
			return fmt.Sprintf("rule 13: the organisation has %q of %s, and no user is charged", r.text, id)
		}
	}
	return ""
}

// tooManyHolds is where a hold may be refused because there are others.
func tooManyHolds(_ *explorer, o op, out outcome, _ state, _ bool) string {
	if out.code != "" || !out.allowed && out.reason != headroom.ReasonTooManyHolds {
		return fmt.Sprintf("rule 9: %s ends with %s", o, out)
	}
	return ""
}

// crossedOnce is that where no units come back one operation crosses each threshold of a window.
func crossedOnce(x *explorer, s state) string {
	seen := map[headroom.Crossing]string{}
	for id, r := range x.read(s.tables).of("u").records {
		for _, c := range r.Crossed {
			if other, twice := seen[c]; twice {
				return fmt.Sprintf("%s and %s both cross %d %%", id, other, c.Percent)
			}
			seen[c] = id
		}
	}
	for limit, c := range x.read(s.tables).of("u").counters {
		for _, percent := range []int{50, 80} {
			_, crossed := seen[headroom.Crossing{Limit: limit, Percent: percent, Start: time.Unix(c.start, 0).UTC()}]
			if crossed != (c.count >= int64(percent)) {
				return fmt.Sprintf("the count is %d, and that %d %% were crossed is %t", c.count, percent, crossed)
			}
		}
	}
	return ""
}

// explored runs a world to its end.
func explored(t *testing.T, w *world, limit int) (x *explorer, v *violation) {
	t.Helper()
	x = newExplorer(w)
	x.limit = limit
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
				report.Step("interleavings: "+w.name, x.shown.Load(), 0)
			}
		}
	})
	v = x.exploreIn(t)
	close(done)
	watch.Wait()
	return x, v
}

// exploreIn explores in a bubble, in which the waits between tries cost nothing.
func (x *explorer) exploreIn(t *testing.T) (v *violation) {
	synctest.Test(t, func(*testing.T) {
		begin := x.begin()
		v = x.explore(begin)
	})
	return v
}

// TestALateRequestMayOvertakeARefusal: this is the one thing that conditional writes alone cannot
// promise. A client gives a request up, and its operation is then refused. If units come back
// before the request arrives after all, it takes effect. It is charged once, and a repeat says so.
func TestALateRequestMayOvertakeARefusal(t *testing.T) {
	w := &world{
		name: "a late request and a refusal", times: []time.Time{sunday}, faults: 1, kinds: mayDelay,
		before:  []past{{sunday, deduct("old", 80)}},
		clients: []script{does(deduct("a", 30)).sends(2), does(refund("r", "old", 20))},
	}
	_, v := explored(t, w, 0)
	if v == nil || !strings.HasPrefix(v.what, "rule 4: deduct a is refused, and remembered") {
		t.Fatalf("found %v", v)
	}
	t.Log(v)
	x := newExplorer(w)
	x.only = "rule 5" // that holds
	if v := x.exploreIn(t); v != nil {
		t.Fatal(v)
	}
}

// brief is a small part of the world, for every day. It has at most one fault, and of each client
// only the first operation.
func (w *world) brief() *world {
	b := *w
	if b.faults = min(1, w.faults); w.totals {
		b.faults = 0
	}
	b.clients = slices.Clone(w.clients)
	if w.whole {
		return &b
	}
	if w.two || w.folds && w.totals {
		b.clients = b.clients[:2]
	}
	for i := range b.clients {
		b.clients[i].ops = b.clients[i].ops[:1]
	}
	return &b
}

// TestAllInterleavings: rules 1 to 7 and 9 to 13, of every schedule of each world.
func TestAllInterleavings(t *testing.T) {
	var mu sync.Mutex
	met, whole := map[string]bool{}, 0
	t.Cleanup(func() { // after all worlds
		for _, g := range slices.Sorted(maps.Keys(guards)) {
			if report.Long() && whole == len(worlds()) && !met[g] {
				t.Errorf("guards has %q, which no request of a world has", g)
			}
		}
	})
	for _, w := range worlds() {
		if !report.Long() {
			w = w.brief()
		}
		if w.large && raced {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			row := report.Row{Part: "interleavings", Name: w.name, Unit: "states"}
			defer func() {
				row.Took = time.Since(began)
				report.Add(t, row)
			}()
			x, v := explored(t, w, 12_000_000)
			row.Count = int64(len(x.states))
			row.Note = fmt.Sprintf("%d steps, %d nodes, %d tables", x.steps, len(x.nodes), len(x.values))
			if v != nil {
				t.Fatal(v)
			}
			for count, world := range countsUp {
				if world == w.name && !slices.Contains(x.raisesAgain(), count) {
					t.Errorf("it does not raise %s, which has been raised before", count)
				}
			}
			mu.Lock()
			whole++
			for _, g := range x.guards() {
				met[g] = true
				if _, ok := guards[g]; !ok {
					t.Errorf("guards does not say how it is noticed that %q is missing", g)
				}
			}
			mu.Unlock()
		})
	}
}
