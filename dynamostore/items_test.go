package dynamostore_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
)

// TestAnItemOfLastWeekAtItsLimit: case 9. The item is as the seed leaves it.
func TestAnItemOfLastWeekAtItsLimit(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.put(attributes{"userId": s("u"), "quotaWeek": s("2031-W21"), "quotaCount": n(200)})
		r.expect("u", "large", 300, headroom.ReasonNeverFits, false, 0)
		r.admit("u", "job", 30, 30)
		r.has("u", "quotaWeek", s("2031-W22"))
		r.has("u", "quotaCount", n(30))
		if got := r.history("u"); got != "2031-W21 200" {
			t.Fatalf("the history is %s", got)
		}
	})
}

// TestAnItemOfThisWeekThatTheSeedWrote: what the seed charged counts, at once.
func TestAnItemOfThisWeekThatTheSeedWrote(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		before := attributes{"userId": s("u"), "quotaWeek": s("2031-W22"), "quotaCount": n(190)}
		r.put(before)
		if used := r.used("u"); used != 190 {
			t.Fatalf("%d used", used)
		}
		r.refuse("u", "job", 20, 190)
		if after := r.item("u"); !reflect.DeepEqual(after, before) { // rule 4
			t.Fatalf("a refusal changed the item to %v", after)
		}
		r.admit("u", "job", 10, 200)
		if r.seedDeducts("u", "2031-W22", 1, 200) {
			t.Fatal("the seed charged past the limit")
		}
		r.replay("u", "job", 10, 200)
	})
}

// TestCostGreaterThanTheLimitStoresNothing: case 10.
func TestCostGreaterThanTheLimitStoresNothing(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.expect("u", "large", 201, headroom.ReasonNeverFits, false, 0)
		if item := r.item("u"); item != nil {
			t.Fatalf("stored %v", item)
		}
		r.admit("u", "small", 200, 200)
	})
}

// own are attributes of an application's own, of every type, some named like reserved words or with
// what means something in an expression.
func own() attributes {
	return attributes{
		"name":        s("Ada"),
		"count":       n(7),
		"limit":       &types.AttributeValueMemberN{Value: "3.14"},
		"window":      &types.AttributeValueMemberBOOL{Value: true},
		"usage":       &types.AttributeValueMemberNULL{Value: true},
		"status":      &types.AttributeValueMemberB{Value: []byte{0, 1, 255}},
		"tags":        &types.AttributeValueMemberSS{Value: []string{"a", "b"}},
		"numbers":     &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
		"blobs":       &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
		"a.b":         s("dot"),
		"#0":          s("hash"),
		":0":          s("colon"),
		"list[0]":     &types.AttributeValueMemberL{Value: []types.AttributeValue{n(1), s("x"), &types.AttributeValueMemberM{Value: attributes{"deep": n(2)}}}},
		"profile":     &types.AttributeValueMemberM{Value: attributes{"quotaCount": n(1), "größe": s("groß")}},
		"job-1":       s("named like an operation id"),
		"quotaTier":   s("an attribute with our prefix"),
		"quota week":  s("almost ours"),
		"lastUpdated": s("2031-05-27T10:00:00Z"),
	}
}

// TestTheApplicationsOwnAttributesAreLeftAlone: whatever Headroom does with the item.
func TestTheApplicationsOwnAttributesAreLeftAlone(t *testing.T) {
	for name, quota := range map[string]attributes{
		"no quota yet": {},
		"last week's":  {"quotaWeek": s("2031-W21"), "quotaCount": n(200)},
		"this week's":  {"quotaWeek": s("2031-W22"), "quotaCount": n(20)},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, engine string) {
				r := newRig(t, engine)
				item := own()
				maps.Copy(item, quota)
				item["userId"] = s("u")
				r.put(item)
				untouched := func() {
					t.Helper()
					got := r.item("u")
					for name, want := range own() {
						if !reflect.DeepEqual(got[name], want) {
							t.Fatalf("attribute %s is %#v, was %#v", name, got[name], want)
						}
					}
				}
				used := int64(0)
				if name == "this week's" {
					used = 20
				}
				r.admit("u", "job-1", 5, used+5)
				untouched()
				r.at(monday)
				r.admit("u", "job-2", 5, 5)
				untouched()
				for i := range 40 {
					r.admit("u", fmt.Sprintf("full-%05d", i), 1, int64(i+6))
				}
				if len(r.ledger()) == 0 {
					t.Fatal("no id has moved")
				}
				untouched()
				for range 12 { // closed windows move
					r.at(r.clock.Add(week))
					r.admit("u", "week-"+r.clock.String()[:10], 1, 1)
				}
				if err := r.engine.SetPlan(t.Context(), "u", "free"); err != nil {
					t.Fatal(err)
				}
				r.admit("u", "again", 1, 2)
				untouched()
			})
		})
	}
}

