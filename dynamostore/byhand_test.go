package dynamostore_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// TestWhatIsTakenAwayByHandGivesNoSecondAllowance: case 57. Of an item that is used up in the
// running week the week or the count is removed. That is an error that says how to repair, and
// repaired it counts as before.
func TestWhatIsTakenAwayByHandGivesNoSecondAllowance(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.admit("u", "job", 200, 200)
		whole := r.item("u")
		for name, change := range map[string]func(attributes){
			"week":           func(a attributes) { delete(a, "quotaWeek") },
			"week, empty":    func(a attributes) { a["quotaWeek"] = s("") },
			"count":          func(a attributes) { delete(a, "quotaCount") },
			"week and count": func(a attributes) { delete(a, "quotaWeek"); delete(a, "quotaCount") },
		} {
			item := attributes{}
			for k, v := range whole {
				item[k] = v
			}
			change(item)
			r.put(item)
			d, err := r.deduct("u", "more "+name, 5)
			r.fails(d, err, headroom.Unreadable, `Set quotaWeek to "2031-W22" and quotaCount to the units used in it; to give units, use `+"`headroom grant`")
			if after := r.item("u"); !reflect.DeepEqual(after, item) {
				t.Errorf("%s: changed to %v", name, after)
			}
			r.put(whole)
			r.refuse("u", "more "+name, 5, 200)
		}
		// Once the week is over there is nothing to give twice.
		item := r.item("u")
		delete(item, "quotaWeek")
		r.put(item)
		r.at(monday)
		r.admit("u", "next", 5, 5)
	})
}

// TestASpanOfCenturiesIsDamage: case 57. It would lock its subject into one window.
func TestASpanOfCenturiesIsDamage(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.admit("u", "job", 5, 5)
		week := headroom.ISOWeek(tuesday)
		for _, span := range []string{
			fmt.Sprintf("%s/%d/%d", week.Key, week.Start.Unix(), week.Start.AddDate(300, 0, 0).Unix()),
			fmt.Sprintf("%s/%d/%d", week.Key, week.Start.AddDate(300, 0, 0).Unix(), week.End.AddDate(300, 0, 0).Unix()),
		} {
			item := r.item("u")
			item["quotaSpan"] = s(span)
			r.put(item)
			d, err := r.deduct("u", "more", 5)
			r.fails(d, err, headroom.Unreadable, "quotaSpan")
		}
	})
}

// TestAnItemOfTheSeedsWithoutACountGetsOne: what Headroom has written once has all that it looks
// for.
func TestAnItemOfTheSeedsWithoutACountGetsOne(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		r := newRig(t, engine)
		r.put(attributes{"userId": s("u"), "quotaWeek": s("2031-W22")})
		r.admit("u", "nothing", 0, 0)
		r.has("u", "quotaCount", n(0))
		r.put(attributes{"userId": s("v"), "quotaWeek": s("2031-W21")})
		r.at(tuesday.Add(time.Hour))
		r.admit("v", "job", 5, 5)
		r.has("v", "quotaCount", n(5))
	})
}
