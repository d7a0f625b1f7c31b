package interleave

import "testing"
import "fmt"

func TestShow(t *testing.T) {
	for _, w := range worlds() {
		if w.name != "totals that have moved" {
			continue
		}
		w = w.brief()
		x := newExplorer(w)
		x.exploreIn(t)
		fmt.Println(x.values[1].Text())
		for _, r := range x.parsed[1:] {
			if r.op == "UpdateItem" {
				u := parseUpdate(r.body)
				fmt.Println("-", u.plain(u.UpdateExpression), "\n   IF", u.plain(u.ConditionExpression))
			} else {
				fmt.Println("-", r.op, r.body)
			}
		}
	}
}
