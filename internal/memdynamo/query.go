package memdynamo

import (
	"fmt"
	"slices"
	"strings"
)

// query answers a Query. Its condition is on the partition key, and may be on the beginning of the
// sort key, on what it comes after, or on two bounds of it.
func (t *table) query(r *request, c *condition) ([]byte, error) {
	wanted, err := t.keyRange(c)
	if err != nil {
		return nil, err
	}
	rows := t.in(wanted)
	if r.backward {
		slices.Reverse(rows)
	}
	if rows, err = t.startingAfter(rows, r, wanted.hash); err != nil {
		return nil, err
	}
	more := r.limit > 0 && len(rows) >= r.limit
	if more {
		rows = rows[:r.limit]
	}
	answer := fmt.Appendf(nil, `{"Count":%d,"Items":[`, len(rows))
	bytes := 0
	for i, row := range rows {
		if i > 0 {
			answer = append(answer, ',')
		}
		answer = append(answer, row.text...)
		bytes += row.item.size()
	}
	if bytes > 1<<20 {
		return nil, unmodelled("a Query of more than 1 MB")
	}
	answer = append(answer, ']')
	if more {
		var key object
		for _, name := range t.keys {
			key = key.with(name, rows[len(rows)-1].item.get(name))
		}
		answer = appendObject(append(answer, `,"LastEvaluatedKey":`...), key)
	}
	return fmt.Appendf(answer, `,"ScannedCount":%d}`, len(rows)), nil
}

// keyRange is what a KeyConditionExpression asks for: a partition, and at most one condition on the
// sort key. The texts of conditions that it does not have are empty.
type keyRange struct{ hash, prefix, after, least, most string }

func (t *table) keyRange(c *condition) (k keyRange, err error) {
	if c == nil {
		return k, unmodelled("a Query without KeyConditionExpression")
	}
	terms := []*condition{c}
	if c.op == "AND" {
		terms = c.subs
	}
	found := map[string]bool{}
	for _, term := range terms {
		if !t.take(term, &k) {
			return k, unmodelled("this KeyConditionExpression")
		}
		found[term.op] = true
	}
	if !found["="] || len(found) != len(terms) || len(terms) > 2 {
		return k, unmodelled("this KeyConditionExpression")
	}
	return k, nil
}

// take adds one term to the range. It reports whether it knows such terms.
func (t *table) take(term *condition, k *keyRange) bool {
	if len(term.args) < 2 || len(term.args[0].path) != 1 || term.args[0].size {
		return false
	}
	for _, given := range term.args[1:] {
		if given.value == nil || given.value.kind != kindS || given.value.text == "" {
			return false
		}
	}
	name, text := term.args[0].path[0], term.args[1].value.text
	onSort := len(t.keys) == 2 && name == t.keys[1]
	switch {
	case name == t.keys[0] && term.op == "=":
		k.hash = text
	case onSort && term.op == "BETWEEN":
		k.least, k.most = text, term.args[2].value.text
	case onSort && term.op == "begins_with":
		k.prefix = text
	case onSort && term.op == ">":
		k.after = text
	default:
		return false
	}
	return true
}

// in returns the rows of a range.
func (t *table) in(k keyRange) (rows []*row) {
	from, _ := t.find([]string{k.hash})
	for _, row := range t.rows[from:] {
		if row.key[0] != k.hash {
			break
		}
		if k.has(sortKey(row)) {
			rows = append(rows, row)
		}
	}
	return rows
}

func (k keyRange) has(sort string) bool {
	return strings.HasPrefix(sort, k.prefix) && (k.after == "" || sort > k.after) &&
		(k.most == "" || k.least <= sort && sort <= k.most)
}

// startingAfter leaves out the rows up to the ExclusiveStartKey.
func (t *table) startingAfter(rows []*row, r *request, hash string) ([]*row, error) {
	if r.startKey == nil {
		return rows, nil
	}
	after, err := t.key(r.startKey)
	if err != nil {
		return nil, err
	}
	if len(after) != 2 || after[0] != hash {
		return nil, unmodelled("an ExclusiveStartKey of another partition")
	}
	return slices.DeleteFunc(rows, func(row *row) bool {
		return row.key[1] == after[1] || (row.key[1] > after[1]) == r.backward
	}), nil
}

func sortKey(r *row) string {
	if len(r.key) < 2 {
		return ""
	}
	return r.key[1]
}
