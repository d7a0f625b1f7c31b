// Package memdynamo is an engine for the DynamoDB wire protocol (JSON 1.0) that is a pure function: from the content of tables and a request to the content after it and an answer.
// A model checker can keep every state that it has come by, and go on from any of them.
//
// It knows what dynamostore sends and what the tests of dynamostore send beside it. Whatever else it is asked, it answers with a ValidationException that says "not modelled"; it guesses nothing.
package memdynamo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Limits of the service, by the developer guide ("Service, account, and table quotas").
const (
	mostItemBytes = 400 * 1024
	mostHashBytes = 2048
	mostSortBytes = 1024
	mostBatch     = 25
)

// Tables is the content of tables at one moment. It is immutable, and may be used by many goroutines.
type Tables struct{ of *tables }

type tables struct {
	named []named // by name, in its order
	most  int     // bytes of an item
	once  sync.Once
	text  string
}

type named struct {
	name string
	*table
}

// table holds its rows in the order of their keys. It is immutable.
type table struct {
	keys []string // names of the key attributes: the partition key, then the sort key if there is one
	rows []*row
	once sync.Once
	text string
}

type row struct {
	key  []string
	item object
	text string // of the item, in JSON
}

// New returns empty tables. keys gives the key attributes, all strings, by table: the partition key, then the sort key if there is one.
func New(keys map[string][]string) Tables {
	t := Tables{}
	for name, keys := range keys {
		t = t.with(name, &table{keys: slices.Clone(keys)})
	}
	return t
}

// with returns tables of which one is another.
func (t Tables) with(name string, changed *table) Tables {
	i, ok := t.find(name)
	of := t.of
	if of == nil {
		of = &tables{most: mostItemBytes}
	}
	after := append(append(make([]named, 0, len(of.named)+1), of.named[:i]...), named{name, changed})
	if ok {
		i++
	}
	return Tables{&tables{named: append(after, of.named[i:]...), most: of.most}}
}

// Size is how many bytes of an item count for the limit on them.
func (t Tables) Size(table string, key ...string) int {
	if tab := t.table(table); tab != nil {
		if r := tab.row(key); r != nil {
			return r.item.size()
		}
	}
	return 0
}

// Limited returns the tables with so many bytes that an item may have, in place of the service's 400 KB.
func (t Tables) Limited(bytes int) Tables {
	return Tables{&tables{named: t.of.named, most: bytes}}
}

func (t Tables) find(name string) (int, bool) {
	if t.of == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(t.of.named, name, func(n named, name string) int { return strings.Compare(n.name, name) })
}

func (t Tables) table(name string) *table {
	if i, ok := t.find(name); ok {
		return t.of.named[i].table
	}
	return nil
}

// Text is the content in one canonical form: each table's name in quotes, then its items in the order of their keys, one a line. Two Tables with equal Text are equal.
func (t Tables) Text() string {
	if t.of == nil {
		return ""
	}
	t.of.once.Do(func() {
		var b []byte
		for _, n := range t.of.named {
			b = append(append(appendString(b, n.name), '\n'), n.lines()...)
		}
		t.of.text = string(b)
	})
	return t.of.text
}

func (t *table) lines() string {
	t.once.Do(func() {
		var b strings.Builder
		for _, r := range t.rows {
			b.WriteString(r.text)
			b.WriteByte('\n')
		}
		t.text = b.String()
	})
	return t.text
}

// Item returns an item, nil if there is none. The key is the values of the partition key and of the sort key, if the table has one.
func (t Tables) Item(table string, key ...string) map[string]types.AttributeValue {
	if tab := t.table(table); tab != nil {
		if r := tab.row(key); r != nil {
			return r.item.toSDK()
		}
	}
	return nil
}

// Items returns all items of a table in the order of their keys.
func (t Tables) Items(table string) (items []map[string]types.AttributeValue) {
	if tab := t.table(table); tab != nil {
		for _, r := range tab.rows {
			items = append(items, r.item.toSDK())
		}
	}
	return items
}

