package dynamostore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
)

// beginning is a state in which a deduction of 5 finds a subject, and what is then used.
type beginning struct {
	name string
	make func(r *rig, subject string)
	used int64
}

// beginnings are the states from which a deduction takes other requests each.
var beginnings = []beginning{
	{"a subject's very first", func(*rig, string) {}, 5},
	{"in a running window", func(r *rig, subject string) { r.admit(subject, "before", 7, 7) }, 12},
	{"the first of a window", func(r *rig, subject string) {
		r.admit(subject, "before", 7, 7)
		r.at(monday)
	}, 5},
	{"on an item that the seed wrote", func(r *rig, subject string) {
		r.put(attributes{"userId": s(subject), "quotaWeek": s("2031-W22"), "quotaCount": n(7)})
	}, 12},
	{"on an item whose week the seed turned", func(r *rig, subject string) {
		r.admit(subject, "before", 7, 7)
		r.at(monday)
		r.seedDeducts(subject, "2031-W23", 3, 200)
	}, 8},
	{"with ids in the ledger", func(r *rig, subject string) { r.fill(subject, 30) }, 35},
	{"the first of a window, with ids in the ledger", func(r *rig, subject string) {
		r.fill(subject, 30)
		r.at(monday)
	}, 5},
}

// fill charges so many ids of 1 unit, which is more than an item holds from about 20 on.
func (r *rig) fill(subject string, ids int) {
	r.Helper()
	for i := range ids {
		r.admit(subject, fmt.Sprintf("full-%05d", i), 1, int64(i+1))
	}
}

// fromEach runs a test from each beginning, on each engine. begin takes a new subject there.
func fromEach(t *testing.T, settings []setting, test func(r *rig, begin func() (subject string), used int64)) {
	each(t, func(t *testing.T, engine string) {
		for _, b := range beginnings {
			t.Run(b.name, func(t *testing.T) {
				r := newRig(t, engine, settings...)
				subjects := 0
				test(r, func() string {
					subjects++
					subject := fmt.Sprint("subject-", subjects)
					r.at(tuesday)
					r.wire.reset(nil)
					b.make(r, subject)
					r.wire.reset(nil)
					return subject
				}, b.used)
			})
		}
	})
}

// TestALostAnswerIsOneCharge: case 5. Whatever request of a deduction is applied and its answer
// lost, the SDK sends it again, and the deduction is charged once and succeeds.
func TestALostAnswerIsOneCharge(t *testing.T) {
	fromEach(t, nil, func(r *rig, begin func() string, used int64) {
		for nth := 1; ; nth++ {
			subject := begin()
			lost := false
			r.wire.reset(func(x *exchange) (*http.Response, error) {
				if x.n != nth {
					return x.pass()
				}
				lost = true
				return x.lose()
			})
			d, err := r.deduct(subject, "job", 5)
			if err != nil || !d.Allowed || d.Used != used {
				r.Fatalf("answer %d lost: %+v, %v", nth, d, err)
			}
			if !lost {
				return
			}
			r.wire.reset(nil)
			r.replay(subject, "job", 5, used)
		}
	})
}

