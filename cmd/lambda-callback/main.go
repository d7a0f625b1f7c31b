// Command lambda-callback is the Lambda function that charges a job after its work: the state machine's last step, and the target of the status-change rule. Package onlambda lists its environment.
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
	lambda.Start(p.Callback)
}
