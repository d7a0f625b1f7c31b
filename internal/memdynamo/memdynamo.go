// Package memdynamo is an engine for the DynamoDB wire protocol (JSON 1.0) that is a pure function.
// It takes the content of tables and a request, and gives the content after the request and an
// answer. So a model checker can keep every state that it meets, and go on from any of them.
//
// It knows what dynamostore and its tests send. To everything else it answers with a
// ValidationException that says "not modelled". It guesses nothing.
package memdynamo

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Limits of the service, from the developer guide ("Service, account, and table quotas").
const (
	mostItemBytes = 400 * 1024
	mostHashBytes = 2048
	mostSortBytes = 1024
	mostBatch     = 25
)

// Tables is the content of tables at one moment. It is immutable, so many goroutines may use it.
type Tables struct{ of *tables }

type tables struct {
	named []named // by name, in its order
	most  int     // bytes that an item may have
	once  sync.Once
	text  string
}

type named struct {
	name string
	*table
}

// New returns empty tables. keys names the key attributes of each table, all strings: the partition
// key, then the sort key if there is one.
func New(keys map[string][]string) Tables {
	t := Tables{}
	for name, keys := range keys {
		t = t.with(name, &table{keys: slices.Clone(keys)})
	}
	return t
}

// with returns tables in which one table is another.
func (t Tables) with(name string, changed *table) Tables {
	i, ok := t.find(name)
	of := t.of
	if of == nil {
		of = &tables{most: mostItemBytes}
	}
	after := append(append(make([]named, 0, len(of.named)+1), of.named[:i]...), named{name, changed})
	if ok {
		i++
	}
	return Tables{&tables{named: append(after, of.named[i:]...), most: of.most}}
}

// Size is the size in bytes of an item, as it counts for the limit. It is 0 if there is no item.
func (t Tables) Size(table string, key ...string) int {
	if tab := t.table(table); tab != nil {
		if r := tab.row(key); r != nil {
			return r.item.size()
		}
	}
	return 0
}

// Limited returns the same tables, but an item in them may have only so many bytes, where the
// service allows 400 KB.
func (t Tables) Limited(bytes int) Tables {
	return Tables{&tables{named: t.of.named, most: bytes}}
}

func (t Tables) find(name string) (int, bool) {
	if t.of == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(t.of.named, name,
		func(n named, name string) int { return strings.Compare(n.name, name) })
}

func (t Tables) table(name string) *table {
	if i, ok := t.find(name); ok {
		return t.of.named[i].table
	}
	return nil
}

// Text is the content in one canonical form: the name of each table in quotes, then its items in
// the order of their keys, one on each line. Two Tables are equal if their texts are.
func (t Tables) Text() string {
	if t.of == nil {
		return ""
	}
	t.of.once.Do(func() {
		var b []byte
		for _, n := range t.of.named {
			b = append(append(appendString(b, n.name), '\n'), n.lines()...)
		}
		t.of.text = string(b)
	})
	return t.of.text
}

// Item returns an item, nil if there is none. The key is the value of the partition key and, if the
// table has one, of the sort key.
func (t Tables) Item(table string, key ...string) map[string]types.AttributeValue {
	if tab := t.table(table); tab != nil {
		if r := tab.row(key); r != nil {
			return r.item.toSDK()
		}
	}
	return nil
}

// Items returns all items of a table in the order of their keys.
func (t Tables) Items(table string) (items []map[string]types.AttributeValue) {
	if tab := t.table(table); tab != nil {
		for _, r := range tab.rows {
			items = append(items, r.item.toSDK())
		}
	}
	return items
}

// Put returns tables with one item more, as it is given. It panics if the table cannot have the
// item, which is a mistake in the caller's program.
func (t Tables) Put(table string, item map[string]types.AttributeValue) Tables {
	o, err := fromSDK(item)
	tab := t.table(table)
	if err == nil && tab == nil {
		err = missing(table)
	}
	var key []string
	if err == nil {
		key, err = tab.keyOf(o)
	}
	if err != nil {
		panic(fmt.Sprintf("memdynamo: Put into %q: %v", table, err))
	}
	return t.with(table, tab.put(key, o))
}
