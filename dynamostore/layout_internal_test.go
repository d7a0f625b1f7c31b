package dynamostore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

func defaults(tb testing.TB) Options {
	tb.Helper()
	s, err := New(dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String("http://nowhere.invalid")}), Options{Table: "users"})
	if err != nil {
		tb.Fatal(err)
	}
	return s.opts
}

// TestAttributesOfMetersAndLimitsStayApart: rule 15. No two things of any two meters have one name, and no meter takes what belongs to another for its own.
func TestAttributesOfMetersAndLimitsStayApart(t *testing.T) {
	o := defaults(t)
	meters := []string{
		"slots", "a", "a/", "a/Ops", "a/Span:x", "a/Span:week", "a/Count:week", "/", "//", ":", "", "Ops", "Span", "Span:week", "quota", "week", "é", "e\u0301", "a\x00", "a\x00b", "a b", strings.Repeat("m", headroom.MaxMeter),
	}
	limits := []string{"week", "day", "x", "-", "_", "ops", "0", strings.Repeat("l", 32)}
	owner := map[string]string{o.Names.Subject: "the key", o.Names.Plan: "the plan"}
	claim := func(name, by string) {
		t.Helper()
		if other, taken := owner[name]; taken {
			t.Fatalf("attribute %q belongs to %s and to %s", name, other, by)
		}
		owner[name] = by
	}
	all := map[string]types.AttributeValue{}
	for _, m := range meters {
		for _, f := range fields {
			if f != "Span" && f != "Past" && f != "Carried" { // those of the main limit, below
				claim(o.field(m, f), fmt.Sprintf("%s of %q", f, m))
			}
		}
		for _, l := range limits {
			n := o.counter(m, l)
			for what, name := range map[string]string{"window": n.window, "count": n.count, "span": n.span, "past": n.past, "carried": n.carried} {
				if name != "" {
					claim(name, fmt.Sprintf("%s of %s of %q", what, l, m))
				}
			}
			w := headroom.ISOWeek(time.Date(2031, 5, 27, 0, 0, 0, 0, time.UTC))
			all[n.span], all[n.count], all[n.past] = str(spanText(w)), num(int64(len(m))), &types.AttributeValueMemberM{}
		}
		all[o.field(m, "Format")], all[o.field(m, "Epoch")], all[o.field(m, "Gen")] = num(format), num(0), num(0)
		for _, f := range []string{"Ops", "OpsBefore", "Holds", "Grants"} {
			all[o.field(m, f)] = &types.AttributeValueMemberM{}
		}
	}
	all[o.Names.Window] = str("2031-W22")
	for _, m := range meters {
		it, err := o.decode(all, headroom.Key{Subject: "u", Meter: m}, time.Now())
		if err != nil {
			t.Fatalf("meter %q: %v", m, err)
		}
		if len(it.state.Counters) != len(limits) {
			t.Fatalf("meter %q: counters %v", m, it.state.Counters)
		}
		for l, c := range it.state.Counters {
			if c.Count != int64(len(m)) {
				t.Fatalf("%s of meter %q counts %d", l, m, c.Count)
			}
		}
	}
}

// TestNamesOfIDsStayApart: rule 15. An id stands under itself or, if it is long, under a name that no short one has.
func TestNamesOfIDsStayApart(t *testing.T) {
	short, long := []string{"~", "", "a"}, []string{}
	for n := range 40 {
		for _, c := range []string{"a", "~", "é"} {
			id := strings.Repeat(c, n)
			short = append(short, id)
			long = append(long, id+idName(strings.Repeat("x", 17)), id+strings.Repeat("-", 17))
		}
	}
	long = append(long, idName(strings.Repeat("x", 17))) // an id that looks like a name
	names := map[string]string{}
	for _, id := range append(short, long...) {
		name := idName(id)
		if len(id) <= 16 && name != id || len(id) > 16 && len(name) != 17 {
			t.Fatalf("%q stands under %q", id, name)
		}
		if other, taken := names[name]; taken && other != id {
			t.Fatalf("%q and %q both stand under %q", id, other, name)
		}
		names[name] = id
	}
}

// TestKeysOfTheLedgerStayApart: rule 15. From a key of the ledger its subject and meter can be told.
func TestKeysOfTheLedgerStayApart(t *testing.T) {
	words := []string{"a", "b", "#", "1", "1#", "1#a", "a#", "ab", "a_b", "_", "\x00", "é"}
	keys := map[string]headroom.Key{}
	for _, m := range words {
		for _, s1 := range words {
			for _, s2 := range append(words, "") {
				key := headroom.Key{Subject: s1 + s2, Meter: m}
				text := ledgerOf(key).(*types.AttributeValueMemberS).Value
				if other, taken := keys[text]; taken && other != key {
					t.Fatalf("%q and %q have one key, %q", key, other, text)
				}
				keys[text] = key
			}
		}
	}
	rows := map[string]bool{}
	for _, row := range []string{opRow("week"), opRow("past#week#"), pastRow("week", time.Unix(0, 0)), pastRow("week", time.Unix(1, 0)), pastRow("week-", time.Unix(0, 0)), pastRow("w", time.Unix(0, 0))} {
		if rows[row] {
			t.Fatalf("%q stands for two things", row)
		}
		rows[row] = true
	}
}

