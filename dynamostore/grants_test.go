package dynamostore_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/internal/memdynamo"
)

// far is an engine that is some milliseconds away.
type far struct {
	*memdynamo.Server
	away time.Duration
	sent atomic.Int64
}

func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	f.sent.Add(1)
	time.Sleep(f.away / 2)
	a, err := f.Server.RoundTrip(r)
	time.Sleep(f.away / 2)
	return a, err
}

// TestManyDrawOnAGrantAtOnce: rules 2 and 11. Writers that draw on one grant do not make one
// another retry, however far away the engine is: none of 128 is told that it is contended, and
// exactly the units of the grant are admitted. The clock is that of the bubble, so that nothing
// depends on the host's speed.
func TestManyDrawOnAGrantAtOnce(t *testing.T) {
	for verb, draw := range map[string]func(*crowd, headroom.Request) (headroom.Decision, error){
		"deduct": func(c *crowd, r headroom.Request) (headroom.Decision, error) {
			return c.engine.Deduct(c.Context(), r)
		},
		"hold and settle": func(c *crowd, r headroom.Request) (headroom.Decision, error) {
			d, err := c.engine.Hold(c.Context(), r, time.Hour)
			if err == nil && d.Allowed {
				return c.engine.Settle(c.Context(), r)
			}
			return d, err
		},
		"deduct and refund": func(c *crowd, r headroom.Request) (headroom.Decision, error) {
			d, err := c.engine.Deduct(c.Context(), r)
			if err == nil && d.Allowed {
				_, err = c.engine.Refund(c.Context(), headroom.RefundRequest{
					Subject: r.Subject, Meter: r.Meter, Operation: r.Operation, ID: "r" + r.Operation,
				})
			}
			return d, err
		},
	} {
		for _, writers := range []int{8, 32, 128} {
			t.Run(fmt.Sprintf("%s, %d writers", verb, writers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const each, more = 3, 20 // charges of each writer, and how many of all are too many
					units := int64(writers*each - more)
					c := newCrowd(t, units)
					c.draw(writers, each, draw)
					left := units - c.admitted.Load()
					if verb == "deduct and refund" {
						left = units // which come back, and may be drawn again
					} else if left != 0 {
						t.Errorf("%d are admitted on a grant of %d", c.admitted.Load(), units)
					}
					c.leaves(left)
				})
			})
		}
	}
}

// crowd are writers of one subject, whose plan is used up and who has a grant. The engine of
// DynamoDB is 6 ms away.
type crowd struct {
	*testing.T
	far               *far
	engine            *headroom.Engine
	admitted, refused atomic.Int64
}

