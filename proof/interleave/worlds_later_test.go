package interleave

import (
	"fmt"
	"time"

	"github.com/lumcast/headroom"
)

// laterWorlds are those of what comes for the second time, too late, or goes back.
func laterWorlds() []*world {
	turn, still := []time.Time{sunday, monday}, []time.Time{sunday}
	const horizon = headroom.DefaultHorizon
	// one fills the item by as much as the ids that are there
	long := func(id string, cost int64) op { return deduct(id+"-has-a-long-id1", cost) }
	return []*world{
		{
			name: "ids that move again", times: still, full: 3, faults: 2, kinds: mayCrash | mayLeave, whole: true,
			clients: []script{does(long("a", 1)), does(long("a", 1)), does(long("e", 1), long("a", 1))},
		},
		{
			name: "ids that move again, and copies that come late", times: still, full: 3, faults: 2, kinds: mayDelay, whole: true,
			clients: []script{does(long("a", 1)), does(refund("r", fill(30), 1, headroom.Invalid)), does(long("e", 1), deduct(fill(30), 1))},
		},
		{
			name: "a copy that comes late", times: still, full: 1, faults: 2, kinds: mayDelay, whole: true,
			clients: []script{does(long("a", 1)), does(refund("r-has-a-long-id1", fill(3), 1, headroom.Invalid), long("b", 1)), does(refund("q", fill(3), 1, headroom.Invalid), deduct(fill(3), 1))},
		},
		{
			name: "a copy that comes late, and ids that age", times: []time.Time{epoch.Add(-time.Minute), epoch.Add(time.Minute)}, full: 1, fullAt: epoch.Add(-day), faults: 1, kinds: mayDelay,
			clients: []script{does(deduct("a", 1)), does(refund("r", fill(3), 1), deduct("b", 1)), does(deduct(fill(3), 1))},
		},
		{
			name: "ids that age twice", times: []time.Time{epoch.Add(-time.Minute), epoch.Add(time.Minute), epoch.Add(horizon + time.Minute)}, faults: 1, kinds: mayLose,
			before:  []past{{epoch.Add(-time.Minute), deduct("old", 20)}},
			clients: []script{does(deduct("a", 30), deduct("old", 20)), does(deduct("old", 20), deduct("a", 30)), does(deduct("b", 20))},
		},
		{
			name: "a week that turns twice", times: []time.Time{sunday, monday, monday.Add(week)}, faults: 1, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 40), deduct("d", 70)), does(deduct("b", 60)), does(refund("r", "old", 20), deduct("c", 50))},
		},
		{
			name: "units that come back beside a grant", times: still, faults: 1, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 100)}, {sunday, grants("g", 50, time.Hour)}},
			clients: []script{does(deduct("a", 30), refund("q", "a", 30, headroom.Invalid, headroom.NotFound)), does(refund("r", "old", 20), deduct("c", 5)), does(deduct("b", 25))},
		},
		{
			name: "units that come back to the grant that ends first", times: still, faults: 1, kinds: mayLose,
			before: []past{{sunday, deduct("old", 100)}, {sunday, grants("early", 20, time.Hour)}, {sunday, grants("late", 50, 2*time.Hour)},
				{sunday, hold("h", 20, 10*time.Minute)}},
			clients: []script{does(deduct("a", 15), deduct("d", 20)), does(release("h"), deduct("c", 10)), does(deduct("b", 30))},
		},
		{
			name: "a grant in the place of one that is over", times: still, faults: 1, kinds: mayLose,
			before: []past{{sunday.Add(-40 * day), grants("g", 10, time.Hour)}, {sunday.Add(-20 * day), deduct("then", 1)}, {sunday, deduct("old", 100)},
				{sunday, hold("h", 0, time.Hour)}},
			clients: []script{does(record1("a", 20), deduct("d", 5)), does(grants("g", 30, time.Hour)), does(record1("b", 15))},
		},
		{
			name: "totals that move again", times: []time.Time{midnight}, faults: 1, kinds: mayLose, totals: true, catalog: dayAndWeek,
			before: each(14, func(i int) past {
				return past{saturday.Add(time.Duration(i-13) * day), deduct(fmt.Sprint("day", i), 10)}
			}),
			clients: []script{does(refund("r", "day1", 5), deduct("b", 10)), does(deduct("a", 30))},
		},
		{
			name: "a Date that goes back", times: turn, faults: 2, kinds: mayGoBack,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 40), deduct("d", 30)), does(deduct("b", 40), deduct("e", 20)), does(refund("r", "old", 10), deduct("c", 60))},
		},
		{
			name: "a hold that expires, and a Date that goes back", times: []time.Time{sunday, sunday.Add(20 * time.Second), sunday.Add(40 * time.Second)}, faults: 2, kinds: mayGoBack,
			before:  []past{{sunday, hold("h", 60, 30*time.Second)}},
			clients: []script{does(settle("h", 70), deduct("d", 10)), does(deduct("a", 50), deduct("e", 30)), does(release("h", headroom.Expired, headroom.Conflict))},
		},
		{
			name: "ids that age, and a Date that goes back", times: []time.Time{epoch.Add(-time.Minute), epoch.Add(time.Minute)}, faults: 2, kinds: mayGoBack,
			before:  []past{{epoch.Add(-horizon - time.Minute), deduct("older", 20)}, {epoch.Add(-time.Minute), deduct("old", 20)}},
			clients: []script{does(deduct("a", 30), deduct("old", 20)), does(deduct("old", 20), refund("r", "old", 10)), does(deduct("b", 20), deduct("a", 30))},
		},
		{
			name: "moved ids within their time to live", times: []time.Time{epoch.Add(horizon - time.Minute), epoch.Add(horizon + time.Minute)}, full: 2, fullAt: epoch.Add(day), expires: true,
			clients: []script{does(deduct(fill(3), 1), deduct("a", 1)), does(refund("r", fill(3), 1), deduct(fill(3), 1)), does(deduct("b", 1))},
		},
		{
			name: "moved ids past their time to live", times: []time.Time{epoch.Add(2*horizon + day - time.Minute), epoch.Add(2*horizon + 8*day)}, full: 2, fullAt: epoch, expires: true,
			clients: []script{does(deduct(fill(3), 1), deduct("a", 1)), does(deduct(fill(3), 1), deduct(fill(4), 1)), does(deduct("b", 1))},
		},
	}
}

// countsUp are numbers by which a client notices that something has happened in between. For each
// there is a world that raises it a second time. Nothing else would notice a number that grows only
// once.
var countsUp = map[string]string{
	"quotaGen": "ids that move again", "quotaPast.more": "totals that move again", "quotaEpoch": "ids that age twice", "quotaSpan": "a week that turns twice",
}

// raisesAgain returns which of countsUp a world raises again.
func (x *explorer) raisesAgain() (all []string) {
	gen, more, epochs, spans := false, false, map[int64]bool{}, map[int64]bool{}
	for key := range x.checked {
		was, is := x.read(key.before).of("u"), x.read(key.after).of("u")
		gen = gen || was.gen > 0 && is.gen > was.gen
		if is.epoch != 0 {
			epochs[is.epoch] = true
		}
		for limit, c := range is.counters {
			w := was.counters[limit]
			more = more || w.moves > 0 && c.moves > w.moves
			if limit == "week" {
				spans[c.start] = true
			}
		}
	}
	for count, is := range map[string]bool{"quotaGen": gen, "quotaPast.more": more, "quotaEpoch": len(epochs) > 2, "quotaSpan": len(spans) > 2} {
		if is {
			all = append(all, count)
		}
	}
	return all
}
