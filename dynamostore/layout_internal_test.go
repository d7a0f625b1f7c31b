package dynamostore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

func defaults(tb testing.TB) layout {
	tb.Helper()
	s, err := New(dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String("http://nowhere.invalid")}), Options{Table: "users"})
	if err != nil {
		tb.Fatal(err)
	}
	return s.layout
}

// TestAttributesOfMetersAndLimitsStayApart: rule 15. No two things of any two meters have one name,
// and no meter takes what belongs to another for its own.
func TestAttributesOfMetersAndLimitsStayApart(t *testing.T) {
	o := defaults(t)
	meters := []string{
		"slots", "a", "a/", "a/Ops", "a/Span:x", "a/Span:week", "a/Count:week", "/", "//", ":", "", "Ops", "Span", "Span:week", "quota", "week", "é", "e\u0301", "a\x00", "a\x00b", "a b", strings.Repeat("m", headroom.MaxMeter),
	}
	limits := []string{"week", "day", "x", "-", "_", "ops", "0", strings.Repeat("l", 32)}
	owner := map[string]string{o.names.Subject: "the key", o.names.Plan: "the plan"}
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
		all[o.field(m, "Format")], all[o.field(m, "Epoch")], all[o.field(m, "Gen")] = num(NewestFormat), num(0), num(0)
		for _, f := range []string{"Ops", "OpsBefore", "Holds", "Grants"} {
			all[o.field(m, f)] = &types.AttributeValueMemberM{}
		}
	}
	all[o.names.Window] = str("2031-W22")
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

// TestNamesOfIDsStayApart: rule 15. An id stands under itself or, if it is long, under a name that
// no short one has.
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

// TestKeysOfTheLedgerStayApart: rule 15. From a key of the ledger its subject and meter can be
// told.
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
	for _, row := range []string{opRow("week", 0), opRow("past#week#", 0), pastRow("week", time.Unix(0, 0), 0), pastRow("week", time.Unix(1, 0), 0), pastRow("week-", time.Unix(0, 0), 0), pastRow("w", time.Unix(0, 0), 0)} {
		if rows[row] {
			t.Fatalf("%q stands for two things", row)
		}
		rows[row] = true
	}
}

// TestTheMemoryOfGenerationsIsBounded: to forget one costs a request, to remember all costs a
// process.
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

// FuzzDecode: whatever an item holds is read, or is Unreadable. What is read can be shown, written
// as attributes that read the same, and a change built for it, without a panic.
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
			"quotaFormat": num(NewestFormat), "quotaGen": num(0), "quotaEpoch": num(0), "quotaOps": &types.AttributeValueMemberM{}, "quotaOpsBefore": &types.AttributeValueMemberM{},
			"quotaHolds": &types.AttributeValueMemberM{}, "quotaGrants": &types.AttributeValueMemberM{},
		}
		names := []string{"plan", "quotaWeek", "quotaCount", "quotaSpan", "quotaPast", "quotaOps", "quotaOpsBefore", "quotaEpoch", "quotaEpochBefore", "quotaGen", "quotaSpilt", "quotaFormat", "quotaSpan:day", "quotaCount:day", "quotaPast:day", "quotaHolds", "quotaGrants", "quotaCarried", "quotaCarried:day", "quotaHeld", "quotaHeld", "quotaSwept", "quotaSeries", "quotaHolding"}
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
				// What an item holds of ids, holds and grants has a form that is seldom met by chance.
				if m, ok := attrs[name].(*types.AttributeValueMemberM); ok && strings.HasPrefix(name, "quota") && r.byte()%2 == 0 {
					m.Value[r.text()] = str(string("dhsxrg"[r.byte()%6]) + r.number() + "@week:" + r.number() + "*" + r.number() + " x" + r.number())
					if name == "quotaHeld" {
						key := []string{"", "week/" + base36(week.Start) + "/", "/g/"}[r.byte()%3] + base36(now.Add(time.Duration(r.byte())*time.Second))
						key += []string{"", ".1", ">" + base36(now), ".2>" + base36(now), ".0"}[r.byte()%5]
						m.Value = map[string]types.AttributeValue{key: &types.AttributeValueMemberN{Value: r.number()}}
					}
					if name == "quotaGrants" {
						m.Value = map[string]types.AttributeValue{r.text(): str(r.number() + "/" + r.number() + "/" + r.number())}
					}
				}
			}
		}
		it, err := o.decode(attrs, headroom.Key{Subject: "u", Meter: "slots"}, now)
		if err != nil {
			if !errors.Is(err, headroom.Unreadable) {
				t.Fatalf("%v", err)
			}
			return
		}
		for id := range it.ops {
			if _, err := it.view([]string{id}, now); err != nil && !errors.Is(err, headroom.Unreadable) {
				t.Fatalf("%v", err)
			}
		}
		checkWritten(t, o, it, attrs, now)
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
		var e expression
		o.build(&e, c, it)
		e.into(&in)
	})
}

