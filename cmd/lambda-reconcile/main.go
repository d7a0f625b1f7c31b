// Command lambda-reconcile is the Lambda function that finishes jobs whose last event never came or whose charge is pending. Package onlambda lists its environment.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lumcast/headroom/internal/onlambda"
	"github.com/lumcast/headroom/pipeline"
)

func main() {
	p, err := onlambda.Pipeline(context.Background(), os.Getenv)
	if err != nil {
		onlambda.Fatal(err)
	}
	olderThan, err := onlambda.OlderThan(os.Getenv)
	if err != nil {
		onlambda.Fatal(err)
	}
	lambda.Start(func(ctx context.Context) (pipeline.Reconciliation, error) {
		return p.Reconcile(ctx, pipeline.ReconcileOptions{OlderThan: olderThan})
	})
}