// TestOtherAttributeNames: names are configuration.
func TestOtherAttributeNames(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, named(dynamostore.Names{Subject: "pk", Window: "period", Count: "count", Plan: "tier", Prefix: "hr.#"}))
		r.put(attributes{"pk": s("u"), "period": s("2031-W22"), "count": n(20), "quotaWeek": s("of another program"), "plan": n(1)})
		r.admit("u", "job", 5, 25)
		if err := r.engine.SetPlan(t.Context(), "u", "free"); err != nil {
			t.Fatal(err)
		}
		r.has("u", "count", n(25))
		r.has("u", "tier", s("free"))
		r.has("u", "quotaWeek", s("of another program"))
		r.has("u", "plan", n(1))
		for name := range r.item("u") {
			if !slices.Contains([]string{"pk", "period", "count", "quotaWeek", "plan", "tier"}, name) && !strings.HasPrefix(name, "hr.#") {
				t.Errorf("attribute %s was added", name)
			}
		}
		r.at(monday)
		r.admit("u", "next", 5, 5)
		r.replay("u", "job", 5, 5)
	})
}

// TestNamesThatFallTogether: two things under one name are a fault of the configuration.
func TestNamesThatFallTogether(t *testing.T) {
	c := enginetest.Client(t, dynoxide, &wire{}, 1)
	for _, n := range []dynamostore.Names{
		{Window: "x", Count: "x"}, {Plan: "userId"}, {Count: "quotaOps"}, {Plan: "quotaFormat"}, {Plan: "quota/m/Ops"}, {Count: "quotaCount:day"}, {Window: "quotaSpan:week"},
	} {
		_, err := dynamostore.New(c, dynamostore.Options{Table: "t", Names: n})
		(&rig{T: t}).fails(headroom.Decision{}, err, headroom.Invalid, "attribute name")
	}
	if _, err := dynamostore.New(c, dynamostore.Options{Table: "t", Names: dynamostore.Names{Window: "Ops", Count: "Span:week"}}); err != nil {
		t.Error(err)
	}
}

// TestAPlanBeforeTheFirstDeduction: the item has a plan and nothing else.
func TestAPlanBeforeTheFirstDeduction(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, under(plans(t)))
		if err := r.engine.SetPlan(t.Context(), "u", ""); err != nil {
			t.Fatal(err)
		}
		if item := r.item("u"); item != nil {
			t.Fatalf("to remove no plan made the item %v", item)
		}
		if err := r.engine.SetPlan(t.Context(), "u", "pro"); err != nil {
			t.Fatal(err)
		}
		r.admit("u", "job", 250, 250)
		if err := r.engine.SetPlan(t.Context(), "u", ""); err != nil {
			t.Fatal(err)
		}
		r.has("u", "plan", nil)
		r.expect("u", "more", 1, headroom.ReasonOverLimit, false, 250)
	})
}

