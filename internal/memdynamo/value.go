package memdynamo

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// kind is the type of a value, by its name in the protocol.
type kind string

const (
	kindS    kind = "S"
	kindN    kind = "N"
	kindBOOL kind = "BOOL"
	kindM    kind = "M"
)

// value is an attribute value. It is immutable.
type value struct {
	kind kind
	text string // of an S; of an N its canonical form
	yes  bool   // of a BOOL
	m    object // of an M
}

// object is an item or a map: its fields by name, in the order of their bytes. It is immutable.
type object []field

type field struct {
	name  string
	value *value
}

func (o object) find(name string) (int, bool) {
	return slices.BinarySearchFunc(o, name,
		func(f field, name string) int { return strings.Compare(f.name, name) })
}

func (o object) get(name string) *value {
	if i, ok := o.find(name); ok {
		return o[i].value
	}
	return nil
}

// with returns a copy in which a field has another value.
func (o object) with(name string, v *value) object {
	i, ok := o.find(name)
	after := make(object, 0, len(o)+1)
	after = append(append(after, o[:i]...), field{name, v})
	if ok {
		i++
	}
	return append(after, o[i:]...)
}

// without returns a copy that lacks a field.
func (o object) without(name string) object {
	i, ok := o.find(name)
	if !ok {
		return o
	}
	return append(append(make(object, 0, len(o)-1), o[:i]...), o[i+1:]...)
}

// at returns the value that a document path leads to, nil if there is none.
func (o object) at(path []string) *value {
	v := o.get(path[0])
	for _, name := range path[1:] {
		if v == nil || v.kind != kindM {
			return nil
		}
		v = v.m.get(name)
	}
	return v
}

// put returns a copy in which a document path leads to v, or to nothing if v is nil. ok is false if
// the parent is not a map.
func (o object) put(path []string, v *value) (after object, ok bool) {
	switch name := path[0]; {
	case len(path) == 1 && v == nil:
		return o.without(name), true
	case len(path) == 1:
		return o.with(name, v), true
	default:
		parent := o.get(name)
		if parent == nil || parent.kind != kindM {
			return nil, false
		}
		m, ok := parent.m.put(path[1:], v)
		return o.with(name, &value{kind: kindM, m: m}), ok
	}
}

// size is what a value counts for the limit of 400 KB. The rules are in the developer guide
// ("DynamoDB item sizes and formats").
func (v *value) size() int {
	switch v.kind {
	case kindS:
		return len(v.text)
	case kindN:
		return len(v.text)/2 + 2
	case kindM:
		n := 3 + len(v.m)
		return n + v.m.size()
	}
	return 1
}

func (o object) size() (n int) {
	for _, f := range o {
		n += len(f.name) + f.value.size()
	}
	return n
}

func equal(a, b *value) bool {
	if a.kind != b.kind || a.text != b.text || a.yes != b.yes {
		return false
	}
	return slices.EqualFunc(a.m, b.m,
		func(a, b field) bool { return a.name == b.name && equal(a.value, b.value) })
}

// toSDK returns o as SDK values.
func (o object) toSDK() map[string]types.AttributeValue {
	attrs := make(map[string]types.AttributeValue, len(o))
	for _, f := range o {
		switch v := f.value; v.kind {
		case kindS:
			attrs[f.name] = &types.AttributeValueMemberS{Value: v.text}
		case kindN:
			attrs[f.name] = &types.AttributeValueMemberN{Value: v.text}
		case kindBOOL:
			attrs[f.name] = &types.AttributeValueMemberBOOL{Value: v.yes}
		case kindM:
			attrs[f.name] = &types.AttributeValueMemberM{Value: v.m.toSDK()}
		}
	}
	return attrs
}

// fromSDK returns SDK values as an object.
func fromSDK(attrs map[string]types.AttributeValue) (object, error) {
	o := make(object, 0, len(attrs))
	for name, a := range attrs {
		v := &value{}
		var err error
		switch a := a.(type) {
		case *types.AttributeValueMemberS:
			v.kind, v.text = kindS, a.Value
		case *types.AttributeValueMemberN:
			v.kind = kindN
			v.text, err = canonical(a.Value)
		case *types.AttributeValueMemberBOOL:
			v.kind, v.yes = kindBOOL, a.Value
		case *types.AttributeValueMemberM:
			v.kind = kindM
			v.m, err = fromSDK(a.Value)
		default:
			err = unmodelled("an attribute of type %T", a)
		}
		if err != nil {
			return nil, err
		}
		o = append(o, field{name, v})
	}
	slices.SortFunc(o, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return o, nil
}
