package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// hostile are names that a careless store mixes up. They differ in delimiters, escapes, case,
// width, composed characters or the direction of writing, or look like something that a store
// writes itself.
var hostile = []string{
	"a", "A", "a#b", "a:b", "a/b", "a~b", "a%b", "a%2Fb", "a%252Fb", "a_b", "a-b", "a.b", "a|b", "a,b", "a@b",
	"a!b", `a\b`, `a"b`, "a'b", "a b", "a  b", " a", "a ", "a\tb", "a\nb", "a\r\nb", "a\x00", "a\x00b",
	"\x00", "\x00a", "\x01", "\x7f", "a\u200bb", "\ufeffa", "\u00e9", "e\u0301", "\u212b", "\u00c5",
	"A\u030a", "\ufb01", "fi", "\U0001f469\u200d\U0001f680", "\U0001f469\U0001f680",
	"\u0645\u0631\u062d\u0628\u0627", "\u202ea\u202cb", "\u65e5\u672c\u8a9e", "\uff41", "\u0130", "i\u0307",
	"\u0131", "\u00df", "ss", "\u1e9e", "\U0010ffff", "\uffff", "\ufffd", "..", ".", "/", "//", "#", ":", "%",
	"%00", "~", "~0", "~1", "$", "#count", "quotaCount", "quotaOps", "d30@week:1779667200", "null", "0", "00",
	"-1", "1e3", "true", "0123456789abcdef", "0123456789abcdefg", "0123456789abcde", "0123456789ABCDEF", "=",
	"AAAA", "AAAA====",
}

func badInput(t *testing.T, h Harness) {
	w := newWorld(t, h)
	a := w.account(200)
	s, a := a.tapped(headroom.Options{})
	for name, spoil := range map[string]mod{
		"no subject":                  func(r *headroom.Request) { r.Subject = "" },
		"a subject of 1025 bytes":     func(r *headroom.Request) { r.Subject = strings.Repeat("s", 1025) },
		"a subject not of UTF-8":      func(r *headroom.Request) { r.Subject = "a\xff" },
		"no meter":                    func(r *headroom.Request) { r.Meter = "" },
		"a meter that nothing knows":  func(r *headroom.Request) { r.Meter = "nonesuch" },
		"a meter of 257 bytes":        func(r *headroom.Request) { r.Meter = strings.Repeat("m", 257) },
		"an id of 257 bytes":          func(r *headroom.Request) { r.Operation = strings.Repeat("\u00e9", 128) + "x" },
		"an id not of UTF-8":          func(r *headroom.Request) { r.Operation = "\xc3" },
		"a negative cost":             func(r *headroom.Request) { r.Cost = -1 },
		"a policy that nothing knows": func(r *headroom.Request) { r.Over = 7 },
		"a year of five digits":       at(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)),
		"a year before the first":     began(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)),
	} {
		r := a.request("id", 1, spoil)
		d, err := a.engine.Deduct(t.Context(), r)
		a.failed(name+": deduct", r, d, err, headroom.Invalid)
		d, err = a.engine.Preflight(t.Context(), r)
		a.failed(name+": preflight", r, d, err, headroom.Invalid)
	}
	a.fail("", 1, headroom.Invalid)
	for _, subject := range []string{"", strings.Repeat("s", 1025), "\xff"} {
		a.failed("set plan", a.request("", 0), headroom.Decision{}, a.engine.SetPlan(t.Context(), subject, "free"), headroom.Invalid)
		_, err := a.engine.Usage(t.Context(), headroom.UsageRequest{Subject: subject, Meter: meter})
		a.failed("usage", a.request("", 0), headroom.Decision{}, err, headroom.Invalid)
	}
	a.failed("set plan", a.request("", 0), headroom.Decision{}, a.engine.SetPlan(t.Context(), a.subject, "nonesuch"), headroom.Invalid)
	_, err := a.engine.Usage(t.Context(), headroom.UsageRequest{Subject: a.subject, Meter: "nonesuch"})
	a.failed("usage", a.request("", 0), headroom.Decision{}, err, headroom.Invalid)
	if l, c := s.loads.Load(), s.commits.Load(); l+c != 0 {
		t.Errorf("bad input reached the store: %d loads and %d commits", l, c)
	}
	// Only what is stored says whether the caller's plan counts. If it does and is unknown, that is
	// an error, and nothing is written.
	a.unchanged(func() { a.fail("id", 1, headroom.Invalid, says("nonesuch")) }, "id")
	a.admit("id", 1, 1)
}

func nothingAtTheLimit(t *testing.T, h Harness) {
	a := newWorld(t, h).account(10)
	a.admit("first", 0, 0)
	a.admit("all", 10, 10)
	a.admit("nothing", 0, 10)
	a.deduct("past", 5, headroom.ReasonRecorded, 15, record)
	a.admit("nothing more", 0, 15)
	a.preflight("", 0, headroom.ReasonAdmitted, 15)
	a.replay("first", 0, 15)
	a.replay("nothing", 0, 15)
	a.replay("nothing more", 0, 15, record)
	a.fail("nothing", 1, headroom.Conflict)
	a.uses(15)
}

