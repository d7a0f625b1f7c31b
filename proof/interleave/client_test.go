package interleave

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
)

// node is a client that has been told certain things. The checker finds it by running the client's
// own code from the start of its process.
type node struct {
	client   int
	from     uint8   // the operation with which the process began
	before   int32   // the outcomes that the client had before
	told     []event // what the process was told since
	asks     asks
	request  int32 // that it sends next
	op       uint8 // under way, or about to begin
	outcomes int32
	last     outcome // the last of them
}

// event is an answer to a request, or where that is 0 the beginning of an operation.
type event struct{ request, answer int32 }

// asks is what a client does next.
type asks uint8

const (
	nothing asks = iota // it has come to its end
	toBegin             // an operation
	toSend              // a request
)

// answer is an engine's answer. clock is one more than the index of its time, or 0 if that is not
// known yet.
type answer struct {
	clock  uint8
	status int
	body   string
}

// broken is the answer of a connection that breaks.
const broken int32 = 0

// outcome is how an operation ended.
type outcome struct {
	op              uint8
	allowed, replay bool
	reason          headroom.Reason
	cost            int64
	window          time.Time // start of the window
	code            headroom.Code
	user            headroom.Reason // of two subjects, how the second decided
	limit           string
	text            string // of an error
}

// facts are what of an outcome is compared.
func (o outcome) facts() string {
	return fmt.Sprint(o.op, o.allowed, o.replay, o.reason, o.cost, o.window.Unix(), o.limit, o.code, o.user)
}

func (o outcome) String() string {
	switch {
	case o.code != "":
		return fmt.Sprintf("error %s: %s", o.code, o.text)
	case o.replay:
		return fmt.Sprintf("%s, a replay", o.reason)
	}
	return string(o.reason)
}

// process finds the node at which a process of the client begins with an operation.
func (x *explorer) process(client int, op uint8, before int32) int32 {
	return x.settle(node{client: client, from: op, before: before})
}

// kid finds the node that a client comes to when it is told one thing more.
func (x *explorer) kid(at, request, answer int32) int32 {
	k := kid{at, request, answer}
	if to, ok := x.kids[k]; ok {
		return to
	}
	n := x.nodes[at]
	told := append(slices.Clip(n.told), event{request, answer})
	to := x.settle(node{client: n.client, from: n.from, before: n.before, told: told})
	x.kids[k] = to
	return to
}

// agrees reports whether o and p can be answers to one operation. If there are several limits, a
// decision shows the window of the limit that is the strictest at that time.
func (o outcome) agrees(p outcome) bool {
	return o.cost == p.cost && o.reason == p.reason && (o.limit != p.limit || o.window.Equal(p.window))
}

// settle runs a client and returns its node. Between two operations it does not matter what a
// client was told. It only matters what its store remembers.
func (x *explorer) settle(n node) int32 {
	cache := x.run(&n)
	if n.asks != toSend {
		key := fmt.Sprint(n.client, " ", n.op, " ", n.outcomes, " ", cache)
		if to, ok := x.begun[key]; ok {
			return to
		}
		x.begun[key] = int32(len(x.nodes))
	}
	x.nodes = append(x.nodes, n)
	return int32(len(x.nodes) - 1)
}

// halt ends a client where its recording ends.
type halt struct{}

// wire is the connection of a client: it plays what the client was told.
type wire struct {
	x    *explorer
	node *node
	at   int
	host time.Time // what the host's clock shows
}

// next is what the client is told. Where nothing is left the client halts.
func (w *wire) next(asks asks, request int32) answer {
	if w.at == len(w.node.told) {
		w.node.asks, w.node.request = asks, request
		panic(halt{})
	}
	e := w.node.told[w.at]
	w.at++
	if e.request != request {
		panic(fmt.Sprintf("the client does not do the same in the same case: it sent\n%s\nand now\n%s", w.x.requests.of[e.request], w.x.requests.of[request]))
	}
	if e.answer == broken {
		return answer{}
	}
	return w.x.answers.of[e.answer]
}

