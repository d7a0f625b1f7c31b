package dynamostore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// inItem is how many ids of the form of fill an item holds at least before they move.
const inItem = 15

// TestMovingIdsInterruptedAnywhere: case 6. Deductions cross the move of the ids to the ledger;
// each of their requests in turn fails, before or after it takes effect, for good or until the SDK
// sends it again, while another writer deducts at that very moment. Every id is charged once.
func TestMovingIdsInterruptedAnywhere(t *testing.T) {
	for _, fault := range []struct {
		name     string
		attempts int
		do       func(x *exchange) (*http.Response, error)
	}{
		{"dropped", 1, (*exchange).drop},
		{"lost", 1, (*exchange).lose},
		{"lost and sent again", 2, (*exchange).lose},
	} {
		t.Run(fault.name, func(t *testing.T) {
			each(t, func(t *testing.T, engine string) {
				if engine != dynoxide && fault.name != "lost" {
					t.Skip("what differs between the engines does not depend on how a request fails")
				}
				other := newRig(t, engine)
				// Two subjects just before ids move, for the first time and for the second: two more, and they
				// go.
				ids := map[string]int{"first": 0, "second": 0}
				for subject, moves := range map[string]int{"first": 1, "second": 2} {
					var before [2]attributes
					for gen := "0"; gen != fmt.Sprint(moves); ids[subject]++ {
						before = [2]attributes{before[1], other.item(subject)}
						other.admit(subject, fmt.Sprintf("full-%05d", ids[subject]), 1, int64(ids[subject]+1))
						gen = other.item(subject)["quotaGen"].(*types.AttributeValueMemberN).Value
					}
					ids[subject] -= 2
					other.put(before[0])
				}
				rows := map[string][]attributes{}
				for _, row := range other.ledger() {
					key := row["key"].(*types.AttributeValueMemberS).Value
					rows[key] = append(rows[key], row)
				}
				for _, like := range []string{"first", "second"} {
					for nth := 1; ; nth++ {
						subject := fmt.Sprint(like, "-", nth)
						// A copy. The ledger may have more than had moved by then, as after a move that was
						// interrupted.
						item := other.item(like)
						item["userId"] = s(subject)
						other.put(item)
						for _, row := range rows["5#slots"+like] {
							row["key"] = s("5#slots" + subject)
							if _, err := other.raw.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(other.opts.Table + "-ledger"), Item: row}); err != nil {
								t.Fatal(err)
							}
						}
						if !interrupted(t, other, other.another(sending(fault.attempts)), subject, ids[like], nth, fault.do) {
							break
						}
					}
				}
			})
		})
	}
}

// interrupted has r deduct on a subject that has so many ids already, and the nth request fail
// while the other deducts. It reports whether there was an nth request.
func interrupted(t *testing.T, other, r *rig, subject string, ids, nth int, fault func(*exchange) (*http.Response, error)) (reached bool) {
	t.Helper()
	charged := int64(ids) + 1
	r.admit(subject, "begin", 1, charged) // from here on r knows whether ids have moved
	r.wire.reset(func(x *exchange) (*http.Response, error) {
		if x.n != nth {
			return x.pass()
		}
		reached = true
		// The other writer's deduction may itself move the ids, first.
		if d, err := other.deduct(subject, "other", 3); err != nil || !d.Allowed || d.Replay {
			t.Errorf("the other's deduction: %+v, %v", d, err)
		}
		return fault(x)
	})
	for _, id := range []string{"a", "b", "c"} {
		_, err := r.deduct(subject, id, 5)
		if err != nil && !errors.Is(err, headroom.OutcomeUnknown) && !errors.Is(err, headroom.Unavailable) {
			t.Fatalf("request %d: %v", nth, err)
		}
	}
	r.wire.reset(nil)
	if !reached {
		return false
	}
	for _, id := range []string{"a", "b", "c"} {
		if d, err := r.deduct(subject, id, 5); err != nil || !d.Allowed {
			t.Fatalf("request %d, then %q again: %+v, %v", nth, id, d, err)
		}
	}
	charged += 3*5 + 3
	for _, id := range []string{"a", "b", "c"} {
		r.replay(subject, id, 5, charged)
	}
	r.replay(subject, "other", 3, charged)
	r.replay(subject, "full-00000", 1, charged)
	known := r.known(subject)
	for i := range ids {
		if id := fmt.Sprintf("full-%05d", i); !known[id] {
			t.Fatalf("request %d: %q is neither in the item nor in the ledger", nth, id)
		}
	}
	if got := r.count(subject); got != charged {
		t.Fatalf("request %d: %d is stored, %d was charged", nth, got, charged)
	}
	return true
}

