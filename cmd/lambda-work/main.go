// Command lambda-work is the sample work step of the state machine, to be replaced: it pretends to
// synthesise. How long that takes and how it ends, the message says in its field "work".
package main

import (
	"context"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
)

type event struct {
	Retries int `json:"retries"` // how often the state machine has retried this step
	Input   struct {
		DurationSeconds float64 `json:"durationSeconds"`
		Work            struct {
			Seconds         float64  `json:"seconds"`         // how long it takes
			DurationSeconds *float64 `json:"durationSeconds"` // how long the episode has become. Absent: as asked
			Fail            string   `json:"fail"`            // the error that it ends with
			FailTimes       int      `json:"failTimes"`       // how many tries end with the error "Temporary" before
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
