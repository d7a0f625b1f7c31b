package dynamostore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/enginetest"
)

// each runs a test on every engine.
func each(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range enginetest.Names() {
		t.Run(engine, func(t *testing.T) { test(t, engine) })
	}
}

// dynoxide is the engine that sends the item along when a condition fails, as DynamoDB does.
const dynoxide = "dynoxide"

// Times of tests: a Tuesday, far enough from now that no row's time to live is over, and the turns
// of the weeks after it.
var (
	tuesday = time.Date(2031, time.May, 27, 10, 0, 0, 0, time.UTC)
	monday  = time.Date(2031, time.June, 2, 0, 0, 0, 0, time.UTC)
)

const week = 7 * 24 * time.Hour

// wire carries requests to an engine and its answers back.
type wire struct {
	clock  func() time.Time                          // of the Date of answers. Nil: the engine's own
	meddle func(x *exchange) (*http.Response, error) // what is done to a request. Nil: it is passed on

	mu   sync.Mutex
	sent []string // operations, in their order
}

// exchange is one request, and what can be done to it.
type exchange struct {
	*http.Request
	op   string // "UpdateItem"
	n    int    // the how-manieth request it is, from 1
	body []byte
	wire *wire
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	x := &exchange{Request: r, body: body, wire: w}
	_, x.op, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	w.mu.Lock()
	w.sent = append(w.sent, x.op)
	x.n = len(w.sent)
	w.mu.Unlock()
	if w.meddle != nil {
		return w.meddle(x)
	}
	return x.pass()
}

// reset forgets what was sent and sets what is done from now on.
func (w *wire) reset(meddle func(x *exchange) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent, w.meddle = nil, meddle
}

// requests returns what was sent since the last reset.
func (w *wire) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

// pass hands the request on.
func (x *exchange) pass() (*http.Response, error) { return x.passing(x.body) }

