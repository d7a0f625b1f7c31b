package memdynamo

import "slices"

// request is a request that has been read.
type request struct {
	table                           string
	key, item, startKey             object
	update, condition, keyCondition *string // expressions
	names                           names
	values                          values
	allNew, allOld                  bool // ReturnValues, ReturnValuesOnConditionCheckFailure
	backward                        bool
	limit                           int
	writes                          []write
}

// write is one write of a batch.
type write struct {
	table  string
	remove bool
	item   object // or, if it is to be removed, its key
}

// members are the members of JSON that requests may have, by operation.
var members = map[string][]string{
	"GetItem": {"TableName", "Key", "ConsistentRead"},
	"PutItem": {"TableName", "Item", "ConditionExpression",
		"ExpressionAttributeNames", "ExpressionAttributeValues",
		"ReturnValues", "ReturnValuesOnConditionCheckFailure"},
	"UpdateItem": {"TableName", "Key", "UpdateExpression", "ConditionExpression",
		"ExpressionAttributeNames", "ExpressionAttributeValues",
		"ReturnValues", "ReturnValuesOnConditionCheckFailure"},
	"DeleteItem": {"TableName", "Key", "ConditionExpression",
		"ExpressionAttributeNames", "ExpressionAttributeValues"},
	"BatchWriteItem": {"RequestItems"},
	"Query": {"TableName", "KeyConditionExpression",
		"ExpressionAttributeNames", "ExpressionAttributeValues", "ScanIndexForward",
		"Limit", "ExclusiveStartKey", "ConsistentRead"},
}

// must are the members that requests must have.
var must = []string{"TableName", "Key", "Item", "RequestItems"}

func decode(op, body string) (*request, error) {
	known, ok := members[op]
	if !ok {
		return nil, unmodelled("the operation %s", op)
	}
	r := &request{}
	d := &decoder{text: body}
	seen := map[string]bool{}
	d.object(func(name string) {
		if !slices.Contains(known, name) || seen[name] {
			d.fail(unmodelled("%s in a %s", name, op))
			return
		}
		seen[name] = true
		r.member(d, op, name)
	})
	d.end()
	for _, name := range must {
		if slices.Contains(known, name) && !seen[name] {
			d.fail(invalid("Value null at %q failed to satisfy constraint: Member must not be null", name))
		}
	}
	return r, d.err
}

func (r *request) member(d *decoder, op, name string) {
	switch name {
	case "TableName":
		r.table = d.string()
	case "Key":
		r.key = d.attributes(1)
	case "Item":
		r.item = d.attributes(1)
	case "UpdateExpression":
		r.update = d.expression()
	case "ConditionExpression":
		r.condition = d.expression()
	case "KeyConditionExpression":
		r.keyCondition = d.expression()
	case "ExpressionAttributeNames":
		r.names = names{given: true, of: make([]substitute, 0, 32)}
		d.object(func(alias string) {
			n := d.string()
			if n == "" {
				d.fail(invalid("ExpressionAttributeNames contains invalid value: empty name for %s", alias))
			}
			r.names.of = append(r.names.of, substitute{alias: alias, name: n})
		})
	case "ExpressionAttributeValues":
		r.values.given = true
		r.values.of = d.attributes(1)
		r.values.used = make([]bool, len(r.values.of))
	case "ReturnValues":
		r.allNew = d.choice(name, "NONE", "ALL_NEW")
		if r.allNew && op == "PutItem" {
			d.fail(invalid("Return values set to invalid value"))
		}
	case "ReturnValuesOnConditionCheckFailure":
		r.allOld = d.choice(name, "NONE", "ALL_OLD")
	case "ScanIndexForward":
		r.backward = !d.bool()
	case "Limit":
		if r.limit = d.int(); r.limit < 1 {
			d.fail(invalid("Limit is less than 1"))
		}
	case "ExclusiveStartKey":
		r.startKey = d.attributes(1)
	case "ConsistentRead":
		d.bool() // all reads are
	case "RequestItems":
		d.object(func(table string) { d.list('[', ']', func() { r.write(d, table) }) })
	}
}

func (d *decoder) expression() *string {
	s := d.string()
	return &s
}

// choice reads which of two strings is given, and reports whether it is the second.
func (d *decoder) choice(member, first, second string) bool {
	s := d.string()
	if s != first && s != second {
		d.fail(unmodelled("%s %s", member, s))
	}
	return s == second
}

func (r *request) write(d *decoder, table string) {
	n := 0
	d.object(func(kind string) {
		n++
		w := write{table: table, remove: kind == "DeleteRequest"}
		member := "Item"
		if w.remove {
			member = "Key"
		} else if kind != "PutRequest" {
			d.fail(unmodelled("%s in a batch", kind))
			return
		}
		d.object(func(name string) {
			if name != member || w.item != nil {
				d.fail(unmodelled("%s in a %s", name, kind))
				return
			}
			w.item = d.attributes(1)
		})
		r.writes = append(r.writes, w)
	})
	if n != 1 {
		d.fail(invalid(
			"Supplied AttributeValue has more than one or no datatypes set: a write of a batch is one PutRequest or DeleteRequest"))
	}
}
