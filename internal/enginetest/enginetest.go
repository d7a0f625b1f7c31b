// Package enginetest gives tests a real engine that speaks the DynamoDB protocol. It is a process
// of its own, on a loopback port, and keeps its data in memory.
//
// An engine starts when a test first uses it, serves all tests of the test binary, and ends with
// it. Each test uses tables with names of its own.
package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// startTimeout is long enough for a busy machine. An engine that is up says so at once, so nobody
// waits that long in vain.
const startTimeout = time.Minute

// tries is how many ports an engine is offered. Another process may take a free port before the
// engine does.
const tries = 5

// leash is a script for sh. It starts a child that reads from a pipe of the test binary, and then
// becomes the engine. When the test binary ends, even if it is killed, the pipe closes, and the
// child kills the engine. The testing package offers no other way: it has no hook for the end of
// all tests, and only Linux has a signal for the death of a parent.
const leash = `exec 3<&0 </dev/null; { cat <&3; kill -9 $$; } >/dev/null 2>&1 & exec 3<&-; exec "$@"`

type engine struct {
	name    string
	runtime string // the program that runs file; "" if file is a program itself
	file    string // below .tools
	args    []string

	once sync.Once
	up   *process
	err  error
}

// engines holds one process of each for the whole test binary.
var engines = []*engine{
	{name: "dynoxide", file: "dynoxide/bin/dynoxide"},
	{
		name:    "dynalite",
		runtime: "node",
		file:    "dynalite/node_modules/dynalite/cli.js",
		args:    []string{"--createTableMs", "0", "--deleteTableMs", "0", "--updateTableMs", "0"},
	},
}

// Names lists the engines that Start knows.
func Names() []string {
	var names []string
	for _, e := range engines {
		names = append(names, e.name)
	}
	return names
}

// Start returns the URL of the named engine, which it starts unless a test has done so before. If
// the engine does not start, the test fails with what the engine said. Requests need the shape of
// an AWS signature, but any keys and any region will do.
func Start(tb testing.TB, name string) string {
	tb.Helper()
	notInShort(tb)
	for _, e := range engines {
		if e.name != name {
			continue
		}
		e.once.Do(func() { e.up, e.err = e.launch(freePort) })
		if e.err != nil {
			tb.Fatal(e.err)
		}
		p := e.up
		tb.Cleanup(func() {
			select {
			case <-p.ended:
				tb.Errorf("%s has ended while the tests ran; it said:\n%s", name, p.output)
			default:
			}
		})
		return p.url
	}
	tb.Fatalf("no engine is named %q, only %q", name, Names())
	return ""
}

// Python returns the path of a Python interpreter that can import boto3.
func Python(tb testing.TB) string {
	tb.Helper()
	notInShort(tb)
	path, err := tool("venv/bin/python")
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// notInShort skips a test that needs more than Go when go test runs with -short.
func notInShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short runs only what needs nothing but Go; this test needs an engine")
	}
}

// tool returns the path of a file below the module's folder .tools.
func tool(file string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New(
				"the test does not run inside of the module: no go.mod above the working directory")
		}
		dir = parent
	}
	path := filepath.Join(dir, ".tools", filepath.FromSlash(file))
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w; run make tools", err)
	}
	return path, nil
}

// process is an engine that is up.
type process struct {
	url    string
	stdin  io.WriteCloser // the leash; kept here, because a file that is garbage-collected closes
	output *output
	ended  chan struct{}
}

// launch starts the engine on a port that the function port proposes.
func (e *engine) launch(port func() (string, error)) (*process, error) {
	file, err := tool(e.file)
	if err != nil {
		return nil, err
	}
	command := []string{file}
	if e.runtime != "" {
		command = []string{e.runtime, file}
	}
	command = append(command, e.args...)

	for range tries {
		var number string
		if number, err = port(); err != nil {
			return nil, err
		}
		var p *process
		if p, err = run(append(command[:len(command):len(command)], "--host", "127.0.0.1", "--port", number), number); err == nil {
			return p, nil
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, fmt.Errorf("%s does not start: %w", e.name, err)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

var errEnded = errors.New("it ended at once")

// run starts a process, and waits until it says that it listens. An answer on the port would not
// do. It might come from another process, which took the port first.
func run(command []string, port string) (*process, error) {
	url := "http://127.0.0.1:" + port
	out := &output{awaited: []byte(url), seen: make(chan struct{})}
	cmd := exec.Command("sh", append([]string{"-c", leash, "sh"}, command...)...)
	cmd.Stdout, cmd.Stderr = out, out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{url: url, stdin: stdin, output: out, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // closes stdin too, which ends the leash
		close(p.ended)
	}()
	select {
	case <-out.seen:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%w; it said:\n%s", errEnded, out)
	case <-time.After(startTimeout):
		stdin.Close()
		<-p.ended
		return nil, fmt.Errorf("it does not listen after %v; it said:\n%s", startTimeout, out)
	}
}

// output keeps what a process prints. It closes seen once that contains the awaited text.
type output struct {
	awaited []byte
	seen    chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	done bool
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	if !o.done && bytes.Contains(o.text.Bytes(), o.awaited) {
		o.done = true
		close(o.seen)
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
