package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// fields are the fields of a message, of an execution's input or of a result, by their exact names.
type fields map[string]json.RawMessage

// readFields reads a JSON object.
func readFields(raw []byte) (fields, error) {
	var f fields
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("null is no object")
	}
	return f, nil
}

// text reads a string. If there is none, strange says why in words.
func (f fields) text(name string) (s, strange string) {
	raw, given := f[name]
	if !given {
		return "", name + " is missing"
	}
	if kind := kindOf(raw); kind != "a string" {
		return "", name + " is " + kind
	}
	_ = json.Unmarshal(raw, &s) // it cannot fail: raw is a string
	return s, ""
}

// leastNumber is the smallest number that counts as more than 0. The smallest that DynamoDB can
// hold is 1e-130, and a job table need not hold less than this.
const leastNumber = 1e-100

// number reads a number. If there is none, strange says why in words. A number that is closer to 0
// than leastNumber reads as 0.
func (f fields) number(name string) (n float64, strange string) {
	raw, given := f[name]
	if !given {
		return 0, name + " is missing"
	}
	if kind := kindOf(raw); kind != "a number" {
		return 0, name + " is " + kind
	}
	if json.Unmarshal(raw, &n) != nil {
		return 0, fmt.Sprintf("%s is %.40s, which is beyond what a number holds", name, raw)
	}
	if math.Abs(n) < leastNumber {
		n = 0
	}
	return n, ""
}

// whole reads a whole number, which is otherwise if the field is missing or null. If there is none,
// strange says why in words.
func (f fields) whole(name string, otherwise int) (n int, strange string) {
	raw, given := f[name]
	kind := kindOf(raw)
	switch {
	case !given || kind == "null":
		return otherwise, ""
	case kind != "a number":
		return 0, name + " is " + kind
	case json.Unmarshal(raw, &n) != nil:
		return 0, fmt.Sprintf("%s is %.40s: want a whole number", name, raw)
	}
	return n, ""
}

// kindOf says in words what a JSON value is.
func kindOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case 'n':
		return "null"
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}
