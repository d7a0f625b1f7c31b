// Command lambda-work is a sample of the state machine's work step, to be replaced by your own. It
// only pretends to work. The field "work" of the message says how long that takes and how it ends.
package main

import (
	"context"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
)

type event struct {
	Retries int `json:"retries"` // how often the state machine has retried this step so far
	Input   struct {
		DurationSeconds float64 `json:"durationSeconds"`
		Work            struct {
			// Seconds is how long the work takes.
			Seconds float64 `json:"seconds"`
			// DurationSeconds is how long the episode has become. Nil: as long as was asked for.
			DurationSeconds *float64 `json:"durationSeconds"`
			// Fail is the error that the work ends with. Empty: none.
			Fail string `json:"fail"`
			// FailTimes is how many tries end with the error "Temporary" first.
			FailTimes int `json:"failTimes"`
		} `json:"work"`
	} `json:"input"`
}

type result struct {
	DurationSeconds float64 `json:"durationSeconds"`
}

func work(ctx context.Context, e event) (result, error) {
	w := e.Input.Work
	select {
	case <-ctx.Done():
		return result{}, ctx.Err()
	case <-time.After(time.Duration(w.Seconds * float64(time.Second))):
	}
	if e.Retries < w.FailTimes {
		return result{}, messages.InvokeResponse_Error{Type: "Temporary", Message: "the voice service is busy"}
	}
	if w.Fail != "" {
		return result{}, messages.InvokeResponse_Error{Type: w.Fail, Message: "as the message asked"}
	}
	if w.DurationSeconds != nil {
		return result{*w.DurationSeconds}, nil
	}
	return result{e.Input.DurationSeconds}, nil
}

func main() { lambda.Start(work) }
