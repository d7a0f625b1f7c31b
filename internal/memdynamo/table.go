package memdynamo

import (
	"slices"
	"strings"
	"sync"
)

// table holds its rows in the order of their keys. It is immutable.
type table struct {
	keys []string // names of the key attributes: the partition key, then the sort key if there is one
	rows []*row
	once sync.Once
	text string
}

type row struct {
	key  []string
	item object
	text string // of the item, in JSON
}

func (t *table) lines() string {
	t.once.Do(func() {
		var b strings.Builder
		for _, r := range t.rows {
			b.WriteString(r.text)
			b.WriteByte('\n')
		}
		t.text = b.String()
	})
	return t.text
}

func (t *table) find(key []string) (int, bool) {
	return slices.BinarySearchFunc(t.rows, key,
		func(r *row, key []string) int { return slices.Compare(r.key, key) })
}

func (t *table) row(key []string) *row {
	if i, ok := t.find(key); ok {
		return t.rows[i]
	}
	return nil
}

// put returns a copy with another item at a key.
func (t *table) put(key []string, item object) *table {
	i, ok := t.find(key)
	after := make([]*row, 0, len(t.rows)+1)
	after = append(append(after, t.rows[:i]...),
		&row{key: key, item: item, text: string(appendObject(nil, item))})
	if ok {
		i++
	}
	return &table{keys: t.keys, rows: append(after, t.rows[i:]...)}
}

// remove returns a copy without the item at a key.
func (t *table) remove(key []string) *table {
	i, ok := t.find(key)
	if !ok {
		return &table{keys: t.keys, rows: t.rows}
	}
	return &table{keys: t.keys, rows: slices.Delete(slices.Clone(t.rows), i, i+1)}
}

// keyOf returns the key of an item.
func (t *table) keyOf(item object) ([]string, error) {
	key := make([]string, len(t.keys))
	for i, name := range t.keys {
		most := mostHashBytes
		if i > 0 {
			most = mostSortBytes
		}
		switch v := item.get(name); {
		case v == nil:
			return nil, invalid(
				"One or more parameter values were invalid: Missing the key %s in the item", name)
		case v.kind != kindS:
			return nil, invalid(
				"One or more parameter values were invalid: Type mismatch for key %s expected: S actual: %s",
				name, v.kind)
		case v.text == "":
			return nil, invalid(
				"One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s",
				name)
		case len(v.text) > most:
			return nil, invalid(
				"One or more parameter values were invalid: the key %s has more than %d bytes",
				name, most)
		default:
			key[i] = v.text
		}
	}
	return key, nil
}

// key returns the key that a request names.
func (t *table) key(attributes object) ([]string, error) {
	if len(attributes) != len(t.keys) {
		return nil, invalid("The provided key element does not match the schema")
	}
	return t.keyOf(attributes)
}
