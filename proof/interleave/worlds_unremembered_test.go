package interleave

import (
	"fmt"
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// unremembered is a deduction without an id, which its meter permits. It is never asked for again:
// where it may have been made, its caller gives up.
func unremembered(cost int64) op {
	return op{verb: "deduct", cost: cost, may: []headroom.Code{headroom.OutcomeUnknown}}
}

// forgetful permits charges without an id.
var forgetful = must(simple.WithMemory(0, map[string]headroom.Memory{"slots": {None: true}}))

// unrememberedWorlds are those of charges without an id. No guard of an id keeps a second one from
// being made, so in each state of each world no more is charged than was asked for.
func unrememberedWorlds() []*world {
	turn, still := []time.Time{sunday, monday}, []time.Time{sunday}
	none := invariants{more: chargedOnce}
	return []*world{
		{
			name: "charges without an id, at a week's turn", times: turn, faults: 1, kinds: mayLose, catalog: forgetful, invariants: none,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(unremembered(40), unremembered(30)), does(unremembered(25)), does(unremembered(70))},
		},
		{
			name: "charges without an id, beside others", times: still, faults: 1, kinds: mayLose | mayConflict, catalog: forgetful, invariants: none,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(unremembered(10), deduct("a", 20)), does(deduct("a", 20), unremembered(5)), does(refund("r", "old", 30), unremembered(40))},
		},
		{
			name: "charges without an id that are sent again", times: turn, faults: 2, kinds: mayLose, catalog: forgetful, invariants: none, whole: true,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(unremembered(40)).sends(2), does(unremembered(30)).sends(3)},
		},
		{
			name: "charges without an id that come late", times: turn, faults: 2, kinds: mayDelay, catalog: forgetful, invariants: none, whole: true,
			before:  []past{{sunday, deduct("old", 50)}},
			clients: []script{does(unremembered(40)), does(unremembered(30))},
		},
		{
			name: "the first of a new subject, without an id", times: still, faults: 1, kinds: mayLose, catalog: forgetful, invariants: none,
			clients: []script{does(unremembered(60)), does(unremembered(50)), does(deduct("c", 30))},
		},
		{
			name: "charges without an id, beside a grant", times: still, faults: 1, kinds: mayLose, catalog: forgetful, invariants: none,
			before:  []past{{sunday, deduct("old", 80)}, {sunday, grants("g", 50, time.Hour)}},
			clients: []script{does(unremembered(30)), does(unremembered(25)), does(deduct("c", 15))},
		},
		{
			name: "charges without an id, beside ids that move", times: still, full: 1, faults: 1, kinds: mayLose, catalog: forgetful, invariants: none,
			clients: []script{does(unremembered(3)), does(deduct("a-has-a-long-id", 1)), does(deduct("a-has-a-long-id", 1), unremembered(5))},
		},
	}
}

// noID reports whether an operation has no id, and so is remembered nowhere.
func (o op) noID() bool { return o.verb == "deduct" && o.id == "" }

// unnamed reports whether a client of the world that charges without an id may have added so much:
// all of its cost, or what the plan or a grant has of it. chargedOnce sees to it that the parts
// make up the whole.
func (x *explorer) unnamed(units int64) bool {
	return slices.ContainsFunc(x.clients, func(s script) bool {
		return slices.ContainsFunc(s.ops, func(o op) bool { return o.noID() && 0 < units && units <= o.cost })
	})
}

// chargedOnce is that the counts, the history and the grants have what records say, what was
// charged without an id, and of that of which nobody knows whether it was charged some or nothing:
// never more.
func chargedOnce(x *explorer, s state) string {
	b := x.read(s.tables).of("u")
	if r, ok := b.records[""]; ok {
		return fmt.Sprintf("a charge without an id is remembered: %s", r.text)
	}
	least := int64(0)
	var unknown []int64
	for c := range x.clients {
		for _, out := range x.lists[x.nodes[s.node[c]].outcomes] {
			switch o := x.clients[c].ops[out.op]; {
			case !o.noID():
			case out.code == headroom.OutcomeUnknown:
				unknown = append(unknown, o.cost)
			case out.allowed && !out.replay:
				least += o.cost
			}
		}
	}
	counted := int64(0)
	for _, c := range b.counters {
		counted += c.count
		for _, units := range c.past {
			counted += units
		}
	}
	for _, g := range b.grants {
		counted += g.used
	}
	for _, r := range b.records {
		counted -= r.own("week") + r.granted()
	}
	if !slices.Contains(sums(unknown), counted-least) {
		return fmt.Sprintf("rule 5: without an id %d are charged, of which %d were acknowledged and any of %v may be", counted, least, unknown)
	}
	return ""
}

// sums are those of each choice of some.
func sums(some []int64) []int64 {
	all := []int64{0}
	for _, n := range some {
		for _, sum := range slices.Clone(all) {
			all = append(all, sum+n)
		}
	}
	return all
}
