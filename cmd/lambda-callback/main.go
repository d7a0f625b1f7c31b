// Command lambda-callback is the Lambda function that charges a job after its work. It is the last
// step of the state machine, and the target of the rule for status changes. onaws.FromEnv lists its
// environment variables.
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
	lambda.Start(onaws.Handler(stack.Pipeline.Callback))
}
