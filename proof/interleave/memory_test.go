package interleave

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
)

// memories are the fields of a client's store and engine, and whether they may change from one call
// to the next. Two clients go on as one only if all that may change is the same in both.
var memories = map[reflect.Type]map[string]bool{
	reflect.TypeFor[dynamostore.Store](): {"client": false, "opts": false, "layout": false, "sendsOld": true, "moved": true},
	reflect.TypeFor[headroom.Engine]():   {"store": false, "rules": false, "opts": false},
}

// remembered is what a client's store or engine remembers. A field that memories does not have is a
// mistake in the checker: it would take clients for the same that are not.
func remembered(of any) (text string) {
	v := reflect.ValueOf(of).Elem()
	known := memories[v.Type()]
	if unknown := strangers(v.Type(), known); len(unknown) > 0 {
		panic(fmt.Sprintf("memories and the fields of %s differ by %q", v.Type(), unknown))
	}
	for i := range v.NumField() {
		if known[v.Type().Field(i).Name] {
			text += fmt.Sprintln(v.Field(i))
		}
	}
	return text
}

// strangers are the fields that stand on one side only.
func strangers(of reflect.Type, known map[string]bool) []string {
	differ := map[string]bool{}
	for name := range known {
		differ[name] = true
	}
	for i := range of.NumField() {
		name := of.Field(i).Name
		if _, ok := known[name]; ok {
			delete(differ, name)
		} else {
			differ[name] = true
		}
	}
	return slices.Sorted(maps.Keys(differ))
}

// TestAClientsMemoryIsKnown: a store or an engine that comes to remember more is noticed here.
// Otherwise two clients that remember different things would go on as one.
func TestAClientsMemoryIsKnown(t *testing.T) {
	for of, known := range memories {
		if names := strangers(of, known); len(names) > 0 {
			t.Errorf("memories and the fields of %s differ by %q: say whether it may change from one call to the next", of, names)
		}
	}
	type store struct{ client, moved, cache int }
	_ = store{client: 1, moved: 1, cache: 1} // only the names of its fields matter
	if names := strangers(reflect.TypeFor[store](), map[string]bool{"client": false, "moved": true, "gone": true}); !slices.Equal(names, []string{"cache", "gone"}) {
		t.Errorf("of a store with a new field and without an old one %q are told", names)
	}
}
