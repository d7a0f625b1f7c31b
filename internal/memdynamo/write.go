package memdynamo

import "slices"

// write answers a PutItem, an UpdateItem or a DeleteItem. most is how many bytes an item may have.
func (t *table) write(op string, r *request, c *condition, actions []action,
	most int) (*table, []byte, error) {
	key, err := t.writable(op, r, c, actions)
	if err != nil {
		return nil, nil, err
	}
	var before object
	old := t.row(key)
	if old != nil {
		before = old.item
	}
	if !c.holds(before) {
		f := &failure{code: "ConditionalCheckFailedException", message: "The conditional request failed"}
		if r.allOld && old != nil {
			f.item = old.text
		}
		return nil, nil, f
	}
	if op == "DeleteItem" {
		return t.remove(key), []byte(`{}`), nil
	}
	item := r.item
	if op == "UpdateItem" {
		if item, err = t.updated(r, old, actions); err != nil {
			return nil, nil, err
		}
	}
	if item.size() > most {
		return nil, nil, tooLarge(op)
	}
	after := t.put(key, item)
	if r.allNew {
		return after, []byte(`{"Attributes":` + after.row(key).text + `}`), nil
	}
	return after, []byte(`{}`), nil
}

// writable returns the key of the item that a write is about, unless no item could be written so.
func (t *table) writable(op string, r *request, c *condition, actions []action) ([]string, error) {
	nested := false
	c.paths(func(path []string) { nested = nested || len(path) > 1 && slices.Contains(t.keys, path[0]) })
	if nested {
		return nil, unmodelled("a condition on a path below a key attribute")
	}
	var key []string
	var err error
	if op == "PutItem" {
		key, err = t.keyOf(r.item)
	} else {
		key, err = t.key(r.key)
	}
	if err != nil {
		return nil, err
	}
	for _, a := range actions {
		if slices.Contains(t.keys, a.path[0]) {
			return nil, invalid(
				"One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key",
				a.path[0])
		}
	}
	return key, nil
}

// updated returns the item after an update of a row, which is nil if there is none.
func (t *table) updated(r *request, old *row, actions []action) (object, error) {
	if old != nil {
		return update(old.item, actions)
	}
	for _, a := range actions {
		if a.term.left.readsKey(t.keys) || a.term.right.readsKey(t.keys) {
			return nil, unmodelled("the key of an item that is not there, as an operand")
		}
	}
	return update(r.key, actions)
}

func tooLarge(op string) error {
	if op == "UpdateItem" {
		return invalid("Item size to update has exceeded the maximum allowed size")
	}
	return invalid("Item size has exceeded the maximum allowed size")
}