// TestWithoutAnAnswerTheOutcomeIsUnknown: case 5. If no attempt at a request brings an answer, the
// outcome of the deduction is unknown, unless it is known not to be written, or to be; a repeat of
// the id charges it once.
func TestWithoutAnAnswerTheOutcomeIsUnknown(t *testing.T) {
	for _, fault := range []struct {
		name string
		do   func(x *exchange) (*http.Response, error)
	}{
		{"applied", (*exchange).lose},
		{"dropped", (*exchange).drop},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fromEach(t, []setting{sending(1)}, func(r *rig, begin func() string, used int64) {
				for nth := 1; ; nth++ {
					subject := begin()
					var op string
					r.wire.reset(func(x *exchange) (*http.Response, error) {
						if x.n != nth {
							return x.pass()
						}
						op = x.op
						return fault.do(x)
					})
					d, err := r.deduct(subject, "job", 5)
					switch {
					case op == "":
						if err != nil {
							r.Fatal(err)
						}
						return
					case err == nil: // it was the tidying after the charge
					case op == "GetItem", op == "Query":
						r.fails(d, err, headroom.Unavailable, "")
					default:
						r.fails(d, err, headroom.OutcomeUnknown, "repeat the same operation id")
					}
					r.wire.reset(nil)
					if d, err = r.deduct(subject, "job", 5); err != nil || !d.Allowed || d.Used != used {
						r.Fatalf("request %d (%s) %s, then a repeat: %+v, %v", nth, op, fault.name, d, err)
					}
					r.replay(subject, "job", 5, used)
				}
			})
		})
	}
}

// TestDoubtOutlastsALaterFailure: case 5. An answer was lost, the SDK's next attempt is refused by
// the condition, and to find out why fails: the charge may have been made, and the error must say
// so.
func TestDoubtOutlastsALaterFailure(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		for _, ids := range []int{1, 30} {
			t.Run(fmt.Sprint(ids, " ids"), func(t *testing.T) {
				r := newRig(t, engine)
				other := r.another()
				other.fill("u", ids)
				lost := false
				r.wire.reset(func(x *exchange) (*http.Response, error) {
					switch {
					case x.op == "GetItem" && lost:
						return x.refuse()
					case x.op == "UpdateItem" && bytes.Contains(x.body, []byte("job")) && !lost:
						answer, err := x.edited(stripped)
						if err != nil || answer.StatusCode != http.StatusOK {
							return answer, err
						}
						// The id is in the item now, or, where it was about to be full, moves to the ledger at once.
						lost = true
						other.fillMore("u", ids)
						return x.drop()
					}
					return x.edited(stripped)
				})
				d, err := r.deduct("u", "job", 5)
				r.fails(d, err, headroom.OutcomeUnknown, "")
				r.wire.reset(nil)
				d, err = r.deduct("u", "job", 5)
				if err != nil || !d.Replay || d.Used != r.count("u") || d.Used != int64(5+2*ids) {
					t.Fatalf("%+v, %v", d, err)
				}
			})
		}
	})
}

// TestARefusalAfterALostRequestIsNotCertain: rule 16. A request is lost on its way, and the SDK's
// next attempt finds too few units. The first may still come, when the units are there: so the
// answer is not that nothing is charged.
func TestARefusalAfterALostRequestIsNotCertain(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		for verb, ask := range map[string]func(r *rig) (headroom.Decision, error){
			"deduct": func(r *rig) (headroom.Decision, error) { return r.deduct("u", "job", 20) },
			"hold": func(r *rig) (headroom.Decision, error) {
				return r.engine.Hold(r.Context(), headroom.Request{Subject: "u", Meter: "slots", Operation: "job", Cost: 20}, time.Hour)
			},
		} {
			t.Run(verb, func(t *testing.T) {
				r := newRig(t, engine)
				r.admit("u", "before", 180, 180)
				var late func() (*http.Response, error)
				guesses := map[string]int{"deduct": 1}[verb] // which do not fit
				r.wire.reset(func(x *exchange) (*http.Response, error) {
					if x.op != "UpdateItem" || !bytes.Contains(x.body, []byte("job")) || late != nil {
						return x.pass()
					}
					if guesses--; guesses >= 0 {
						return x.pass()
					}
					// It is on its way, and what comes between takes the units.
					late = x.pass
					r.wire.reset(nil)
					r.admit("u", "between", 10, 190)
					return x.drop()
				})
				d, err := ask(r)
				r.fails(d, err, headroom.OutcomeUnknown, "repeat the same operation id")
				if d, err := ask(r); err != nil || d.Allowed {
					t.Fatalf("a repeat: %+v, %v", d, err) // nothing was lost of it
				}
				if _, err := r.engine.Refund(r.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: "between", ID: "refund"}); err != nil {
					t.Fatal(err)
				}
				if answer, err := late(); err != nil || answer.StatusCode != http.StatusOK {
					t.Fatal(answer, err)
				}
				if d, err := ask(r); err != nil || !d.Replay || d.Used+d.Held != 200 {
					t.Fatalf("a repeat after it came: %+v, %v", d, err)
				}
			})
		}
	})
}

