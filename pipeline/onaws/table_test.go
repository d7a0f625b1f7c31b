package onaws_test

import (
	"errors"
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// setUp answers in the place of DynamoDB what sets up a table.
func setUp(answers map[string]func() (*http.Response, error)) func(*request) (*http.Response, error) {
	return func(q *request) (*http.Response, error) {
		if own := answers[q.op]; own != nil {
			return own()
		}
		switch q.op {
		case "DescribeTable":
			return says(200, `{"Table":{"TableStatus":"ACTIVE"}}`)
		case "DescribeTimeToLive":
			return says(200, `{"TimeToLiveDescription":{"TimeToLiveStatus":"DISABLED"}}`)
		}
		return says(200, `{}`)
	}
}

// TestATableIsCreatedWithItsIndexAndItsTimeToLive asks for exactly what the template has.
func TestATableIsCreatedWithItsIndexAndItsTimeToLive(t *testing.T) {
	n := &network{answer: setUp(nil)}
	jobs := &onaws.Jobs{Client: dynamodb.NewFromConfig(n.sdk()), Table: "jobs"}
	if err := jobs.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := func(name, kind string) map[string]any { return map[string]any{"AttributeName": name, "KeyType": kind} }
	text := func(name string) map[string]any {
		return map[string]any{"AttributeName": name, "AttributeType": "S"}
	}
	if made := n.of("CreateTable"); len(made) != 1 || !reflect.DeepEqual(made[0].in, map[string]any{
		"TableName": "jobs", "BillingMode": "PAY_PER_REQUEST", "KeySchema": []any{key("jobId", "HASH")},
		"AttributeDefinitions": []any{text("jobId"), text("openShard"), text("openSince")},
		"GlobalSecondaryIndexes": []any{map[string]any{
			"IndexName": "open", "KeySchema": []any{key("openShard", "HASH"), key("openSince", "RANGE")}, "Projection": map[string]any{"ProjectionType": "KEYS_ONLY"},
		}},
	}) {
		t.Errorf("made %v", made)
	}
	if set := n.of("UpdateTimeToLive"); len(set) != 1 || !reflect.DeepEqual(set[0].in, map[string]any{
		"TableName": "jobs", "TimeToLiveSpecification": map[string]any{"AttributeName": "expires", "Enabled": true},
	}) {
		t.Errorf("set %v", set)
	}
}

// TestATimeToLiveThatIsOnStays, and where there is none, as in some emulators, jobs stay for good.
func TestATimeToLiveThatIsOnStays(t *testing.T) {
	for _, c := range []struct {
		name     string
		describe func() (*http.Response, error)
		update   func() (*http.Response, error)
		set      int
		want     error
	}{
		{"off", nil, nil, 1, nil},
		{"on", func() (*http.Response, error) {
			return says(200, `{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLED"}}`)
		}, nil, 0, nil},
		{"about to be on", func() (*http.Response, error) {
			return says(200, `{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLING"}}`)
		}, nil, 0, nil},
		{"not told", func() (*http.Response, error) { return says(200, `{}`) }, nil, 1, nil},
		{"unknown to the engine", func() (*http.Response, error) { return refuses("UnknownOperationException") }, nil, 0, nil},
		{"readable only", nil, func() (*http.Response, error) { return refuses("UnknownOperationException") }, 1, nil},
		{"not to be read", func() (*http.Response, error) { return refuses("AccessDeniedException") }, nil, 0, headroom.Rejected},
		{"not to be set", nil, func() (*http.Response, error) { return refuses("AccessDeniedException") }, 1, headroom.Rejected},
		{"cut", nil, func() (*http.Response, error) { return nil, errCut }, 1, headroom.Unavailable},
	} {
		n := &network{answer: setUp(map[string]func() (*http.Response, error){"DescribeTimeToLive": c.describe, "UpdateTimeToLive": c.update})}
		jobs := &onaws.Jobs{Client: dynamodb.NewFromConfig(n.sdk()), Table: "jobs"}
		if err := jobs.CreateTable(t.Context()); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if set := len(n.of("UpdateTimeToLive")); set != c.set {
			t.Errorf("%s: set %d times, want %d", c.name, set, c.set)
		}
	}
}

// TestATableIsWaitedForFiveMinutes, and asked about each second at first. One that exists is not
// made again.
func TestATableIsWaitedForFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		creating := func() (*http.Response, error) {
			// of the bubble; else the SDK's waiter asks for ever at its last instant
			<-time.After(10 * time.Millisecond)
			return says(200, `{"Table":{"TableStatus":"CREATING"}}`)
		}
		n := &network{answer: setUp(map[string]func() (*http.Response, error){"DescribeTable": creating})}
		jobs := &onaws.Jobs{Client: dynamodb.NewFromConfig(n.sdk()), Table: "jobs"}
		began := time.Now()
		err := jobs.CreateTable(t.Context())
		if took := time.Since(began); err == nil || took < 4*time.Minute || took > 5*time.Minute {
			t.Errorf("%v after %s", err, took)
		}
		if set := len(n.of("UpdateTimeToLive")); set != 0 {
			t.Errorf("set %d times up, though it is not there", set)
		}
		n.answer = setUp(map[string]func() (*http.Response, error){
			"CreateTable": func() (*http.Response, error) { return refuses("ResourceInUseException") },
			"DescribeTable": func() (*http.Response, error) {
				if time.Since(began) < time.Second {
					return creating()
				}
				return says(200, `{"Table":{"TableStatus":"ACTIVE"}}`)
			},
		})
		began = time.Now()
		err = jobs.CreateTable(t.Context())
		if took := time.Since(began); err != nil || took < time.Second || took > 5*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		if set := len(n.of("UpdateTimeToLive")); set != 1 {
			t.Errorf("set %d times up", set)
		}
	})
}
