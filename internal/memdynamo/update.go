package memdynamo

import (
	"slices"
)

// action is one part of an UpdateExpression.
type action struct {
	op    byte // 's'et, 'a'dd, 'r'emove
	path  []string
	term  term   // of a set
	value *value // of an add
}

// term is what a SET writes: an operand, or the sum or difference of two.
type term struct {
	sign        int64 // 0: a alone
	left, right setOperand
}

// setOperand is a value, a path, or a path with an operand to use if it leads to nothing.
type setOperand struct {
	value *value
	path  []string
	other *setOperand
}

func parseUpdate(text *string, n *names, v *values) ([]action, error) {
	if text == nil {
		return nil, nil
	}
	p := newParser("UpdateExpression", *text, n, v)
	var actions []action
	seen := map[string]bool{}
	for {
		clause := p.next.word
		switch {
		case clause == "DELETE":
			p.fail(unmodelled("the clause DELETE"))
		case !slices.Contains([]string{"SET", "ADD", "REMOVE"}, clause):
			p.syntax()
		case seen[clause]:
			p.failf("The %q section can only be used once in an update expression;", clause)
		}
		seen[clause] = true
		p.advance()
		for p.err == nil {
			actions = append(actions, p.action(clause))
			if !p.take(",") {
				break
			}
		}
		if p.err != nil || p.next.kind == 0 {
			break
		}
	}
	if p.end() == nil {
		p.apart(actions)
	}
	return actions, p.err
}

func (p *parser) action(clause string) action {
	a := action{path: p.path()}
	switch clause {
	case "REMOVE":
		a.op = 'r'
	case "ADD":
		a.op = 'a'
		if a.value = p.value(); p.err == nil && a.value.kind != kindN {
			p.failf(
				"Incorrect operand type for operator or function; operator: ADD, operand type: %s",
				a.value.kind)
		}
	default:
		a.op = 's'
		p.expect("=")
		a.term.left = p.setOperand()
		switch {
		case p.take("+"):
			a.term.sign = 1
		case p.take("-"):
			a.term.sign = -1
		default:
			return a
		}
		p.operator()
		a.term.right = p.setOperand()
		for _, o := range []setOperand{a.term.left, a.term.right} {
			if o.value != nil && o.value.kind != kindN {
				p.failf(
					"Incorrect operand type for operator or function; operator or function: + or -, operand type: %s",
					o.value.kind)
			}
		}
	}
	return a
}

func (p *parser) setOperand() setOperand {
	if p.next.kind == ':' {
		return setOperand{value: p.value()}
	}
	if p.is("(") {
		p.fail(unmodelled("brackets in a SET"))
	}
	function, ok := p.call()
	switch {
	case !ok:
		return setOperand{path: p.path()}
	case function == "list_append":
		p.fail(unmodelled("the function list_append"))
	case function != "if_not_exists":
		p.failf("Invalid function name; function: %s", function)
	}
	if p.next.kind == ':' {
		p.failf("Operator or function requires a document path; operator or function: if_not_exists")
	}
	o := setOperand{path: p.path()}
	p.expect(",")
	other := p.setOperand()
	o.other = &other
	p.expect(")")
	return o
}

// apart fails if one path of an update is the beginning of another.
func (p *parser) apart(actions []action) {
	for i, a := range actions {
		for _, b := range actions[:i] {
			n := min(len(a.path), len(b.path))
			if slices.Equal(a.path[:n], b.path[:n]) {
				p.failf(
					"Two document paths overlap with each other; must remove or rewrite one of these paths; path one: %q, path two: %q",
					b.path, a.path)
				return
			}
		}
	}
}

// update returns an item after all actions. Every operand is read from the item before them.
func update(before object, actions []action) (object, error) {
	after := before
	for _, a := range actions {
		var v *value
		var err error
		switch a.op {
		case 's':
			v, err = a.term.of(before)
		case 'a':
			v = before.at(a.path)
			if v == nil {
				v = &value{kind: kindN, text: "0"}
			}
			v, err = added(v, a.value, 1)
		}
		if err != nil {
			return nil, err
		}
		var ok bool
		if after, ok = after.put(a.path, v); !ok {
			return nil, invalid("The document path provided in the update expression is invalid for update")
		}
	}
	return after, nil
}

func added(a, b *value, sign int64) (*value, error) {
	if a.kind != kindN || b.kind != kindN {
		return nil, invalid("An operand in the update expression has an incorrect data type")
	}
	text, err := sum(a.text, b.text, sign)
	return &value{kind: kindN, text: text}, err
}

func (t term) of(o object) (*value, error) {
	left, err := t.left.of(o)
	if err != nil || t.sign == 0 {
		return left, err
	}
	right, err := t.right.of(o)
	if err != nil {
		return nil, err
	}
	return added(left, right, t.sign)
}

func (s setOperand) of(o object) (*value, error) {
	if s.value != nil {
		return s.value, nil
	}
	if v := o.at(s.path); v != nil {
		return v, nil
	}
	if s.other == nil {
		return nil, invalid("The provided expression refers to an attribute that does not exist in the item")
	}
	return s.other.of(o)
}

// readsKey reports whether an operand reads a key attribute.
func (s setOperand) readsKey(keys []string) bool {
	return len(s.path) > 0 && slices.Contains(keys, s.path[0]) || s.other != nil && s.other.readsKey(keys)
}
