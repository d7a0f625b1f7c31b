package memdynamo

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// condition is a node of a ConditionExpression. nil is always true.
type condition struct {
	op   string // "AND", "OR", "NOT", "BETWEEN", a comparison or a function
	subs []*condition
	args []operand

	bracketed bool // it stands in brackets of its own
}

// operand is a value, a path, or the size of what lies at a path.
type operand struct {
	value *value
	path  []string
	size  bool
}

func parseCondition(what string, text *string, n *names, v *values) (*condition, error) {
	if text == nil {
		return nil, nil
	}
	p := newParser(what, *text, n, v)
	c := p.or()
	return c, p.end()
}

func (p *parser) or() *condition  { return p.chain("OR", p.and) }
func (p *parser) and() *condition { return p.chain("AND", p.not) }

// chain reads one sub, or several with a word between them.
func (p *parser) chain(word string, sub func() *condition) *condition {
	c := sub()
	if !p.is(word) {
		return c
	}
	c = &condition{op: word, subs: []*condition{c}}
	for p.take(word) {
		p.operator()
		c.subs = append(c.subs, sub())
	}
	return c
}

func (p *parser) not() *condition {
	if p.take("NOT") {
		p.operator()
		return &condition{op: "NOT", subs: []*condition{p.not()}}
	}
	if p.take("(") {
		c := p.or()
		if c.bracketed {
			p.failf("The expression has redundant parentheses;")
		}
		c.bracketed = true
		p.expect(")")
		return c
	}
	return p.predicate()
}

func (p *parser) predicate() *condition {
	if p.next.text != "size" {
		if function, ok := p.call(); ok {
			return p.function(function)
		}
	}
	c := &condition{args: append(make([]operand, 0, 3), p.operand())}
	p.operator()
	switch {
	case p.take("BETWEEN"):
		c.op = "BETWEEN"
		low := p.operand()
		p.expect("AND")
		c.args = append(c.args, low, p.operand())
		p.between(low.value, c.args[2].value)
	case p.is("IN"):
		p.fail(unmodelled("the operator IN"))
	case p.next.kind == 'w' && slices.Contains([]string{"=", "<>", "<", "<=", ">", ">="}, p.next.text):
		c.op = p.next.text
		p.advance()
		c.args = append(c.args, p.operand())
		if c.op == "<>" && (c.args[0].size || c.args[1].size) {
			p.fail(unmodelled("whether the size of what is not there differs from a number"))
		}
	default:
		p.syntax()
	}
	p.distinct(c)
	if c.op != "=" && c.op != "<>" {
		p.ordered(c)
	}
	return c
}

// between fails if both bounds are given as values and nothing can lie between them.
func (p *parser) between(low, high *value) {
	switch {
	case low == nil || high == nil:
	case low.kind != high.kind:
		p.failf("The BETWEEN operator requires same data type for lower and upper bounds")
	case holds(">", low, high):
		p.failf("The BETWEEN operator requires upper bound to be greater than or equal to lower bound")
	}
}

// distinct fails if two operands are the same path.
func (p *parser) distinct(c *condition) {
	if len(c.args) < 2 {
		return
	}
	first := c.args[0]
	for _, a := range c.args[1:] {
		if first.path != nil && slices.Equal(first.path, a.path) {
			if c.op == "BETWEEN" || first.size || a.size {
				p.fail(unmodelled("the same path twice in one condition"))
			}
			p.failf(
				"The first operand must be distinct from the remaining operands for this operator or function; operator: %s",
				c.op)
		}
	}
}

// ordered fails if an operand is given as a value of a type that has no order.
func (p *parser) ordered(c *condition) {
	for _, a := range c.args {
		if a.value != nil && a.value.kind != kindS && a.value.kind != kindN {
			if c.op == "BETWEEN" {
				p.fail(unmodelled("BETWEEN and a given %s", a.value.kind))
			}
			p.failf(
				"Incorrect operand type for operator or function; operator or function: %s, operand type: %s",
				c.op, a.value.kind)
		}
	}
}