// known are the names of the ids that the item of a subject and the ledger hold.
func (r *rig) known(subject string) map[string]bool {
	r.Helper()
	names := map[string]bool{}
	for id := range r.item(subject)["quotaOps"].(*types.AttributeValueMemberM).Value {
		names[id] = true
	}
	for _, row := range r.ledger() {
		if row["key"].(*types.AttributeValueMemberS).Value == "5#slots"+subject {
			// and its version
			name, _, _ := strings.Cut(strings.TrimPrefix(row["row"].(*types.AttributeValueMemberS).Value, "op#"), "\x00")
			names[name] = true
		}
	}
	return names
}

// TestAnswersAreLostWhileManyMoveIds: cases 5 and 6. Eight writers share the deliveries of a full
// subject, each operation delivered twice, and every seventh answer of each is lost.
func TestAnswersAreLostWhileManyMoveIds(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		const writers, ids = 8, 80
		first := newRig(t, engine)
		deliveries := make(chan string, 2*ids)
		for i := range ids {
			deliveries <- fmt.Sprintf("job-%05d", i)
			deliveries <- fmt.Sprintf("job-%05d", (i+ids/2)%ids)
		}
		close(deliveries)
		var all sync.WaitGroup
		for range writers {
			r := first.another()
			r.wire.reset(func(x *exchange) (*http.Response, error) {
				if x.n%7 == 0 {
					return x.lose()
				}
				return x.pass()
			})
			all.Go(func() {
				for id := range deliveries {
					d, err := r.deduct("u", id, 2)
					if err != nil || !d.Allowed {
						t.Errorf("%s: %+v, %v", id, d, err)
					}
				}
			})
		}
		all.Wait()
		if got := first.count("u"); got != 2*ids {
			t.Fatalf("%d is stored, want %d", got, 2*ids)
		}
		for i := range ids {
			first.replay("u", fmt.Sprintf("job-%05d", i), 2, 2*ids)
		}
	})
}

// TestNotAllWhoFindAnItemFullMoveItsIDs: each copy is paid for, and one is enough.
func TestNotAllWhoFindAnItemFullMoveItsIDs(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		const writers, ids = 16, 160
		r := newRig(t, engine)
		var copies atomic.Int64
		r.wire.reset(func(x *exchange) (*http.Response, error) {
			copies.Add(int64(strings.Count(string(x.body), "PutRequest")))
			return x.pass()
		})
		jobs := make(chan int, ids)
		for i := range ids {
			jobs <- i
		}
		close(jobs)
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for i := range jobs {
					if d, err := r.deduct("u", fmt.Sprintf("job-%05d", i), 1); err != nil || !d.Allowed || d.Replay {
						t.Errorf("%+v, %v", d, err)
					}
				}
			})
		}
		all.Wait()
		if n := copies.Load(); n > writers/2*ids {
			t.Errorf("%d ids of %d writers were copied %d times", ids, writers, n)
		}
	})
}

