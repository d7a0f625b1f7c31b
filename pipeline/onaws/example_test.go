package onaws_test

import (
	"context"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// A program with a consumer of its own, in a container or on a machine: it receives messages, lets
// Headroom decide and start, and deletes those that are done. What failed comes again.
func Example() {
	ctx := context.Background()
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	stack, err := onaws.New(sdk, onaws.Settings{
		Users: "users", Jobs: "jobs", StateMachine: "arn:aws:states:eu-central-1:123456789012:stateMachine:podcast",
		Options: pipeline.Options{Hold: 3 * time.Hour},
	})
	if err != nil {
		log.Fatal(err)
	}
	queue, url := sqs.NewFromConfig(sdk), aws.String("https://sqs.eu-central-1.amazonaws.com/123456789012/jobs")
	for {
		got, err := queue.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range got.Messages {
			d := pipeline.Delivery{MessageID: *m.MessageId, Body: *m.Body}
			failed, err := stack.Pipeline.Consume(ctx, pipeline.Batch{Records: []pipeline.Delivery{d}})
			if err == nil && len(failed.Items) == 0 {
				_, err = queue.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle})
			}
			if err != nil {
				log.Print(err)
			}
		}
	}
}

// A callback of your own: whatever learns that the work is done says so. Headroom charges it once.
func ExampleNew_callback() {
	ctx := context.Background()
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	stack, err := onaws.New(sdk, onaws.Settings{Users: "users", Jobs: "jobs", StateMachine: "arn:aws:states:eu-central-1:123456789012:stateMachine:podcast"})
	if err != nil {
		log.Fatal(err)
	}
	event := []byte(`{"execution":"e","status":"SUCCEEDED","input":{"jobId":"episode-17","userId":"alice","voiceQuality":"neural","durationSeconds":900},"result":{"durationSeconds":840}}`)
	answer, err := stack.Pipeline.Callback(ctx, event)
	if err != nil {
		log.Fatal(err) // send the event again: it is charged once
	}
	log.Print(answer.Charge, answer.Cost) // charged 28
}