// Do is the whole of the SDK's HTTP client.
func (w *wire) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var n int32
	if w.at < len(w.node.told) && w.x.parsed[w.node.told[w.at].request].like(op, body) {
		n = w.node.told[w.at].request
	} else {
		n = w.x.sent(op, body)
	}
	a := w.next(toSend, n)
	if a.status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Date": {w.x.times[a.clock-1].UTC().Format(http.TimeFormat)}, "Content-Type": {"application/x-amz-json-1.0"}},
		Body:          io.NopCloser(strings.NewReader(a.body)),
		ContentLength: int64(len(a.body)),
	}, nil
}

// run runs the client's code up to the end of its recording, and returns what its store remembers
// then.
func (x *explorer) run(n *node) (cache string) {
	script := x.clients[n.client]
	w := &wire{x: x, node: n}
	var endpoint *string
	if x.noOld {
		endpoint = aws.String("http://engine.invalid") // of AWS's own the store knows that it sends items
	}
	sdk := dynamodb.New(dynamodb.Options{
		BaseEndpoint: endpoint,
		Region:       "eu-central-1", Credentials: aws.AnonymousCredentials{}, HTTPClient: w,
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.RateLimiter = max(1, script.attempts), ratelimit.None
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
	})
	store, err := dynamostore.New(sdk, dynamostore.Options{Table: "users", Format: x.format, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	on := func(wrap func(headroom.Store) headroom.Store) *headroom.Engine {
		return must(headroom.New(wrap(store), x.catalog, headroom.Options{Horizon: x.horizon, Clock: func() time.Time { return w.host }}))
	}
	engine := on(func(s headroom.Store) headroom.Store { return s })
	defer func() {
		if stopped := recover(); stopped != nil && stopped != (halt{}) {
			panic(stopped)
		}
		cache = remembered(store) + remembered(engine)
	}()
	n.op, n.outcomes = n.from, n.before
	if all := x.lists[n.before]; len(all) > 0 {
		n.last = all[len(all)-1]
	}
	for int(n.op) < len(script.ops) {
		a := w.next(toBegin, 0)
		w.host = x.times[a.clock-1].Add(script.skew)
		o := script.ops[n.op].run(context.Background(), caller{engine, on, sdk, func() time.Time { return w.host }})
		if o.code == headroom.OutcomeUnknown && !script.ops[n.op].noID() || o.code == headroom.Unavailable {
			continue // asked again under the same id, as the error says
		}
		o.op = n.op
		n.last = o
		n.outcomes = x.with(n.outcomes, o)
		n.op++
	}
	n.asks = nothing
	return ""
}

// with is outcomes and one more.
func (x *explorer) with(outcomes int32, o outcome) int32 {
	all, fresh := x.outcomes.put(fmt.Sprintf("%d %v", outcomes, o.facts()))
	if fresh {
		x.lists[all] = append(slices.Clip(x.lists[outcomes]), o)
	}
	return all
}

// request is one request to the engine.
type request struct {
	op, body string // the body in one form, whatever the order in which the SDK wrote it
	sum      int    // of the body as it was sent
	writes   bool
	rows     []int32  // of a BatchWriteItem: requests that each write a part of it
	parts    []string // and those parts, as JSON
}

// sum does not depend on the order of bytes.
func sum(body []byte) (n int) {
	for _, b := range body {
		n += int(b) * int(b)
	}
	return n
}

// like reports whether a body is that of the request, apart from the order in which the SDK wrote
// it. It goes by the sum.
func (r request) like(op string, body []byte) bool { return r.op == op && r.sum == sum(body) }

// sent notes a request.
func (x *explorer) sent(op string, body []byte) int32 {
	r := request{op: op, body: canonical(body), sum: sum(body), writes: op != "GetItem" && op != "Query"}
	if op == "BatchWriteItem" {
		x.split(&r)
	}
	return x.request(r)
}

func canonical(body []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return text(v)
}

func text(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

const ledger = "users-ledger"

// mostRows is how many parts of a batch are written one by one: it bounds a world.
const mostRows = 3

// split cuts a batch into the rows that are written one by one. Rows that no operation of the world
// asks about are written together with the first.
func (x *explorer) split(r *request) {
	var in struct {
		RequestItems map[string][]json.RawMessage
	}
	if err := json.Unmarshal([]byte(r.body), &in); err != nil {
		panic(err)
	}
	var groups [][]json.RawMessage
	var rest []json.RawMessage
	for _, row := range in.RequestItems[ledger] {
		if x.asksAbout(string(row)) && len(groups) < mostRows {
			groups = append(groups, []json.RawMessage{row})
		} else {
			rest = append(rest, row)
		}
	}
	if len(groups) == 0 {
		groups = [][]json.RawMessage{nil}
	}
	groups[0] = append(groups[0], rest...)
	for _, g := range groups {
		one := request{op: r.op, writes: true, body: canonical([]byte(text(map[string]any{"RequestItems": map[string]any{ledger: g}})))}
		r.rows = append(r.rows, x.request(one))
		part := strings.TrimSuffix(strings.TrimPrefix(text(g), "["), "]")
		r.parts = append(r.parts, part)
	}
}

// left is the answer to a batch of which only some parts were written.
func (r request) left(written uint8) string {
	var rest []string
	for i, part := range r.parts {
		if written&(1<<i) == 0 {
			rest = append(rest, part)
		}
	}
	return `{"UnprocessedItems":{"` + ledger + `":[` + strings.Join(rest, ",") + `]}}`
}

const transactionInProgress = `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException","message":"Transaction is ongoing for the item"}`

func conditionFailed(body string) bool {
	return strings.Contains(body, "ConditionalCheckFailedException")
}

// caller is what an operation has to do its work with.
type caller struct {
	engine *headroom.Engine
	// an engine on the same store, wrapped
	on   func(wrap func(headroom.Store) headroom.Store) *headroom.Engine
	sdk  *dynamodb.Client
	host func() time.Time // the host's clock
}

// op is one operation of a client.
type op struct {
	// deduct, hold, settle, release, extend, refund, grant, plan, within, left, look, sweep, seed,
	// old hold
	verb    string
	subject string // "" is "u"
	id      string
	cost    int64
	least   int64 // that is enough; 0: the whole cost
	over    headroom.Policy
	lasts   time.Duration
	of      string          // the charge that a refund undoes
	plan    string          // that is stored
	within  string          // the organisation
	both    bool            // it is of the meter tokens too,
	tokens  int64           // of which it costs so many
	may     []headroom.Code // errors that it may end with
}

// atLeast makes an operation one that takes as much as fits, if that is so much.
func (o op) atLeast(least int64) op {
	o.least = least
	return o
}

// enough is the least cost at which the operation is admitted.
func (o op) enough() int64 {
	if o.least > 0 {
		return o.least
	}
	return o.cost
}

func (o op) who() string {
	if o.subject == "" {
		return "u"
	}
	return o.subject
}

func (o op) String() string {
	s := o.verb
	if o.id != "" {
		s += " " + o.id
	}
	switch o.verb {
	case "deduct", "hold", "settle", "refund", "grant", "within", "left", "seed":
		s += fmt.Sprint(" ", o.cost)
	case "plan":
		s += " " + o.plan
	}
	if o.least > 0 {
		s += fmt.Sprint(" at least ", o.least)
	}
	if strings.HasSuffix(o.subject, tokensOf("")) {
		s += " in tokens"
	}
	if o.both {
		s += fmt.Sprint(" and ", o.tokens, " tokens")
	}
	if o.of != "" {
		s += " of " + o.of
	}
	return s
}

// guesses reports whether the operation looks at the host's clock when it begins.
func (o op) guesses() bool { return o.verb == "deduct" || o.verb == "seed" }

// leaves is a deduction within an organisation. Its caller dies before the organisation is settled,
// and nobody repeats it.
func (c caller) leaves(ctx context.Context, organisation string, r headroom.Request) error {
	d := &dying{organisation: organisation, operation: headroom.OperationWithin(r.Subject, r.Operation)}
	_, err := c.on(func(s headroom.Store) headroom.Store { d.Store = s; return d }).DeductWithin(ctx, organisation, r)
	switch {
	case d.dead:
		return nil
	case d.unreached:
		return headroom.TooMany // as if there were no room for a debt: the client repeats after that
	}
	return err
}

// dying is a store whose process ends before it settles one operation. It cannot settle others.
type dying struct {
	headroom.Store
	organisation, operation string
	dead, unreached         bool
}

func (d *dying) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	if d.dead {
		return headroom.View{}, headroom.Rejected
	}
	return d.Store.Load(ctx, q)
}

func (d *dying) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	for _, r := range c.Records {
		if c.Key.Subject == d.organisation && r.Is != nil && r.Is.Kind == headroom.KindSettled {
			d.dead = d.dead || r.ID == d.operation
			d.unreached = d.unreached || r.ID != d.operation
		}
	}
	if d.dead || d.unreached {
		return headroom.View{}, false, headroom.Rejected
	}
	return d.Store.Commit(ctx, c)
}

// storeOldHold stores a hold as the release before kept it, in an item that is there already.
func (o op) storeOldHold(ctx context.Context, c caller) outcome {
	week := headroom.ISOWeek(c.host())
	hold := headroom.Record{
		Kind: headroom.KindHold, Cost: o.cost, Expires: c.host().Add(o.lasts).UTC(),
		Windows: []headroom.ChargedWindow{{Limit: "week", Start: week.Start, Units: o.cost}},
	}
	_, err := c.sdk.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String("users"), Key: map[string]types.AttributeValue{"userId": &types.AttributeValueMemberS{Value: o.who()}},
		UpdateExpression:         aws.String("SET #h.#i = :h ADD #c :n"),
		ExpressionAttributeNames: map[string]string{"#h": "quotaHolds", "#i": o.id, "#c": "quotaCount"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":h": &types.AttributeValueMemberS{Value: hold.String()}, ":n": &types.AttributeValueMemberN{Value: strconv.FormatInt(o.cost, 10)},
		},
	})
	if err != nil {
		panic(err)
	}
	return outcome{allowed: true, cost: o.cost, reason: "stored"}
}

