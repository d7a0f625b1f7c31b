package memdynamo

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder reads a JSON text from left to right and keeps the first error. It is several times as
// fast as encoding/json, which would take most of the time of a request.
type decoder struct {
	text string
	pos  int
	err  error
}

// mostNested is how deep values nest, from the service quotas ("Nested attribute depth").
const mostNested = 32

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *decoder) malformed() {
	d.fail(&failure{code: "SerializationException", message: "malformed JSON"})
}

// peek returns the next byte that is not a space, or 0 at the end and after an error.
func (d *decoder) peek() byte {
	for d.err == nil && d.pos < len(d.text) {
		switch c := d.text[d.pos]; c {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return c
		}
	}
	return 0
}

func (d *decoder) take(c byte) bool {
	if d.peek() != c {
		return false
	}
	d.pos++
	return true
}

func (d *decoder) expect(c byte) {
	if !d.take(c) {
		d.malformed()
	}
}

// list reads elements between two brackets.
func (d *decoder) list(open, end byte, element func()) {
	d.expect(open)
	if d.take(end) {
		return
	}
	for d.err == nil {
		element()
		if !d.take(',') {
			d.expect(end)
			return
		}
	}
}

// object reads an object. member reads the value of one of its members.
func (d *decoder) object(member func(name string)) {
	d.list('{', '}', func() {
		name := d.string()
		d.expect(':')
		if d.err == nil {
			member(name)
		}
	})
}

func (d *decoder) string() string {
	d.expect('"')
	start := d.pos
	for escaped := false; d.err == nil && d.pos < len(d.text); d.pos++ {
		switch c := d.text[d.pos]; {
		case c == '\\':
			escaped = true
			d.pos++
		case c < ' ':
			d.malformed()
		case c == '"':
			s := d.text[start:d.pos]
			d.pos++
			if !utf8.ValidString(s) {
				d.malformed()
			}
			if escaped {
				return d.unescaped(d.text[start-1 : d.pos])
			}
			return s
		}
	}
	d.malformed()
	return ""
}

func (d *decoder) unescaped(quoted string) (s string) {
	if json.Unmarshal([]byte(quoted), &s) != nil {
		d.malformed()
	}
	return s
}

// word reads a number, true, false or null.
func (d *decoder) word() string {
	d.peek()
	start := d.pos
	for d.pos < len(d.text) && strings.IndexByte(",]} \t\r\n", d.text[d.pos]) < 0 {
		d.pos++
	}
	return d.text[start:d.pos]
}

func (d *decoder) bool() bool {
	w := d.word()
	if w != "true" && w != "false" {
		d.malformed()
	}
	return w == "true"
}

func (d *decoder) int() int {
	n, err := strconv.Atoi(d.word())
	if err != nil {
		d.malformed()
	}
	return n
}

// attributes reads an object of attribute values.
func (d *decoder) attributes(depth int) object {
	o := make(object, 0, 8)
	sorted := true
	d.object(func(name string) {
		if name == "" {
			d.fail(invalid("Attribute name is empty"))
		}
		sorted = sorted && (len(o) == 0 || o[len(o)-1].name < name)
		o = append(o, field{name, d.value(depth)})
	})
	if !sorted {
		slices.SortFunc(o, func(a, b field) int { return strings.Compare(a.name, b.name) })
		for i := range o[1:] {
			if o[i].name == o[i+1].name {
				d.malformed()
			}
		}
	}
	return o
}

// value reads an attribute value.
func (d *decoder) value(depth int) *value {
	v := &value{}
	if depth > mostNested {
		d.fail(invalid("Nesting Levels have exceeded supported limits"))
	}
	d.object(func(name string) {
		if v.kind != "" {
			d.fail(invalid(
				"Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"))
			return
		}
		switch v.kind = kind(name); v.kind {
		case kindS:
			v.text = d.string()
		case kindN:
			text, err := canonical(d.string())
			if err != nil {
				d.fail(err)
			}
			v.text = text
		case kindBOOL:
			v.yes = d.bool()
		case kindM:
			v.m = d.attributes(depth + 1)
		default:
			d.fail(unmodelled("an attribute of type %s", name))
		}
	})
	if v.kind == "" {
		d.fail(invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"))
	}
	return v
}

// end fails unless nothing is left.
func (d *decoder) end() {
	if d.peek() != 0 || d.pos < len(d.text) {
		d.malformed()
	}
}

func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func appendObject(b []byte, o object) []byte {
	b = append(b, '{')
	for i, f := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, f.name), ':')
		b = appendValue(b, f.value)
	}
	return append(b, '}')
}

func appendValue(b []byte, v *value) []byte {
	b = append(append(append(b, `{"`...), v.kind...), `":`...)
	switch v.kind {
	case kindBOOL:
		b = strconv.AppendBool(b, v.yes)
	case kindM:
		b = appendObject(b, v.m)
	default:
		b = appendString(b, v.text)
	}
	return append(b, '}')
}
