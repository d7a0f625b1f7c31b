package memdynamo

import (
	"errors"
	"fmt"
)

// failure is an error of the protocol.
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

// Apply answers one request. op is what follows the dot in the header X-Amz-Target ("UpdateItem"),
// and body is the JSON of the request. The answer is an HTTP status and a JSON body. Unless the
// status is 200, the tables after it are the same.
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

// prefixes stand before the codes of errors.
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

// batch answers a BatchWriteItem. It does all the writes. DynamoDB may leave some undone: how a
// client stands that is tested elsewhere.
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
			return t, nil, tooLarge("PutItem")
		default:
			tab = tab.put(key, w.item)
		}
		after = after.with(w.table, tab)
	}
	return after, []byte(`{"UnprocessedItems":{}}`), nil
}
