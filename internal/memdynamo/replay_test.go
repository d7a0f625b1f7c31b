package memdynamo_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/internal/memdynamo"
	"github.com/lumcast/headroom/proof/report"
	"github.com/lumcast/headroom/storetest"
)

// result is an answer as far as engines must agree.
type result struct {
	Status int
	Error  string         // its type without the namespace
	Body   map[string]any // without type and message
}

func resultOf(status int, answer []byte) result {
	r := result{Status: status, Body: map[string]any{}}
	if err := json.Unmarshal(answer, &r.Body); err != nil {
		r.Error = fmt.Sprintf("no JSON: %q", answer)
	} else if kind, ok := r.Body["__type"].(string); ok {
		r.Error = kind[strings.LastIndex(kind, "#")+1:]
	}
	for _, name := range []string{"__type", "message", "Message"} {
		delete(r.Body, name)
	}
	return r
}

// tee sends each request to an engine and to memdynamo, compares the answers, and passes the
// engine's on.
type tee struct {
	testing.TB
	engine string
	mem    memdynamo.Server

	mu   sync.Mutex
	sent map[string]int // requests that were compared, by operation and status
}

func (t *tee) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock() // both see the requests in one order
	defer t.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	to := func() *http.Request {
		x := r.Clone(r.Context())
		x.Body, x.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return x
	}
	answer, err := http.DefaultTransport.RoundTrip(to())
	if err != nil {
		return nil, err
	}
	read := func(answer *http.Response) []byte {
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		answer.Body.Close()
		answer.Body = io.NopCloser(bytes.NewReader(b))
		return b
	}
	theirs := read(answer)
	own, err := t.mem.RoundTrip(to())
	if err != nil {
		return nil, err
	}
	ours := read(own)
	if _, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); !strings.Contains(op, "Table") && !strings.Contains(op, "TimeToLive") {
		a, b := resultOf(own.StatusCode, ours), resultOf(answer.StatusCode, theirs)
		if t.sent[fmt.Sprint(op, " ", b.Status)]++; !reflect.DeepEqual(a, b) {
			t.Errorf("%s %s\nmemdynamo: %d %s\n%s: %d %s", op, body, own.StatusCode, ours, t.engine, answer.StatusCode, theirs)
		}
	}
	answer.Header.Set("Date", own.Header.Get("Date"))
	return answer, nil
}

// names of tables that no other test has.
var tables atomic.Int64

// TestReplay holds that memdynamo answers as Dynoxide does to what dynamostore really sends: for
// the contract and the random sequences of the model, and in the long version for all rules.
func TestReplay(t *testing.T) {
	url := enginetest.Start(t, "dynoxide") // or the whole test is skipped
	began, sent := time.Now(), map[string]int{}
	h := storetest.Harness{Checks: report.Of(12, 100), Open: func(tb testing.TB, clock func() time.Time) headroom.Store {
		wire := &tee{TB: tb, engine: "dynoxide", mem: memdynamo.Server{Clock: clock}, sent: sent}
		return openAt(tb, wire, url, dynamostore.Options{Table: fmt.Sprintf("replay-%d", tables.Add(1))})
	}}
	t.Run("Contract", func(t *testing.T) { storetest.Contract(t, h) })
	if report.Long() {
		t.Run("Rules", func(t *testing.T) { storetest.Run(t, h) })
	}
	t.Run("Model", func(t *testing.T) { storetest.Model(t, h) })
	for _, kind := range []string{"UpdateItem 200", "UpdateItem 400", "GetItem 200", "Query 200", "BatchWriteItem 200"} {
		if sent[kind] == 0 {
			t.Errorf("nothing was compared of %s", kind)
		}
	}
	t.Log("compared:", sent)
	row(t, "what the store sends, on Dynoxide", sent, began)
}

// row reports how many answers were compared.
func row(t *testing.T, what string, compared map[string]int, began time.Time) {
	sum := 0
	for what, n := range compared {
		if !strings.Contains(what, "not ") { // modelled, or asked
			sum += n
		}
	}
	report.Add(t, report.Row{Part: "the checker's engine", Name: what, Count: int64(sum), Unit: "answers", Took: time.Since(began)})
}
