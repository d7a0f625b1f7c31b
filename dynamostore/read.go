package dynamostore

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// reader reads attributes and keeps the first thing that is wrong with them.
type reader struct {
	attrs   map[string]types.AttributeValue
	subject string
	err     error
}

func (r *reader) bad(name, what string) {
	if r.err == nil {
		r.err = headroom.Errorf(headroom.Unreadable, nil, "attribute %s of the item of %q %s", name, r.subject, what)
	}
}

func (r *reader) str(name string) string {
	switch v := r.attrs[name].(type) {
	case nil:
	case *types.AttributeValueMemberS:
		return v.Value
	default:
		r.bad(name, "is no string")
	}
	return ""
}

func (r *reader) num(name string) (int64, bool) {
	if r.attrs[name] == nil {
		return 0, false
	}
	n, ok := integer(r.attrs[name])
	if !ok {
		r.bad(name, "is no whole number of 64 bits")
	}
	return n, ok
}

func integer(v types.AttributeValue) (int64, bool) {
	if v, ok := v.(*types.AttributeValueMemberN); ok {
		n, err := strconv.ParseInt(v.Value, 10, 64)
		return n, err == nil
	}
	return 0, false
}

func (r *reader) natural(name string) int64 {
	n, _ := r.num(name)
	if n < 0 {
		r.bad(name, "is below 0")
	}
	return n
}

func (r *reader) time(name string) time.Time {
	if n, ok := r.num(name); ok {
		return time.Unix(n, 0).UTC()
	}
	return time.Time{}
}

func (r *reader) nested(name string) map[string]types.AttributeValue {
	switch v := r.attrs[name].(type) {
	case nil:
	case *types.AttributeValueMemberM:
		return v.Value
	default:
		r.bad(name, "is no map")
	}
	return nil
}

func (r *reader) charges(name string) map[string]string {
	charges := map[string]string{}
	for id, v := range r.nested(name) {
		if s, ok := v.(*types.AttributeValueMemberS); ok {
			charges[id] = s.Value
		} else {
			r.bad(name, "holds something that is no charge")
		}
	}
	return charges
}

func (r *reader) holds(name string) map[string]headroom.Record {
	holds := map[string]headroom.Record{}
	for id, text := range r.charges(name) {
		text, _ = unmarked(text)
		hold, err := headroom.ParseRecord(text)
		if err != nil || hold.Kind != headroom.KindHold {
			r.bad(name, "holds something that is no hold")
		}
		holds[id] = hold
	}
	return holds
}

// size is about how many bytes a value counts for, for the types that Headroom writes. The rules
// are in DynamoDB's developer guide ("DynamoDB item sizes and formats").
func size(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)/2 + 2
	case *types.AttributeValueMemberM:
		n := 3
		for name, child := range v.Value {
			n += len(name) + size(child) + 1
		}
		return n
	}
	return 1
}