// TestAHeavyMonthIsNotPaidForEver: once no id in the ledger is remembered any more, a deduction is
// one request again.
func TestAHeavyMonthIsNotPaidForEver(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, horizon(time.Hour))
		r.at(monday.Add(30 * time.Minute))
		r.fill("u", 40)
		if len(r.ledger()) < inItem {
			t.Fatal("the ids have not moved")
		}
		// Who knows that ids have moved looks in the ledger and charges. Who does not learns it from a
		// write that fails.
		knows, learns := []string{"Query", "UpdateItem"}, []string{"UpdateItem", "Query", "UpdateItem"}
		if engine != dynoxide {
			learns = slices.Insert(learns, 1, "GetItem") // of the item
		}
		for i, want := range [][]string{knows, learns} {
			by := []*rig{r, r.another(horizon(time.Hour))}[i]
			for try := 0; ; try++ {
				by.wire.reset(nil)
				by.admit("u", fmt.Sprint("late-", i, "-", try), 1, r.count("u")+1)
				if sent := by.wire.requests(); slices.Equal(sent, want) {
					break
				} else if try > 0 || !slices.Contains(sent, "BatchWriteItem") { // ids may move once
					t.Fatalf("a deduction with ids in the ledger sends %q, want %q", sent, want)
				}
				by = r.another(horizon(time.Hour))
				if i == 0 {
					by = r
				}
			}
		}
		used := r.count("u")

		// One epoch later the ids in the ledger are the older generation, and still known.
		r.at(monday.Add(90 * time.Minute))
		r.admit("u", "next", 1, used+1)
		r.replay("u", "full-00000", 1, used+1)
		r.has("u", "quotaSpilt", n(monday.Unix()+1)) // the seconds of a label tell the horizon

		// Two epochs later they are forgotten, and the ledger with them.
		r.at(monday.Add(150 * time.Minute))
		r.admit("u", "turn", 1, used+2)
		r.has("u", "quotaGen", n(0))
		r.has("u", "quotaSpilt", nil)
		r.wire.reset(nil)
		r.admit("u", "light", 1, used+3)
		r.sends("UpdateItem")
		r.replay("u", "next", 1, used+3)
		// older than the horizon: what its id tells is for the caller to say
		r.admit("u", "full-00000", 1, used+4)
	})
}

// TestRowsExpireAndNothingDependsOnIt: case 37.
func TestRowsExpireAndNothingDependsOnIt(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		out, err := r.raw.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(r.opts.Table + "-ledger")})
		switch {
		case engine != dynoxide: // dynalite has no time to live
		case err != nil:
			t.Fatal(err)
		case out.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusEnabled || *out.TimeToLiveDescription.AttributeName != "expires":
			t.Fatalf("time to live is %+v", out.TimeToLiveDescription)
		}

		r.fill("u", 30)
		rows := r.ledger()
		if len(rows) < inItem {
			t.Fatalf("%d rows in the ledger", len(rows))
		}
		end := headroom.ISOWeek(tuesday).End
		for _, row := range rows {
			expires, err := strconv.ParseInt(row["expires"].(*types.AttributeValueMemberN).Value, 10, 64)
			at := time.Unix(expires, 0)
			if err != nil || !at.After(end) || !at.After(tuesday.Add(headroom.DefaultHorizon)) || at.After(tuesday.AddDate(1, 0, 0)) {
				t.Fatalf("a row expires at %s, %v", at, err)
			}
		}

		// Long after, the rows may be there or not. Either way nothing fails, nothing is charged twice by
		// repeats that come soon after one another, and the count is right.
		r.at(tuesday.AddDate(1, 0, 0))
		r.replay("u", "full-00000", 1, 0)
		for _, row := range rows {
			if _, err := r.raw.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(r.opts.Table + "-ledger"), Key: attributes{"key": row["key"], "row": row["row"]}}); err != nil {
				t.Fatal(err)
			}
		}
		r.admit("u", "full-00000", 1, 1)
		r.replay("u", "full-00000", 1, 1)
		r.admit("u", "full-00001", 1, 2)
	})
}

