package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// fields are those of a message, of an execution's input or of a result, by their exact names.
type fields map[string]json.RawMessage

// readFields reads an object.
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

// text reads a string, and says in words why there is none.
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

// leastNumber is the least that is told from 0. No job table must hold less: DynamoDB ends at 1e-130.
const leastNumber = 1e-100

// number reads a number, and says in words why there is none. What is nearer to 0 than leastNumber is 0.
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

// whole reads a whole number. Missing and null it is otherwise.
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
