package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/memdynamo"
)

// recorder keeps the last request that passes through it.
type recorder struct {
	next http.RoundTripper
	last []byte
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	r.last, request.Body = body, io.NopCloser(bytes.NewReader(body))
	return r.next.RoundTrip(request)
}

// TestTheWriteOfADeduction: the request to DynamoDB that docs/travel.md shows is the one that is
// sent.
func TestTheWriteOfADeduction(t *testing.T) {
	now := time.Date(2026, 5, 28, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	wire := &recorder{next: &memdynamo.Server{Clock: clock}}
	store, err := dynamostore.New(dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://engine.example"), HTTPClient: &http.Client{Transport: wire},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "x", SecretAccessKey: "x"}, nil
		}),
	}), dynamostore.Options{Table: "users"})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	engine, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"job-16", "job-17"} {
		d, err := engine.Deduct(t.Context(), headroom.Request{Subject: "alice", Meter: "slots", Operation: job, Cost: 30})
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}

	_, block, _ := strings.Cut(read(t, "docs/travel.md"), "    UPDATE ")
	block, _, _ = strings.Cut("    UPDATE "+block, "\n\n")
	var shown []string
	for text := range strings.Lines(block) {
		text = strings.TrimSpace(text)
		for _, keyword := range []string{"UPDATE ", "SET ", "ADD ", "IF ", "AND "} {
			text = strings.TrimPrefix(text, keyword)
		}
		shown = append(shown, strings.TrimSpace(text))
	}
	sent := parts(t, wire.last)
	for _, part := range sent {
		if !slices.Contains(shown, part) {
			t.Errorf("docs/travel.md does not show %q", part)
		}
	}
	for _, part := range shown {
		if !slices.Contains(sent, part) {
			t.Errorf("docs/travel.md shows %q, which is not sent", part)
		}
	}
}

// parts takes an update of one item apart: its key, what it does, and each condition.
func parts(t *testing.T, body []byte) []string {
	t.Helper()
	var in struct {
		TableName                             string
		Key                                   map[string]map[string]string
		UpdateExpression, ConditionExpression string
		ExpressionAttributeNames              map[string]string
		ExpressionAttributeValues             map[string]map[string]string
	}
	if err := json.Unmarshal(body, &in); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	plain := func(expression string) string {
		return regexp.MustCompile(`[#:]\w+`).ReplaceAllStringFunc(expression, func(alias string) string {
			for kind, value := range in.ExpressionAttributeValues[alias] {
				if kind == "S" {
					return `"` + value + `"`
				}
				return value
			}
			return in.ExpressionAttributeNames[alias]
		})
	}
	all := []string{in.TableName + ` "` + in.Key["userId"]["S"] + `"`}
	update := regexp.MustCompile(`(SET|ADD|REMOVE) `).Split(in.UpdateExpression, -1)
	// The AND of a BETWEEN joins no conditions.
	conditions := regexp.MustCompile(`(BETWEEN \S+) AND `).ReplaceAllString(in.ConditionExpression, "$1\x00")
	for _, part := range append(update[1:], strings.Split(conditions, " AND ")...) {
		all = append(all, plain(strings.ReplaceAll(strings.TrimSpace(part), "\x00", " AND ")))
	}
	return all
}