// TestRowsLeftUnprocessedAreSentAgain: an engine may take a part of a batch and leave the rest.
func TestRowsLeftUnprocessedAreSentAgain(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		batches := 0
		r.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op != "BatchWriteItem" {
				return x.pass()
			}
			batches++
			taken, left := half(t, x.body)
			answer, err := x.passing(taken)
			if err != nil || answer.StatusCode != http.StatusOK {
				return answer, err
			}
			answer.Body.Close()
			return x.answer(http.StatusOK, `{"UnprocessedItems":`+left+`}`), nil
		})
		r.fill("u", inItem+20)
		if batches < 2 {
			t.Fatalf("%d batches", batches)
		}
		rows := len(r.ledger())
		if rows < inItem || strings.Contains(r.log.String(), "WARN") {
			t.Fatalf("%d rows in the ledger; %s", rows, r.log)
		}
		r.wire.reset(nil)
		for i := range inItem + 10 {
			r.replay("u", fmt.Sprintf("full-%05d", i), 1, inItem+20)
		}
	})
}

// half cuts the rows of a batch in two, the second half empty if there is but one row.
func half(t *testing.T, body []byte) (taken []byte, left string) {
	t.Helper()
	var in struct{ RequestItems map[string][]json.RawMessage }
	if err := json.Unmarshal(body, &in); err != nil {
		t.Fatal(err)
	}
	rest := map[string][]json.RawMessage{}
	for table, rows := range in.RequestItems {
		at := (len(rows) + 1) / 2
		in.RequestItems[table] = rows[:at]
		if at < len(rows) {
			rest[table] = rows[at:]
		}
	}
	taken, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	more, err := json.Marshal(rest)
	if err != nil {
		t.Fatal(err)
	}
	return taken, string(more)
}

// TestALedgerThatFailsStopsNobody: the charge is made before ids move, so that trouble with the
// ledger is only told to the log, and ids stay in the item until it is over.
func TestALedgerThatFailsStopsNobody(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		// far more than one batch; enough that somebody is to move ids several times
		const ids, more = 120, 30
		r := newRig(t, engine)
		r.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op == "BatchWriteItem" {
				return x.say(http.StatusBadRequest, "AccessDeniedException")
			}
			return x.pass()
		})
		r.fill("u", ids)
		if !strings.Contains(r.log.String(), "item grows") || !strings.Contains(r.log.String(), "AccessDenied") {
			t.Fatalf("the log says %q", r.log)
		}
		r.has("u", "quotaGen", n(0))
		r.replay("u", "full-00000", 1, ids)

		r.wire.reset(nil)
		for i := range more {
			r.admit("u", fmt.Sprint("then-", i), 1, ids+1+int64(i))
		}
		left := len(r.item("u")["quotaOps"].(*types.AttributeValueMemberM).Value)
		if rows := len(r.ledger()); left > inItem+25 || rows+left != ids+more {
			t.Fatalf("%d ids in the item and %d in the ledger, of %d", left, rows, ids+more)
		}
		for i := range ids {
			r.replay("u", fmt.Sprintf("full-%05d", i), 1, ids+more)
		}
	})
}

// TestALedgerThatCannotBeReadChargesNothing: whether an id was charged cannot be known, and so it
// is an error.
func TestALedgerThatCannotBeReadChargesNothing(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.fill("u", 30)
		r.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op == "Query" {
				return x.say(http.StatusBadRequest, "ProvisionedThroughputExceededException")
			}
			return x.pass()
		})
		d, err := r.deduct("u", "full-00000", 1)
		r.fails(d, err, headroom.Throttled, "")
		d, err = r.deduct("u", "new", 1)
		r.fails(d, err, headroom.Throttled, "")
		r.wire.reset(nil)
		r.replay("u", "full-00000", 1, 30)
		r.admit("u", "new", 1, 31)
	})
}

