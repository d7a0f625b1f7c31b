package headroom

import (
	"testing"
	"time"
)

// TestAGuardSaysWhatIsNotMet holds that each condition of a change is said in one line, and that a
// change whose conditions are met says nothing.
func TestAGuardSaysWhatIsNotMet(t *testing.T) {
	week, next := ISOWeek(may), ISOWeek(may.AddDate(0, 0, 7))
	label := time.Date(2026, time.May, 20, 0, 0, 0, 0, time.UTC)
	expires := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	deduction := Record{Kind: KindDeduct, Cost: 30}
	owed := Debt{To: "acme", Cost: 30, Since: label}
	bucket := BucketKey{Limit: "week", Start: week.Start, Expires: expires}
	counted := BucketKey{Expires: expires}
	stored := View{
		State: State{
			Plan: "free", Epoch: label,
			Counters: map[string]Counter{"week": {Window: week, Count: 171, Carried: 5, Past: []Total{{Start: label, Units: 40}}}},
			Grants:   map[string]Grant{"g": {Units: 50, Used: 20, Expires: expires}},
			Debts:    map[string]Debt{"job": owed},
			Buckets:  []Bucket{{BucketKey: counted, Units: 3}, {BucketKey: bucket, Units: 30}}, Swept: label,
			OldHolds: map[string]Record{"old": deduction},
		},
		Records: map[string]Record{"job": deduction},
	}
	step := func(s Step) Change {
		return Change{Plan: "free", Epoch: label, Steps: []Step{s}}
	}
	grant := func(g GrantStep) Change {
		return Change{Plan: "free", Epoch: label, Grants: []GrantStep{g}}
	}
	change := func(b BucketStep) Change {
		return Change{Plan: "free", Epoch: label, Buckets: []BucketStep{b}}
	}
	for want, c := range map[string]Change{
		``:                                   step(Step{Limit: "week", From: week, To: week, Carried: 5, Max: 171}),
		`plan is "free", want "pro"`:         {Plan: "pro", Epoch: label},
		`plan is "free", want "pro" or none`: {Plan: "pro", PlanOrNone: true, Epoch: label},
		`label of the younger generation of ids is 2026-05-20T00:00:00Z, want none`:                                                    {Plan: "free"},
		`record "job" is d30, want none`:                                                                                               {Plan: "free", Epoch: label, Records: []RecordStep{{ID: "job"}}},
		`record "other" is none, want d30`:                                                                                             {Plan: "free", Epoch: label, Records: []RecordStep{{ID: "other", Was: &deduction}}},
		`debt "job" is 30 @1779235200 <acme, want none`:                                                                                {Plan: "free", Epoch: label, Debts: []DebtStep{{ID: "job"}}},
		`grant "g" is 50 units until 2026-06-01T00:00:00Z, want none`:                                                                  grant(GrantStep{ID: "g"}),
		`use of grant "g" is 20, want 0 to 19`:                                                                                         grant(GrantStep{ID: "g", Was: &Grant{Units: 50, Expires: expires}, Max: 19}),
		`there are 1 grants, want 0`:                                                                                                   {Plan: "free", Epoch: label, AllGrants: true},
		`window of "week" is 2026-W22 (2026-05-25T00:00:00Z to 2026-06-01T00:00:00Z), want none`:                                       step(Step{Limit: "week", To: week}),
		`window of "day" is none, want 2026-W23 (2026-06-01T00:00:00Z to 2026-06-08T00:00:00Z)`:                                        step(Step{Limit: "day", From: next, To: next}),
		`window of "week" carries over 5, want 0`:                                                                                      step(Step{Limit: "week", From: week, To: week}),
		`count of "week" is 171, want 0 to 170`:                                                                                        step(Step{Limit: "week", From: week, To: week, Carried: 5, Max: 170, Add: 30}),
		`count of "week" is 171, want at least 172`:                                                                                    step(Step{Limit: "week", From: week, To: week, Carried: 5, Min: 172, Max: anyCount(30), Add: 30}),
		`total of "week" from 2026-05-20T00:00:00Z is 40, want 41`:                                                                     step(Step{Limit: "week", From: week, To: week, Carried: 5, Fold: []Total{{Start: label, Units: 41}}}),
		`total of "week" from 2026-05-20T00:00:00Z is 40, want at least 41`:                                                            step(Step{Limit: "week", From: week, To: week, Past: []Total{{Start: label, Units: -41}}}),
		`total of "week" from 2026-06-01T00:00:00Z is not known, want at least 0`:                                                      step(Step{Limit: "week", From: week, To: week, Past: []Total{{Start: expires, Units: 1}}}),
		`record "old" is d30, want none`:                                                                                               {Plan: "free", Epoch: label, Records: []RecordStep{{ID: "old", Old: true}}},
		`bucket of limit "week" from 2026-05-25T00:00:00Z until 2026-06-01T00:00:00Z has 30 units, want at least 31`:                   change(BucketStep{BucketKey: bucket, There: true, Min: 31, Max: anyCount(0)}),
		`bucket that counts holds until 2026-06-01T00:00:01Z is not there`:                                                             change(BucketStep{BucketKey: BucketKey{Expires: expires.Add(time.Second)}, There: true, Max: anyCount(0)}),
		`bucket that counts holds until 2026-05-20T00:00:00Z may have been cleared away: buckets are swept up to 2026-05-20T00:00:00Z`: change(BucketStep{BucketKey: BucketKey{Expires: label}, Add: 1}),
		`series of buckets is 0, want 1`:                                                                                               {Plan: "free", Epoch: label, Series: 1, Buckets: []BucketStep{{BucketKey: BucketKey{Expires: expires, Series: 1}, Add: 1}}},
		`buckets are swept up to 2026-05-20T00:00:00Z, want none`:                                                                      {Plan: "free", Epoch: label, Sweep: expires},
		`there would be 4 holds, want at most 3`:                                                                                       {Plan: "free", Epoch: label, MostHolds: 3, Buckets: []BucketStep{{BucketKey: counted, Add: 1}}},
	} {
		if got := c.Unmet(stored); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