// TestDoubtOutlastsAnotherForm: rule 16. An attempt is lost, the next finds an item of another
// form, and the write in that form is throttled: the lost one may yet come, when the item has its
// form again.
func TestDoubtOutlastsAnotherForm(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.fill("u", 30) // its ids are in the ledger, which the other does not know
		other, updates := r.another(), 0
		other.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op != "UpdateItem" {
				return x.pass()
			}
			switch updates++; updates {
			case 1:
				return x.drop()
			case 2:
				return x.pass()
			}
			return x.say(http.StatusBadRequest, "ProvisionedThroughputExceededException")
		})
		d, err := other.deduct("u", "job", 5)
		r.fails(d, err, headroom.OutcomeUnknown, "repeat the same operation id")
		if updates < 3 {
			t.Fatalf("%d updates", updates)
		}
		r.admit("u", "job", 5, 35)
	})
}

// fillMore charges ids of 1 unit each, other than those of fill.
func (r *rig) fillMore(subject string, ids int) {
	r.Helper()
	for i := range ids {
		if d, err := r.deduct(subject, fmt.Sprintf("more-%05d", i), 1); err != nil || !d.Allowed {
			r.Fatal(d, err)
		}
	}
}

// count is quotaCount as it is stored.
func (r *rig) count(subject string) int64 {
	r.Helper()
	var count int64
	if _, err := fmt.Sscan(r.item(subject)["quotaCount"].(*numberAttribute).Value, &count); err != nil {
		r.Fatal(err)
	}
	return count
}

// stripped takes the item out of the answer to a failed condition.
func stripped(status int, body []byte) []byte {
	var content map[string]json.RawMessage
	if status != http.StatusBadRequest || json.Unmarshal(body, &content) != nil {
		return body
	}
	delete(content, "Item")
	body, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return body
}

