package dynamostore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// TestRowsLiveAsLongAsTheyTellAndNoLonger: DynamoDB may delete a row of the ledger as soon as its
// time is over, which is in Unix seconds. An id's row lives until both generations are over that
// may remember it, a total's row for as long as the history shows it; and neither much longer.
func TestRowsLiveAsLongAsTheyTellAndNoLonger(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		const slack = 48 * time.Hour
		r := newRig(t, engine)
		expires := func(row attributes) time.Time {
			n, err := strconv.ParseInt(row["expires"].(*types.AttributeValueMemberN).Value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return time.Unix(n, 0)
		}
		name := func(row attributes) string { return row["row"].(*types.AttributeValueMemberS).Value }

		// So many weeks that totals move, and in the last of them so many ids.
		var last time.Time
		for i := range 12 {
			last = tuesday.AddDate(0, 0, 7*i)
			r.at(last)
			r.admit("u", fmt.Sprint("week ", i), 1, 1)
		}
		for i := range 30 {
			r.admit("u", fmt.Sprintf("full-%05d", i), 1, int64(i+2))
		}

		ids, totals := 0, 0
		for _, row := range r.ledger() {
			at := expires(row)
			var least, most time.Time
			switch limit, start, isTotal := strings.Cut(strings.TrimPrefix(name(row), "past#"), "#"); {
			case strings.HasPrefix(name(row), "op#"):
				ids++
				label := row["epoch"].(*types.AttributeValueMemberN).Value
				seconds, err := strconv.ParseInt(label, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				least = time.Unix(seconds, 0).Add(2 * headroom.DefaultHorizon)
				most = headroom.ISOWeek(last).End.Add(2*headroom.DefaultHorizon + slack)
			case isTotal && limit == "week":
				totals++
				began, err := time.Parse(time.RFC3339, start)
				if err != nil {
					t.Fatal(err)
				}
				least = began.AddDate(0, 0, 7*(headroom.HistoryWindows+1))
				most = headroom.ISOWeek(last).End.AddDate(0, 0, 7*(headroom.HistoryWindows+1)).Add(2*headroom.DefaultHorizon + slack)
			default:
				t.Errorf("a row %q is of no known kind", name(row))
			}
			if at.Before(least) || at.After(most) {
				t.Errorf("row %q expires at %s, want from %s to %s", name(row), at.UTC(), least.UTC(), most.UTC())
			}
		}
		if ids == 0 || totals == 0 {
			t.Errorf("%d ids and %d totals have moved", ids, totals)
		}
	})
}
