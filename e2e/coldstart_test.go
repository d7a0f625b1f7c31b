package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestColdStart measures the sizes of a function's program and zip, and the time from the start of
// its process to the answer to a first event that asks for nothing. It only requires that there is
// an answer.
func TestColdStart(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	build(t, root)
	for name, event := range map[string]string{
		"lambda-consumer": `{"Records":[]}`,
		"lambda-callback": `{"source":"aws.states","detail":{"name":"x","status":"RUNNING"}}`,
	} {
		var took []time.Duration
		for range 9 {
			took = append(took, coldStart(t, filepath.Join(root, "bin", name, "bootstrap"), event))
		}
		slices.Sort(took)
		t.Logf("%s: %.1f MB, zipped %.1f MB; first answer after %s (median of %d; fastest %s)", name,
			size(t, filepath.Join(root, "bin", name, "bootstrap")), size(t, filepath.Join(root, "bin", name+".zip")),
			took[len(took)/2].Round(time.Millisecond/10), len(took), took[0].Round(time.Millisecond/10))
	}
}

func size(t *testing.T, path string) float64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return float64(info.Size()) / 1e6
}

// coldStart runs a function under a runtime that has one event.
func coldStart(t *testing.T, program, event string) time.Duration {
	t.Helper()
	answered := make(chan string, 1)
	over := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			w.WriteHeader(http.StatusAccepted)
			select {
			case answered <- r.URL.Path + " " + string(body):
			default:
			}
			return
		}
		first := false
		once.Do(func() { first = true })
		if !first {
			<-over
			return
		}
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", "first")
		w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
		_, _ = io.WriteString(w, event) // if it does not arrive, there is no answer
	}))
	defer server.Close()
	defer close(over)
	cmd := exec.Command(program)
	cmd.Env = []string{
		"AWS_LAMBDA_RUNTIME_API=" + server.Listener.Addr().String(), "AWS_REGION=" + region,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"HEADROOM_TABLE=users", "HEADROOM_JOBS=jobs",
		"HEADROOM_STATE_MACHINE=arn:aws:states:eu-central-1:1:stateMachine:m",
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()         // it was killed
	}()
	select {
	case answer := <-answered:
		took := time.Since(began)
		if want := "/2018-06-01/runtime/invocation/first/response"; len(answer) < len(want) || answer[:len(want)] != want {
			t.Fatal(answer)
		}
		return took
	case <-time.After(time.Minute):
		t.Fatal("no answer")
	}
	return 0
}
