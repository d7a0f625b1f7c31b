package dynamostore

import (
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
)

// expression gathers the parts of an update. Every name has an alias, because count, limit and
// window are reserved words and an operation id may hold any character.
type expression struct {
	sets, adds, removes, conditions []string
	names                           map[string]string // by alias
	aliases                         map[string]string // by name
	values                          map[string]types.AttributeValue

	// once is for an update that must not be sent again while an earlier attempt may take effect.
	once bool
}

// name returns the alias of an attribute path: the top-level name, then keys of nested maps.
func (e *expression) name(path ...string) string {
	if e.names == nil {
		e.names, e.aliases = map[string]string{}, map[string]string{}
	}
	parts := make([]string, len(path))
	for i, p := range path {
		alias, ok := e.aliases[p]
		if !ok {
			alias = "#" + strconv.Itoa(len(e.names))
			e.names[alias], e.aliases[p] = p, alias
		}
		parts[i] = alias
	}
	return strings.Join(parts, ".")
}

// value returns the alias of a value.
func (e *expression) value(v types.AttributeValue) string {
	if e.values == nil {
		e.values = map[string]types.AttributeValue{}
	}
	alias := ":" + strconv.Itoa(len(e.values))
	e.values[alias] = v
	return alias
}

func (e *expression) set(path string, v types.AttributeValue) { e.setTo(path, e.value(v)) }
func (e *expression) setTo(path, operand string)              { e.sets = append(e.sets, path+" = "+operand) }
func (e *expression) remove(path string)                      { e.removes = append(e.removes, path) }
func (e *expression) add(path string, n int64)                { e.adds = append(e.adds, path+" "+e.value(num(n))) }

func (e *expression) require(condition string) { e.conditions = append(e.conditions, condition) }
func (e *expression) equal(path string, v types.AttributeValue) {
	e.require(path + " = " + e.value(v))
}
func (e *expression) isMap(path string) {
	e.require("attribute_type(" + path + ", " + e.value(str("M")) + ")")
}
func (e *expression) absent(path string) { e.require("attribute_not_exists(" + path + ")") }

// parts is how many attributes the update changes.
func (e *expression) parts() int { return len(e.sets) + len(e.adds) + len(e.removes) }

// update is the text of what is written.
func (e *expression) update() string {
	var clauses []string
	for _, clause := range []struct {
		word  string
		parts []string
	}{{"SET", e.sets}, {"ADD", e.adds}, {"REMOVE", e.removes}} {
		if len(clause.parts) > 0 {
			clauses = append(clauses, clause.word+" "+strings.Join(clause.parts, ", "))
		}
	}
	return strings.Join(clauses, " ")
}

// condition is the text of the guard.
func (e *expression) condition() string { return strings.Join(e.conditions, " AND ") }

// What DynamoDB takes as one expression ("Service, account, and table quotas" in the developer
// guide).
const (
	expressionBytes     = 4096
	expressionOperators = 300
)

var (
	operators   = regexp.MustCompile(` (?:AND|OR|=|<>|<=|>=|<|>|BETWEEN|\+|-) |[a-z_]+\(`)
	assignments = regexp.MustCompile(` = `)
)

// fits returns an error if the write of several meters is more than DynamoDB takes. That of one
// meter always fits: see mostLimits.
func (e *expression) fits(meters int) error {
	if meters == 1 {
		return nil
	}
	update, condition := e.update(), e.condition()
	bytes := max(len(update), len(condition))
	count := func(of *regexp.Regexp, s string) int { return len(of.FindAllString(s, -1)) }
	// An assignment is no operator: of "SET a = :val1 + :val2 + :val3" the guide says that it has two.
	ops := max(count(operators, update)-count(assignments, update), count(operators, condition))
	if bytes <= expressionBytes && ops <= expressionOperators {
		return nil
	}
	return headroom.Errorf(headroom.Rejected, nil,
		"a write of %d meters at once needs an expression of %d bytes and %d operators, and DynamoDB takes %d and %d; nothing was written. "+
			"Ask for fewer meters at once, or see that their grants are fewer", meters, bytes, ops, expressionBytes, expressionOperators)
}

var aliases = regexp.MustCompile(`#[0-9]+`)

func (e *expression) into(in *dynamodb.UpdateItemInput) {
	in.UpdateExpression = aws.String(e.update())
	if len(e.conditions) > 0 {
		in.ConditionExpression = aws.String(e.condition())
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	used := map[string]bool{}
	for _, alias := range aliases.FindAllString(aws.ToString(in.UpdateExpression)+" "+aws.ToString(in.ConditionExpression), -1) {
		used[alias] = true
	}
	// DynamoDB refuses a name that no part uses.
	maps.DeleteFunc(e.names, func(alias, _ string) bool { return !used[alias] })
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
