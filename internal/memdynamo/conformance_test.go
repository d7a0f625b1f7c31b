package memdynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/memdynamo"
	"github.com/lumcast/headroom/storetest"
)

func TestConformance(t *testing.T) { storetest.Run(t, harness(asItIs)) }
func TestConcurrent(t *testing.T)  { storetest.Concurrent(t, harness(asItIs)) }
func TestModel(t *testing.T)       { storetest.Model(t, harness(asItIs)) }

// TestConformanceWithoutTheItem holds that the store keeps the rules on an engine like dynalite,
// which does not send the item along when a condition fails. The store then has to read it.
func TestConformanceWithoutTheItem(t *testing.T) { storetest.Run(t, harness(withoutTheItem)) }

// harness is that of dynamostore on memdynamo, which is reached by way of through.
func harness(through func(http.RoundTripper) http.RoundTripper) storetest.Harness {
	return storetest.Harness{Checks: 20, Open: func(tb testing.TB, clock func() time.Time) headroom.Store {
		return open(tb, through(&memdynamo.Server{Clock: clock}))
	}}
}

func asItIs(engine http.RoundTripper) http.RoundTripper { return engine }

func withoutTheItem(engine http.RoundTripper) http.RoundTripper { return itemless{engine} }

// itemless is an engine that does not know ReturnValuesOnConditionCheckFailure.
type itemless struct{ engine http.RoundTripper }

func (i itemless) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	request := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	delete(request, "ReturnValuesOnConditionCheckFailure")
	if body, err = json.Marshal(request); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return i.engine.RoundTrip(r)
}

// open returns a store on tables of its own that sends its requests over transport.
func open(tb testing.TB, transport http.RoundTripper) *dynamostore.Store {
	return openAt(tb, transport, "http://127.0.0.1:1", dynamostore.Options{Table: "users"})
}

func openAt(tb testing.TB, transport http.RoundTripper, url string, opts dynamostore.Options) *dynamostore.Store {
	store, err := dynamostore.New(client(transport, url), opts)
	if err == nil {
		err = store.CreateTables(context.Background())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

func client(transport http.RoundTripper, url string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: &url, Retryer: aws.NopRetryer{}, HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}
