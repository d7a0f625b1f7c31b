package dynamostore_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
)

// each runs a test on every engine.
func each(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range enginetest.Names() {
		t.Run(engine, func(t *testing.T) { test(t, engine) })
	}
}

// tables counts the tables that tests have made.
var tables atomic.Int64

// open makes a store with tables of its own.
func open(tb testing.TB, client *dynamodb.Client, opts dynamostore.Options) *dynamostore.Store {
	tb.Helper()
	opts.Table = fmt.Sprintf("users-%d", tables.Add(1))
	store, err := dynamostore.New(client, opts)
	if err != nil {
		tb.Fatal(err)
	}
	if err := store.CreateTables(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return store
}

func client(tb testing.TB, engine string, transport http.RoundTripper) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String(enginetest.Start(tb, engine)),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   &http.Client{Transport: transport},
	})
}

// dated passes requests on and puts the time of clock into the Date of the answers: the engine's clock, moved by hand.
type dated struct{ clock func() time.Time }

func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && d.clock != nil {
		answer.Header.Set("Date", d.clock().UTC().Format(http.TimeFormat))
	}
	return answer, err
}