// checkWritten holds that what was read of an item reads the same once it is written in the forms
// of this program.
func checkWritten(t *testing.T, o layout, it item, attrs map[string]types.AttributeValue, now time.Time) {
	t.Helper()
	again := map[string]types.AttributeValue{}
	maps.Copy(again, attrs)
	texts := map[string]types.AttributeValue{}
	for id, hold := range it.state.OldHolds {
		texts[id] = str(hold.String())
	}
	grants := map[string]types.AttributeValue{}
	for id, g := range it.state.Grants {
		grants[id] = str(grantText(g))
	}
	if it.formatted {
		again["quotaHolds"], again["quotaGrants"] = &types.AttributeValueMemberM{Value: texts}, &types.AttributeValueMemberM{Value: grants}
	}
	for limit, c := range it.state.Counters {
		names := o.counter(it.key.Meter, limit)
		if _, turned := it.turned[limit]; !turned && attrs[names.span] != nil {
			again[names.span] = str(spanText(c.Window))
		}
		if again[names.count] = num(c.Count); attrs[names.carried] != nil {
			again[names.carried] = num(c.Carried)
		}
	}
	got, err := o.decode(again, it.key, now)
	if err != nil || !reflect.DeepEqual(got.state, it.state) || !reflect.DeepEqual(got.ops, it.ops) || !reflect.DeepEqual(got.before, it.before) {
		t.Fatalf("read    %+v, %v\nwritten %+v", got.state, err, it.state)
	}
}

// FuzzNames: rule 15. No attribute, no row and no key of the ledger stands for two things.
func FuzzNames(f *testing.F) {
	f.Add("a", "b_c", "week", "a_b", "c", "week", "op", "week#", int64(0), int64(1))
	f.Add("u", "a/Span:x", "week", "u", "a", "x", "~", "", int64(1), int64(1))
	f.Add("1#a", "1", "w", "a", "1#1", "w", "12345678901234567", "~mhQ2kWvWXnmT3ekV", int64(-1), int64(1))
	f.Add("a", "slots", "week", "b", "slots", "week", "x", "x\x0000000000000001", int64(0), int64(0))
	f.Add("a", "slots", "week", "b", "slots", "week", "x", "x\x00", int64(0), int64(0))
	f.Add("\x00", "slots", "week", "", "slots\x00", "Count", "é", "e\u0301", int64(math.MaxInt32), int64(math.MinInt32))
	o := defaults(f)
	f.Fuzz(func(t *testing.T, s1, m1, l1, s2, m2, l2, id1, id2 string, w1, w2 int64) {
		plain := func(name string) string { // as names of limits are, headroom.Limit
			return "l" + strings.Map(func(r rune) rune {
				if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_", r) {
					return r
				}
				return -1
			}, name)
		}
		// What each attribute of a meter and a limit stands for.
		attributes := func(meter, limit string) map[string]string {
			n, of := o.counter(meter, limit), fmt.Sprintf(" of %q, %q", meter, limit)
			names := map[string]string{n.count: "count" + of, n.span: "span" + of, n.past: "past" + of, n.carried: "carried" + of}
			for _, field := range fields {
				if field != "Span" && field != "Past" && field != "Carried" {
					names[o.field(meter, field)] = fmt.Sprintf("%s of %q", field, meter)
				}
			}
			if n.window != "" {
				names[n.window] = "window" + of
			}
			if len(names) < len(fields)+1 {
				t.Fatalf("two attributes of %q, %q have one name: %v", meter, limit, names)
			}
			return names
		}
		first, second := attributes(m1, plain(l1)), attributes(m2, plain(l2))
		for name, what := range first {
			if other, both := second[name]; both && other != what {
				t.Fatalf("%q is %s and %s", name, what, other)
			}
			if name == o.names.Subject || name == o.names.Plan {
				t.Fatalf("%q is %s", name, what)
			}
		}
		k1, k2 := headroom.Key{Subject: s1, Meter: m1}, headroom.Key{Subject: s2, Meter: m2}
		if reflect.DeepEqual(ledgerOf(k1), ledgerOf(k2)) != (k1 == k2) {
			t.Fatalf("%v and %v are %v in the ledger", k1, k2, ledgerOf(k1))
		}
		if (idName(id1) == idName(id2)) != (id1 == id2) {
			t.Fatalf("%q and %q are both %q", id1, id2, idName(id1))
		}
		if name := idName(id1); len(id1) <= 16 && name != id1 || len(id1) > 16 && (len(name) != 17 || name[0] != '~') {
			t.Fatalf("%q stands under %q", id1, name)
		}
		t1, t2 := time.Unix(w1%250_000_000_000, 0), time.Unix(w2%250_000_000_000, 0)
		rows := func(id, limit string, start time.Time) map[string]string {
			all := map[string]string{}
			for _, version := range []int64{0, 1, 70, mostVersion} {
				all[opRow(idName(id), version)] = fmt.Sprint("version ", version, " of id ", id)
				all[pastRow(limit, start, version)] = fmt.Sprint("version ", version, " of the total of ", limit, " from ", start)
				if v, ok := versionOf(opRow(idName(id), version), opRow(idName(id), 0)); !ok || v != version {
					t.Fatalf("version %d of %q reads as %d, %t", version, id, v, ok)
				}
			}
			return all
		}
		second = rows(id2, plain(l2), t2)
		for name, what := range rows(id1, plain(l1), t1) {
			if other, both := second[name]; both && other != what {
				t.Fatalf("%q is %s and %s", name, what, other)
			}
		}
		if l1, l2 := plain(l1), plain(l2); strings.HasPrefix(pastRow(l2, t2, 0), pastRows(l1)) != (l1 == l2) || strings.HasPrefix(opRow(idName(id2), 0), pastRows(l1)) {
			t.Fatalf("a row of another is among those of %q", l1)
		}
	})
}

