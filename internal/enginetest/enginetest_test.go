package enginetest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestEnginesAnswer(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			url := Start(t, name)
			if again := Start(t, name); again != url {
				t.Errorf("second start gave %s, want the same process at %s", again, url)
			}
			req, err := http.NewRequest(http.MethodPost, url, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/x-amz-json-1.0")
			req.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
			req.Header.Set("X-Amz-Date", "20260601T000000Z")
			req.Header.Set("Authorization",
				"AWS4-HMAC-SHA256 Credential=id/20260601/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusOK || string(body) != `{"TableNames":[]}` {
				t.Errorf("ListTables answered %s: %s", resp.Status, body)
			}
		})
	}
}

func TestTakenPortIsTriedAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, taken, _ := net.SplitHostPort(l.Addr().String())

	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			offered := 0
			p, err := e.launch(func() (string, error) {
				if offered++; offered == 1 {
					return taken, nil
				}
				return freePort()
			})
			if err != nil {
				t.Fatal(err)
			}
			p.stdin.Close()
			<-p.ended
			if offered < 2 {
				t.Errorf("started on port %s, which was taken", taken)
			}
		})
	}
}

func TestEngineThatFailsSaysWhy(t *testing.T) {
	_, err := run([]string{"sh", "-c", "echo no such option >&2; exit 2"}, "1")
	if err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got %v, want what the engine said", err)
	}
}

func TestMissingToolNamesTheRemedy(t *testing.T) {
	e := &engine{name: "absent", file: "absent/bin/absent"}
	_, err := e.launch(freePort)
	if err == nil || !strings.Contains(err.Error(), "run make tools") {
		t.Errorf("got %v, want the advice to run make tools", err)
	}
}

func TestPythonHasTheSDK(t *testing.T) {
	if out, err := exec.Command(Python(t), "-c", "import boto3").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The test binary starts itself as another test binary, which starts an engine and is then killed
// without a chance to clean up.
func TestEngineEndsWithTheTestBinary(t *testing.T) {
	const key = "ENGINETEST_TO_BE_KILLED"
	if name := os.Getenv(key); name != "" {
		os.Stdout.WriteString(strings.TrimPrefix(Start(t, name), "http://") + "\n")
		select {}
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestEngineEndsWithTheTestBinary$")
			cmd.Env = append(os.Environ(), key+"="+name)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			addr, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			conn, err := net.Dial("tcp", strings.TrimSpace(addr))
			if err != nil {
				t.Fatalf("%v in %q", err, addr)
			}
			defer conn.Close()
			cmd.Process.Kill()
			cmd.Wait()

			// The engine waits for a request on this connection, so only its end ends the read.
			conn.SetReadDeadline(time.Now().Add(startTimeout))
			if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
				t.Errorf("the engine outlives the test binary: %v", err)
			}
		})
	}
}
