// Command lambda-reconcile is the Lambda function that finishes jobs whose last event never came or
// whose charge is pending. onaws.FromEnv lists its environment variables.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lumcast/headroom/pipeline/onaws"
)

func main() {
	stack, err := onaws.Function(context.Background(), os.Getenv)
	if err != nil {
		onaws.Fatal(err)
	}
	lambda.Start(onaws.Handler(stack.Reconcile))
}
