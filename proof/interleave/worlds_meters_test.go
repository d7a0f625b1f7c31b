package interleave

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// Worlds of two meters, slots and tokens. An item has the attributes of both, and a request of both
// is one write. The book of tokens is that of a subject of its own.

func tokensOf(subject string) string { return subject + " tokens" }

// ofTokens are the attributes of the meter tokens, under the names that slots has for its own.
func ofTokens(item map[string]types.AttributeValue) map[string]types.AttributeValue {
	own := map[string]types.AttributeValue{}
	for name, v := range item {
		if rest, ok := strings.CutPrefix(name, "quota/tokens/"); ok {
			own["quota"+rest] = v
		}
	}
	if len(own) > 0 {
		own["plan"] = item["plan"]
	}
	return own
}

// and makes an operation one of tokens too.
func (o op) and(tokens int64) op {
	o.both, o.tokens = true, tokens
	return o
}

// ofTokens makes an operation one of tokens alone.
func (o op) ofTokens() op {
	o.subject = tokensOf(o.who())
	return o
}

// parts are an operation of both meters, as two operations of one.
func (o op) parts() (slots, tokens op) {
	slots, tokens = o, o
	slots.both, tokens.both = false, false
	tokens.subject, tokens.cost = tokensOf(o.who()), o.tokens
	return slots, tokens
}

// together says what is wrong with what is remembered of requests of both meters: each has a record
// at both, of one kind.
func (b books) together(subject string) string {
	own, ok := strings.CutSuffix(subject, tokensOf(""))
	other := tokensOf(subject)
	if ok {
		other = own
	}
	was, its := b.of(subject), b.of(other)
	for id, r := range was.records {
		have, there := its.records[id]
		if len(r.Also) == 0 || r.oldest || its.epoch > was.epoch {
			continue // or the other meter has forgotten it
		}
		if !there || have.Kind != r.Kind || !slices.Equal(have.Also, []string{was.meter}) || !slices.Equal(r.Also, []string{its.meter}) {
			return fmt.Sprintf("rule 13: %s of %s is %s in one meter, and %q in the other", id, subject, r.text, have.text)
		}
	}
	return ""
}

// twoMeters has 100 slots and 100 tokens a week.
var twoMeters = catalog(headroom.Plan{Name: "free", Limits: []headroom.Limit{
	{Meter: "slots", Name: "week", Units: 100}, {Meter: "tokens", Name: "week", Units: 100},
}})

func meterWorlds() []*world {
	turn, still := []time.Time{sunday, monday}, []time.Time{sunday}
	old := []past{{sunday, deduct("old", 40).and(50)}}
	all := []*world{
		{
			name: "the last tokens of several calls", times: turn, faults: 2, kinds: mayLose | mayCrash, before: old,
			clients: []script{does(deduct("a", 10).and(30), deduct("e", 1).and(15)), does(deduct("b", 10).and(30), refund("r", "old", 0)), does(deduct("c", 50), deduct("d", 5).and(20))},
		},
		{
			name: "the first calls of a subject in two meters", times: turn, faults: 1, kinds: mayLose,
			clients: []script{does(deduct("a", 60).and(20)), does(deduct("b", 20).and(60)), does(deduct("c", 30))},
		},
		{
			name: "several meters at a week's turn", times: turn, faults: 2, kinds: mayLose | mayCrash, before: old,
			clients: []script{does(deduct("a", 60).and(20)), does(deduct("b", 20).and(60)), does(deduct("c", 70))},
		},
		{
			name: "one call, three deliveries", times: turn, faults: 2, kinds: mayLose, before: old,
			clients: []script{does(deduct("a", 30).and(40)), does(deduct("a", 30).and(40)), does(deduct("a", 30).and(40)).sends(2)},
		},
		{
			name: "a call and its id in one meter alone", times: still, faults: 1, kinds: mayLose | mayCrash, before: old,
			clients: []script{does(deduct("a", 30).and(40).or(headroom.Conflict)), does(deduct("a", 30).or(headroom.Conflict))},
		},
		{
			name: "a call and its id in the other meter alone", times: still, faults: 1, kinds: mayLose | mayCrash, before: old,
			clients: []script{does(deduct("a", 30).and(20).or(headroom.Conflict)), does(deduct("a", 20).ofTokens().or(headroom.Conflict))},
		},
		{
			name: "a call that is held and settled, beside its release", times: turn, faults: 2, kinds: mayLose | mayCrash,
			before: []past{{sunday, deduct("old", 40).and(50)}, {sunday, hold("a", 20, time.Hour).and(40)}},
			clients: []script{
				does(settle("a", 10, headroom.Conflict).and(45)), does(release("a", headroom.Conflict, headroom.NotFound)), does(deduct("b", 30).and(20)),
			},
		},
		{
			name: "a held call that ends as the week turns", times: []time.Time{sunday, monday}, faults: 1, kinds: mayLose,
			before:  []past{{sunday, hold("a", 20, 30*time.Second).and(40)}},
			clients: []script{does(settle("a", 20).and(40)), does(deduct("b", 80).and(50))},
		},
		{
			name: "a refund of a call, twice, beside one of a meter alone", times: turn, faults: 1, kinds: mayLose, before: old,
			clients: []script{does(refund("r", "old", 0)), does(refund("r", "old", 0)), does(refund("s", "old", 10, headroom.Invalid))},
		},
		{
			name: "a refund of a call, beside one of the other meter alone", times: still, faults: 1, kinds: mayLose,
			before:  []past{old[0], {sunday, deduct("other", 10).and(30)}},
			clients: []script{does(refund("r", "old", 0)), does(refund("s", "old", 10, headroom.Invalid).ofTokens())},
		},
		{
			name: "a call beside ids that move", times: still, faults: 2, kinds: mayLose | mayLeave | mayCrash, full: 1, catalog: wideMeters, large: true,
			clients: []script{does(deduct("a", 1).and(40)), does(deduct("b", 1).and(40), deduct("a", 1).and(40))},
		},
		{
			name: "a call whose ids are in the ledger", times: still, faults: 1, kinds: mayLose, full: 2, catalog: wideMeters,
			clients: []script{does(deduct("a", 1).and(40)), does(deduct("a", 1).and(40)), does(deduct("b", 1).and(70))},
		},
	}
	for _, w := range all {
		if w.catalog == nil {
			w.catalog = twoMeters
		}
	}
	return all
}

// wideMeters has room for what fills an item.
var wideMeters = catalog(headroom.Plan{Name: "free", Limits: []headroom.Limit{
	{Meter: "slots", Name: "week", Units: 1000}, {Meter: "tokens", Name: "week", Units: 100},
}})
