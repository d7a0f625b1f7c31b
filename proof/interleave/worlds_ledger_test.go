package interleave

import (
	"fmt"
	"time"

	"github.com/lumcast/headroom"
)

// ledgerWorlds are those of records and totals that move after they were rewritten.
func ledgerWorlds() []*world {
	still := []time.Time{sunday}
	long := func(id string, cost int64) op { return deduct(id+"-has-a-long-id1", cost) }
	return []*world{
		{
			name: "a rewritten record that moves", times: still, full: 3, faults: 2, kinds: mayDelay, whole: true,
			before:  []past{{sunday, refund("p", fill(3), 1)}},
			clients: []script{does(long("a", 1)), does(refund("r-has-a-long-id1", fill(4), 1, headroom.Invalid), long("b", 1)), does(deduct(fill(4), 1))},
		},
		{
			name: "a rewritten record that moves, and is rewritten again", times: still, full: 3, faults: 1, kinds: mayDelay | mayLeave,
			before:  each(3, func(i int) past { return past{sunday, refund(fmt.Sprint("p-has-a-long-id", i), fill(10+i), 1)} }),
			clients: []script{does(refund("q-has-a-long-id1", fill(30), 1, headroom.Invalid)), does(refund("r-has-a-long-id1", fill(30), 1, headroom.Invalid)), does(deduct(fill(30), 1))},
		},
		{
			name: "a corrected total that moves again", times: []time.Time{midnight}, faults: 1, kinds: mayDelay, totals: true, catalog: dayAndWeek,
			before: append(each(14, func(i int) past {
				return past{saturday.Add(time.Duration(i-13) * day), deduct(fmt.Sprint("day", i), 10)}
			}), past{saturday, refund("p", "day1", 1)}, past{saturday, refund("p2", "day2", 1)}),
			clients: []script{does(refund("r", "day1", 5), deduct("b", 10)), does(deduct("a", 30))},
		},
		{
			name: "an item that is full", times: still, faults: 1, kinds: mayCrash | mayLose | mayDelay, tight: true, whole: true,
			before:  append(each(6, func(i int) past { return past{sunday, deduct(fill(i), 1)} }), past{sunday, refund("p", fill(3), 1)}),
			clients: []script{does(deduct("a", 1)), does(refund("r", fill(4), 1, headroom.Invalid)), does(deduct(fill(4), 1))},
		},
		{
			name: "a full item of the release before", times: still, faults: 1, kinds: mayCrash | mayLose | mayDelay, tight: true, earlier: true, whole: true,
			before:  each(6, func(i int) past { return past{sunday, deduct(fill(i), 1)} }),
			clients: []script{does(deduct("a", 1)), does(refund("r", fill(4), 1, headroom.Invalid)), does(deduct(fill(4), 1))},
		},
		{
			name: "a full item that turns", times: []time.Time{epoch.Add(time.Minute)}, faults: 1, kinds: mayCrash | mayLose | mayDelay, tight: true, earlier: true, whole: true,
			before: append(each(6, func(i int) past { return past{epoch.Add(-day), deduct(fill(i), 1)} }),
				past{epoch.Add(-day), refund("p", fill(3), 1)}),
			clients: []script{does(deduct("a", 1)), does(refund("r", fill(3), 1, headroom.Invalid)), does(deduct(fill(4), 1))},
		},
	}
}