func subjectsApart(t *testing.T, h Harness) {
	a := newWorld(t, h).account(1000)
	for i, name := range hostile {
		a.of(name+a.subject+name).admit("id", int64(i), int64(i))
	}
	for i, name := range hostile {
		a.of(name + a.subject + name).uses(int64(i))
	}
}

func metersApart(t *testing.T, h Harness) {
	w := newWorld(t, h)
	p := headroom.Plan{Name: "free"}
	for _, name := range hostile {
		p.Limits = append(p.Limits, headroom.Limit{Meter: name, Name: "week", Units: 1000})
	}
	c := w.limited(p.Limits...)
	a := w.accountOn(c, 1000)
	for i, name := range hostile {
		a.meter = name
		a.admit("id", int64(i), int64(i))
	}
	for i, name := range hostile {
		a.meter = name
		a.uses(int64(i))
	}
}

func idsApart(t *testing.T, h Harness) {
	// Each subject gets a few of the ids, so that a store keeps them with the count.
	a := newWorld(t, h).account(1 << 20)
	for from := 0; from < len(hostile); from += 6 {
		some := hostile[from:min(from+6, len(hostile))]
		b := a.of(fmt.Sprintf("%s-%d", a.subject, from))
		sum := int64(0)
		for i, name := range some {
			sum += int64(i)
			b.admit(name, int64(i), sum)
		}
		for i, name := range some {
			b.replay(name, int64(i), sum)
		}
	}
}

func idsApartAmongMany(t *testing.T, h Harness) {
	a := newWorld(t, h).account(1 << 20)
	sum := int64(0)
	for i, name := range hostile {
		sum += int64(i)
		a.admit(name, int64(i), sum)
	}
	for i, name := range hostile {
		a.replay(name, int64(i), sum)
	}
	a.uses(sum)
}

func longestNames(t *testing.T, h Harness) {
	w := newWorld(t, h)
	long := strings.Repeat("m", headroom.MaxMeter)
	p := headroom.Plan{Name: "free", Limits: []headroom.Limit{
		{Meter: long, Name: strings.Repeat("l", 32), Units: 1 << 20}, {Meter: long[1:] + "n", Name: "week", Units: 1 << 20},
		{Meter: strings.Repeat("\U0001f3a7", headroom.MaxMeter/4), Name: "week", Units: 1 << 20},
	}}
	c := w.limited(p.Limits...)
	a := w.accountOn(c, 1<<20)
	for i, subject := range []string{
		a.subject + strings.Repeat("s", headroom.MaxSubject-len(a.subject)-1) + "1",
		a.subject + strings.Repeat("s", headroom.MaxSubject-len(a.subject)-1) + "2",
		strings.Repeat("\U0001f3a7", (headroom.MaxSubject-len(a.subject))/4) + a.subject,
	} {
		for j, l := range p.Limits {
			b, first := a.of(subject), int64(i*10+j)
			b.meter = l.Meter
			b.longestIDs(l.Name, first)
			if got, want := b.limits()[0].Used, first*4+6; got != want {
				t.Errorf("subject %d, meter %d: %d used, want %d", i, j, got, want)
			}
		}
	}
}

// longestIDs charges four operations and repeats each. The first costs first units, and each
// further one a unit more. Their ids have the greatest length or a byte less, and differ only in
// the last byte.
func (a account) longestIDs(limit string, first int64) {
	a.w.Helper()
	for k := range int64(4) {
		n := headroom.MaxOperation - 1 - int(k)/2
		r := a.request(strings.Repeat("o", n)+fmt.Sprint(k%2), first+k)
		for _, replay := range []bool{false, true} {
			if d, err := a.engine.Deduct(a.w.Context(), r); err != nil || !d.Allowed || d.Replay != replay || d.LimitName != limit {
				a.w.Fatalf("meter %q, id of %d bytes: %s, %v", a.meter, len(r.Operation), text(d), err)
			}
		}
	}
}

func meterSubjectBorder(t *testing.T, h Harness) {
	w := newWorld(t, h)
	pairs := [][2]string{}
	for _, sep := range []string{"_", "#", ":", "/", "~", "%", "|", "\x00", "\x00\x00", "\u0301", "."} {
		pairs = append(pairs,
			[2]string{"a", "b" + sep + "c"}, [2]string{"a" + sep + "b", "c"},
			[2]string{"a" + sep, "b" + sep + "c"}, [2]string{"a", sep + "b" + sep + "c"})
	}
	p := headroom.Plan{Name: "free"}
	known := map[string]bool{}
	for _, pair := range pairs {
		if m := pair[1]; !known[m] {
			known[m] = true
			p.Limits = append(p.Limits, headroom.Limit{Meter: m, Name: "week", Units: 1000})
		}
	}
	c := w.limited(p.Limits...)
	a := w.accountOn(c, 1000)
	own := a.subject
	for i, pair := range pairs {
		a.subject, a.meter = own+pair[0], pair[1]
		a.admit("id", int64(i+1), int64(i+1))
	}
	for i, pair := range pairs {
		a.subject, a.meter = own+pair[0], pair[1]
		a.uses(int64(i + 1))
	}
}
