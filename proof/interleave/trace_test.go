package interleave

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// violation describes a step that breaks an invariant, and all before it.
func (x *explorer) violation(what string, at int, how step, to state) *violation {
	return &violation{what, append(x.schedule(at), x.describe(x.states[at], how, to))}
}

// schedule describes the steps to a state.
func (x *explorer) schedule(at int) (lines []string) {
	for ; at > 0; at = int(x.parent[at]) {
		lines = append(lines, x.describe(x.states[x.parent[at]], x.how[at], x.states[at]))
	}
	slices.Reverse(lines)
	return lines
}

func (x *explorer) describe(from state, how step, to state) string {
	if how.kind == tick {
		return "The clock shows " + x.times[to.clock].Format("Monday 2 January 15:04:05") + "."
	}
	if how.kind == deletes {
		return "Time to live: " + x.brief(how.arg) + "."
	}
	if how.kind == arrives {
		return "A request arrives late: " + x.effect(from, how.arg) + "."
	}
	c := int(how.client)
	name := string(rune('A' + c))
	n := x.nodes[from.node[c]]
	if n.asks == toBegin {
		name += " (" + x.clients[c].ops[n.op].String() + ")"
		if how.kind == begins {
			return name + " begins."
		}
		n = x.nodes[x.kid(from.node[c], 0, x.beginning(from.clock))]
	}
	r := n.request
	if how.kind == row {
		r = how.arg
	}
	line := name + ": "
	switch how.kind {
	case lost:
		line += x.brief(r) + " is lost"
	case delayed:
		line += x.brief(r) + " breaks off and is still on its way"
	case crash:
		line += "the process ends before " + x.brief(r)
	case conflict:
		line += x.brief(r) + " meets a transaction of the application's"
	case partial:
		line += "the rest of the batch is left unprocessed"
	default:
		line += x.effect(from, r)
		switch how.kind {
		case unheard:
			line += "; the answer is lost"
		case crashed:
			line += "; then the process ends"
		case behind:
			line += "; the Date of the answer is " + x.times[from.clock-1].Format("Monday 2 January 15:04:05")
		}
	}
	after := x.nodes[to.node[c]]
	if after.asks != toSend && after.outcomes != n.outcomes {
		line += ". " + string(rune('A'+c)) + " is told: " + after.last.String()
	}
	return line + "."
}

// effect says what a request does.
func (x *explorer) effect(s state, r int32) string {
	to := s
	code, _ := x.apply(&to, r)
	line := x.brief(r)
	if x.answers.of[code].status != 200 {
		return line + " fails: not " + strings.Join(x.failed(s.tables, r), ", not ")
	}
	if to.tables == s.tables {
		return line
	}
	return line + x.describeTables(s.tables, to.tables)
}

func (x *explorer) describeTables(before, after int32) string {
	if x.invariants.text != nil {
		return "; stored is " + x.invariants.text(x, after)
	}
	was, is := x.read(before), x.read(after)
	for subject, b := range is {
		if text := b.String(); text != was.of(subject).String() {
			return "; stored of " + subject + " is now " + text
		}
	}
	return ""
}

type update struct {
	TableName                             string
	UpdateExpression, ConditionExpression string
	ExpressionAttributeNames              map[string]string
	ExpressionAttributeValues             map[string]map[string]any
}

func parseUpdate(body string) (u update) {
	if err := json.Unmarshal([]byte(body), &u); err != nil {
		panic(err)
	}
	return u
}

var placeholder = regexp.MustCompile(`[#:][A-Za-z0-9]+`)

// plain puts names and values in place of their aliases.
func (u update) plain(expression string) string {
	return placeholder.ReplaceAllStringFunc(expression, func(alias string) string {
		if name, ok := u.ExpressionAttributeNames[alias]; ok {
			return name
		}
		for _, v := range u.ExpressionAttributeValues[alias] {
			if s, ok := v.(string); ok {
				return s
			}
			return text(v)
		}
		return alias
	})
}

var sortKey = regexp.MustCompile(`"row":{"S":"([^"]*)"}`)

// brief names a request in a few words.
func (x *explorer) brief(r int32) string {
	req := x.parsed[r]
	if req.op != "UpdateItem" {
		line := req.op
		for _, m := range sortKey.FindAllStringSubmatch(req.body, 3) {
			line += " " + m[1]
		}
		return line
	}
	u := parseUpdate(req.body)
	s := u.plain(u.UpdateExpression)
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}

// terms cuts a condition where its terms are joined.
func terms(condition string) (all []string) {
	depth, between, begin := 0, false, 0
	for i := 0; i < len(condition); i++ {
		switch {
		case condition[i] == '(':
			depth++
		case condition[i] == ')':
			depth--
		case strings.HasPrefix(condition[i:], " BETWEEN "):
			between = true
		case depth == 0 && strings.HasPrefix(condition[i:], " AND "):
			if between {
				between = false
				continue
			}
			all = append(all, condition[begin:i])
			begin = i + len(" AND ")
		}
	}
	return append(all, condition[begin:])
}

// without takes terms of a condition for true, and leaves every name and value in its use.
func (r request) without(drop func(u update, term string) bool) request {
	if r.op != "UpdateItem" {
		return r
	}
	u := parseUpdate(r.body)
	if u.ConditionExpression == "" {
		return r
	}
	parts, changed := terms(u.ConditionExpression), false
	for i, t := range parts {
		if drop(u, t) {
			parts[i], changed = "("+t+" OR attribute_exists(#key) OR attribute_not_exists(#key))", true
		}
	}
	if !changed {
		return r
	}
	var raw map[string]any
	if err := json.Unmarshal([]byte(r.body), &raw); err != nil {
		panic(err)
	}
	names, _ := raw["ExpressionAttributeNames"].(map[string]any)
	if names == nil {
		names = map[string]any{}
	}
	names["#key"] = "userId"
	raw["ExpressionAttributeNames"], raw["ConditionExpression"] = names, strings.Join(parts, " AND ")
	r.body = text(raw)
	return r
}

// failed lists the terms of a request's condition that do not hold.
func (x *explorer) failed(tables, r int32) (bad []string) {
	req := x.parsed[r]
	u := parseUpdate(req.body)
	for _, only := range terms(u.ConditionExpression) {
		one := req.without(func(_ update, term string) bool { return term != only })
		if x.mutate != nil {
			one = x.mutate(one)
		}
		if _, status, _ := x.values[tables].Apply(one.op, []byte(one.body)); status != 200 {
			bad = append(bad, u.plain(only))
		}
	}
	return bad
}
