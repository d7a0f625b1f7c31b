package memdynamo_test

import (
	"context"
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

func TestConformance(t *testing.T) { storetest.Run(t, harness()) }
func TestConcurrent(t *testing.T)  { storetest.Concurrent(t, harness()) }
func TestModel(t *testing.T)       { storetest.Model(t, harness()) }

func harness() storetest.Harness {
	return storetest.Harness{Checks: 20, Open: func(tb testing.TB, clock func() time.Time) headroom.Store {
		return open(tb, &memdynamo.Server{Clock: clock})
	}}
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