// TestAFailureSaysWhichItIs: rule 16.
func TestAFailureSaysWhichItIs(t *testing.T) {
	say := func(status int, code string) func(*exchange) (*http.Response, error) {
		return func(x *exchange) (*http.Response, error) { return x.say(status, code) }
	}
	firstLost := func(then func(*exchange) (*http.Response, error)) func(*exchange) (*http.Response, error) {
		return func(x *exchange) (*http.Response, error) {
			if x.n == 1 {
				return x.lose()
			}
			return then(x)
		}
	}
	undated := func(x *exchange) (*http.Response, error) {
		answer, err := x.pass()
		if err == nil {
			answer.Header.Del("Date")
		}
		return answer, err
	}
	cutOff := func(x *exchange) (*http.Response, error) {
		return x.edited(func(_ int, body []byte) []byte { return body[:len(body)/2] })
	}
	const again, unavailable = "repeat the same operation id", ""
	for _, fault := range []struct {
		name         string
		meddle       func(*exchange) (*http.Response, error)
		write, read  headroom.Code
		message      string // of the write's error
		then, charge bool   // whether the write was made all the same
	}{
		{"connection refused", (*exchange).refuse, headroom.Unavailable, headroom.Unavailable, "cannot be reached", false, false},
		{"connection lost", (*exchange).drop, headroom.OutcomeUnknown, headroom.Unavailable, again, false, false},
		{"answer lost", (*exchange).lose, headroom.OutcomeUnknown, headroom.Unavailable, again, true, true},
		{"answer cut off", cutOff, headroom.OutcomeUnknown, headroom.Unavailable, again, true, true},
		{"answer without a date", undated, headroom.OutcomeUnknown, headroom.Unavailable, again, true, true},
		{"internal error", say(500, "InternalServerError"), headroom.OutcomeUnknown, headroom.Unavailable, again, false, false},
		{"service unavailable", say(503, "ServiceUnavailable"), headroom.OutcomeUnknown, headroom.Unavailable, again, false, false},
		{"throughput exceeded", say(400, "ProvisionedThroughputExceededException"), headroom.Throttled, headroom.Throttled, "throttles", false, false},
		{"throttled", say(400, "ThrottlingException"), headroom.Throttled, headroom.Throttled, "throttles", false, false},
		{"first lost, then throttled", firstLost(say(400, "ThrottlingException")), headroom.OutcomeUnknown, headroom.Throttled, again, true, true},
		{"first lost, then refused", firstLost((*exchange).refuse), headroom.OutcomeUnknown, headroom.Unavailable, again, true, true},
		{"first lost, then a conflict", firstLost(say(400, "TransactionConflictException")), headroom.OutcomeUnknown, "", again, true, true},
		{"no rights", say(400, "AccessDeniedException"), headroom.Rejected, headroom.Rejected, "GetItem and UpdateItem", false, false},
		{"no table", say(400, "ResourceNotFoundException"), headroom.Rejected, headroom.Rejected, "headroom tables create", false, false},
		{"unknown keys", say(400, "UnrecognizedClientException"), headroom.Rejected, headroom.Rejected, "credentials", false, false},
		{"not valid", say(400, "ValidationException"), headroom.Rejected, headroom.Rejected, "refused the request", false, false},
	} {
		t.Run(fault.name, func(t *testing.T) {
			each(t, func(t *testing.T, engine string) {
				r := newRig(t, engine)
				r.admit("u", "before", 7, 7)
				r.wire.reset(fault.meddle)
				d, err := r.deduct("u", "job", 5)
				r.fails(d, err, fault.write, fault.message)

				for _, again := range []bool{false, true} { // a mix begins anew
					if fault.read == "" {
						break // no read meets it
					}
					r.wire.reset(fault.meddle)
					request := headroom.Request{Subject: "u", Meter: "slots", Cost: 1}
					if again {
						request.Operation = "job"
					}
					d, err = r.engine.Preflight(r.Context(), request)
					r.fails(d, err, fault.read, unavailable)
				}
				if r.wire.reset(fault.meddle); fault.read != "" {
					_, err = r.engine.Usage(r.Context(), headroom.UsageRequest{Subject: "u", Meter: "slots", Now: tuesday})
					r.fails(headroom.Decision{}, err, fault.read, "")
				}

				r.wire.reset(nil)
				r.expect("u", "job", 5, headroom.ReasonAdmitted, fault.charge, 12)
				r.replay("u", "job", 5, 12)
			})
		})
	}
}

// TestNoDateIsAClearError: the time of the engine's answers is what a new window is opened by.
func TestNoDateIsAClearError(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.wire.reset(func(x *exchange) (*http.Response, error) {
			answer, err := x.pass()
			if err == nil {
				answer.Header.Del("Date")
			}
			return answer, err
		})
		d, err := r.deduct("u", "job", 5) // the condition fails, since there is no item
		r.fails(d, err, headroom.Unavailable, "no Date")
		if r.item("u") != nil {
			t.Fatal("something was written")
		}
	})
}

// TestTablesThatAreMissing: what to do about it is in the error, of a real engine.
func TestTablesThatAreMissing(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		store, err := dynamostore.New(enginetest.Client(t, engine, &wire{}, 1), dynamostore.Options{Table: "nowhere"})
		if err != nil {
			t.Fatal(err)
		}
		e, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.Deduct(t.Context(), headroom.Request{Subject: "u", Meter: "slots", Operation: "job", Cost: 1})
		r := &rig{T: t}
		r.fails(d, err, headroom.Rejected, "nowhere and nowhere-ledger are needed")
	})
}

