// Command lambda-callback is the Lambda function that charges a job after its work: the state
// machine's last step, and the target of the status-change rule. onaws.FromEnv lists its
// environment.
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
