package dynamostore_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// TestAPlanThatWasNotStoredIsAnError: rule 16, of storing a plan and of taking it away. To take it
// from a subject that has no item is none: there is no plan then.
func TestAPlanThatWasNotStoredIsAnError(t *testing.T) {
	say := func(status int, code string) func(*exchange) (*http.Response, error) {
		return func(x *exchange) (*http.Response, error) { return x.say(status, code) }
	}
	undated := func(x *exchange) (*http.Response, error) {
		answer, err := x.pass()
		if err == nil {
			answer.Header.Del("Date")
		}
		return answer, err
	}
	for _, fault := range []struct {
		name   string
		meddle func(*exchange) (*http.Response, error)
		want   headroom.Code // where there is an item
		done   bool          // it was stored all the same
	}{
		{"connection refused", (*exchange).refuse, headroom.Unavailable, false},
		{"connection lost", (*exchange).drop, headroom.OutcomeUnknown, false},
		{"answer lost", (*exchange).lose, headroom.OutcomeUnknown, true},
		{"answer without a date", undated, headroom.OutcomeUnknown, true},
		{"internal error", say(500, "InternalServerError"), headroom.OutcomeUnknown, false},
		{"throttled", say(400, "ThrottlingException"), headroom.Throttled, false},
		{"no rights", say(400, "AccessDeniedException"), headroom.Rejected, false},
		{"no table", say(400, "ResourceNotFoundException"), headroom.Rejected, false},
		{"not valid", say(400, "ValidationException"), headroom.Rejected, false},
	} {
		t.Run(fault.name, func(t *testing.T) {
			each(t, func(t *testing.T, engine string) {
				for _, change := range []struct{ from, to string }{{"pro", ""}, {"", "pro"}, {"free", "pro"}} {
					r := newRig(t, engine, under(plans(t)))
					r.admit("u", "before", 7, 7)
					r.plan(change.from)
					r.wire.reset(fault.meddle)
					if err := r.engine.SetPlan(t.Context(), "u", change.to); !errors.Is(err, fault.want) {
						t.Errorf("plan %q in place of %q: %v, want %v", change.to, change.from, err, fault.want)
					}
					if err := r.engine.SetPlan(t.Context(), "nobody", ""); err == nil {
						t.Error("without an item: no error")
					}
					stored := map[bool]string{true: change.to, false: change.from}[fault.done]
					if got, _ := r.item("u")["plan"].(*types.AttributeValueMemberS); got == nil && stored != "" || got != nil && got.Value != stored {
						t.Errorf("the plan is %+v, want %q", got, stored)
					}
					r.wire.reset(nil)
					for range 2 { // and once it is not there
						r.plan("")
						if err := r.engine.SetPlan(t.Context(), "nobody", ""); err != nil {
							t.Errorf("without an item: %v", err)
						}
					}
					if item := r.item("nobody"); item != nil {
						t.Errorf("an item was made to take the plan away from: %v", item)
					}
				}
			})
		})
	}
}