// Put returns tables with an item put in as it is. An item that the table cannot have is a fault of the caller's program, and panics.
func (t Tables) Put(table string, item map[string]types.AttributeValue) Tables {
	o, err := fromSDK(item)
	tab := t.table(table)
	if err == nil && tab == nil {
		err = missing(table)
	}
	var key []string
	if err == nil {
		key, err = tab.keyOf(o)
	}
	if err != nil {
		panic(fmt.Sprintf("memdynamo: Put into %q: %v", table, err))
	}
	return t.with(table, tab.put(key, o))
}

func (t *table) find(key []string) (int, bool) {
	return slices.BinarySearchFunc(t.rows, key, func(r *row, key []string) int { return slices.Compare(r.key, key) })
}

func (t *table) row(key []string) *row {
	if i, ok := t.find(key); ok {
		return t.rows[i]
	}
	return nil
}

// put returns a copy with another item at a key.
func (t *table) put(key []string, item object) *table {
	i, ok := t.find(key)
	after := make([]*row, 0, len(t.rows)+1)
	after = append(append(after, t.rows[:i]...), &row{key: key, item: item, text: string(appendObject(nil, item))})
	if ok {
		i++
	}
	return &table{keys: t.keys, rows: append(after, t.rows[i:]...)}
}

// remove returns a copy without the item at a key.
func (t *table) remove(key []string) *table {
	i, ok := t.find(key)
	if !ok {
		return &table{keys: t.keys, rows: t.rows}
	}
	return &table{keys: t.keys, rows: slices.Delete(slices.Clone(t.rows), i, i+1)}
}

// keyOf returns the key of an item.
func (t *table) keyOf(item object) ([]string, error) {
	key := make([]string, len(t.keys))
	for i, name := range t.keys {
		most := mostHashBytes
		if i > 0 {
			most = mostSortBytes
		}
		switch v := item.get(name); {
		case v == nil:
			return nil, invalid("One or more parameter values were invalid: Missing the key %s in the item", name)
		case v.kind != kindS:
			return nil, invalid("One or more parameter values were invalid: Type mismatch for key %s expected: S actual: %s", name, v.kind)
		case v.text == "":
			return nil, invalid("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", name)
		case len(v.text) > most:
			return nil, invalid("One or more parameter values were invalid: the key %s has more than %d bytes", name, most)
		default:
			key[i] = v.text
		}
	}
	return key, nil
}

// key returns the key that a request names.
func (t *table) key(attributes object) ([]string, error) {
	if len(attributes) != len(t.keys) {
		return nil, invalid("The provided key element does not match the schema")
	}
	return t.keyOf(attributes)
}

// failure is an error as the protocol says it.
type failure struct {
	code, message string
	item          string // JSON of the item that failed a condition, if it was asked for
}

func (f *failure) Error() string { return f.code + ": " + f.message }

func invalid(format string, args ...any) error {
	return &failure{code: "ValidationException", message: fmt.Sprintf(format, args...)}
}

// unmodelled is the answer to what this engine does not know.
func unmodelled(format string, args ...any) error {
	return invalid("not modelled: "+format, args...)
}

func missing(table string) error {
	return &failure{code: "ResourceNotFoundException", message: "Requested resource not found: " + table}
}

// Apply answers one request: op is what follows the dot in the header X-Amz-Target ("UpdateItem"), body its JSON. The answer is an HTTP status and a JSON body.
// After anything but status 200 the tables are as before.
func (t Tables) Apply(op string, body []byte) (after Tables, status int, answer []byte) {
	r, err := decode(op, string(body))
	if err == nil {
		after, answer, err = t.answer(op, r)
	}
	if err == nil {
		return after, 200, answer
	}
	return t, 400, failed(err)
}

// failed is the body of an answer that says err.
func failed(err error) []byte {
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{code: "SerializationException", message: err.Error()}
	}
	answer := appendString([]byte(`{"__type":`), prefixes[f.code]+f.code)
	answer = appendString(append(answer, `,"message":`...), f.message)
	if f.item != "" {
		answer = append(append(answer, `,"Item":`...), f.item...)
	}
	return append(answer, '}')
}

