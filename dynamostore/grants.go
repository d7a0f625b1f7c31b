package dynamostore

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// Attributes of a grant in format 2. A write can add to one of them blindly. The text of format 1
// had to be replaced as a whole, by a write that knew it exactly.
const (
	grantUnits   = "units"
	grantUsed    = "used"
	grantExpires = "expires"
)

// numericGrants reports whether grants are written as numbers. An item may still have some as text,
// until a charge draws on them.
func (l layout) numericGrants(it item) bool { return l.writes(it) > formatOne }

// grantValue is what stands in an item for a grant.
func grantValue(g headroom.Grant, numeric bool) types.AttributeValue {
	if !numeric {
		return str(grantText(g))
	}
	return &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		grantUnits: num(g.Units), grantUsed: num(g.Used), grantExpires: num(g.Expires.Unix()),
	}}
}

// grantText is a grant as format 1 has it.
func grantText(g headroom.Grant) string {
	return strconv.FormatInt(g.Units, 10) + "/" + strconv.FormatInt(g.Used, 10) + "/" + unix(g.Expires)
}

// grants reads grants of either form, and the text of those that are text.
func (r *reader) grants(name string) (grants map[string]headroom.Grant, texts map[string]string) {
	grants, texts = map[string]headroom.Grant{}, map[string]string{}
	for id, v := range r.nested(name) {
		var n [3]int64 // units, used, expiry
		ok := false
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			texts[id] = v.Value
			parts := strings.Split(v.Value, "/")
			ok = len(parts) == len(n)
			for i := range n {
				if ok {
					var err error
					n[i], err = strconv.ParseInt(parts[i], 10, 64)
					ok = err == nil
				}
			}
		case *types.AttributeValueMemberM:
			ok = true
			for i, part := range []string{grantUnits, grantUsed, grantExpires} {
				var whole bool
				n[i], whole = integer(v.Value[part])
				ok = ok && whole
			}
		}
		if !ok || n[0] < 0 || n[1] < 0 {
			r.bad(name, "holds something that is no grant")
		}
		grants[id] = headroom.Grant{Units: n[0], Used: n[1], Expires: time.Unix(n[2], 0).UTC()}
	}
	return grants, texts
}

// buildGrants writes what the change does to grants. If the item has no map of them yet, it writes
// them into whole, which becomes the map.
func (l layout) buildGrants(e *expression, c headroom.Change, seen item, whole map[string]types.AttributeValue) {
	numeric := l.numericGrants(seen)
	all := l.field(c.Key.Meter, "Grants")
	for _, g := range c.Grants {
		at, used := e.name(all, g.ID), e.name(all, g.ID, grantUsed)
		is, known := seen.state.Grants[g.ID]
		if !known && g.Was != nil {
			is = *g.Was // the item was not seen yet: this is how it was when the change was made
		}
		_, text := seen.grantTexts[g.ID]
		text = text || !numeric
		switch {
		case g.Was == nil && whole == nil:
			e.absent(at)
		case g.Was == nil:
		case text:
			e.equal(at, str(grantText(is)))
		default:
			e.equal(e.name(all, g.ID, grantUnits), num(g.Was.Units))
			e.equal(e.name(all, g.ID, grantExpires), num(g.Was.Expires.Unix()))
			if g.Min > 0 || g.Max < math.MaxInt64 {
				e.require(used + " BETWEEN " + e.value(num(g.Min)) + " AND " + e.value(num(g.Max)))
			}
		}
		switch {
		case g.Is != nil && whole != nil:
			whole[g.ID] = grantValue(*g.Is, numeric)
		case g.Is != nil:
			e.set(at, grantValue(*g.Is, numeric))
		case g.Ends:
			e.remove(at)
		case g.Add == 0:
		case text:
			is.Used += g.Add
			e.set(at, grantValue(is, numeric))
		default:
			e.setTo(used, used+" + "+e.value(num(g.Add)))
		}
	}
	if whole == nil {
		guardNumberOfGrants(e, e.name(all), c)
	}
}

// guardNumberOfGrants guards that there are no grants but those that the change knows, if it needs
// to know all, and that there is room for those that it adds.
func guardNumberOfGrants(e *expression, all string, c headroom.Change) {
	if c.AllGrants {
		before := 0
		for _, g := range c.Grants {
			if g.Was != nil {
				before++
			}
		}
		e.require("size(" + all + ") = " + e.value(num(int64(before))))
	}
	if more, _ := c.Grows(); more > 0 {
		e.require("size(" + all + ") <= " + e.value(num(int64(headroom.MaxGrants-more))))
	}
}