func (o op) run(ctx context.Context, c caller) outcome {
	subject, meter := o.who(), "slots"
	if own, ok := strings.CutSuffix(subject, tokensOf("")); ok {
		subject, meter = own, "tokens"
	}
	r := headroom.Request{Subject: subject, Meter: meter, Operation: o.id, Cost: o.cost, AtLeast: o.least, Over: o.over}
	if o.both {
		r.More = []headroom.Amount{{Meter: "tokens", Cost: o.tokens}}
	}
	var d headroom.Decision
	var user headroom.Reason
	var err error
	switch o.verb {
	case "deduct":
		d, err = c.engine.Deduct(ctx, r)
	case "hold":
		d, err = c.engine.Hold(ctx, r, o.lasts)
	case "settle":
		d, err = c.engine.Settle(ctx, r)
	case "release":
		d, err = c.engine.Release(ctx, r.Held())
	case "extend":
		d, err = c.engine.Extend(ctx, r.Held(), o.lasts)
	case "refund":
		d, err = c.engine.Refund(ctx, headroom.RefundRequest{Subject: subject, Meter: meter, Operation: o.of, ID: o.id, Units: o.cost})
	case "grant":
		d, err = c.engine.Grant(ctx, headroom.GrantRequest{Subject: subject, Meter: meter, ID: o.id, Units: o.cost, Lasts: o.lasts})
	case "plan":
		err = c.engine.SetPlan(ctx, subject, o.plan)
		d.Allowed, d.Reason = err == nil, "stored"
	case "within":
		var j headroom.DecisionWithin
		j, err = c.engine.DeductWithin(ctx, o.within, r)
		d, user = j.Organisation, j.User.Reason
		d.Allowed = j.Allowed
		d.Replay = j.User.Replay // that the organisation settled first, another delivery may have seen to
	case "left":
		if err = c.leaves(ctx, o.within, r); err == nil {
			d.Allowed, d.Reason, d.Cost = true, headroom.ReasonAdmitted, o.cost
		}
	case "look":
		_, err = c.engine.Usage(ctx, headroom.UsageRequest{Subject: subject, Meter: meter})
		d.Allowed, d.Reason = err == nil, "seen"
	case "sweep":
		_, err = c.engine.FinishDebts(ctx)
		d.Allowed, d.Reason = err == nil, "swept"
	case "seed":
		return seedRun(ctx, c, o)
	case "old hold":
		return o.storeOldHold(ctx, c)
	default:
		panic("no such verb: " + o.verb)
	}
	out := outcome{allowed: d.Allowed, replay: d.Replay, reason: d.Reason, cost: d.Cost, window: d.Window.Start, limit: d.LimitName, user: user}
	switch code := headroom.CodeOf(err); {
	case code != "":
		return outcome{code: code, text: err.Error()}
	case err != nil:
		panic(err)
	}
	return out
}