func newCrowd(t *testing.T, granted int64) *crowd {
	t.Helper()
	start := time.Now()
	clock := func() time.Time { return start }
	c := &crowd{T: t, far: &far{Server: &memdynamo.Server{Clock: clock}, away: 6 * time.Millisecond}}
	sdk := dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://engine.invalid"),
		HTTPClient: &http.Client{Transport: c.far}, Credentials: aws.AnonymousCredentials{},
	})
	store, err := dynamostore.New(sdk, dynamostore.Options{Table: "users", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.engine, err = headroom.New(store, under100(t), headroom.Options{Clock: clock}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.engine.Deduct(t.Context(), request("acme", "all", 100)); err != nil {
		t.Fatal(err)
	}
	g := headroom.GrantRequest{Subject: "acme", Meter: "slots", ID: "g", Units: granted, Lasts: time.Hour}
	if _, err := c.engine.Grant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	c.far.sent.Store(0)
	return c
}

// draw lets writers draw at once, each so many times for one unit. An error fails the test, and so
// does Contended.
func (c *crowd) draw(writers, each int, draw func(*crowd, headroom.Request) (headroom.Decision, error)) {
	c.Helper()
	start := time.Now()
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for j := range each {
				switch d, err := draw(c, request("acme", fmt.Sprint(i, "-", j), 1)); {
				case err != nil:
					c.Errorf("charge %d of writer %d: %v", j, i, err)
				case d.Allowed:
					c.admitted.Add(1)
				default:
					c.refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	c.Logf("%d admitted, %d refused; %.1f requests each; %s", c.admitted.Load(), c.refused.Load(),
		float64(c.far.sent.Load())/float64(writers*each), time.Since(start).Round(time.Millisecond))
}

// leaves checks what is left of the grant, and that the plan's own units are used up.
func (c *crowd) leaves(want int64) {
	c.Helper()
	u, err := c.engine.Usage(c.Context(), headroom.UsageRequest{Subject: "acme", Meter: "slots"})
	if err != nil || u.Granted != want || u.Limits[0].Used != 100 {
		c.Errorf("%d are left of the grant, %v: want %d", u.Granted, err, want)
	}
}

// under100 is a plan of 100 units a week without thresholds.
func under100(t *testing.T) *headroom.Catalog {
	t.Helper()
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{{Meter: "slots", Name: "week", Units: 100}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestGrantsOfFormatOne: a grant that the release before wrote, as text, is drawn on as it is, and
// becomes numbers with the first units that are drawn; with Options.Format 1 it stays text, and
// another that adds to it is noticed.
func TestGrantsOfFormatOne(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		old := newRig(t, engine, inFormat(1), under(under100(t)))
		grant := func(r *rig, id string, units int64) {
			t.Helper()
			r.allowsGrant(headroom.GrantRequest{Subject: "u", Meter: "slots", ID: id, Units: units, Expires: tuesday.Add(time.Hour)})
		}
		stands := func(id string, want types.AttributeValue) {
			t.Helper()
			got := old.item("u")["quotaGrants"].(*types.AttributeValueMemberM).Value[id]
			if fmt.Sprintf("%#v", plainGrant(got)) != fmt.Sprintf("%#v", plainGrant(want)) {
				t.Fatalf("grant %s stands as %#v, want %#v", id, plainGrant(got), plainGrant(want))
			}
		}
		ends := tuesday.Add(time.Hour).Unix()
		text := func(units, used int64) types.AttributeValue { return s(fmt.Sprintf("%d/%d/%d", units, used, ends)) }
		numbers := func(units, used int64) types.AttributeValue {
			return &types.AttributeValueMemberM{Value: attributes{"units": n(units), "used": n(used), "expires": n(ends)}}
		}
		old.admit("u", "all", 100, 100)
		grant(old, "a", 30)
		grant(old, "b", 50)
		old.admit("u", "1", 10, 100)
		stands("a", text(30, 10))
		other := old.another(inFormat(1), under(under100(t)))
		old.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.n == 2 { // the write, after the guess that failed
				other.admit("u", "between", 5, 100)
			}
			return x.pass()
		})
		old.admit("u", "2", 5, 100)
		old.wire.reset(nil)
		stands("a", text(30, 20))

		young := old.another(inFormat(0), under(under100(t)))
		young.admit("u", "3", 5, 100)
		stands("a", numbers(30, 25))
		stands("b", text(50, 0))
		young.admit("u", "4", 15, 100) // over two grants
		stands("a", numbers(30, 30))
		stands("b", numbers(50, 10))
		grant(young, "c", 7)
		stands("c", &types.AttributeValueMemberM{Value: attributes{"units": n(7), "used": n(0), "expires": n(ends)}})
		// Who writes the older format goes on with an item of the newer one.
		old.admit("u", "5", 10, 100)
		stands("b", numbers(50, 20))
		old.replay("u", "2", 5, 100)
		if d, err := young.engine.Refund(t.Context(), headroom.RefundRequest{Subject: "u", Meter: "slots", Operation: "4", ID: "r"}); err != nil || d.Granted != 52 {
			t.Fatalf("%+v, %v", d, err)
		}
		stands("a", numbers(30, 25))
		stands("b", numbers(50, 10))
	})
}

func (r *rig) allowsGrant(g headroom.GrantRequest) {
	r.Helper()
	if d, err := r.engine.Grant(r.Context(), g); err != nil || !d.Allowed || d.Replay {
		r.Fatalf("%+v, %v", d, err)
	}
}

// plainGrant shows a grant as it is stored.
func plainGrant(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberM:
		plain := map[string]any{}
		for name, child := range v.Value {
			if n, ok := child.(*types.AttributeValueMemberN); ok {
				plain[name] = n.Value
			}
		}
		return plain
	}
	return nil
}