// prefixes are of the types of errors, by their codes.
var prefixes = map[string]string{
	"ValidationException":             "com.amazon.coral.validate#",
	"SerializationException":          "com.amazon.coral.service#",
	"ConditionalCheckFailedException": "com.amazonaws.dynamodb.v20120810#",
	"ResourceNotFoundException":       "com.amazonaws.dynamodb.v20120810#",
	"ResourceInUseException":          "com.amazonaws.dynamodb.v20120810#",
}

func (t Tables) answer(op string, r *request) (Tables, []byte, error) {
	if op == "BatchWriteItem" {
		return t.batch(r)
	}
	var err error
	var actions []action
	var condition *condition
	if actions, err = parseUpdate(r.update, &r.names, &r.values); err != nil {
		return t, nil, err
	}
	what, text := "ConditionExpression", r.condition
	if op == "Query" {
		what, text = "KeyConditionExpression", r.keyCondition
	}
	if condition, err = parseCondition(what, text, &r.names, &r.values); err != nil {
		return t, nil, err
	}
	if err = allUsed(&r.names, &r.values); err != nil {
		return t, nil, err
	}
	tab := t.table(r.table)
	if tab == nil {
		return t, nil, missing(r.table)
	}
	switch op {
	case "Query":
		answer, err := tab.query(r, condition)
		return t, answer, err
	case "GetItem":
		key, err := tab.key(r.key)
		if err != nil {
			return t, nil, err
		}
		if row := tab.row(key); row != nil {
			return t, []byte(`{"Item":` + row.text + `}`), nil
		}
		return t, []byte(`{}`), nil
	}
	after, answer, err := tab.write(op, r, condition, actions, t.of.most)
	if err != nil {
		return t, nil, err
	}
	return t.with(r.table, after), answer, nil
}

