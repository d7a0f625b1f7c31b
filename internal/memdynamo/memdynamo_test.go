package memdynamo_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/memdynamo"
)

func users() memdynamo.Tables {
	return memdynamo.New(map[string][]string{"users": {"userId"}, "rows": {"key", "row"}})
}

// TestGuessesNothing holds that what is not modelled is refused and says so.
func TestGuessesNothing(t *testing.T) {
	const key = `"TableName":"users","Key":{"userId":{"S":"u"}}`
	for _, c := range []struct{ op, body string }{
		{"Scan", `{"TableName":"users"}`},
		{"DeleteItem", `{` + key + `,"ReturnValues":"ALL_OLD"}`},
		{"TransactWriteItems", `{}`},
		{"GetItem", `{` + key + `,"ProjectionExpression":"a"}`},
		{"UpdateItem", `{` + key + `,"ReturnValues":"UPDATED_NEW"}`},
		{"UpdateItem", `{` + key + `,"AttributeUpdates":{}}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a[0] = b"}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = (b + c)"}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = list_append(b, c)"}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = userId"}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"DELETE a :a"}`},
		{"UpdateItem", `{` + key + `,"ConditionExpression":"a IN (b, c)"}`},
		{"UpdateItem", `{` + key + `,"ConditionExpression":"contains(a, b)"}`},
		{"UpdateItem", `{` + key + `,"ConditionExpression":"begins_with(a, b)"}`},
		{"UpdateItem", `{` + key + `,"ConditionExpression":"attribute_exists(userId.a)"}`},
		{"UpdateItem", `{` + key + `,"ConditionExpression":"size(a) <> b"}`},
		{"PutItem", `{"TableName":"users","Item":{"userId":{"S":"u"},"a":{"L":[]}}}`},
		{"PutItem", `{"TableName":"users","Item":{"userId":{"S":"u"},"a":{"M":{"b":{"NULL":true}}}}}`},
		{"Query", `{"TableName":"rows","KeyConditionExpression":"a = :a","ExpressionAttributeValues":{":a":{"S":"a"}}}`},
		{"Query", `{"TableName":"rows"}`},
	} {
		if _, status, answer := users().Apply(c.op, []byte(c.body)); status != 400 || !strings.Contains(string(answer), "ValidationException") || !strings.Contains(string(answer), "not modelled") {
			t.Errorf("%s %s: %d %s", c.op, c.body, status, answer)
		}
	}
}

// TestMalformed holds that what is no JSON of the protocol is refused.
func TestMalformed(t *testing.T) {
	good := `{"TableName":"users","Item":{"userId":{"S":"u"},"a":{"M":{"b":{"BOOL":true},"c":{"N":"1"}}}}}`
	for n := range good {
		for _, body := range []string{good[:n], good[:n] + "!" + good[n:]} {
			after, status, answer := users().Apply("PutItem", []byte(body))
			if inString := strings.Count(good[:n], `"`)%2 == 1 && body != good[:n]; !inString && (status != 400 || after.Text() != users().Text()) {
				t.Errorf("%s: %d %s", body, status, answer)
			}
		}
	}
}

// TestItems holds that an item comes back as it went in, in the order of keys, and that Text tells
// contents apart.
func TestItems(t *testing.T) {
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	row := func(key, row string) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"key": text(key), "row": text(row), "more": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"n": &types.AttributeValueMemberN{Value: "-12.5"}, "yes": &types.AttributeValueMemberBOOL{Value: true}, "\"\\\n\x00é": text("\"\\\n\x00é"),
		}}}
	}
	empty := users()
	var all []map[string]types.AttributeValue
	full := empty
	for _, key := range []string{"b#1", "a#2", "b#0", "a#1"} {
		full = full.Put("rows", row(key[:1], key))
	}
	for _, key := range []string{"a#1", "a#2", "b#0", "b#1"} {
		all = append(all, row(key[:1], key))
	}
	if got := full.Items("rows"); !reflect.DeepEqual(got, all) {
		t.Errorf("items %v", got)
	}
	if got := full.Item("rows", "a", "a#2"); !reflect.DeepEqual(got, all[1]) {
		t.Errorf("item %v", got)
	}
	if empty.Item("rows", "a", "a#2") != nil || empty.Items("rows") != nil || empty.Text() == full.Text() {
		t.Error("the tables before have changed")
	}
	if again := full.Put("rows", row("a", "a#1")); again.Text() != full.Text() {
		t.Error("equal tables have another text")
	}
	batch := `{"RequestItems":{"rows":[{"DeleteRequest":{"Key":{"key":{"S":"a"},"row":{"S":"a#1"}}}}]}}`
	if less, status, answer := full.Apply("BatchWriteItem", []byte(batch)); status != 200 || len(less.Items("rows")) != 3 || len(full.Items("rows")) != 4 {
		t.Errorf("%d %s", status, answer)
	}
}

// TestServer holds that the zero value answers, with the Date of its clock.
func TestServer(t *testing.T) {
	now := time.Date(2031, time.May, 27, 10, 0, 0, 0, time.UTC)
	s := &memdynamo.Server{Clock: func() time.Time { return now }}
	r, _ := http.NewRequest(http.MethodPost, "http://127.0.0.1", strings.NewReader(`{"TableName":"nowhere"}`))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.DescribeTable")
	answer, err := s.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != 400 || answer.Header.Get("Date") != now.Format(http.TimeFormat) || !strings.Contains(string(body), "ResourceNotFoundException") {
		t.Errorf("%d %v %s", answer.StatusCode, answer.Header, body)
	}
}

// BenchmarkUpdateItem is a deduction in a running window, as dynamostore sends it.
func BenchmarkUpdateItem(b *testing.B) {
	wire := &last{}
	store := open(b, wire)
	engine, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var before memdynamo.Tables
	for i := range 8 {
		before = wire.Tables()
		if _, err := engine.Deduct(b.Context(), headroom.Request{Subject: "u", Meter: "slots", Operation: fmt.Sprintf("operation-%d-of-the-day", i), Cost: 4}); err != nil {
			b.Fatal(err)
		}
	}
	if _, status, answer := before.Apply("UpdateItem", wire.body); status != 200 {
		b.Fatalf("%d %s", status, answer)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(wire.body)))
	for b.Loop() {
		before.Apply("UpdateItem", wire.body)
	}
}

// last keeps the body of the latest request.
type last struct {
	memdynamo.Server
	body []byte
}

func (l *last) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	l.body, r.Body = body, io.NopCloser(strings.NewReader(string(body)))
	return l.Server.RoundTrip(r)
}