func (p *parser) operand() operand {
	if p.next.kind == ':' {
		return operand{value: p.value()}
	}
	if p.next.text != "size" {
		return operand{path: p.path()}
	}
	_, ok := p.call()
	if !ok {
		p.syntax()
		return operand{}
	}
	if p.next.kind == ':' {
		p.fail(unmodelled("the size of a given value"))
	}
	o := operand{path: p.path(), size: true}
	p.expect(")")
	return o
}

func (p *parser) function(name string) *condition {
	c := &condition{op: name}
	switch name {
	case "attribute_exists", "attribute_not_exists":
		if p.next.kind == ':' {
			p.failf("Operator or function requires a document path; operator or function: %s", name)
		}
		c.args = []operand{{path: p.path()}}
	case "attribute_type", "begins_with":
		if p.next.kind == ':' {
			p.fail(unmodelled("%s of a given value", name))
		}
		c.args = append(make([]operand, 0, 2), operand{path: p.path()})
		p.expect(",")
		if name == "begins_with" && p.next.kind != ':' {
			p.fail(unmodelled("begins_with two paths"))
		}
		v := p.value()
		c.args = append(c.args, operand{value: v})
		switch {
		case p.err != nil:
		case v.kind != kindS:
			p.failf(
				"Incorrect operand type for operator or function; operator or function: %s, operand type: %s",
				name, v.kind)
		case name == "attribute_type" && !slices.Contains([]string{"S", "N", "B", "NULL", "SS", "BOOL", "L", "BS", "NS", "M"}, v.text):
			p.failf("Invalid attribute type name found; type: %s", v.text)
		}
	case "contains":
		p.fail(unmodelled("the function contains"))
	default:
		p.failf("Invalid function name; function: %s", name)
	}
	p.expect(")")
	return c
}

// paths calls f with each document path of a condition.
func (c *condition) paths(f func([]string)) {
	if c == nil {
		return
	}
	for _, sub := range c.subs {
		sub.paths(f)
	}
	for _, a := range c.args {
		if a.path != nil {
			f(a.path)
		}
	}
}

// holds reports whether an item meets the condition. If there is no item, it is like one without
// attributes.
func (c *condition) holds(o object) bool {
	if c == nil {
		return true
	}
	switch c.op {
	case "AND":
		return !slices.ContainsFunc(c.subs, func(sub *condition) bool { return !sub.holds(o) })
	case "OR":
		return slices.ContainsFunc(c.subs, func(sub *condition) bool { return sub.holds(o) })
	case "NOT":
		return !c.subs[0].holds(o)
	}
	first := c.args[0].of(o)
	switch c.op {
	case "attribute_exists":
		return first != nil
	case "attribute_not_exists":
		return first == nil
	case "attribute_type":
		return first != nil && string(first.kind) == c.args[1].value.text
	case "begins_with":
		return first != nil && first.kind == kindS && strings.HasPrefix(first.text, c.args[1].value.text)
	case "BETWEEN":
		return holds(">=", first, c.args[1].of(o)) && holds("<=", first, c.args[2].of(o))
	}
	return holds(c.op, first, c.args[1].of(o))
}

// of returns the operand's value in an item, nil if there is none.
func (a operand) of(o object) *value {
	if a.value != nil {
		return a.value
	}
	v := o.at(a.path)
	if !a.size || v == nil {
		return v
	}
	switch v.kind {
	case kindS:
		return &value{kind: kindN, text: strconv.Itoa(len(utf16.Encode([]rune(v.text))))}
	case kindM:
		return &value{kind: kindN, text: strconv.Itoa(len(v.m))}
	}
	return nil
}

// holds reports whether a comparison holds. A value that is missing differs from everything, and
// values of different types have no order.
func holds(op string, a, b *value) bool {
	same := a != nil && b != nil && equal(a, b)
	switch {
	case op == "=":
		return same
	case op == "<>":
		return !same
	case a == nil || b == nil || a.kind != b.kind:
		return false
	}
	var order int
	switch a.kind {
	case kindS:
		order = strings.Compare(a.text, b.text)
	case kindN:
		order = compareNumbers(a.text, b.text)
	default:
		return false
	}
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}
