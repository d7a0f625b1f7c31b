package pipeline

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
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
	w.wire.fail = headroom.Errorf(headroom.Throttled, nil, "throttled")
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

// TestAFailureIsToldWithItsJob: whoever reads the log finds the message and the job, also where not
// even the job's record could be read.
func TestAFailureIsToldWithItsJob(t *testing.T) {
	for name, do := range map[string]func(w *world) error{
		"consumer": func(w *world) error { return w.deliver(1) },
		"callback": func(w *world) error { return w.tellEnd("SUCCEEDED", 1) },
	} {
		var log bytes.Buffer
		w := newWorld(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		w.failNth("Get", 1, fault{before: throttled})
		err := do(w)
		for _, part := range []string{"handler=" + name, "job=a ", "user=alice", "attempt=1", "execution=" + ExecutionName(jobA, 1), "code=throttled"} {
			if err == nil || !strings.Contains(log.String(), part) {
				t.Errorf("%s: %v, want %s in %s", name, err, part, &log)
			}
		}
		if name == "consumer" && !strings.Contains(log.String(), "message=0 ") {
			t.Errorf("%s", &log)
		}
	}
}