// TestAFailureBeforeAnythingIsSentIsKnown: without credentials nothing can have been written.
func TestAFailureBeforeAnythingIsSentIsKnown(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		o := enginetest.Client(t, engine, r.wire, 2).Options()
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("no such profile")
		})
		store, err := dynamostore.New(dynamodb.New(o), r.opts)
		if err != nil {
			t.Fatal(err)
		}
		if r.engine, err = headroom.New(store, headroom.DefaultCatalog(), headroom.Options{}); err != nil {
			t.Fatal(err)
		}
		d, err := r.deduct("u", "job", 5)
		r.fails(d, err, headroom.Unavailable, "")
		r.sends()
	})
}

// TestADeadlineInMidRequest: rule 16. The caller gave up after the request was sent: the outcome is
// unknown.
func TestADeadlineInMidRequest(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		for _, applied := range []bool{false, true} {
			r := newRig(t, engine)
			r.admit("u", "before", 7, 7)
			ctx, cancel := context.WithCancel(t.Context())
			r.wire.reset(func(x *exchange) (*http.Response, error) {
				if applied {
					if _, err := x.pass(); err != nil {
						return nil, err
					}
				}
				cancel()
				<-x.Context().Done()
				return nil, x.Context().Err()
			})
			d, err := r.engine.Deduct(ctx, headroom.Request{Subject: "u", Meter: "slots", Operation: "job", Cost: 5})
			r.fails(d, err, headroom.OutcomeUnknown, "")
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%v does not tell of the caller's own end", err)
			}
			r.wire.reset(nil)
			r.expect("u", "job", 5, headroom.ReasonAdmitted, applied, 12)

			// A context that is over before anything is sent is no unknown outcome.
			r.wire.reset(nil)
			d, err = r.engine.Deduct(ctx, headroom.Request{Subject: "u", Meter: "slots", Operation: "another", Cost: 5})
			r.fails(d, err, headroom.Unavailable, "")
			r.sends()
		}
	})
}

// TestATransactionOnTheItem: case 7. A plain write that meets a transaction of the application's
// own is sent again, since the SDK does not.
func TestATransactionOnTheItem(t *testing.T) {
	for _, times := range []int{1, 5} {
		fromEach(t, nil, func(r *rig, begin func() string, used int64) {
			subject := begin()
			conflicts := 0
			r.wire.reset(func(x *exchange) (*http.Response, error) {
				if x.op == "UpdateItem" && conflicts < times {
					conflicts++
					return x.say(http.StatusBadRequest, "TransactionConflictException")
				}
				return x.pass()
			})
			r.admit(subject, "job", 5, used)
			r.wire.reset(nil)
			r.replay(subject, "job", 5, used)
		})
	}
}

// TestATransactionThatOutlastsTheRetries: case 7, rule 2. Contention is an error, never a refusal,
// and nothing is written.
func TestATransactionThatOutlastsTheRetries(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		t.Parallel() // it waits between its tries
		r := newRig(t, engine)
		r.admit("u", "before", 7, 7)
		before := r.item("u")
		r.wire.reset(func(x *exchange) (*http.Response, error) {
			return x.say(http.StatusBadRequest, "TransactionConflictException")
		})
		d, err := r.deduct("u", "job", 5)
		r.fails(d, err, headroom.Contended, "nothing was written")
		if after := r.item("u"); !reflect.DeepEqual(after, before) {
			t.Fatalf("the item was %v and is %v", before, after)
		}
		r.wire.reset(nil)
		r.admit("u", "job", 5, 12)
	})
}

