package memdynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/internal/memdynamo"
)

type dict = map[string]any

// bench is the two tables of a store, in memdynamo and in each real engine, to which the same
// requests are sent.
type bench struct {
	mem           memdynamo.Tables
	urls          map[string]string // of the engines, by name
	users, ledger string            // the tables: their keys are userId, and key and row
	// answers of each engine that were compared, by what memdynamo said
	compared map[string]int
}

func newBench(t *testing.T) *bench {
	users := fmt.Sprintf("bench-%d", tables.Add(1))
	b := &bench{users: users, ledger: users + "-ledger", urls: map[string]string{}, compared: map[string]int{}}
	b.mem = memdynamo.New(map[string][]string{b.users: {"userId"}, b.ledger: {"key", "row"}})
	for _, engine := range enginetest.Names() {
		b.urls[engine] = enginetest.Start(t, engine)
		openAt(t, http.DefaultTransport, b.urls[engine], dynamostore.Options{Table: users})
	}
	return b
}

// send sends a request to all, and fails the test unless they agree but for known departures in
// what the marks say is special about it.
func (b *bench) send(t rapid.TB, op string, request dict, marks map[string]bool) result {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	before := b.mem.Text()
	after, status, answer := b.mem.Apply(op, body)
	ours := resultOf(status, answer)
	if strings.Contains(string(answer), "not modelled") {
		b.compared["not modelled"]++
		return ours
	}
	if b.mem.Text() != before || status != 200 && after.Text() != before {
		t.Fatalf("%s %s changed what it must not", op, body)
	}
	b.mem = after
	for engine, url := range b.urls {
		if departs(engine, marks, ours, result{Error: gone}) {
			b.compared[engine+" not asked"]++
			b.restore(t, engine, request)
			continue
		}
		status, answer := post(t, url, op, body)
		theirs := resultOf(status, answer)
		switch want := expected(engine, ours); {
		case reflect.DeepEqual(want, theirs):
			b.compared[strings.TrimSpace(fmt.Sprint(engine, " ", op, " ", ours.Status, " ", ours.Error))]++
		case departs(engine, marks, ours, theirs):
			b.compared[engine+" departs"]++
			b.restore(t, engine, request)
		default:
			t.Fatalf("%s %s\nmemdynamo: %v\n%s: %d %s", op, body, want, engine, status, answer)
		}
	}
	return ours
}

// restore brings the item of a request into an engine as memdynamo has it.
func (b *bench) restore(t rapid.TB, engine string, request dict) {
	key, ok := request["Key"].(dict)
	if item, put := request["Item"].(dict); put {
		key, ok = dict{"userId": item["userId"]}, true
	}
	if !ok {
		return // a read
	}
	get, _ := json.Marshal(dict{"TableName": b.users, "Key": key})
	_, _, answer := b.mem.Apply("GetItem", get)
	write := dict{"DeleteRequest": dict{"Key": key}}
	if item := resultOf(200, answer).Body["Item"]; item != nil {
		write = dict{"PutRequest": dict{"Item": item}}
	}
	batch, _ := json.Marshal(dict{"RequestItems": dict{b.users: []dict{write}}})
	if status, answer := post(t, b.urls[engine], "BatchWriteItem", batch); status != 200 {
		t.Fatalf("%s: %d %s", engine, status, answer)
	}
}

// expected is what an engine answers where memdynamo answers so.
func expected(engine string, r result) result {
	if engine == "dynalite" && r.Error == "ConditionalCheckFailedException" {
		r.Body = dict{} // it does not know ReturnValuesOnConditionCheckFailure
	}
	return r
}

// departs reports whether an engine is known to do otherwise than DynamoDB.
func departs(engine string, marks map[string]bool, ours, theirs result) bool {
	for _, d := range departures {
		if d.engine == engine && marks[d.mark] && (d.ours == "" || d.ours == ours.Error) && (d.theirs == theirs.Error || d.theirs == "" && theirs.Error != gone) {
			return true
		}
	}
	return false
}

const (
	refused = "ValidationException"
	unmet   = "ConditionalCheckFailedException"
	gone    = "gone" // the engine may have ended, and is not asked
	// of ScyllaDB, folder test/alternator: its tests pass on DynamoDB itself
	conformer = "test_condition_expression.py"
)

// departures are what the real engines do otherwise than DynamoDB: where a request bears a mark, an
// engine may answer theirs in place of ours ("": anything).
var departures = []struct{ engine, mark, ours, theirs, why string }{
	{"dynalite", "NOT NOT", "", refused, "does not parse it. " + conformer + ": test_update_condition_not"},
	{"dynalite", "shared", "", gone, "sets a path to the very value that another has, and not to a copy: what the update does to one happens to the other. If a map comes to hold itself, the process ends"},
	{"dynalite", "open bounds", "", gone, "ends where the upper bound of a BETWEEN is a path that is not there, or has another type"},
	{"dynalite", "two paths", "", "", "compares what is not there with what is not there either, and a map with a map by its text. " + conformer + ": test_update_condition_comparison_two_unset"},
	{"dynalite", "empty", "", "", "takes an empty string and a false BOOL in an item for an attribute that is not there in BETWEEN, attribute_type and size"},
	{"dynalite", "long", refused, "", "has no limit of 4 KB on an expression"},
	{"dynalite", "digits", refused, "", "takes a sum of more than 38 digits"},
	{"dynoxide", "capitals", refused, "", "takes the name of a function in capitals; by the developer guide it is case-sensitive"},
	{"dynoxide", "same path", refused, "", "compares a path with itself; DynamoDB wants distinct operands, as dynalite does"},
	{"dynoxide", "condition alone", refused, "", "without an UpdateExpression takes names and values that no expression uses, and does not look at those of a part that it need not evaluate"},
	{"dynoxide", "type name", refused, "", "takes any string in attribute_type; DynamoDB knows ten and refuses others, as dynalite does"},
	{"dynoxide", "unordered", refused, "", "takes a map or a BOOL of the request as an operand of an order. " + conformer + ": test_update_condition_lt"},
	{"dynalite", "unordered", refused, "", "the same"},
}

func post(t rapid.TB, url, op string, body []byte) (int, []byte) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"X-Amz-Target":  {"DynamoDB_20120810." + op},
		"Content-Type":  {"application/x-amz-json-1.0"},
		"X-Amz-Date":    {"20310527T100000Z"},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=test/20310527/eu-central-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"},
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", op, body, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text
}
