package memdynamo_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestEdges holds what random requests come by too seldom. Real engines answer each of these alike,
// but for the departures of the mark.
func TestEdges(t *testing.T) {
	b := newBench(t)
	s := func(text string) dict { return dict{"S": text} }
	n := func(text string) dict { return dict{"N": text} }
	n1 := dict{":1": n("1")}
	long := strings.Repeat(" ", 4097-len("SET a = :1"))
	words := func(names ...string) string {
		for i, name := range names {
			names[i] = name + " = :1"
		}
		return "SET " + strings.Join(names, ", ")
	}
	row := func(key, row string) dict { return dict{"key": s(key), "row": s(row), "n": n("1")} }
	put := func(items ...dict) (writes []dict) {
		for _, item := range items {
			writes = append(writes, dict{"PutRequest": dict{"Item": item}})
		}
		return writes
	}
	remove := func(key dict) dict { return dict{"DeleteRequest": dict{"Key": key}} }
	batch := func(writes ...dict) dict { return dict{"RequestItems": dict{b.ledger: writes}} }
	var many []dict
	for i := range 26 {
		many = append(many, row("many", fmt.Sprintf("r%02d", i)))
	}
	query := func(key, row string, more dict) dict {
		q := dict{
			"TableName": b.ledger, "KeyConditionExpression": "#k = :k AND begins_with(#r, :r)", "ConsistentRead": true,
			"ExpressionAttributeNames":  dict{"#k": "key", "#r": "row"},
			"ExpressionAttributeValues": dict{":k": s(key), ":r": s(row)},
		}
		for name, v := range more {
			q[name] = v
		}
		return q
	}
	beyond := func(key, row string) dict {
		return query(key, row, dict{"KeyConditionExpression": "#k = :k AND #r > :r", "Limit": 2})
	}
	deleting := func(row, condition string, values dict) dict {
		d := dict{"TableName": b.ledger, "Key": dict{"key": s("k"), "row": s(row)}, "ConditionExpression": condition}
		if values != nil {
			d["ExpressionAttributeValues"] = values
		}
		return d
	}
	at := func(row string) dict { return dict{"key": s("many"), "row": s(row)} }
	between := func(from, to string, more dict) dict {
		q := query("k", from, more)
		q["KeyConditionExpression"] = "#k = :k AND #r BETWEEN :r AND :to"
		q["ExpressionAttributeValues"].(dict)[":to"] = s(to)
		return q
	}
	update := func(expression string, values dict) dict {
		u := dict{"TableName": b.users, "Key": dict{"userId": s("u")}, "UpdateExpression": expression, "ReturnValues": "ALL_NEW"}
		if values != nil {
			u["ExpressionAttributeValues"] = values
		}
		return u
	}
	under := func(condition string, values dict) dict {
		u := update("REMOVE gone", values)
		u["ConditionExpression"] = condition
		return u
	}
	with := func(request dict, member string, v any) dict { request[member] = v; return request }
	putting := func(item dict) dict { return dict{"TableName": b.users, "Item": item} }

	for _, c := range []struct {
		op      string
		request dict
		want    string
		mark    string
	}{
		{"UpdateItem", update("SET a = :1", n1), "", ""},
		{"UpdateItem", update("SET userId = :1", n1), refused, ""},
		{"UpdateItem", update("REMOVE userId", nil), refused, ""},
		{"UpdateItem", update("SET userId.a = :1", n1), refused, ""},
		{"UpdateItem", update("SET a = :1"+long, n1), refused, "long"},
		{"UpdateItem", update("SET a = :1"+long[1:], n1), "", ""},
		{"UpdateItem", update("", nil), refused, ""},
		{"UpdateItem", update(" ", nil), refused, ""},
		{"UpdateItem", update("SET", nil), refused, ""},
		{"UpdateItem", update("SET a = :1,", n1), refused, ""},
		{"UpdateItem", update("SET a = :1 SET b = :1", n1), refused, ""},
		{"UpdateItem", update("SET a = :1 b = :1", n1), refused, ""},
		{"UpdateItem", update("SET a :1", n1), refused, ""},
		{"UpdateItem", update("SET a = 1", nil), refused, ""},
		{"UpdateItem", update("SET a = a + :1 + :1", n1), refused, ""},
		{"UpdateItem", update("SET a = IF_NOT_EXISTS(a, :1)", n1), refused, "capitals"},
		{"UpdateItem", update("SET a = b", nil), refused, ""},
		{"UpdateItem", update("SET m = if_not_exists(m, :m), a = if_not_exists(b, a)", dict{":m": dict{"M": dict{}}}), "", ""},
		{"UpdateItem", update("SET m.x = a, b = a - :1 ADD a :1 REMOVE m.y, c", n1), "", "shared"},
		{"UpdateItem", update("ADD m.z :1, d :1", n1), "", ""},
		{"UpdateItem", update("ADD m :1", n1), refused, ""},
		{"UpdateItem", update("REMOVE gone", nil), "", ""},
		{"UpdateItem", update("REMOVE gone.x", nil), refused, ""},
		{"UpdateItem", update("REMOVE a.x", nil), refused, ""},
		{"UpdateItem", update("REMOVE m.gone.x", nil), refused, ""},
		{"UpdateItem", update("SET m = :1, m.x = :1", n1), refused, ""},
		{"UpdateItem", update("SET a = :1 REMOVE a", n1), refused, ""},
		{"UpdateItem", update("ADD e :n", dict{":n": n("9223372036854775807")}), "", ""},
		{"UpdateItem", update("ADD e :1", n1), "", ""},
		{"UpdateItem", update("ADD e :n", dict{":n": n("-0.00000000000000000001")}), refused, "digits"},
		{"UpdateItem", update("SET f = :n", dict{":n": n("12345678901234567890123456789012345678")}), "", ""},
		{"UpdateItem", update("SET f = :n", dict{":n": n("123456789012345678901234567890123456789")}), refused, ""},
		{"UpdateItem", update("SET f = :n", dict{":n": n("1e125")}), "", ""},
		{"UpdateItem", update("SET f = :n", dict{":n": n("1e126")}), refused, ""},
		{"UpdateItem", update("SET f = :n", dict{":n": n("1e-130")}), "", ""},
		{"UpdateItem", update("SET f = :n", dict{":n": n("1e-131")}), refused, ""},
		{"UpdateItem", update("SET f = :n", dict{":n": n("one")}), refused, ""},
		{"UpdateItem", update("SET f = :n", dict{":n": n("")}), refused, ""},
		{"UpdateItem", update("SET f = :n", dict{":n": n("-0.0")}), "", ""},
		{"UpdateItem", update(words("plan"), n1), refused, ""},
		{"UpdateItem", update(words("Window"), n1), refused, ""},
		{"UpdateItem", update(words("quotaCount", "quotaWeek", "a_1"), n1), "", ""},
		{"UpdateItem", under("a = :1 AND quotaCount BETWEEN :1 AND :1 AND size(m) <= :2", dict{":1": n("1"), ":2": n("2")}), unmet, ""},
		{"UpdateItem", under("a <> :1 OR a = :2 AND a = :1", dict{":1": n("2"), ":2": n("3")}), unmet, ""},
		{"UpdateItem", under("(a = :2 OR a = :1) AND NOT a = :1", dict{":1": n("2"), ":2": n("3")}), unmet, ""},
		{"UpdateItem", under("NOT a = :1 AND a = :2", dict{":1": n("2"), ":2": n("3")}), unmet, ""},
		{"UpdateItem", under("NOT a = :2 AND a = :1", dict{":1": n("2"), ":2": n("3")}), "", ""},
		{"UpdateItem", under("a = :1", dict{":1": n("2.00")}), "", ""},
		{"UpdateItem", under("a = :1", dict{":1": s("2")}), unmet, ""},
		{"UpdateItem", under("((a = :1))", n1), refused, ""},
		{"UpdateItem", under("(a = :1)", dict{":1": n("2")}), "", ""},
		{"UpdateItem", under("(a = :1 OR (attribute_not_exists(gone) OR gone = :1))", dict{":1": n("2")}), "", ""},
		{"UpdateItem", under("a = :1)", n1), refused, ""},
		{"UpdateItem", under("(a = :1", n1), refused, ""},
		{"UpdateItem", under("a == :1", n1), refused, ""},
		{"UpdateItem", under("a", nil), refused, ""},
		{"UpdateItem", under("size(m)", nil), refused, ""},
		{"UpdateItem", under("", nil), refused, ""},
		{"UpdateItem", under("exists(a)", nil), refused, ""},
		{"UpdateItem", under("attribute_exists(:1)", n1), refused, ""},
		{"UpdateItem", under("attribute_exists(a, b)", nil), refused, ""},
		{"UpdateItem", under("begins_with(a, :1)", n1), refused, ""},
		{"UpdateItem", under("attribute_type(m, :t) AND attribute_type(a, :n)", dict{":t": s("M"), ":n": s("N")}), "", ""},
		{"UpdateItem", under("attribute_not_exists(m.gone) AND attribute_not_exists(a.gone.x)", nil), "", ""},
		{"UpdateItem", under("m.x < m.z", nil), unmet, ""},
		{"UpdateItem", with(under("gone = :1", n1), "ReturnValuesOnConditionCheckFailure", "ALL_OLD"), unmet, ""},
		{"UpdateItem", with(with(under("gone = :1", n1), "ReturnValuesOnConditionCheckFailure", "ALL_OLD"), "Key", dict{"userId": s("nobody")}), unmet, ""},
		{"GetItem", dict{"TableName": b.users, "Key": dict{"userId": s("nobody")}}, "", ""},
		{"UpdateItem", with(update("SET a = :1", n1), "ExpressionAttributeNames", dict{}), refused, ""},
		{"UpdateItem", update("REMOVE a", dict{}), refused, ""},
		{"UpdateItem", with(update("SET #a = :1, #b = :1", n1), "ExpressionAttributeNames", dict{"#a": "a", "#b": "a"}), refused, ""},
		{"UpdateItem", with(update("SET a = :1", n1), "Key", dict{"userId": s("")}), refused, ""},
		{"UpdateItem", with(update("SET a = :1", n1), "Key", dict{"userId": n("1")}), refused, ""},
		{"UpdateItem", with(update("SET a = :1", n1), "Key", dict{"userId": s("u"), "row": s("r")}), refused, ""},
		{"UpdateItem", with(update("SET a = :1", n1), "Key", dict{"user": s("u")}), refused, ""},
		{"UpdateItem", with(update("SET a = :1", n1), "TableName", "nowhere"), "ResourceNotFoundException", ""},
		{"UpdateItem", with(update("SET b = :b", dict{":b": s(strings.Repeat("x", 410_000))}), "ReturnValues", "NONE"), refused, ""},
		{"PutItem", putting(dict{"userId": s(strings.Repeat("u", 2048)), "empty": s("")}), "", ""},
		{"PutItem", putting(dict{"userId": s(strings.Repeat("u", 2049))}), refused, ""},
		{"PutItem", putting(dict{"a": n("1")}), refused, ""},
		{"PutItem", with(putting(dict{"userId": s("u")}), "ConditionExpression", "attribute_not_exists(userId)"), unmet, ""},
		{"PutItem", with(putting(dict{"userId": s("u")}), "ConditionExpression", "attribute_exists(userId)"), "", ""},

		{"BatchWriteItem", batch(put(many...)...), refused, ""},
		{"BatchWriteItem", dict{"RequestItems": dict{b.ledger: []dict{}}}, refused, ""},
		{"BatchWriteItem", batch(put(many[:25]...)...), "", ""},
		{"BatchWriteItem", batch(put(row("k", "op#1"), row("k", "op#1"))...), refused, ""},
		{"BatchWriteItem", batch(append(put(row("k", "op#1")), remove(dict{"key": s("k"), "row": s("op#1")}))...), refused, ""},
		{"BatchWriteItem", batch(put(row("k", "op#1"), row("k", "op#2"), row("k", "past#week#é"), row("k2", "op#3"), row("j", "op#4"))...), "", ""},
		{"BatchWriteItem", batch(append(put(row("k", "op#0")), remove(dict{"key": s("k"), "row": s("op#2")}), remove(dict{"key": s("k"), "row": s("gone")}))...), "", ""},
		{"BatchWriteItem", batch(remove(dict{"key": s("k")})), refused, ""},
		{"BatchWriteItem", dict{"RequestItems": dict{"nowhere": put(row("k", "r"))}}, "ResourceNotFoundException", ""},
		{"Query", query("k", "op#", nil), "", ""},
		{"Query", query("k", "op#", dict{"ScanIndexForward": false}), "", ""},
		{"Query", query("k", "op#", dict{"Limit": 1}), "", ""},
		{"Query", query("k", "op#", dict{"Limit": 2}), "", ""},
		{"Query", query("k", "op#", dict{"Limit": 3, "ScanIndexForward": false}), "", ""},
		{"Query", query("many", "r", dict{"Limit": 7, "ScanIndexForward": false}), "", ""},
		{"Query", query("gone", "op#", nil), "", ""},
		{"Query", query("many", "r", dict{"Limit": 7, "ScanIndexForward": false, "ExclusiveStartKey": at("r19")}), "", ""},
		{"Query", query("many", "r", dict{"Limit": 7, "ExclusiveStartKey": at("r19")}), "", ""},
		{"Query", query("many", "r", dict{"ExclusiveStartKey": at("r24")}), "", ""},
		{"BatchWriteItem", batch(put(row("k", "op#0\x0000000000000000012"), row("k", "op#0\x0000000000000000002"), row("k", "op#00"), row("k", "op#0\x00"))...), "", ""},
		{"Query", between("op#0", "op#0\x0099999999999999999", dict{"ScanIndexForward": false, "Limit": 25}), "", ""},
		{"Query", between("op#0", "op#0\x0099999999999999999", dict{"ScanIndexForward": false, "Limit": 1}), "", ""},
		{"Query", between("op#1", "op#2", nil), "", ""},
		{"Query", between("op#2", "op#1", nil), refused, ""},
		{"Query", query("k", "past#week#", dict{"ScanIndexForward": false, "Limit": 52}), "", ""},
		{"Query", beyond("k", "op#1"), "", ""},
		{"Query", beyond("k", "past#week#é"), "", ""},
		{"Query", beyond("gone", "a"), "", ""},
		{"DeleteItem", deleting("op#1", "since = :since", dict{":since": n("1")}), unmet, ""},
		{"DeleteItem", deleting("gone", "since = :since", dict{":since": n("1")}), unmet, ""},
		{"DeleteItem", deleting("op#3", "attribute_exists(gone)", nil), unmet, ""},
		{"BatchWriteItem", batch(put(dict{"key": s("k"), "row": s("op#4"), "since": n("1")})...), "", ""},
		{"DeleteItem", deleting("op#4", "since = :since", dict{":since": n("2")}), unmet, ""},
		{"DeleteItem", deleting("op#4", "since = :since", dict{":since": n("1")}), "", ""},
		{"DeleteItem", deleting("op#4", "attribute_not_exists(since)", nil), "", ""},
		{"GetItem", dict{"TableName": b.ledger, "Key": dict{"key": s("k"), "row": s("op#4")}}, "", ""},
		{"GetItem", dict{"TableName": b.ledger, "Key": dict{"key": s("k"), "row": s("op#2")}}, "", ""},
		{"GetItem", dict{"TableName": b.ledger, "Key": dict{"key": s("k"), "row": s("op#1")}}, "", ""},
		{"GetItem", dict{"TableName": b.ledger, "Key": dict{"key": s("k")}}, refused, ""},
	} {
		t.Run("", func(t *testing.T) {
			if got := b.send(t, c.op, c.request, map[string]bool{c.mark: true}); got.Error != c.want {
				t.Errorf("%s %v\nanswers %v, want %q", c.op, c.request, got, c.want)
			}
		})
	}
	t.Log("compared:", b.compared)
}
