package onaws_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// network stands between a client and AWS: it keeps what is asked, and may answer in AWS's place.
type network struct {
	// answer gives the answer to a request. Nil: the engine does.
	answer func(r *request) (*http.Response, error)
	page   int // is how many items a page of a query or a scan has. Zero: what the request asks for

	mu    sync.Mutex
	asked []*request
}

// request is one that a client has sent.
type request struct {
	op  string         // GetItem
	in  map[string]any // its parameters
	ctx context.Context
	// send asks on. engine asks the engine.
	send, engine func() (*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	target := r.Header.Get("X-Amz-Target")
	q := &request{op: target[strings.LastIndexByte(target, '.')+1:], ctx: r.Context()}
	if err := json.Unmarshal(body, &q.in); err != nil {
		return nil, err
	}
	if n.page > 0 && (q.op == "Query" || q.op == "Scan") {
		of := maps.Clone(q.in)
		of["Limit"] = n.page
		if body, err = json.Marshal(of); err != nil {
			return nil, err
		}
	}
	q.send = func() (*http.Response, error) {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return http.DefaultTransport.RoundTrip(r)
	}
	n.mu.Lock()
	n.asked = append(n.asked, q)
	answer := n.answer
	n.mu.Unlock()
	if answer == nil {
		return q.send()
	}
	return answer(q)
}

// of returns what was asked by one operation.
func (n *network) of(op string) (all []*request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range n.asked {
		if q.op == op {
			all = append(all, q)
		}
	}
	return all
}

// says is an answer of AWS.
func says(status int, body string) (*http.Response, error) {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// refuses is AWS's answer that has an error.
func refuses(code string) (*http.Response, error) {
	return says(400, `{"__type":"com.amazonaws.any#`+code+`","message":"no"}`)
}

// sdk is a configuration of the SDK whose requests go once, by this network.
func (n *network) sdk() aws.Config {
	return aws.Config{
		Region: "eu-central-1", Credentials: keys, HTTPClient: &http.Client{Transport: n},
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.RateLimiter = 1, ratelimit.None })
		},
	}
}

// through is a new table of jobs on an engine, with a network between.
func through(t *testing.T) (*onaws.Jobs, *network) {
	t.Helper()
	n := &network{}
	return &onaws.Jobs{Client: enginetest.Client(t, "dynoxide", n, 1), Table: open(t, "dynoxide").Table}, n
}

// fault is a way in which a request fails.
type fault struct {
	name    string
	effect  bool // it took effect nevertheless
	answer  func(q *request) (*http.Response, error)
	failure error // what the caller is told
}

var errCut = errors.New("the connection is cut")

var faults = []fault{
	{"cut before its effect", false, func(*request) (*http.Response, error) { return nil, errCut }, headroom.Unavailable},
	{"cut after its effect", true, func(q *request) (*http.Response, error) {
		if answer, err := q.send(); err != nil || answer.StatusCode != 200 {
			return answer, err
		}
		return nil, errCut
	}, headroom.Unavailable},
	{"an answer that is cut off", true, func(q *request) (*http.Response, error) {
		if answer, err := q.send(); err != nil || answer.StatusCode != 200 {
			return answer, err
		}
		return says(200, `{"Item":{"jobId`)
	}, headroom.Unavailable},
	{"throttled", false, func(*request) (*http.Response, error) { return refuses("ThrottlingException") }, headroom.Throttled},
	{"500", false, func(*request) (*http.Response, error) { return says(500, `{"__type":"InternalServerError"}`) }, headroom.Unavailable},
	{"503 of a proxy", false, func(*request) (*http.Response, error) { return says(503, "busy") }, headroom.Unavailable},
	{"refused", false, func(*request) (*http.Response, error) { return refuses("AccessDeniedException") }, headroom.Rejected},
}

// noon is when the tests' jobs were requested.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
