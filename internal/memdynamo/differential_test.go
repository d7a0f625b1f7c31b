package memdynamo_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"
)

// TestDifferential holds that memdynamo and the real engines answer random requests alike, and hold
// the same item after them.
func TestDifferential(t *testing.T) {
	began := time.Now()
	b := newBench(t)
	item := 0
	rapid.Check(t, func(r *rapid.T) {
		item++
		id := fmt.Sprint("item-", item)
		key := dict{"userId": dict{"S": id}}
		empty := false
		for i := range 1 + (&draw{T: r}).below(12) {
			d := &draw{T: r, names: dict{}, values: dict{}, marks: map[string]bool{"empty": empty}, maps: mapsIn(nil, b.mem.Item(b.users, id))}
			request := dict{"TableName": b.users}
			op := "UpdateItem"
			first := i == 0 && !d.odds(4)
			if first || d.odds(6) {
				op = "PutItem"
				all := dict{"userId": key["userId"]}
				maps.Copy(all, d.attributes(2))
				request["Item"] = all
			} else {
				request["Key"] = key
				if !d.odds(20) {
					request["UpdateExpression"] = d.update()
				}
				if !d.odds(3) {
					request["ReturnValues"] = "ALL_NEW"
				}
			}
			if !first && d.odds(2) {
				request["ConditionExpression"] = d.condition(2)
				if !d.odds(3) {
					request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
				}
			}
			d.spoil(op == "UpdateItem" && request["UpdateExpression"] == nil)
			if len(d.names) > 0 {
				request["ExpressionAttributeNames"] = d.names
			}
			if len(d.values) > 0 {
				request["ExpressionAttributeValues"] = d.values
			}
			b.send(r, op, request, d.marks)
			b.send(r, "GetItem", dict{"TableName": b.users, "Key": key, "ConsistentRead": true}, nil)
			empty = d.marks["empty"]
		}
	})
	for _, kind := range []string{"UpdateItem 200", "UpdateItem 400 ConditionalCheckFailedException", "UpdateItem 400 ValidationException", "PutItem 200", "PutItem 400 ConditionalCheckFailedException"} {
		for engine := range b.urls {
			if b.compared[engine+" "+kind] == 0 {
				t.Errorf("no answer of %s was compared with %s", engine, kind)
			}
		}
	}
	t.Log("compared:", b.compared)
	row(t, "random requests, on both engines", b.compared, began)
}

// mapsIn returns the paths of all maps in an item, in one order.
func mapsIn(above []string, item map[string]types.AttributeValue) (paths [][]string) {
	for _, name := range slices.Sorted(maps.Keys(item)) {
		if m, ok := item[name].(*types.AttributeValueMemberM); ok {
			path := append(slices.Clone(above), name)
			paths = append(append(paths, path), mapsIn(path, m.Value)...)
		}
	}
	return paths
}

// draw draws a request and gathers what its expressions refer to.
type draw struct {
	*rapid.T
	names, values dict
	maps          [][]string      // paths of the maps in the item
	targets       []string        // plain paths that the update writes, each with a dot at its end
	marks         map[string]bool // what is special about the request
}

func (d *draw) mark(mark string, is bool) { d.marks[mark] = d.marks[mark] || is }

// below draws a number from 0 to n-1, each as likely as another, where rapid's own ranges favour
// the ends.
func (d *draw) below(n int) (drawn int) {
	for range 7 {
		drawn *= 2
		if rapid.Bool().Draw(d.T, "bit") {
			drawn++
		}
	}
	return drawn % n
}

func one[T any](d *draw, of ...T) T { return of[d.below(len(of))] }

// odds is true once in n times.
func (d *draw) odds(n int) bool { return d.below(n) == n-1 }

func (d *draw) number() dict {
	return dict{"N": one(d, "0", "1", "-1", "2", "3", "10", "007", "2.5", "-0.25", "1e3", "9223372036854775807", "-9223372036854775808", "9007199254740993", "12345678901234567890123456789")}
}

func (d *draw) attribute(depth int) dict {
	switch n := d.below(10); {
	case n < 4:
		return d.number()
	case n < 7:
		text := one(d, "", "x", "xy", "y", "é\"\\\n", "😀", "2026-W22")
		d.mark("empty", text == "")
		return dict{"S": text}
	case n < 8:
		yes := one(d, true, false)
		d.mark("empty", !yes)
		return dict{"BOOL": yes}
	case depth == 0:
		return dict{"M": dict{}}
	}
	return dict{"M": d.attributes(depth - 1)}
}

func (d *draw) attributes(depth int) dict {
	all := dict{}
	for _, name := range []string{"a", "b", "m", "n"} {
		switch {
		case d.odds(3):
		case d.odds(3):
			all[name] = d.attribute(depth)
		case name < "m":
			all[name] = d.number()
		case depth > 0:
			all[name] = dict{"M": d.attributes(depth - 1)}
		}
	}
	return all
}

// path draws a document path; each of its names may stand there as it is or under an alias.
func (d *draw) path() string {
	var parts []string
	last := one(d, "a", "b", "m", "n")
	switch {
	case d.odds(100):
		last = one(d, "userId", "count", "window")
	case d.odds(2) && len(d.maps) > 0 && !d.odds(5):
		parts = slices.Clone(one(d, d.maps...))
	case d.odds(8):
		parts = []string{one(d, "m", "n"), one(d, "a", "m")}[:1+d.below(2)]
	}
	parts = append(parts, last)
	for i, name := range parts {
		switch {
		case d.odds(2):
			d.names["#"+name] = name
			parts[i] = "#" + name
		case d.odds(10):
			d.names["#2"+name] = name
			parts[i] = "#2" + name
		}
	}
	return strings.Join(parts, ".")
}

