package dynamostore

import (
	"strconv"
	"strings"
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
		r.err = headroom.Errorf(headroom.CodeFormat, nil, "attribute %s of the item of %q %s", name, r.subject, what)
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

func (r *reader) past(name string) past {
	p := past{attrs: r.nested(name), totals: map[int64]headroom.Total{}, version: map[int64]int64{}}
	for key, v := range p.attrs {
		if key == morePast {
			if n, ok := v.(*types.AttributeValueMemberN); ok {
				p.moved, _ = strconv.ParseInt(n.Value, 10, 64)
			}
			if p.moved < 1 {
				r.bad(name, "does not say how often totals were moved")
			}
			continue
		}
		if key, once := strings.CutPrefix(key, oncePast); once {
			if start, ok := fromUnix(key); ok {
				p.version[start.Unix()]++
			} else {
				r.bad(name, "holds something that is no total")
			}
			continue
		}
		if key, corrected := strings.CutPrefix(key, versionPast); corrected {
			start, ok := fromUnix(key)
			version, whole := integer(v)
			if !ok || !whole || version < 1 || version >= mostVersion {
				r.bad(name, "does not say how often a total was corrected")
			}
			p.version[start.Unix()] += version
			continue
		}
		if key, unknown := strings.CutPrefix(key, unknownPast); unknown {
			if start, ok := fromUnix(key); ok {
				p.lost(start)
			} else {
				r.bad(name, "holds something that is no total")
			}
			continue
		}
		t, ok := total(key, v)
		if !ok || t.Unknown {
			r.bad(name, "holds something that is no total")
		} else if !p.totals[t.Start.Unix()].Unknown {
			p.totals[t.Start.Unix()] = t
		}
	}
	return p
}

// total reads one closed window's total.
func total(start string, v types.AttributeValue) (t headroom.Total, ok bool) {
	if t.Start, ok = fromUnix(start); !ok {
		return t, false
	}
	if v, mark := v.(*types.AttributeValueMemberS); mark {
		t.Unknown = true
		return t, v.Value == unknownPast
	}
	t.Units, ok = integer(v)
	return t, ok && t.Units >= 0
}

func totalValue(t headroom.Total) types.AttributeValue {
	if t.Unknown {
		return str(unknownPast)
	}
	return num(t.Units)
}

// size is about how many bytes a value counts for, by the rules of DynamoDB's developer guide ("DynamoDB item sizes and formats"), for the types that Headroom writes.
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
