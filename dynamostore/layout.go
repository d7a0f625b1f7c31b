package dynamostore

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lumcast/headroom"
)

// A subject's item has these attributes for the main meter and its main limit:
//
//	userId           S  the subject
//	plan             S  its plan, if it has one
//	quotaWeek        S  the key of the window, "2026-W22"
//	quotaCount       N  the units charged and held in the window
//	quotaSpan        S  the same window as Headroom knows it: key, start and end in Unix seconds,
//	                    "2026-W22/1779667200/1780272000". If it does not agree with quotaWeek, a
//	                    writer that knows only quotaWeek and quotaCount has turned the window.
//	quotaPast        M  totals of closed windows. See historyEntry for its keys
//	quotaCarried     N  what the window may use beside its own units. Missing if that is nothing
//	quotaHeld        M  the buckets of holds: see bucketName for its keys. Their units are in
//	                    quotaCount too, or in the grant. Missing until the first hold
//	quotaHolding     N  how many holds the buckets count
//	quotaSwept       N  up to when buckets were cleared away, Unix seconds: headroom.State.Swept
//	quotaSeries      N  headroom.State.Series. Missing if it is 0
//	quotaHolds       M  holds as formats 1 and 2 kept them: the headroom.Record and its mark, by the
//	                    full id. The next write turns them into records and buckets
//	quotaGrants      M  grants by the id: {units N, used N, expires N}, the last in Unix seconds.
//	                    Format 1 wrote S "units/used/expires"
//	quotaDebts       M  charges of which an organisation may not be settled yet: the headroom.Debt
//	                    by the full id. It never moves. Format 1 has none, and it is missing until
//	                    the first debt
//	quotaOps         M  the young generation of operation ids: the headroom.Record and its mark, by
//	                    idName
//	quotaOpsBefore   M  the old generation
//	quotaEpoch       N  the label of the young generation, Unix seconds
//	quotaEpochBefore N  the label of the old one
//	quotaGen         N  how often ids were moved to the ledger. 0 if it holds none that is remembered
//	quotaSpilt       N  the label of the young generation when ids last moved
//	quotaFormat      N  the version of this layout
//
// quotaEpochBefore is missing until the ids age for the first time, and quotaSpilt until some move.
// An item without quotaFormat has at most the first four.
//
// Another limit of the meter has quotaSpan:NAME, quotaCount:NAME, quotaPast:NAME and
// quotaCarried:NAME. Another meter has quota/METER/ in place of quota in all names, and all its
// limits are named like the other limits of the main meter. NAME has no slash and no colon, so no
// two of these names are the same.
//
// A program reads every format up to its newest. It writes an item in the item's own format or in
// Options.Format, whichever is newer. So an older item becomes a newer one with its next write.
const (
	formatOne     = 1 // as the first release wrote it
	usualFormat   = 2
	formatBuckets = 3 // the first that has buckets of holds: an item gets it with its first hold
	NewestFormat  = formatBuckets
)

// fields are the attributes that a meter has once, and those of its main limit.
var fields = []string{"Ops", "OpsBefore", "Epoch", "EpochBefore", "Gen", "Spilt", "Format", "Span", "Past", "Holds", "Grants", "Carried", "Debts", "Held", "Holding", "Swept", "Series"}

// limitFields begin the names of attributes that each other limit has.
var limitFields = []string{"Span:", "Count:", "Past:", "Carried:"}

// layout says how attributes are named and in which format items are written.
type layout struct {
	names        Names
	meter, limit string // the main ones
	format       int64  // for an item that nobody has written yet
}

// writes is the format in which an item is written next.
func (l layout) writes(it item) int64 { return max(it.format, l.format) }

// field returns the name of an attribute that a meter has once.
func (l layout) field(meter, field string) string {
	if meter == l.meter {
		return l.names.Prefix + field
	}
	return l.names.Prefix + "/" + meter + "/" + field
}

