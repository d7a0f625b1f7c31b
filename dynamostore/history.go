package dynamostore

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// A key of quotaPast is the start of a closed window in Unix seconds, behind one of these:
//
//	""    N     its total
//	"?"   BOOL  its total is not known, because a writer that keeps none closed it
//	"~"   N     how often its total was corrected
//	"!"   BOOL  its total was corrected, in format 1
//
// "more" stands alone: N, how often totals were moved to the ledger.
const (
	unknownPast = "?"
	versionPast = "~"
	oncePast    = "!"
	morePast    = "more"
)

// pastKey is a key of quotaPast.
type pastKey struct {
	kind  string
	start time.Time
}

func (k pastKey) String() string {
	if k.kind == morePast {
		return k.kind
	}
	return k.kind + unix(k.start)
}

func parsePastKey(key string) (k pastKey, ok bool) {
	if key == morePast {
		return pastKey{kind: morePast}, true
	}
	for _, kind := range []string{unknownPast, versionPast, oncePast} {
		if rest, found := strings.CutPrefix(key, kind); found {
			k.kind, key = kind, rest
			break
		}
	}
	k.start, ok = fromUnix(key)
	return k, ok
}

// past is what an item holds of a counter's closed windows.
type past struct {
	attrs   attributes               // as it stands there
	totals  map[int64]headroom.Total // by start. Some may be of windows after the one now stored
	version map[int64]int64          // how often a total was corrected, by start
	moved   int64                    // how often totals were moved to the ledger
}

// past reads what an attribute holds of closed windows.
func (r *reader) past(name string) past {
	p := past{attrs: r.nested(name), totals: map[int64]headroom.Total{}, version: map[int64]int64{}}
	for key, v := range p.attrs {
		if k, ok := parsePastKey(key); !ok {
			r.bad(name, "holds something that is no total")
		} else if wrong := p.take(k, v); wrong != "" {
			r.bad(name, wrong)
		}
	}
	return p
}

// take reads one entry, and returns what is wrong with it.
func (p *past) take(k pastKey, v types.AttributeValue) (wrong string) {
	at := k.start.Unix()
	switch k.kind {
	case morePast:
		if p.moved, _ = integer(v); p.moved < 1 {
			return "does not say how often totals were moved"
		}
	case unknownPast:
		p.lost(k.start)
	case oncePast:
		p.version[at]++
	case versionPast:
		version, whole := integer(v)
		if !whole || version < 1 || version >= mostVersion {
			return "does not say how often a total was corrected"
		}
		p.version[at] += version
	default:
		t, ok := total(k.start, v)
		if !ok || t.Unknown {
			return "holds something that is no total"
		}
		if !p.totals[at].Unknown {
			p.totals[at] = t
		}
	}
	return ""
}

// lost marks a total as unknown.
func (p past) lost(start time.Time) {
	p.totals[start.Unix()] = headroom.Total{Start: start, Unknown: true}
}

// before returns the totals of windows that start before t, the latest first, and that of t itself
// if it is known to be incomplete. The others are left from a window that a wrong clock opened, and
// do not count. older are totals from the ledger. Those of the item are younger, and go before
// them.
func (p past) before(older []headroom.Total, t time.Time) []headroom.Total {
	last := map[int64]headroom.Total{}
	add := func(p headroom.Total) {
		at := p.Start.Unix()
		if counts := p.Start.Before(t) || p.Start.Equal(t) && p.Unknown; counts && !last[at].Unknown {
			last[at] = p
		}
	}
	for _, o := range older {
		add(o)
	}
	for _, o := range p.totals {
		add(o)
	}
	all := make([]headroom.Total, 0, len(last))
	for _, p := range last {
		if p.Units != 0 || p.Unknown {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b headroom.Total) int { return b.Start.Compare(a.Start) })
	return all[:min(len(all), headroom.HistoryWindows)]
}

// total reads the total of a closed window, from an item or from the ledger.
func total(start time.Time, v types.AttributeValue) (t headroom.Total, ok bool) {
	t.Start = start
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
