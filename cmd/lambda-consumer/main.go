// Command lambda-consumer is the Lambda function that takes jobs from the queue, asks for quota and starts their executions. Package onlambda lists its environment.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lumcast/headroom/internal/onlambda"
)

func main() {
	p, err := onlambda.Pipeline(context.Background(), os.Getenv)
	if err != nil {
		onlambda.Fatal(err)
	}
	lambda.Start(p.Consume)
}