// counterNames are the names of one counter's attributes. Only the main counter has a window.
type counterNames struct{ window, count, span, past, carried string }

func (l layout) counter(meter, limit string) counterNames {
	if meter == l.meter && limit == l.limit {
		return counterNames{
			window: l.names.Window, count: l.names.Count,
			span: l.field(meter, "Span"), past: l.field(meter, "Past"), carried: l.field(meter, "Carried"),
		}
	}
	return counterNames{
		count: l.field(meter, "Count:") + limit,
		span:  l.field(meter, "Span:") + limit, past: l.field(meter, "Past:") + limit, carried: l.field(meter, "Carried:") + limit,
	}
}

// meterOf returns the meter that an attribute belongs to, if that is not the main one.
func (l layout) meterOf(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, l.names.Prefix+"/")
	slash := strings.LastIndexByte(rest, '/')
	return rest[:max(0, slash)], ok && slash > 0
}

// meters are the main meter and the others that an item has attributes of.
func (l layout) meters(attrs attributes) []string {
	all := map[string]bool{l.meter: true}
	for name := range attrs {
		if meter, ok := l.meterOf(name); ok {
			all[meter] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// limits are the limits of a meter that an item has windows of.
func (l layout) limits(attrs attributes, meter string) (limits []string) {
	if meter == l.meter {
		limits = append(limits, l.limit)
	}
	for name := range attrs {
		// A name with another slash or colon belongs to a meter whose own name has one.
		if limit, ok := strings.CutPrefix(name, l.field(meter, "Span:")); ok && !strings.ContainsAny(limit, "/:") {
			limits = append(limits, limit)
		}
	}
	return limits
}

// owns reports whether an attribute is Headroom's.
func (l layout) owns(name string) bool {
	if name == l.names.Window || name == l.names.Count || name == l.names.Plan {
		return true
	}
	rest, ok := strings.CutPrefix(name, l.names.Prefix)
	if !ok {
		return false
	}
	if meter, other := l.meterOf(name); other {
		rest = name[len(l.field(meter, "")):]
	}
	return ours(rest)
}

// ours reports whether Headroom has an attribute whose name, without the prefix, is rest.
func ours(rest string) bool {
	return slices.Contains(fields, rest) ||
		slices.ContainsFunc(limitFields, func(of string) bool { return strings.HasPrefix(rest, of) })
}

// distinct reports names that are given to two things.
func (l layout) distinct() error {
	seen := map[string]bool{}
	for _, name := range []string{l.names.Subject, l.names.Window, l.names.Count, l.names.Plan} {
		if seen[name] {
			return headroom.Errorf(headroom.Invalid, nil, "attribute name %q is given to two things", name)
		}
		seen[name] = true
		if rest, prefixed := strings.CutPrefix(name, l.names.Prefix); prefixed && (ours(rest) || strings.HasPrefix(rest, "/")) {
			return headroom.Errorf(headroom.Invalid, nil, "attribute name %q is taken: Headroom keeps something else there; choose another prefix", name)
		}
	}
	return nil
}

// idName is the name that an operation id has in a map or in the ledger. A short id is its own
// name. A longer one has 96 bits of its SHA-256, written in 17 characters, which no short id has.
func idName(id string) string {
	if len(id) <= 16 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "~" + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// spanText is what quotaSpan holds for a window.
func spanText(w headroom.Window) string {
	return w.Key + "/" + unix(w.Start) + "/" + unix(w.End)
}

func parseSpan(s string) (headroom.Window, bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 || parts[0] == "" {
		return headroom.Window{}, false
	}
	start, ok1 := fromUnix(parts[1])
	end, ok2 := fromUnix(parts[2])
	return headroom.Window{Key: parts[0], Start: start, End: end}, ok1 && ok2 && start.Before(end)
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func fromUnix(s string) (time.Time, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(n, 0).UTC(), err == nil
}
