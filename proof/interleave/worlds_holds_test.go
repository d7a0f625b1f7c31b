package interleave

import (
	"time"

	"github.com/lumcast/headroom"
)

// oldHold is a hold that the release before has made.
func oldHold(id string, cost int64, lasts time.Duration) op {
	return op{verb: "old hold", id: id, cost: cost, lasts: lasts}
}

// holdWorlds are about the buckets in which the units of holds lie.
func holdWorlds() []*world {
	later := []time.Time{sunday, sunday.Add(40 * time.Second)}
	return []*world{
		{
			name: "buckets at their end", times: later, faults: 1, kinds: mayLose,
			before:  []past{{sunday, hold("h", 30, 30*time.Second)}, {sunday, hold("i", 20, 30*time.Second)}},
			clients: []script{does(deduct("a", 60)), does(settle("h", 40)), does(extend("i", time.Minute, headroom.Expired), release("i", headroom.Expired))},
		},
		{
			name: "a sweep after a sweep", times: []time.Time{sunday, sunday.Add(40 * time.Second), sunday.Add(time.Minute)}, faults: 1, kinds: mayLose, whole: true,
			before:  []past{{sunday, hold("h", 30, 30*time.Second)}, {sunday, hold("i", 20, 50*time.Second)}},
			clients: []script{does(deduct("a", 60), deduct("d", 40)), does(settle("i", 10))},
		},
		{
			name: "a sweep, a late hold, and the settlement of the hold that was cleared away", times: later, faults: 2, kinds: mayGoBack, whole: true,
			before:  []past{{sunday, hold("h", 60, 30*time.Second)}},
			clients: []script{does(deduct("a", 50), settle("h", 10)), does(hold("i", 20, 30*time.Second)), does(hold("k", 15, 30*time.Second))},
		},
		{
			name: "a sweep beside an extension", times: later, faults: 1, kinds: mayLose | mayGoBack,
			before:  []past{{sunday, hold("h", 60, 30*time.Second)}, {sunday, hold("i", 10, 30*time.Second)}},
			clients: []script{does(deduct("a", 40)), does(extend("h", time.Minute, headroom.Expired)), does(extend("i", 2*time.Minute, headroom.Expired))},
		},
		{
			name: "a hold that moves to the ledger, and is settled from there", times: []time.Time{sunday}, full: 1, faults: 1, kinds: mayLose,
			before:  []past{{sunday, hold("h", 5, time.Hour)}},
			clients: []script{does(settle("h", 3)), does(deduct("a", 1), deduct("b", 1)), does(release("h", headroom.Conflict))},
		},
		{
			name: "the first holds of a subject", times: []time.Time{sunday}, faults: 1, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 5)}},
			clients: []script{does(hold("h", 40, time.Hour)), does(hold("i", 50, time.Hour)), does(deduct("a", 20))},
		},
		{
			name: "holds that the release before has made", times: later, faults: 1, kinds: mayLose, whole: true,
			before:  []past{{sunday, deduct("old", 10)}, {sunday, oldHold("h", 30, 10*time.Minute)}, {sunday, oldHold("i", 40, 30*time.Second)}},
			clients: []script{does(settle("h", 20)), does(deduct("a", 60)), does(release("i", headroom.Expired))},
		},
		{
			name: "a hold of the future, and one that is rightly made later", times: []time.Time{sunday, monday}, folds: true, faults: 1, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 40)}, {sunday.Add(week), hold("h", 20, 10*time.Minute)}},
			clients: []script{does(deduct("a", 10), hold("i", 30, week)), does(settle("h", 5), deduct("b", 30))},
		},
	}
}
