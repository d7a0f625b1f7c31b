package onaws_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"github.com/lumcast/headroom/pipeline/onaws"
)

// broken is where nothing can be written.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errCut }

// TestALineThatCannotBeWrittenIsTold to whoever asks the handler.
func TestALineThatCannotBeWrittenIsTold(t *testing.T) {
	if err := onaws.Logger(broken{}).Handler().Handle(t.Context(), slog.Record{Message: "job"}); !errors.Is(err, errCut) {
		t.Error(err)
	}
}

// TestTheDeadlineOfARequestEndsWithIt: a function that makes thousands of them keeps no timer of
// each.
func TestTheDeadlineOfARequestEndsWithIt(t *testing.T) {
	n := &network{}
	stack, err := onaws.New(n.sdk(), settings(func(*onaws.Settings) {}))
	if err != nil {
		t.Fatal(err)
	}
	var asked context.Context
	n.answer = func(q *request) (*http.Response, error) {
		asked = q.ctx
		if _, bounded := asked.Deadline(); !bounded || asked.Err() != nil {
			t.Errorf("a request without a deadline, or after it: %v", asked.Err())
		}
		return says(200, `{}`)
	}
	if _, _, err := stack.Jobs.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if asked.Err() == nil {
		t.Error("the deadline goes on after its request")
	}
}
