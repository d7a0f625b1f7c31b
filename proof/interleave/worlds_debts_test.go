package interleave

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lumcast/headroom"
)

func left(subject, id string, cost int64) op {
	return op{verb: "left", subject: subject, id: id, cost: cost, within: "o"}
}

var (
	look  = op{verb: "look"}
	sweep = op{verb: "sweep"}
)

// debtWorlds are about what a user owes to an organisation. In every state a charge within an
// organisation is settled there, or it is owed and listed.
func debtWorlds() []*world {
	still := []time.Time{sunday}
	return []*world{
		{
			name: "a caller who dies, and a look", times: still, faults: 1, kinds: mayLose, whole: true, large: true, invariants: invariants{more: nothingOwed("u")},
			clients: []script{does(left("u", "a", 60), look), does(within("u", "b", 20))},
		},
		{
			name: "the first debts of a user, at once", times: still, faults: 1, kinds: mayLose, whole: true,
			before:  []past{{sunday, deduct("old", 10)}},
			clients: []script{does(left("u", "a", 20)), does(left("u", "b", 30))},
		},
		{
			name: "a debt, and two who finish it", times: still, faults: 2, kinds: mayLose | mayCrash, invariants: invariants{more: nothingOwed("u")},
			before:  []past{{sunday, left("u", "a", 60)}},
			clients: []script{does(look), does(deduct("b", 10)), does(look)},
		},
		{
			name: "a debt, and a repeat beside a look", times: still, faults: 1, kinds: mayLose | mayCrash, large: true, invariants: invariants{more: nothingOwed("u")},
			before:  []past{{sunday, left("u", "a", 60)}},
			clients: []script{does(within("u", "a", 60)), does(look)},
		},
		{
			name: "two users who owe for one id, a look and a sweep", times: still, faults: 1, kinds: mayLose | mayCrash, large: true, whole: true,
			invariants: invariants{more: func(x *explorer, s state) string {
				return cmp.Or(nothingOwed("u")(x, s), nothingOwed("v")(x, s))
			}},
			before:  []past{{sunday, left("u", "a", 30)}, {sunday, left("v", "a", 30)}},
			clients: []script{does(look), does(sweep)},
		},
		{
			name: "a debt after the hold has ended, and two who finish it", times: []time.Time{sunday.Add(6 * time.Minute), monday.Add(6 * time.Minute)}, faults: 1, kinds: mayLose,
			invariants: invariants{more: nothingOwed("u")},
			before:     []past{{sunday, left("u", "a", 60)}},
			clients:    []script{does(look), does(look)},
		},
		{
			name: "a debt, and a sweep beside a look", times: still, faults: 1, kinds: mayLose | mayCrash, large: true, invariants: invariants{more: nothingOwed("u")},
			before:  []past{{sunday, left("u", "a", 60)}},
			clients: []script{does(sweep), does(look)},
		},
		{
			name: "an old row without a debt, and the charge that writes it anew", times: still, large: true, whole: true,
			before:  []past{{sunday.Add(-2 * time.Hour), deduct("full", 100)}, {sunday.Add(-2 * time.Hour), within("u", "a", 10)}, {sunday.Add(-time.Hour), refund("r", "full", 50)}},
			clients: []script{does(sweep), does(left("u", "a", 10))},
		},
		{
			name: "as many debts as there can be", times: still, large: true,
			before: each(headroom.MaxDebts-1, func(i int) past { return past{sunday, left("u", fmt.Sprint("d", i), 1)} }),
			clients: []script{
				does(left("u", "a", 1).or(headroom.TooMany)), does(left("u", "b", 1).or(headroom.TooMany)),
			},
		},
	}
}

// nothingOwed says that no subject owes anything in the end, and that both were charged for the
// same.
func nothingOwed(subject string) func(x *explorer, s state) string {
	return func(x *explorer, s state) string {
		if of := x.read(s.tables).of(subject); len(of.debts) > 0 && s.past&faulted == 0 {
			return fmt.Sprintf("rule 18: all have come to their end, and %s owes %v", subject, of.debts)
		}
		return ""
	}
}