// TestTheMemoryOfGenerationsIsBounded: to forget one costs a request, to remember all costs a process.
func TestTheMemoryOfGenerationsIsBounded(t *testing.T) {
	var gs generations
	epoch := time.Unix(1000, 0)
	for i := range 3 * mostGenerations {
		it := item{key: headroom.Key{Subject: fmt.Sprint(i), Meter: "slots"}, gen: 1}
		it.state.Epoch = epoch
		gs.learn(it)
	}
	if len(gs.of) != mostGenerations {
		t.Fatalf("%d are remembered", len(gs.of))
	}
	key := headroom.Key{Subject: fmt.Sprint(3*mostGenerations - 1), Meter: "slots"}
	if g, ok := gs.recall(key, epoch); !ok || g.gen != 1 {
		t.Error("the latest is forgotten")
	}
	if _, ok := gs.recall(key, epoch.Add(time.Second)); ok {
		t.Error("what was learned in one epoch is held to be true in another")
	}
	gs.learn(item{key: key})
	if _, ok := gs.recall(key, epoch); ok {
		t.Error("a generation that is over is remembered")
	}
}

// bytesReader makes values of whatever a fuzzer comes up with.
type bytesReader struct{ b []byte }

func (r *bytesReader) byte() byte {
	if len(r.b) == 0 {
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *bytesReader) text() string {
	n := min(int(r.byte())%24, len(r.b))
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *bytesReader) number() string {
	switch r.byte() % 4 {
	case 0:
		return r.text()
	case 1:
		return fmt.Sprint(int8(r.byte()))
	case 2:
		var b [8]byte
		n := copy(b[:], r.b)
		r.b = r.b[n:]
		return fmt.Sprint(int64(binary.LittleEndian.Uint64(b[:])))
	}
	return fmt.Sprint(math.MaxInt64)
}

func (r *bytesReader) value(depth int) types.AttributeValue {
	switch kind := r.byte() % 10; {
	case kind < 3:
		return &types.AttributeValueMemberS{Value: r.text()}
	case kind < 5:
		return &types.AttributeValueMemberN{Value: r.number()}
	case kind < 8 && depth > 0:
		m := map[string]types.AttributeValue{}
		for range r.byte() % 6 {
			name := r.text()
			if r.byte()%2 == 0 {
				name = r.number()
			}
			m[name] = r.value(depth - 1)
		}
		return &types.AttributeValueMemberM{Value: m}
	case kind == 8:
		return &types.AttributeValueMemberBOOL{Value: true}
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

// FuzzDecode: whatever an item holds is read, or is an ErrFormat. What is read can be shown, and a change built for it, without a panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{5, 1, 7, 40, 3}, 40))
	o := defaults(f)
	now := time.Date(2031, 5, 27, 0, 0, 0, 0, time.UTC)
	week := headroom.ISOWeek(now)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &bytesReader{data}
		attrs := map[string]types.AttributeValue{
			"userId": str("u"), "quotaWeek": str(week.Key), "quotaCount": num(5), "quotaSpan": str(spanText(week)), "quotaPast": &types.AttributeValueMemberM{},
			"quotaFormat": num(format), "quotaGen": num(0), "quotaEpoch": num(0), "quotaOps": &types.AttributeValueMemberM{}, "quotaOpsBefore": &types.AttributeValueMemberM{},
		}
		names := []string{"plan", "quotaWeek", "quotaCount", "quotaSpan", "quotaPast", "quotaOps", "quotaOpsBefore", "quotaEpoch", "quotaEpochBefore", "quotaGen", "quotaSpilt", "quotaFormat", "quotaSpan:day", "quotaCount:day", "quotaPast:day"}
		for range r.byte() % 8 {
			name := names[int(r.byte())%len(names)]
			switch r.byte() % 4 {
			case 0:
				delete(attrs, name)
			case 1:
				attrs[name] = str(r.text() + "/" + r.number() + "/" + r.number())
			case 2:
				attrs[name] = str(fmt.Sprintf("%s-W%s", r.number(), r.number()))
			default:
				attrs[name] = r.value(3)
			}
		}
		it, err := o.decode(attrs, headroom.Key{Subject: "u", Meter: "slots"}, now)
		if err != nil {
			if !errors.Is(err, headroom.ErrFormat) {
				t.Fatalf("%v", err)
			}
			return
		}
		for id := range it.ops {
			if _, err := it.view([]string{id}, now); err != nil && !errors.Is(err, headroom.ErrFormat) {
				t.Fatalf("%v", err)
			}
		}
		it.toMove(50)
		c := headroom.Change{Key: it.key, Records: []headroom.RecordStep{{ID: "new", Is: &headroom.Record{Kind: headroom.KindDeduct}}}, Epoch: it.state.Epoch, Rotate: now}
		for limit, counter := range it.state.Counters {
			if counter.Count < 0 {
				t.Fatalf("%s counts %d", limit, counter.Count)
			}
			if len(counter.Past) > headroom.HistoryWindows {
				t.Fatalf("%s has a history of %d", limit, len(counter.Past))
			}
			for i, p := range counter.Past {
				if i > 0 && !p.Start.Before(counter.Past[i-1].Start) || p.Start.After(counter.Window.Start) {
					t.Fatalf("the history of %s is %v", limit, counter.Past)
				}
			}
			c.Steps = append(c.Steps, headroom.Step{Limit: limit, From: counter.Window, To: week, Add: 1, Max: 10, Fold: counter.Past})
		}
		var in dynamodb.UpdateItemInput
		o.build(c, it).into(&in)
	})
}
