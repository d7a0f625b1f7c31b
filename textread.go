package headroom

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// readText reads a text line by line. Its first line must be the header.
func readText(text, header string, read func(what string, r *textReader)) error {
	unreadable := func(line string) error {
		return Errorf(Unreadable, nil, "stored text has the line %q, want %q and lines of a known form: "+
			"a newer version of Headroom may have written it", line, header)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != header {
		return unreadable(lines[0])
	}
	for _, line := range lines[1:] {
		r := &textReader{rest: line, ok: true}
		if read(r.word(), r); !r.ok || r.rest != "" {
			return unreadable(line)
		}
	}
	return nil
}

// textReader reads the words of one line. Once ok is false, what it returns means nothing.
type textReader struct {
	rest string
	ok   bool
}

// word returns the next word.
func (r *textReader) word() (word string) {
	word, r.rest, _ = strings.Cut(r.rest, " ")
	r.ok = r.ok && word != ""
	return word
}

// flag reports whether some words come next, and passes over them.
func (r *textReader) flag(words string) bool {
	rest, found := strings.CutPrefix(r.rest, words)
	if !found || rest != "" && rest[0] != ' ' {
		return false
	}
	r.rest = strings.TrimPrefix(rest, " ")
	return true
}

func (r *textReader) want(words string) { r.ok = r.flag(words) && r.ok }

func (r *textReader) quoted() string {
	prefix, err := strconv.QuotedPrefix(r.rest)
	s, wrong := strconv.Unquote(prefix)
	rest := r.rest[len(prefix):]
	r.ok = r.ok && err == nil && wrong == nil && prefix[0] == '"' && (rest == "" || rest[0] == ' ')
	r.rest = strings.TrimPrefix(rest, " ")
	return s
}

func (r *textReader) number() int64 {
	n, err := strconv.ParseInt(r.word(), 10, 64)
	r.ok = r.ok && err == nil
	return n
}

// given reads a number that is left out if it is 0.
func (r *textReader) given(name string) int64 {
	if !r.flag(name) {
		return 0
	}
	return r.number()
}

func (r *textReader) time() time.Time {
	word := r.word()
	if word == "none" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, word)
	r.ok = r.ok && err == nil && checkTime(t) == nil
	return t.UTC()
}

func (r *textReader) duration() time.Duration {
	d, err := time.ParseDuration(r.word())
	r.ok = r.ok && err == nil
	return d
}

func (r *textReader) window() Window {
	if r.flag("none") {
		return Window{}
	}
	return Window{Key: r.quoted(), Start: r.time(), End: r.time()}
}

func (r *textReader) total() Total {
	return Total{Start: r.time(), Units: r.number(), Unknown: r.flag("unknown")}
}

func (r *textReader) record() *Record {
	record, err := ParseRecord(r.quoted())
	r.ok = r.ok && err == nil
	return &record
}

func (r *textReader) recordOrNone() *Record {
	if r.flag("none") {
		return nil
	}
	return r.record()
}

func (r *textReader) recordStep() RecordStep {
	step := RecordStep{ID: r.quoted(), Old: r.flag("old")}
	r.want("was")
	step.Was = r.recordOrNone()
	r.want("is")
	step.Is = r.recordOrNone()
	return step
}

func (r *textReader) bucketKey() (k BucketKey) {
	switch {
	case r.flag("of limit"):
		k.Limit, k.Start = r.quoted(), r.time()
	case r.flag("of grant"):
		k.Grant = r.quoted()
	default:
		r.want("of holds")
	}
	r.want("until")
	k.Expires = r.time()
	r.want("series")
	k.Series = r.number()
	return k
}

func (r *textReader) bucketStep() BucketStep {
	b := BucketStep{BucketKey: r.bucketKey()}
	if b.There = r.flag("there with"); b.There {
		b.Min, b.Max, b.Add = r.bounded()
	} else {
		r.want("there or not")
		r.want("add")
		b.Add = r.number()
	}
	b.Ends, b.In = r.flag("ends"), r.startIn()
	return b
}

// startIn reads what startIn wrote.
func (r *textReader) startIn() time.Time {
	if !r.flag("in") {
		return time.Time{}
	}
	return r.time()
}

func (r *textReader) debt() *Debt {
	debt, err := ParseDebt(r.quoted())
	r.ok = r.ok && err == nil
	return &debt
}

func (r *textReader) debtOrNone() *Debt {
	if r.flag("none") {
		return nil
	}
	return r.debt()
}

func (r *textReader) grant() *Grant {
	g := Grant{Units: r.number()}
	r.want("used")
	g.Used = r.number()
	r.want("until")
	g.Expires = r.time()
	return &g
}

func (r *textReader) grantOrNone() *Grant {
	if r.flag("none") {
		return nil
	}
	return r.grant()
}

func (r *textReader) grantStep() GrantStep {
	g := GrantStep{ID: r.quoted()}
	r.want("was")
	g.Was = r.grantOrNone()
	r.want("use")
	g.Min, g.Max, g.Add = r.bounded()
	r.want("is")
	g.Is, g.Ends = r.grantOrNone(), r.flag("ends")
	return g
}

// bounded reads what a count must lie between, and what is added to it.
func (r *textReader) bounded() (least, most, add int64) {
	least = r.number()
	r.want("to")
	fits := r.flag("any that fits")
	if most = math.MaxInt64; !fits && !r.flag("any") {
		most = r.number()
	}
	r.want("add")
	if add = r.number(); fits {
		most = anyCount(add)
	}
	return least, most, add
}

func (r *textReader) step() Step {
	s := Step{Limit: r.quoted()}
	if r.flag("in") {
		s.From = r.window()
		s.To = s.From
	} else {
		r.want("from")
		s.From = r.window()
		r.want("to")
		s.To = r.window()
	}
	r.want("count")
	s.Min, s.Max, s.Add = r.bounded()
	s.Carried, s.Opens = r.given("carried"), r.flag("opens")
	return s
}

// windowTotal reads a total of the step before it.
func (r *textReader) windowTotal(what string, steps []Step) {
	limit, t := r.quoted(), r.total()
	if len(steps) == 0 || steps[len(steps)-1].Limit != limit {
		r.ok = false
		return
	}
	s := &steps[len(steps)-1]
	if what == "fold" {
		s.Fold = append(s.Fold, t)
	} else {
		s.Past = append(s.Past, t)
	}
}
