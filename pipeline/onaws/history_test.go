package onaws_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// Events of histories, as Step Functions writes them.
func entered(state, input string) string {
	return fmt.Sprintf(`{"type":"TaskStateEntered","timestamp":1,"id":1,"stateEnteredEventDetails":{"name":%q,"input":%q}}`, state, input)
}

func exited(state, output string) string {
	return fmt.Sprintf(`{"type":"TaskStateExited","timestamp":1,"id":1,"stateExitedEventDetails":{"name":%q,"output":%q}}`, state, output)
}

func returned(output string) string {
	return fmt.Sprintf(`{"type":"LambdaFunctionSucceeded","timestamp":1,"id":1,"lambdaFunctionSucceededEventDetails":{"output":%q}}`, output)
}

func task(output string) string {
	return fmt.Sprintf(`{"type":"TaskSucceeded","timestamp":1,"id":1,"taskSucceededEventDetails":{"resource":"r","resourceType":"t","output":%q}}`, output)
}

func activity(output string) string {
	return fmt.Sprintf(`{"type":"ActivitySucceeded","timestamp":1,"id":1,"activitySucceededEventDetails":{"output":%q}}`, output)
}

func event(kind string) string { return fmt.Sprintf(`{"type":%q,"timestamp":1,"id":1}`, kind) }

// TestTheHistoryTellsWhetherTheWorkIsDone reads histories from their ends, in pages of three
// events.
func TestTheHistoryTellsWhetherTheWorkIsDone(t *testing.T) {
	const result = `{"durationSeconds":840}`
	failed := event("LambdaFunctionFailed")
	for _, c := range []struct {
		name   string
		events []string // in the order in which they happened
		done   bool
		result string
	}{
		{"stopped at work", []string{event("ExecutionStarted"), entered("Work", `{}`), event("LambdaFunctionStarted"), event("ExecutionAborted")}, false, ""},
		{"timed out between two tries of the work", []string{event("ExecutionStarted"), entered("Work", `{}`), failed, event("ExecutionTimedOut")}, false, ""},
		{"never begun", []string{event("ExecutionStarted"), event("ExecutionAborted")}, false, ""},
		{"stopped while it was charged", []string{event("ExecutionStarted"), entered("Work", `{}`), returned(result), exited("Work", `{"result":`+result+`}`), entered("Charge", `{"result":`+result+`}`), failed, failed, failed, failed, event("ExecutionAborted")}, true, result},
		{"done, not charged", []string{entered("Work", `{}`), exited("Work", `{"result":`+result+`}`), entered("Charge", `{"result":`+result+`}`), failed, exited("Charge", `{"result":`+result+`,"uncharged":{}}`), entered("Done, not charged", `{"result":`+result+`}`), event("ExecutionFailed")}, true, result},
		{"stopped after the work was left", []string{entered("Work", `{}`), exited("Work", `{"result":`+result+`}`), event("ExecutionAborted")}, true, result},
		{"the result is too much for the state", []string{entered("Work", `{}`), failed, returned(result), event("ExecutionFailed")}, true, result},
		{"so is that of a task", []string{entered("Work", `{}`), task(result), event("ExecutionFailed")}, true, result},
		{"the work failed", []string{entered("Work", `{}`), failed, exited("Work", `{"error":{"Error":"x"}}`), entered("Mark as failed", `{"error":{}}`), returned(`{"jobId":"a"}`), exited("Mark as failed", `{}`), entered("Failed", `{}`), event("ExecutionFailed")}, false, ""},
		{"stopped while it was marked as failed", []string{entered("Work", `{}`), failed, exited("Work", `{"error":{"Error":"x"}}`), entered("Mark as failed", `{"error":{}}`), returned(`{"jobId":"a"}`), event("ExecutionAborted")}, false, ""},
		{"redriven, and stopped while it was charged", []string{entered("Work", `{}`), failed, event("ExecutionTimedOut"), event("ExecutionRedriven"), event("LambdaFunctionStarted"), returned(result), exited("Work", `{"result":`+result+`}`), entered("Charge", `{"result":`+result+`}`), event("ExecutionAborted")}, true, result},
		{"a step before the work", []string{entered("Prepare", `{}`), returned(`{}`), exited("Prepare", `{"result":{}}`), entered("Work", `{}`), event("ExecutionTimedOut")}, false, ""},
		{"so is that of an activity", []string{entered("Work", `{}`), activity(result), event("ExecutionFailed")}, true, result},
		{"a branch beside the work has returned", []string{entered("Work", `{}`), entered("Side", `{}`), returned(`{}`), exited("Side", `{}`), event("ExecutionAborted")}, false, ""},
		{"an input that was cut off", []string{entered("Work", `{}`), entered("Charge", `{"result":{"dura`), event("ExecutionAborted")}, true, ""},
		{"a result of null", []string{entered("Work", `{}`), exited("Work", `{"result":null}`), event("ExecutionAborted")}, true, "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const page = 3
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var in struct {
					ExecutionArn, NextToken            string
					ReverseOrder, IncludeExecutionData bool
					MaxResults                         int
				}
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil || !in.ReverseOrder || !in.IncludeExecutionData || in.MaxResults != 1000 ||
					in.ExecutionArn != strings.Replace(machine, "stateMachine", "execution", 1)+":name-1" || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetExecutionHistory") {
					t.Errorf("asked %+v, %v", in, err)
				}
				if in.NextToken != strings.Repeat("n", asked) {
					t.Errorf("page %d was asked for with the token %q", asked, in.NextToken)
				}
				var events []string
				for i := asked * page; i < min((asked+1)*page, len(c.events)); i++ {
					events = append(events, c.events[len(c.events)-1-i])
				}
				asked++
				next := ""
				if asked*page < len(c.events) {
					next = fmt.Sprintf(`,"nextToken":%q`, strings.Repeat("n", asked))
				}
				_, _ = fmt.Fprintf(w, `{"events":[%s]%s}`, strings.Join(events, ","), next)
			}))
			defer server.Close()
			x := &onaws.Executions{Client: sfn.New(sfn.Options{Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: keys, RetryMaxAttempts: 1}), StateMachine: machine}
			if result, done, err := x.Finished(t.Context(), "name-1"); err != nil || done != c.done || string(result) != c.result {
				t.Errorf("%s, %v, %v, want %s, %v", result, done, err, c.result, c.done)
			}
		})
	}
}