// write answers a PutItem, an UpdateItem or a DeleteItem.
func (t *table) write(op string, r *request, c *condition, actions []action, most int) (*table, []byte, error) {
	nested := false
	c.paths(func(path []string) { nested = nested || len(path) > 1 && slices.Contains(t.keys, path[0]) })
	if nested {
		return nil, nil, unmodelled("a condition on a path below a key attribute")
	}
	key, err := t.keyOf(r.item)
	if op != "PutItem" {
		key, err = t.key(r.key)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, a := range actions {
		if slices.Contains(t.keys, a.path[0]) {
			return nil, nil, invalid("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", a.path[0])
		}
	}
	var before object
	old := t.row(key)
	if old != nil {
		before = old.item
	}
	if !c.holds(before) {
		f := &failure{code: "ConditionalCheckFailedException", message: "The conditional request failed"}
		if r.allOld && old != nil {
			f.item = old.text
		}
		return nil, nil, f
	}
	if op == "DeleteItem" {
		return t.remove(key), []byte(`{}`), nil
	}
	item := r.item
	if op == "UpdateItem" {
		if old == nil {
			before = r.key
			for _, a := range actions {
				if a.term.left.readsKey(t.keys) || a.term.right.readsKey(t.keys) {
					return nil, nil, unmodelled("the key of an item that is not there, as an operand")
				}
			}
		}
		if item, err = update(before, actions); err != nil {
			return nil, nil, err
		}
	}
	if item.size() > most && op == "UpdateItem" {
		return nil, nil, invalid("Item size to update has exceeded the maximum allowed size")
	}
	if item.size() > most {
		return nil, nil, invalid("Item size has exceeded the maximum allowed size")
	}
	after := t.put(key, item)
	if r.allNew {
		return after, []byte(`{"Attributes":` + after.row(key).text + `}`), nil
	}
	return after, []byte(`{}`), nil
}

// query answers a Query whose condition is on the partition key, and may be on the beginning of the sort key, on what it comes after, or on two bounds of it.
func (t *table) query(r *request, c *condition) ([]byte, error) {
	if c == nil {
		return nil, unmodelled("a Query without KeyConditionExpression")
	}
	terms := []*condition{c}
	if c.op == "AND" {
		terms = c.subs
	}
	var hash, prefix, after, least, most string
	found := map[string]bool{}
	for _, term := range terms {
		given := func(a operand) bool { return a.value != nil && a.value.kind == kindS && a.value.text != "" }
		if len(term.args) < 2 || len(term.args[0].path) != 1 || term.args[0].size || !given(term.args[1]) || len(term.args) == 3 && !given(term.args[2]) {
			return nil, unmodelled("this KeyConditionExpression")
		}
		switch name, text := term.args[0].path[0], term.args[1].value.text; {
		case len(t.keys) == 2 && name == t.keys[1] && term.op == "BETWEEN":
			least, most = text, term.args[2].value.text
		case name == t.keys[0] && term.op == "=":
			hash = text
		case len(t.keys) == 2 && name == t.keys[1] && term.op == "begins_with":
			prefix = text
		case len(t.keys) == 2 && name == t.keys[1] && term.op == ">":
			after = text
		default:
			return nil, unmodelled("this KeyConditionExpression")
		}
		found[term.op] = true
	}
	if !found["="] || len(found) != len(terms) || len(terms) > 2 {
		return nil, unmodelled("this KeyConditionExpression")
	}
	var rows []*row
	from, _ := t.find([]string{hash})
	for _, row := range t.rows[from:] {
		if row.key[0] != hash {
			break
		}
		if strings.HasPrefix(sortKey(row), prefix) && (after == "" || sortKey(row) > after) && (most == "" || least <= sortKey(row) && sortKey(row) <= most) {
			rows = append(rows, row)
		}
	}
	if r.backward {
		slices.Reverse(rows)
	}
	if r.startKey != nil {
		after, err := t.key(r.startKey)
		if err != nil {
			return nil, err
		}
		if len(after) != 2 || after[0] != hash {
			return nil, unmodelled("an ExclusiveStartKey of another partition")
		}
		rows = slices.DeleteFunc(rows, func(row *row) bool {
			return row.key[1] == after[1] || (row.key[1] > after[1]) == r.backward
		})
	}
	more := r.limit > 0 && len(rows) >= r.limit
	if more {
		rows = rows[:r.limit]
	}
	answer := fmt.Appendf(nil, `{"Count":%d,"Items":[`, len(rows))
	bytes := 0
	for i, row := range rows {
		if i > 0 {
			answer = append(answer, ',')
		}
		answer = append(answer, row.text...)
		bytes += row.item.size()
	}
	if bytes > 1<<20 {
		return nil, unmodelled("a Query of more than 1 MB")
	}
	answer = append(answer, ']')
	if more {
		var key object
		for _, name := range t.keys {
			key = key.with(name, rows[len(rows)-1].item.get(name))
		}
		answer = appendObject(append(answer, `,"LastEvaluatedKey":`...), key)
	}
	return fmt.Appendf(answer, `,"ScannedCount":%d}`, len(rows)), nil
}

func sortKey(r *row) string {
	if len(r.key) < 2 {
		return ""
	}
	return r.key[1]
}

// batch answers a BatchWriteItem. All of its writes are done: DynamoDB may leave some, one by one, which a client has to expect in another way.
func (t Tables) batch(r *request) (Tables, []byte, error) {
	if len(r.writes) == 0 || len(r.writes) > mostBatch {
		return t, nil, invalid("a batch has from 1 to %d writes, not %d", mostBatch, len(r.writes))
	}
	after := t
	seen := map[string]bool{}
	for _, w := range r.writes {
		tab := after.table(w.table)
		if tab == nil {
			return t, nil, missing(w.table)
		}
		key, err := tab.keyOf(w.item)
		if w.remove {
			key, err = tab.key(w.item)
		}
		if err != nil {
			return t, nil, err
		}
		id := fmt.Sprintf("%q", append([]string{w.table}, key...))
		if seen[id] {
			return t, nil, invalid("Provided list of item keys contains duplicates")
		}
		seen[id] = true
		switch {
		case w.remove:
			tab = tab.remove(key)
		case w.item.size() > t.of.most:
			return t, nil, invalid("Item size has exceeded the maximum allowed size")
		default:
			tab = tab.put(key, w.item)
		}
		after = after.with(w.table, tab)
	}
	return after, []byte(`{"UnprocessedItems":{}}`), nil
}