// TestARowThatDoesNotReadIsAnError: what a newer version wrote, or something damaged, is not taken
// for an id that nobody knows.
func TestARowThatDoesNotReadIsAnError(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.fill("u", 30)
		row := r.ledger()[0]
		name := strings.TrimPrefix(row["row"].(*types.AttributeValueMemberS).Value, "op#")
		for what, v := range map[string]types.AttributeValue{"charge": s("z12@week:1"), "epoch": s("soon")} {
			was := row[what]
			row[what] = v
			if _, err := r.raw.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(r.opts.Table + "-ledger"), Item: row}); err != nil {
				t.Fatal(err)
			}
			d, err := r.deduct("u", name, 1)
			r.fails(d, err, headroom.Unreadable, "")
			row[what] = was
		}
	})
}

// TestSixtyWindowsInARow: rule 8. The totals move to the ledger, interrupted between the copy and
// the removal every other time, and the last 52 stay exact.
func TestSixtyWindowsInARow(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine, sending(1))
		moves := 0
		meddle := func(x *exchange) (*http.Response, error) {
			if x.op == "UpdateItem" && strings.Contains(string(x.body), "more") {
				if moves++; moves%2 == 1 {
					return x.drop()
				}
			}
			return x.pass()
		}
		var want []string
		for i := range 60 {
			r.wire.reset(meddle)
			r.admit("u", fmt.Sprint("w-", i), int64(i+1), int64(i+1))
			r.wire.reset(nil)
			if most := min(len(want), headroom.HistoryWindows); i%7 == 0 {
				if got := r.history("u"); got != strings.Join(want[:most], ", ") {
					t.Fatalf("after %d windows the history is %s, want %s", i, got, want)
				}
			}
			want = append([]string{fmt.Sprint(headroom.ISOWeek(*r.clock).Key, " ", i+1)}, want...)
			r.at(r.clock.Add(week))
		}
		if moves < 4 {
			t.Fatalf("totals moved %d times", moves)
		}
		if got := r.history("u"); got != strings.Join(want[:headroom.HistoryWindows], ", ") {
			t.Fatalf("the history is %s, want %s", got, want)
		}
	})
}

// TestALookGoesOnPastThePageOfOtherIDs: rule 5. Between the versions of an id lie the rows of ids
// that begin with it and NUL. They fill the first page of a look, and the id is on the next one.
func TestALookGoesOnPastThePageOfOtherIDs(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.admit("u", "a", 20, 20)
		const others = 40
		for i := range others {
			if d, err := r.deduct("u", fmt.Sprintf("a\x00%03d", i), 1); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		r.fillMore("u", 40)
		r.wire.reset(nil)
		r.another().replay("u", "a", 20, 20+others+40)
		moved := 0
		for _, row := range r.ledger() {
			if strings.HasPrefix(row["row"].(*types.AttributeValueMemberS).Value, "op#a") {
				moved++
			}
		}
		if moved != 1+others {
			t.Errorf("%d ids of %d have moved", moved, 1+others)
		}
	})
}

// TestALookAtTheHistoryStopsWhereNoMoreIsShown: rule 8. It reads the windows that are shown, and no
// page more.
func TestALookAtTheHistoryStopsWhereNoMoreIsShown(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		for i := range 12 {
			r.at(tuesday.AddDate(0, 0, 7*i))
			r.admit("u", fmt.Sprint("w", i), 5, 5)
		}
		for i := range 4 * headroom.HistoryWindows {
			start := headroom.ISOWeek(tuesday.AddDate(0, 0, -7*(i+1))).Start
			row := attributes{
				"key": s("5#slotsu"), "row": s("past#week#" + start.Format(time.RFC3339)), "total": n(7), "expires": n(monday.AddDate(9, 0, 0).Unix()),
			}
			if _, err := r.raw.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(r.opts.Table + "-ledger"), Item: row}); err != nil {
				t.Fatal(err)
			}
		}
		r.wire.reset(nil)
		if got := len(r.limits("u")[0].History); got != headroom.HistoryWindows {
			t.Errorf("%d windows are shown", got)
		}
		r.sends("GetItem", "Query", "Query") // the second page only shows that no more is needed
	})
}
