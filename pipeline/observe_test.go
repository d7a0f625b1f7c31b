package pipeline

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/lumcast/headroom"
)

// TestWorkThatIsNotChargedIsTold counts what is owed, for an alarm, until it is charged; and names
// job, message and execution in each line.
func TestWorkThatIsNotChargedIsTold(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, Options{Namespace: "Headroom", Logger: slog.New(slog.NewJSONHandler(&out, nil))})
	last := func() (line struct {
		Owed, Errors                     int
		Message, Execution, Job, Handler string
	}) {
		t.Helper()
		lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
		if err := json.Unmarshal(lines[len(lines)-1], &line); err != nil {
			t.Fatal(err)
		}
		return line
	}
	name := ExecutionName("a", 1)
	w.send(body("a", "alice", "neural", 60))
	if l := last(); l.Message != "0" || l.Execution != name || l.Job != "a" || l.Owed != 0 {
		t.Errorf("%+v", l)
	}
	w.wire.fail = headroom.Errorf(headroom.CodeThrottled, nil, "throttled")
	if _, err := w.done(name, `{}`); err == nil {
		t.Fatal("no error")
	}
	if l := last(); l.Owed != 1 || l.Errors != 1 || l.Handler != "callback" || l.Execution != name {
		t.Errorf("%+v", l)
	}
	w.wire.fail = nil
	if _, err := w.done(name, `{}`); err != nil {
		t.Fatal(err)
	}
	if l := last(); l.Owed != 0 || l.Errors != 0 {
		t.Errorf("%+v", l)
	}
}