// TestAHistoryThatCannotBeReadIsAnError: it must not be taken for work that was not done.
func TestAHistoryThatCannotBeReadIsAnError(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   error
	}{
		{400, `{"__type":"ThrottlingException","message":"slower"}`, headroom.Throttled},
		{400, `{"__type":"AccessDeniedException","message":"no"}`, headroom.Rejected},
		{500, `{"__type":"InternalFailure"}`, headroom.Unavailable},
		{400, `{"__type":"ExecutionDoesNotExist","message":"no"}`, nil},
	} {
		x, _ := stepFunctions(t, c.status, c.body)
		if _, done, err := x.Finished(t.Context(), "name-1"); done || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.body, done, err, c.want)
		}
	}
	// The states of a machine of one's own.
	x, _ := stepFunctions(t, 200, `{"events":[`+entered("Bill", `{"result":{"durationSeconds":7}}`)+`]}`)
	x.ChargeState = "Bill"
	if result, done, err := x.Finished(t.Context(), "name-1"); err != nil || !done || string(result) != `{"durationSeconds":7}` {
		t.Error(string(result), done, err)
	}
	x, _ = stepFunctions(t, 200, `{"events":[`+exited("Synthesis", `{"result":{}}`)+`]}`)
	x.WorkState = "Synthesis"
	if _, done, err := x.Finished(t.Context(), "name-1"); err != nil || !done {
		t.Error(done, err)
	}
}

// TestAMessageThatWaitsIsSentAgain as it came, to the queue that it came from.
func TestAMessageThatWaitsIsSentAgain(t *testing.T) {
	var asked []string
	status, answer := 200, `{"MessageId":"m2","MD5OfMessageBody":""}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		target := r.Header.Get("X-Amz-Target")
		asked = append(asked, target[strings.LastIndexByte(target, '.')+1:]+" "+string(body))
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if strings.HasSuffix(target, "GetQueueUrl") {
			_, _ = io.WriteString(w, `{"QueueUrl":"https://sqs.eu-central-1.amazonaws.com/123456789012/jobs"}`)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	q := &onaws.Queue{Client: sqs.New(sqs.Options{Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: keys, RetryMaxAttempts: 1, DisableMessageChecksumValidation: true})}
	var d pipeline.Delivery
	if err := json.Unmarshal([]byte(`{"messageId":"m","body":"{\"jobId\":\"a\"}","eventSourceARN":"arn:aws:sqs:eu-central-1:123456789012:jobs","attributes":{"MessageGroupId":"alice","ApproximateReceiveCount":"4"},
		"messageAttributes":{"tenant":{"stringValue":"acme","dataType":"String"},"key":{"binaryValue":"AQI=","dataType":"Binary"}}}`), &d); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := q.Later(t.Context(), d, 90*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if len(asked) != 3 || asked[0] != `GetQueueUrl {"QueueName":"jobs","QueueOwnerAWSAccountId":"123456789012"}` || !strings.HasPrefix(asked[2], "SendMessage ") {
		t.Fatalf("%q", asked)
	}
	var sent struct {
		QueueUrl, MessageBody, MessageGroupId string
		DelaySeconds                          int
		MessageAttributes                     map[string]struct {
			DataType, StringValue string
			BinaryValue           []byte
		}
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(asked[1], "SendMessage ")), &sent); err != nil {
		t.Fatal(err, asked[1])
	}
	if sent.QueueUrl != "https://sqs.eu-central-1.amazonaws.com/123456789012/jobs" || sent.MessageBody != `{"jobId":"a"}` || sent.MessageGroupId != "alice" || sent.DelaySeconds != 90 ||
		sent.MessageAttributes["tenant"].StringValue != "acme" || sent.MessageAttributes["tenant"].DataType != "String" || string(sent.MessageAttributes["key"].BinaryValue) != "\x01\x02" {
		t.Errorf("%+v", sent)
	}
	// What was not sent is an error, so that the message comes back.
	status, answer = 400, `{"__type":"com.amazonaws.sqs#RequestThrottled","message":"slower"}`
	if err := q.Later(t.Context(), d, time.Minute); err == nil {
		t.Error("a message that was refused was taken for sent")
	}
	for _, arn := range []string{"arn:aws:sqs:eu-central-1:123456789012:jobs.fifo", "", "jobs", "arn:aws:sns:eu-central-1:123456789012:jobs"} {
		d.Queue = arn
		if err := q.Later(t.Context(), d, time.Minute); !errors.Is(err, headroom.Invalid) {
			t.Errorf("%q: %v", arn, err)
		}
	}
}
