package memdynamo

import (
	"slices"
	"strings"
)

const (
	mostBytes     = 4096 // of an expression, by the service quotas
	mostOperators = 300  // and the operators and functions in one
)

// names and values are what a request's aliases stand for.
type names struct {
	given bool
	of    []substitute
}

type substitute struct {
	alias, name string
	used        bool
}

type values struct {
	given bool
	of    object
	used  []bool
}

// token is a part of an expression. Its kind is 'a' for a name, '#' for the alias of a name, ':'
// for that of a value, 'w' for an operator or bracket, and 0 for the end.
type token struct {
	kind byte
	text string
	word string // a name in capitals, for it may be a keyword
}

// parser reads an expression by recursive descent. It keeps the first error.
type parser struct {
	what      string // "UpdateExpression"
	text      string
	pos       int
	next      token
	names     *names
	values    *values
	operators int
	parts     []string // of paths that were read; there is room for those of a usual expression
	err       error
}

func newParser(what, text string, n *names, v *values) *parser {
	p := &parser{what: what, text: text, names: n, values: v, parts: make([]string, 0, 64)}
	switch {
	case text == "":
		p.failf("The expression can not be empty;")
	case len(text) > mostBytes:
		p.failf("Expression size has exceeded the maximum allowed size;")
	}
	p.advance()
	return p
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.next = token{}
}

func (p *parser) failf(format string, args ...any) {
	p.fail(invalid("Invalid "+p.what+": "+format, args...))
}

func (p *parser) syntax() {
	p.failf("Syntax error; token: %q, near: %q", p.next.text, p.text[:min(p.pos, len(p.text))])
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// advance reads the next token.
func (p *parser) advance() {
	if p.err != nil {
		return
	}
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
	p.next = token{}
	if p.pos == len(p.text) {
		return
	}
	start := p.pos
	c := p.text[p.pos]
	p.pos++
	switch {
	case letter(c) || c == '#' || c == ':':
		for p.pos < len(p.text) && (letter(p.text[p.pos]) || digit(p.text[p.pos])) {
			p.pos++
		}
		p.next = token{kind: c, text: p.text[start:p.pos]}
		if letter(c) {
			p.next.kind, p.next.word = 'a', strings.ToUpper(p.next.text)
		} else if p.pos == start+1 {
			p.syntax()
		}
	case strings.IndexByte("()=+-.,", c) >= 0:
		p.next = token{kind: 'w', text: p.text[start:p.pos]}
	case c == '<' || c == '>':
		if p.pos < len(p.text) && (p.text[p.pos] == '=' || c == '<' && p.text[p.pos] == '>') {
			p.pos++
		}
		p.next = token{kind: 'w', text: p.text[start:p.pos]}
	case c == '[':
		p.fail(unmodelled("an index of a list"))
	default:
		p.next.text = string(c)
		p.syntax()
	}
}

func (p *parser) is(word string) bool {
	return p.next.kind == 'w' && p.next.text == word || p.next.kind == 'a' && p.next.word == word
}

func (p *parser) take(word string) bool {
	if !p.is(word) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(word string) {
	if !p.take(word) {
		p.syntax()
	}
}

// operator counts an operator.
func (p *parser) operator() {
	if p.operators++; p.operators > mostOperators {
		p.failf("The expression contains more than %d operators and functions", mostOperators)
	}
}

// call takes the name of a function and its bracket.
func (p *parser) call() (function string, ok bool) {
	rest := strings.TrimLeft(p.text[p.pos:], " \t\r\n")
	if p.next.kind != 'a' || rest == "" || rest[0] != '(' ||
		slices.Contains([]string{"NOT", "AND", "OR", "BETWEEN", "IN"}, p.next.word) {
		return "", false
	}
	function = p.next.text
	p.operator()
	p.advance()
	p.expect("(")
	return function, true
}

// path reads a document path and puts names in place of aliases.
func (p *parser) path() []string {
	start := len(p.parts)
	for {
		p.parts = append(p.parts, p.part())
		if p.advance(); !p.take(".") {
			return p.parts[start:len(p.parts):len(p.parts)]
		}
	}
}

func (p *parser) part() string {
	switch p.next.kind {
	case 'a':
		if reserved(p.next.word) {
			p.failf("Attribute name is a reserved keyword; reserved keyword: %s", p.next.text)
		}
		return p.next.text
	case '#':
		for i, n := range p.names.of {
			if n.alias == p.next.text {
				p.names.of[i].used = true
				return n.name
			}
		}
		p.failf(
			"An expression attribute name used in the document path is not defined; attribute name: %s",
			p.next.text)
	default:
		p.syntax()
	}
	return ""
}

// value reads the alias of a value.
func (p *parser) value() *value {
	if p.next.kind != ':' {
		p.syntax()
		return &value{}
	}
	i, ok := p.values.of.find(p.next.text)
	if !ok {
		p.failf(
			"An expression attribute value used in expression is not defined; attribute value: %s",
			p.next.text)
		return &value{}
	}
	p.values.used[i] = true
	p.advance()
	return p.values.of[i].value
}

// end fails unless nothing is left.
func (p *parser) end() error {
	if p.next.kind != 0 {
		p.syntax()
	}
	return p.err
}

// allUsed fails if no expression uses one of the aliases.
func allUsed(n *names, v *values) error {
	switch {
	case n.given && len(n.of) == 0:
		return invalid("ExpressionAttributeNames must not be empty")
	case v.given && len(v.of) == 0:
		return invalid("ExpressionAttributeValues must not be empty")
	}
	for _, name := range n.of {
		if !name.used {
			return invalid(
				"Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}",
				name.alias)
		}
	}
	if i := slices.Index(v.used, false); i >= 0 {
		return invalid(
			"Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}",
			v.of[i].name)
	}
	return nil
}
