package network_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fault is what a request can meet.
type fault string

const (
	drop      fault = "requests lost"
	lose      fault = "answers lost"
	delay     fault = "requests held back"
	duplicate fault = "requests sent twice"
	cut       fault = "answers cut off"
	fail      fault = "internal errors"
	throttle  fault = "throttled"
	exceed    fault = "throughput exceeded"
	conflict  fault = "transaction conflicts"
)

var faults = []fault{drop, lose, delay, duplicate, cut, fail, throttle, exceed, conflict}

// late reports whether a request can take effect after its caller had an answer.
func (f fault) late() bool { return f == delay || f == duplicate }

const (
	oneIn   = 7  // requests meets a fault
	latest  = 60 // so many requests may overtake one that is held back
	longest = 3 * time.Millisecond
)

// proxy passes requests on to an engine, and lets them meet faults.
type proxy struct {
	engine string // URL
	faults []fault
	seed   uint64
	clock  func() time.Time // of the Date of answers
	to     *http.Transport
	url    string

	healthy atomic.Bool
	count   atomic.Uint64 // requests
	met     atomic.Int64  // faults

	mu   sync.Mutex
	held []held
	sent sync.WaitGroup // requests whose caller has gone
}

// held is a request that is held back until so many others have passed.
type held struct {
	until uint64
	send  func()
}

// start starts the proxy.
func (p *proxy) start(t *testing.T) {
	t.Helper()
	p.to = &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + listener.Addr().String()
	server := &http.Server{Handler: p}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		_ = server.Close()
		p.to.CloseIdleConnections()
	})
}

// request is a request on its way, with its number.
type request struct {
	*http.Request
	n      uint64
	body   []byte
	writes bool
}

// response is an answer of the engine, read to its end.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has gone before it had sent all
	}
	x := request{
		Request: r,
		n:       p.count.Add(1),
		body:    body,
		writes: strings.HasSuffix(r.Header.Get("X-Amz-Target"), "WriteItem") ||
			strings.HasSuffix(r.Header.Get("X-Amz-Target"), "UpdateItem"),
	}
	p.release(x.n)
	dice := rand.New(rand.NewPCG(p.seed, x.n))
	meets := fault("")
	if !p.healthy.Load() && len(p.faults) > 0 && dice.IntN(oneIn) == 0 {
		meets = p.faults[dice.IntN(len(p.faults))]
		if meets == conflict && !x.writes {
			meets = "" // no read has that answer
		} else {
			p.met.Add(1)
		}
	}
	half := dice.IntN(2) == 0
	switch meets {
	case drop:
		hangUp(w, half)
		return
	case throttle:
		p.say(w, http.StatusBadRequest, "ThrottlingException")
		return
	case exceed:
		p.say(w, http.StatusBadRequest, "ProvisionedThroughputExceededException")
		return
	case conflict:
		p.say(w, http.StatusBadRequest, "TransactionConflictException")
		return
	case fail:
		if half {
			_, _ = p.pass(x)
		}
		p.say(w, []int{http.StatusInternalServerError, http.StatusServiceUnavailable}[dice.IntN(2)], "InternalServerError")
		return
	case delay:
		if half {
			// Its caller will have gone when it goes on.
			p.hold(x, 1+dice.Uint64N(latest))
			hangUp(w, false)
			return
		}
		time.Sleep(time.Duration(dice.Int64N(int64(longest))))
	case duplicate:
		if half {
			p.hold(x, 1+dice.Uint64N(latest))
		} else if first, err := p.pass(x); err == nil && dice.IntN(2) == 0 {
			defer func() { _, _ = p.pass(x) }()
			p.answer(w, first)
			return
		}
	}
	answer, err := p.pass(x)
	switch {
	case err != nil || meets == lose:
		hangUp(w, half)
	case meets == cut:
		p.cutOff(w, answer, dice)
	default:
		p.answer(w, answer)
	}
}

// pass sends a request to the engine, also if its caller has gone.
func (p *proxy) pass(x request) (response, error) {
	r := x.Clone(context.WithoutCancel(x.Context()))
	r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", strings.TrimPrefix(p.engine, "http://")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
	answer, err := p.to.RoundTrip(r)
	if err != nil {
		return response{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	answer.Header.Set("Date", p.date())
	return response{answer.StatusCode, answer.Header, body}, err
}

func (p *proxy) date() string { return p.clock().UTC().Format(http.TimeFormat) }

func (p *proxy) answer(w http.ResponseWriter, a response) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// say answers in the engine's place.
func (p *proxy) say(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Date", p.date())
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"injected"}`, code)
}

// hangUp ends the connection, with a reset or in the orderly way.
func hangUp(w http.ResponseWriter, reset bool) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return // it is over already
	}
	if tcp, ok := c.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// cutOff ends the connection in the middle of an answer.
func (p *proxy) cutOff(w http.ResponseWriter, a response, dice *rand.Rand) {
	c, buffer, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(buffer,
		"HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n",
		a.status, http.StatusText(a.status), p.date(), len(a.body))
	_, _ = buffer.Write(a.body[:dice.IntN(max(1, len(a.body)))])
	_ = buffer.Flush()
	_ = c.Close()
}

// hold keeps a request back until so many others have passed. Its caller no longer waits for it.
func (p *proxy) hold(x request, requests uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, held{x.n + requests, func() { _, _ = p.pass(x) }})
}

// release sends the requests that were held back long enough.
func (p *proxy) release(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.held[:0]
	for _, h := range p.held {
		if h.until > n {
			kept = append(kept, h)
			continue
		}
		p.sent.Go(h.send)
	}
	p.held = kept
}

// heal ends the faults, and sends all that was held back.
func (p *proxy) heal() {
	p.healthy.Store(true)
	p.release(p.count.Load() + latest + 1)
	p.sent.Wait()
}