// plans has a plan of 200 and one of 300 units a week.
func plans(t *testing.T) *headroom.Catalog {
	t.Helper()
	c, err := headroom.NewCatalog("free", []headroom.Plan{
		{Name: "free", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 200}}},
		{Name: "pro", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 300}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDamageIsAnErrorAndNothingIsWritten: each attribute in turn is of another type, holds garbage,
// or is gone.
func TestDamageIsAnErrorAndNothingIsWritten(t *testing.T) {
	garbage := map[string]types.AttributeValue{
		"a string": s("garbage"), "a fraction": &types.AttributeValueMemberN{Value: "1.5"}, "beyond int64": &types.AttributeValueMemberN{Value: "9223372036854775808"},
		"below 0": n(-1), "a list": &types.AttributeValueMemberL{Value: []types.AttributeValue{n(1)}}, "a map of numbers": &types.AttributeValueMemberM{Value: attributes{"x": n(1)}},
		"a map of strings": &types.AttributeValueMemberM{Value: attributes{"x": s("x")}}, "null": &types.AttributeValueMemberNULL{Value: true}, "nothing": nil,
	}
	// What reads all the same, and means something.
	fine := map[string]bool{
		"plan: nothing": true, "quotaEpochBefore: nothing": true, "quotaEpochBefore: below 0": true,
		// a charge is read when it is asked for
		"quotaOps: a map of strings": true, "quotaOpsBefore: a map of strings": true,
		"quotaEpoch: below 0": true, "quotaSpilt: below 0": true,
		"quotaSpan: nothing": true, // adopted like a window that the seed began
	}
	// What a write in a running window does not look at: it is made as if nothing were wrong with the
	// rest.
	unseen := map[string]bool{"quotaOps: a map of numbers": true, "quotaOpsBefore: a map of numbers": true, "quotaHolds: a map of numbers": true, "quotaHolds: a map of strings": true}
	for what := range garbage {
		unseen["quotaPast: "+what], unseen["quotaEpochBefore: "+what], unseen["quotaGrants: "+what] = true, true, true
	}
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.admit("template", "job", 5, 5)
		r.at(r.clock.Add(2 * headroom.DefaultHorizon))
		r.admit("template", "job-0", 1, 1)
		if err := r.engine.SetPlan(t.Context(), "template", "free"); err != nil {
			t.Fatal(err)
		}
		light := r.item("template")
		for i := range 40 {
			r.admit("template", fmt.Sprint("more-", i), 1, int64(i+2))
		}
		heavy := r.item("template")
		for _, name := range []string{"quotaGen", "quotaSpilt", "quotaEpochBefore", "plan"} {
			if heavy[name] == nil {
				t.Fatalf("the item has no %s", name)
			}
		}
		for _, template := range []attributes{light, heavy} {
			used := template["quotaCount"].(*types.AttributeValueMemberN).Value
			for name := range template {
				for what, v := range garbage {
					if name == "userId" || name == "plan" && what == "a string" {
						continue
					}
					item := maps.Clone(template)
					item["userId"] = s("u")
					if item[name] = v; v == nil {
						delete(item, name)
					}
					r.put(item)
					at := fmt.Sprintf("%s: %s (%s used)", name, what, used)
					for range 2 { // by a store that has not seen the item, and by one that has
						d, err := r.deduct("u", "new", 2)
						if name == "quotaCount" && what == "a fraction" && errors.Is(err, headroom.OutcomeUnknown) {
							// a number like another, to the condition: it was added to, and a repeat does not add to it
							// again
							break
						}
						if fine[name+": "+what] || unseen[name+": "+what] && err == nil {
							if err != nil || !d.Allowed || d.Used > 43 {
								t.Errorf("%s: %+v, %v", at, d, err)
							}
							break
						}
						if !errors.Is(err, headroom.Unreadable) {
							t.Errorf("%s: %+v, %v", at, d, err)
						}
						if after := r.item("u"); !reflect.DeepEqual(after, item) {
							t.Errorf("%s: changed to %v", at, after)
						}
						if _, err := r.engine.Preflight(t.Context(), headroom.Request{Subject: "u", Meter: "slots", Cost: 1}); !errors.Is(err, headroom.Unreadable) {
							t.Errorf("%s: preflight: %v", at, err)
						}
					}
				}
			}
		}
	})
}

// TestANewerFormatIsAnError: it is refused with a clear error, and nothing is written.
func TestANewerFormatIsAnError(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.admit("u", "job", 5, 5)
		item := r.item("u")
		item["quotaFormat"] = n(dynamostore.NewestFormat + 1)
		r.put(item)
		for _, deduct := range []func() (headroom.Decision, error){
			func() (headroom.Decision, error) { return r.deduct("u", "job", 5) },
			func() (headroom.Decision, error) { return r.deduct("u", "new", 5) },
			func() (headroom.Decision, error) { r.at(monday); return r.deduct("u", "new", 5) },
		} {
			d, err := deduct()
			r.fails(d, err, headroom.Unreadable, "update this one")
		}
		if after := r.item("u"); !reflect.DeepEqual(after, item) {
			t.Fatalf("changed to %v", after)
		}
	})
}