// target draws a path that is not the key, and most often does not overlap with those before. Of an
// update of the key under a condition that fails the engines do not agree which error comes first.
func (d *draw) target() string {
	for range 20 {
		names := maps.Clone(d.names)
		path := d.path()
		plain := unalias(path) + "."
		overlaps := slices.ContainsFunc(d.targets, func(t string) bool { return strings.HasPrefix(t, plain) || strings.HasPrefix(plain, t) })
		if plain != "userId." && (!overlaps || d.odds(20)) {
			d.targets = append(d.targets, plain)
			return path
		}
		d.names = names
	}
	return "a"
}

func unalias(path string) string { return strings.NewReplacer("#2", "", "#", "").Replace(path) }

func (d *draw) value(v dict) string {
	alias := fmt.Sprint(":", len(d.values))
	d.values[alias] = v
	return alias
}

func (d *draw) operand(numeric bool) string {
	switch n := d.below(10); {
	case n < 5 && numeric && !d.odds(20):
		return d.value(d.number())
	case n < 5:
		return d.value(d.attribute(1))
	case n < 7:
		return d.read()
	}
	return "if_not_exists(" + d.read() + ", " + d.operand(numeric) + ")"
}

// read draws a path that an update reads.
func (d *draw) read() string {
	path := d.path()
	d.mark("read", true)
	for _, m := range d.maps {
		d.mark("shared", unalias(path) == strings.Join(m, "."))
	}
	return path
}

func (d *draw) update() string {
	var clauses []string
	for _, clause := range rapid.Permutation([]string{"SET", "ADD", "REMOVE"}).Draw(d.T, "clauses")[:1+d.below(3)] {
		var actions []string
		for range one(d, 1, 1, 2) {
			action := d.target()
			switch clause {
			case "SET":
				if action += " = "; d.odds(2) {
					action += d.operand(true) + one(d, " + ", "-") + d.operand(true)
				} else {
					action += d.operand(false)
				}
			case "ADD":
				v := d.number()
				if d.odds(20) {
					v = d.attribute(1)
				}
				action += " " + d.value(v)
			}
			actions = append(actions, action)
		}
		clauses = append(clauses, one(d, clause, strings.ToLower(clause))+" "+strings.Join(actions, ", "))
	}
	update := strings.Join(clauses, " ")
	d.mark("shared", d.marks["read"] && strings.Contains(strings.ToUpper(update), "ADD "))
	return update
}

// term is an operand of a condition.
func (d *draw) term() string {
	switch n := d.below(10); {
	case n < 5:
		return d.path()
	case n < 6:
		return "size(" + d.path() + ")"
	case n < 9:
		return d.value(d.number())
	}
	return d.value(d.attribute(1))
}

func (d *draw) condition(depth int) string {
	n := d.below(10)
	if depth > 0 && n < 5 {
		c := d.condition(depth - 1)
		switch {
		case n < 2:
			return c + " AND " + d.condition(depth-1)
		case n < 3:
			return c + one(d, " OR ", " or ") + d.condition(depth-1)
		case n < 4:
			d.mark("NOT NOT", strings.HasPrefix(c, "NOT"))
			return "NOT " + c
		}
		return "(" + c + ")"
	}
	switch n {
	case 0:
		d.mark("open bounds", true)
		return d.term() + " BETWEEN " + d.term() + " AND " + d.term()
	case 1:
		return d.path() + " BETWEEN " + d.value(dict{"N": "0"}) + " AND " + d.value(d.number())
	case 2:
		return "attribute_exists(" + d.path() + ")"
	case 3:
		return "attribute_not_exists(" + d.path() + ")"
	case 4:
		name := one(d, "S", "N", "M", "BOOL", "L", "X")
		d.mark("type name", name == "X")
		return "attribute_type(" + d.path() + ", " + d.value(dict{"S": name}) + ")"
	case 5:
		return "begins_with(" + d.path() + ", " + d.value(dict{"S": one(d, "", "x", "xy", "2026")}) + ")"
	}
	left, op, right := d.term(), one(d, " = ", " <> ", "<", " <= ", " > ", ">="), d.term()
	d.mark("two paths", left[0] != ':' && right[0] != ':')
	d.mark("same path", unalias(left) == unalias(right))
	for _, term := range []string{left, right} {
		given, ok := d.values[term].(dict)
		d.mark("unordered", ok && op != " = " && op != " <> " && (given["M"] != nil || given["BOOL"] != nil))
	}
	return left + op + right
}

// spoil makes one in a few requests wrong in what it refers to.
func (d *draw) spoil(noUpdate bool) {
	kind := d.below(60)
	d.mark("condition alone", noUpdate && kind < 4)
	switch kind {
	case 0:
		d.names["#unused"] = "unused"
	case 1:
		d.values[":unused"] = dict{"N": "1"}
	case 2:
		if len(d.names) > 0 {
			delete(d.names, slices.Sorted(maps.Keys(d.names))[0])
		}
	case 3:
		delete(d.values, ":0")
	}
}