// TestAMoveOfManyIsAnExpressionThatDynamoDBTakes: an expression has at most 4 KB and an update 300
// operators ("Service, account, and table quotas" in the developer guide), which engines for tests
// need not hold to.
func TestAMoveOfManyIsAnExpressionThatDynamoDBTakes(t *testing.T) {
	o := defaults(t)
	week := headroom.ISOWeek(time.Date(2031, 5, 27, 0, 0, 0, 0, time.UTC))
	it := item{key: headroom.Key{Subject: "u", Meter: "slots"}, ops: map[string]string{}, past: map[string]past{}}
	it.state.Counters = map[string]headroom.Counter{}
	for i := range 1000 {
		it.ops[idName(fmt.Sprintf("a rather long id %d", i))] = "d30@week:1779667200"
	}
	it.idsSize = 50_000
	it.size = 50_000
	limits := []string{"week", "day", "hour"}
	for _, limit := range limits {
		p := past{attrs: map[string]types.AttributeValue{}, totals: map[int64]headroom.Total{}}
		for i := range 60 {
			start := week.Start.AddDate(0, 0, -7*i-7)
			p.totals[start.Unix()] = headroom.Total{Start: start, Units: 1}
			p.attrs[unix(start)], p.attrs[unknownPast+unix(start)] = num(1), &types.AttributeValueMemberBOOL{Value: true}
		}
		it.past[limit], it.state.Counters[limit] = p, headroom.Counter{Window: week}
	}
	m := o.move(it, week.End)
	for _, limit := range limits {
		m.totals(limit, 2*pastMost)
	}
	m.ids(it.toMove(50_000))
	var in dynamodb.UpdateItemInput
	m.e.into(&in)
	if len(m.rows) != idsAtMost {
		t.Errorf("%d rows, want %d", len(m.rows), idsAtMost)
	}
	for _, expression := range []string{*in.UpdateExpression, *in.ConditionExpression} {
		if len(expression) > 4096 {
			t.Errorf("an expression has %d bytes", len(expression))
		}
	}
	if operators := 2 * len(m.e.conditions); operators > 300 {
		t.Errorf("a condition has %d operators", operators)
	}
}