// TestIDsThatLookLikeSomethingElse: an operation id may be anything.
func TestIDsThatLookLikeSomethingElse(t *testing.T) {
	ids := []string{
		"quotaOps", "quotaCount", "userId", "plan", "count", "window", "#0", "#1", ":0", ":1", "a.b", "a[0]", "a b", "~", "~~~~~~~~~~~~~~~~~", "?", "more", "op#x", "past#week#", "/", ".", "..", "x,y", "@", "!", "=", "d1@week:0",
		"\x00", "\x01", "\u2028", "é", "e\u0301", "😀", "\\", `"`, "'", "\n", "0", "-1", "null", "1779667200", strings.Repeat("x", 16), strings.Repeat("x", 17), strings.Repeat("x", 256),
		"arn:aws:states:eu-central-1:123456789012:execution:podcast:f47ac10b-58cc-4372-a567-0e02b2c3d479",
	}
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		for i, id := range ids {
			r.admit("u", id, 1, int64(i+1))
			r.replay("u", id, 1, int64(i+1))
		}
		if len(r.ledger()) == 0 {
			t.Fatal("no id has moved")
		}
		for _, id := range ids {
			r.replay("u", id, 1, int64(len(ids)))
		}
	})
}

// TestLongNamesDoNotMoveEachIDByItself: where the names alone fill the first unit, ids get room in
// the next.
func TestLongNamesDoNotMoveEachIDByItself(t *testing.T) {
	long := strings.Repeat("m", headroom.MaxMeter)
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "slots", Name: "week", Units: 1000}, {Meter: long, Name: "week", Units: 1000},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, under(c))
		subject := strings.Repeat("é", headroom.MaxSubject/2)
		for _, meter := range []string{"slots", long} {
			r.wire.reset(nil)
			const ids = 60
			for i := range ids {
				d, err := r.engine.Deduct(t.Context(), headroom.Request{Subject: subject, Meter: meter, Operation: fmt.Sprintf("job-%05d", i), Cost: 1})
				if err != nil || d.Used != int64(i+1) {
					t.Fatalf("%+v, %v", d, err)
				}
			}
			moves := 0
			for _, op := range r.wire.requests() {
				if op == "BatchWriteItem" {
					moves++
				}
			}
			if moves < 1 || moves > 6 {
				t.Errorf("%d ids of meter %.5s moved %d times", ids, meter, moves)
			}
		}
	})
}

// TestMetersOfASubjectShareItsItem: each has attributes and ids of its own, whatever it is called.
func TestMetersOfASubjectShareItsItem(t *testing.T) {
	meters := []string{"slots", "a", "a/Span:x", "a/Ops", "Ops", "/", ":", "a.b", "#", "quota", "Count:week", "é"}
	var limits []headroom.Limit
	for _, m := range meters {
		limits = append(limits, headroom.Limit{Meter: m, Name: "week", Units: 100}, headroom.Limit{Meter: m, Name: "x", Units: 1000})
	}
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: limits}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, under(c))
		deduct := func(meter, id string, cost int64) headroom.Decision {
			t.Helper()
			d, err := r.engine.Deduct(t.Context(), headroom.Request{Subject: "u", Meter: meter, Operation: id, Cost: cost})
			if err != nil {
				t.Fatalf("%q: %v", meter, err)
			}
			return d
		}
		for round := range 2 {
			for i, m := range meters {
				if d := deduct(m, fmt.Sprint("job-", round), int64(i+1)); !d.Allowed || d.Replay || d.Used != int64(i+1) {
					t.Fatalf("%q: %+v", m, d)
				}
				if d := deduct(m, fmt.Sprint("large-", round), 100); d.Allowed {
					t.Fatalf("%q: %+v", m, d)
				}
			}
			r.at(monday)
		}
		for i, m := range meters {
			if d := deduct(m, "job-0", int64(i+1)); !d.Replay || d.Used != int64(i+1) {
				t.Fatalf("%q: %+v", m, d)
			}
			u, err := r.engine.Usage(t.Context(), headroom.UsageRequest{Subject: "u", Meter: m})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range u.Limits {
				if l.Used != int64(i+1) || len(l.History) != 1 || l.History[0].Units != int64(i+1) {
					t.Fatalf("%q: %+v", m, l)
				}
			}
		}
	})
}

