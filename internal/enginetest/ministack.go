package enginetest

import (
	"errors"
	"testing"
)

// lastWords is how many bytes of MiniStack's output a failed test shows. There is much of it.
const lastWords = 8000

// MiniStack starts an emulator of AWS on a loopback port, and returns its URL. It runs Lambda
// functions as processes on this machine, without containers, and ends with the test binary.
//
// A function may do what its role allows, and the keys "test" may do everything. The functions find
// the emulator by AWS_ENDPOINT_URL. Without it they would call AWS itself. scale shortens the waits
// of state machines; "1" leaves them as they are.
func MiniStack(tb testing.TB, region, scale string) string {
	tb.Helper()
	notInShort(tb)
	python, err := tool("aws/bin/python")
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir() // for the code of functions, and a file with its process id
	for range tries {
		var port string
		if port, err = freePort(); err != nil {
			tb.Fatal(err)
		}
		var p *process
		p, err = run([]string{
			"env", "GATEWAY_PORT=" + port, "AWS_ENDPOINT_URL=http://127.0.0.1:" + port, "BIND_HOST=127.0.0.1",
			"MINISTACK_REGION=" + region, "SFN_WAIT_SCALE=" + scale, "TMPDIR=" + dir, "PYTHONUNBUFFERED=1",
			"IOT_MTLS_ENABLED=0", "AUTH=true", python, "-m", "ministack",
		}, port)
		if err == nil {
			tb.Cleanup(func() {
				if tb.Failed() {
					said := p.output.String()
					tb.Logf("MiniStack said at last:\n%s", said[max(0, len(said)-lastWords):])
				}
				p.stdin.Close()
				<-p.ended
			})
			return p.url
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	tb.Fatalf("MiniStack does not start: %v", err)
	return ""
}