// TestAnEngineThatSendsNoItem: case 8. A failed condition without the item costs one consistent
// read, and leads to the same answer.
func TestAnEngineThatSendsNoItem(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		for _, habit := range []string{"never", "no more", "now and then"} {
			if engine != dynoxide && habit != "never" {
				continue
			}
			t.Run(habit, func(t *testing.T) {
				r := newRig(t, engine, under(plans(t)))
				failures := 0
				meddle := func(x *exchange) (*http.Response, error) {
					if x.op == "GetItem" && !bytes.Contains(x.body, []byte(`"ConsistentRead":true`)) {
						t.Error("the read is not consistent")
					}
					return x.edited(func(status int, body []byte) []byte {
						if failures++; habit == "now and then" && failures%2 == 0 {
							return body
						}
						return stripped(status, body)
					})
				}
				if habit == "no more" {
					r.admit("another", "job", 1, 1)
					r.refuse("another", "large", 200, 1) // the engine has sent an item
				}
				looks := func() {
					t.Helper()
					reads := len(slices.DeleteFunc(r.wire.requests(), func(op string) bool { return op != "GetItem" }))
					if habit == "never" && reads != 1 {
						t.Fatalf("%d reads of %q", reads, r.wire.requests())
					}
					r.wire.reset(meddle)
				}
				r.wire.reset(meddle)
				r.admit("u", "job", 190, 190) // no item at all
				looks()
				r.replay("u", "job", 190, 190)
				looks()
				r.refuse("u", "small", 20, 190)
				looks()
				r.at(monday)
				r.admit("u", "small", 20, 20) // a new window
				looks()
				r.replay("u", "job", 190, 20)
				looks()
				if err := r.engine.SetPlan(t.Context(), "u", "pro"); err != nil {
					t.Fatal(err)
				}
				r.wire.reset(meddle)
				r.admit("u", "much", 190, 210) // another plan
				looks()
			})
		}
	})
}

// TestAChargeWithoutAnIDIsNeverMadeTwice: whatever request of it is applied or lost, and however
// often the SDK sends again, a charge without an operation id is made once at most, and not at all
// only if the answer says so.
func TestAChargeWithoutAnIDIsNeverMadeTwice(t *testing.T) {
	for name, fault := range map[string]func(x *exchange) (*http.Response, error){"applied": (*exchange).lose, "dropped": (*exchange).drop} {
		t.Run(name, func(t *testing.T) {
			fromEach(t, nil, func(r *rig, begin func() string, used int64) {
				catalog, err := headroom.DefaultCatalog().WithMemory(0, map[string]headroom.Memory{"slots": {None: true}})
				if err != nil {
					r.Fatal(err)
				}
				unknown := 0
				for nth := 1; ; nth++ {
					subject := begin()
					nameless, err := headroom.New(r.store, catalog, headroom.Options{Clock: func() time.Time { return *r.clock }})
					if err != nil {
						r.Fatal(err)
					}
					var op string
					var late *exchange
					r.wire.reset(func(x *exchange) (*http.Response, error) {
						if x.n != nth {
							return x.pass()
						}
						op, late = x.op, x
						return fault(x)
					})
					d, err := nameless.Deduct(r.Context(), headroom.Request{Subject: subject, Meter: "slots", Cost: 5})
					if op == "" {
						if unknown == 0 {
							r.Error("no write was in doubt")
						}
						return
					}
					if name == "dropped" && op == "UpdateItem" {
						// It was only late.
						if late, err := late.pass(); err == nil {
							late.Body.Close()
						}
					}
					r.wire.reset(nil)
					switch got := r.used(subject); {
					case err == nil && (!d.Allowed || !d.Unremembered || got != used):
						r.Errorf("%s %d: %+v, then %d used: want %d", op, nth, d, got, used)
					case err != nil && (!errors.Is(err, headroom.OutcomeUnknown) || op != "UpdateItem" || got != used && got != used-5):
						r.Errorf("%s %d: %v, then %d used: want at most %d", op, nth, err, got, used)
					case err != nil:
						unknown++
					}
				}
			})
		})
	}
}