// TestTwoLimitsOfAMeterAreOneWrite: rule 13, in the item. Both counters are guarded and counted in
// one request, all or none.
func TestTwoLimitsOfAMeterAreOneWrite(t *testing.T) {
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "slots", Name: "week", Units: 200}, {Meter: "slots", Name: "burst", Units: 60},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, under(c))
		r.admit("u", "first", 7, 7)
		r.wire.reset(nil)
		r.admit("u", "second", 7, 14)
		r.sends("UpdateItem")
		r.has("u", "quotaCount", n(14))
		r.has("u", "quotaCount:burst", n(14))
		before := r.item("u")
		if d := r.expect("u", "large", 50, headroom.ReasonOverLimit, false, 14); d.LimitName != "burst" {
			t.Fatalf("refused by %q", d.LimitName)
		}
		if after := r.item("u"); !reflect.DeepEqual(after, before) {
			t.Fatalf("a refusal changed %v to %v", before, after)
		}

		var all sync.WaitGroup
		var admitted atomic.Int64
		for i := range 20 {
			all.Go(func() {
				if d, err := r.deduct("u", fmt.Sprint("job-", i), 7); err != nil {
					t.Error(err)
				} else if d.Allowed {
					admitted.Add(1)
				}
			})
		}
		all.Wait()
		if admitted.Load() != 6 {
			t.Fatalf("%d admitted, want 6", admitted.Load())
		}
		r.has("u", "quotaCount", n(56))
		r.has("u", "quotaCount:burst", n(56))

		// The seed's own code knows only the one. Headroom notices where it turned it, and counts the
		// other on.
		r.at(monday)
		r.seedDeducts("u", "2031-W23", 10, 200)
		r.expect("u", "after", 50, headroom.ReasonAdmitted, false, 50)
		r.has("u", "quotaCount", n(60))
		r.has("u", "quotaCount:burst", n(50))
	})
}

// TestAChargePastTheLimit: the policy that records what is done.
func TestAChargePastTheLimit(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.put(attributes{"userId": s("u"), "quotaWeek": s("2031-W22"), "quotaCount": n(190)})
		request := headroom.Request{Subject: "u", Meter: "slots", Operation: "job", Cost: 20, Over: headroom.RecordOverLimit}
		for _, replay := range []bool{false, true} {
			d, err := r.engine.Deduct(t.Context(), request)
			if err != nil || d.Reason != headroom.ReasonRecorded || d.Replay != replay || d.Used != 210 {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		r.expect("u", "more", 1, headroom.ReasonOverLimit, false, 210)
		if r.seedDeducts("u", "2031-W22", 1, 200) {
			t.Fatal("the seed charged past the limit")
		}
	})
}

// TestAnItemWithoutACount: somebody took the count away, and the week is over. The next counts from
// 0; the ids stay known.
func TestAnItemWithoutACount(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.admit("u", "job", 200, 200)
		item := r.item("u")
		delete(item, "quotaCount")
		r.put(item)
		r.at(monday)
		r.admit("u", "next", 20, 20)
		r.replay("u", "job", 200, 20)
		r.admit("u", "last", 20, 40)
	})
}

// TestAnAttributeOfTheApplicationsOwnInOurPlace: it is not overwritten.
func TestAnAttributeOfTheApplicationsOwnInOurPlace(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		item := attributes{"userId": s("u"), "quotaOps": &types.AttributeValueMemberM{Value: attributes{"calls": s("7")}}}
		r.put(item)
		d, err := r.deduct("u", "job", 5)
		r.fails(d, err, headroom.Unreadable, "quotaOps of the item")
		if after := r.item("u"); !reflect.DeepEqual(after, item) {
			t.Fatalf("changed to %v", after)
		}
	})
}

// TestAnOlderFormatBecomesTheNewestInTheWriteThatMeetsIt: no item is written for its format alone,
// and one of a newer format keeps it.
func TestAnOlderFormatBecomesTheNewestInTheWriteThatMeetsIt(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, inFormat(1))
		r.admit("u", "job", 5, 5)
		r.has("u", "quotaFormat", n(1))
		newer := r.another(inFormat(0))
		r.admit("u", "older", 5, 10)
		r.has("u", "quotaFormat", n(1))

		newer.replay("u", "job", 5, 10)
		newer.has("u", "quotaFormat", n(1))
		newer.admit("u", "newer", 5, 15)
		newer.has("u", "quotaFormat", n(2))

		r.replay("u", "newer", 5, 15)
		r.admit("u", "older again", 5, 20)
		r.has("u", "quotaFormat", n(2))
	})
}

// TestAFormatThatIsNotKnownIsNotWritten: it is refused before there is a store.
func TestAFormatThatIsNotKnownIsNotWritten(t *testing.T) {
	for _, format := range []int{-1, dynamostore.NewestFormat} {
		if _, err := dynamostore.New(dynamodb.New(dynamodb.Options{}), dynamostore.Options{Table: "t", Format: format}); !errors.Is(err, headroom.Invalid) {
			t.Errorf("format %d: %v", format, err)
		}
	}
}