// passing hands the request on with another body.
func (x *exchange) passing(body []byte) (*http.Response, error) {
	r := x.Clone(x.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && x.wire.clock != nil {
		answer.Header.Set("Date", x.wire.clock().UTC().Format(http.TimeFormat))
	}
	return answer, err
}

// lose hands the request on and loses the answer.
func (x *exchange) lose() (*http.Response, error) {
	answer, err := x.pass()
	if err != nil {
		return nil, err
	}
	answer.Body.Close()
	return x.drop()
}

// drop loses the request on its way.
func (x *exchange) drop() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// refuse is what a request meets where nobody listens.
func (x *exchange) refuse() (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

// say answers in the engine's place.
func (x *exchange) say(status int, code string) (*http.Response, error) {
	return x.answer(status, fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"injected"}`, code)), nil
}

func (x *exchange) answer(status int, body string) *http.Response {
	now := time.Now
	if x.wire.clock != nil {
		now = x.wire.clock
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: x.Request,
		Header:        http.Header{"Date": {now().UTC().Format(http.TimeFormat)}, "Content-Type": {"application/x-amz-json-1.0"}},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}

// edited hands the request on and changes the answer's body.
func (x *exchange) edited(edit func(status int, body []byte) []byte) (*http.Response, error) {
	answer, err := x.pass()
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	body = edit(answer.StatusCode, body)
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Del("X-Amz-Crc32")
	answer.Header.Del("Content-Length")
	return answer, nil
}

// tables counts the tables that tests have made.
var tables atomic.Int64

// rig is a store on tables of its own, with a wire between it and the engine, and an engine on it.
type rig struct {
	*testing.T
	name   string // of the engine
	wire   *wire
	opts   dynamostore.Options
	raw    *dynamodb.Client // past the wire
	store  *dynamostore.Store
	engine *headroom.Engine
	clock  *time.Time // what all clocks show
	log    *logbook
}

// logbook is where a store's warnings go.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// setting changes how a rig is made.
type setting func(*rigging)

type rigging struct {
	store    dynamostore.Options
	engine   headroom.Options
	catalog  *headroom.Catalog
	attempts int
	clock    *time.Time
}

func named(n dynamostore.Names) setting { return func(r *rigging) { r.store.Names = n } }
func inFormat(f int) setting            { return func(r *rigging) { r.store.Format = f } }
func horizon(h time.Duration) setting   { return func(r *rigging) { r.engine.Horizon = h } }
func under(c *headroom.Catalog) setting { return func(r *rigging) { r.catalog = c } }
func sending(attempts int) setting      { return func(r *rigging) { r.attempts = attempts } }

func newRig(t *testing.T, name string, settings ...setting) *rig {
	t.Helper()
	start := tuesday
	with := rigging{catalog: headroom.DefaultCatalog(), attempts: 3, clock: &start}
	for _, s := range settings {
		s(&with)
	}
	r := &rig{T: t, name: name, clock: with.clock, opts: with.store, log: &logbook{}}
	if r.opts.Table == "" {
		r.opts.Table = fmt.Sprintf("users-%d", tables.Add(1))
	}
	r.opts.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	clock := func() time.Time { return *r.clock }
	r.wire = &wire{clock: clock}
	r.raw = enginetest.Client(t, name, &wire{}, 1)
	var err error
	if r.store, err = dynamostore.New(enginetest.Client(t, name, r.wire, with.attempts), r.opts); err != nil {
		t.Fatal(err)
	}
	if err := r.store.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	with.engine.Clock = clock
	if r.engine, err = headroom.New(r.store, with.catalog, with.engine); err != nil {
		t.Fatal(err)
	}
	r.wire.reset(nil)
	return r
}

// another is a rig on the same tables with a store, an engine and a healthy wire of its own, which
// shares the clock.
func (r *rig) another(settings ...setting) *rig {
	r.Helper()
	shared := func(o *rigging) { o.store, o.clock = r.opts, r.clock }
	return newRig(r.T, r.name, append([]setting{shared}, settings...)...)
}

// at moves all clocks.
func (r *rig) at(t time.Time) { *r.clock = t }

// deduct asks for units of the main meter.
func (r *rig) deduct(subject, id string, cost int64) (headroom.Decision, error) {
	return r.engine.Deduct(r.Context(), headroom.Request{Subject: subject, Meter: "slots", Operation: id, Cost: cost})
}

// expect fails the test unless a deduction is decided so, after which so much is used.
func (r *rig) expect(subject, id string, cost int64, reason headroom.Reason, replay bool, used int64) headroom.Decision {
	r.Helper()
	d, err := r.deduct(subject, id, cost)
	if err != nil {
		r.Fatalf("deduct %q: %v", id, err)
	}
	if d.Reason != reason || d.Replay != replay || d.Used != used || d.Cost != cost {
		r.Fatalf("deduct %q: %s, replay %t, cost %d, used %d; want %s, %t, %d, %d", id, d.Reason, d.Replay, d.Cost, d.Used, reason, replay, cost, used)
	}
	return d
}

func (r *rig) admit(subject, id string, cost, used int64) headroom.Decision {
	r.Helper()
	return r.expect(subject, id, cost, headroom.ReasonAdmitted, false, used)
}

func (r *rig) replay(subject, id string, cost, used int64) headroom.Decision {
	r.Helper()
	return r.expect(subject, id, cost, headroom.ReasonAdmitted, true, used)
}

func (r *rig) refuse(subject, id string, cost, used int64) {
	r.Helper()
	r.expect(subject, id, cost, headroom.ReasonOverLimit, false, used)
}

// used is what the store says is used now.
func (r *rig) used(subject string) int64 {
	r.Helper()
	return r.limits(subject)[0].Used
}

func (r *rig) limits(subject string) []headroom.LimitUsage {
	r.Helper()
	u, err := r.engine.Usage(r.Context(), headroom.UsageRequest{Subject: subject, Meter: "slots"})
	if err != nil {
		r.Fatalf("usage: %v", err)
	}
	return u.Limits
}

// history is a subject's closed windows as text, the latest first.
func (r *rig) history(subject string) string {
	r.Helper()
	var s []string
	for _, h := range r.limits(subject)[0].History {
		if h.Unknown {
			s = append(s, h.Window.Key+" ?")
		} else {
			s = append(s, fmt.Sprint(h.Window.Key, " ", h.Units))
		}
	}
	return strings.Join(s, ", ")
}

// sends fails the test unless exactly these requests were sent since the last reset, and resets.
func (r *rig) sends(want ...string) {
	r.Helper()
	if got := r.wire.requests(); !slices.Equal(got, want) {
		r.Fatalf("sent %q, want %q", got, want)
	}
	r.wire.reset(r.wire.meddle)
}

// fails fails the test unless err is a failure of the target's code that says text, and no decision
// came with it.
func (r *rig) fails(d headroom.Decision, err error, target headroom.Code, text string) {
	r.Helper()
	var failure *headroom.Error
	if !errors.As(err, &failure) || failure.Code != target || !strings.Contains(failure.Message, text) {
		r.Fatalf("error %v, want one with code %q that says %q", err, string(target), text)
	}
	if !reflect.DeepEqual(d, headroom.Decision{}) {
		r.Fatalf("decided %+v beside the error %v", d, err)
	}
}

type attributes = map[string]types.AttributeValue

func s(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func n(v int64) types.AttributeValue  { return &types.AttributeValueMemberN{Value: fmt.Sprint(v)} }

// put stores an item as it is given.
func (r *rig) put(item attributes) {
	r.Helper()
	if _, err := r.raw.PutItem(r.Context(), &dynamodb.PutItemInput{TableName: &r.opts.Table, Item: item}); err != nil {
		r.Fatal(err)
	}
}

// item returns what is stored of a subject, nil if nothing is.
func (r *rig) item(subject string) attributes {
	r.Helper()
	key := "userId"
	if r.opts.Names.Subject != "" {
		key = r.opts.Names.Subject
	}
	out, err := r.raw.GetItem(r.Context(), &dynamodb.GetItemInput{TableName: &r.opts.Table, Key: attributes{key: s(subject)}, ConsistentRead: aws.Bool(true)})
	if err != nil {
		r.Fatal(err)
	}
	return out.Item
}

// ledger returns all rows of the ledger.
func (r *rig) ledger() []attributes {
	r.Helper()
	var rows []attributes
	pages := dynamodb.NewScanPaginator(r.raw, &dynamodb.ScanInput{TableName: aws.String(r.opts.Table + "-ledger"), ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.Background())
		if err != nil {
			r.Fatal(err)
		}
		rows = append(rows, page.Items...)
	}
	return rows
}

// has fails the test unless an attribute of a subject's item is stored so; nil is for none.
func (r *rig) has(subject, name string, want types.AttributeValue) {
	r.Helper()
	if got := r.item(subject)[name]; !reflect.DeepEqual(got, want) {
		r.Fatalf("attribute %s is %#v, want %#v", name, got, want)
	}
}

type numberAttribute = types.AttributeValueMemberN

// seedDeducts is the seed's deduction, the two steps as they are written there.
func (r *rig) seedDeducts(subject, week string, cost, limit int64) bool {
	r.Helper()
	step := func(update, condition string, values attributes) bool {
		_, err := r.raw.UpdateItem(r.Context(), &dynamodb.UpdateItemInput{
			TableName: &r.opts.Table, Key: attributes{"userId": s(subject)},
			UpdateExpression: &update, ConditionExpression: &condition, ExpressionAttributeValues: values,
		})
		var failed *types.ConditionalCheckFailedException
		if err != nil && !errors.As(err, &failed) {
			r.Fatal(err)
		}
		return err == nil
	}
	return step("ADD quotaCount :cost", "quotaWeek = :week AND quotaCount <= :headroom", attributes{":cost": n(cost), ":week": s(week), ":headroom": n(limit - cost)}) ||
		step("SET quotaWeek = :week, quotaCount = :cost", "attribute_not_exists(quotaWeek) OR quotaWeek <> :week", attributes{":cost": n(cost), ":week": s(week)})
}
