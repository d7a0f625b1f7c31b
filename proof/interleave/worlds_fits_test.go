package interleave

import "time"

// fitWorlds are those of requests that take as much as fits. No write of theirs takes more or less
// than there is at that moment.
func fitWorlds() []*world {
	turn, still := []time.Time{sunday, monday}, []time.Time{sunday}
	return []*world{
		{
			name: "as much as fits, asked by several at a week's turn", times: turn, faults: 1, kinds: mayLose | mayCrash,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(deduct("a", 70).atLeast(10)), does(deduct("a", 70).atLeast(10)), does(deduct("b", 30))},
		},
		{
			name: "as much as fits, beside units that come back", times: still, faults: 1, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 80)}, {sunday, hold("h", 15, time.Hour)}},
			clients: []script{does(deduct("a", 60).atLeast(20)), does(refund("r", "old", 30)), does(release("h"))},
		},
		{
			name: "as much as fits, beside a grant", times: still, faults: 1, kinds: mayLose,
			before:  []past{{sunday, deduct("old", 90)}},
			clients: []script{does(deduct("a", 60).atLeast(5)), does(grants("g", 20, time.Hour)), does(deduct("b", 12).atLeast(4))},
		},
	}
}
