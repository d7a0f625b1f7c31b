// Package dynamostore keeps state in DynamoDB: for one subject one item, which may be the application's own, and one conditional write for a deduction.
//
// The layout is in layout.go, the protocol of the write in commit.go, what does not fit the item in ledger.go.
package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/lumcast/headroom"
)

// Options say where state lies. Table is needed, the rest has defaults.
type Options struct {
	Table  string // the table of subjects
	Ledger string // the table of what no longer fits a subject's item. Empty: Table + "-ledger"
	Names  Names
	Meter  string // the meter that lies in the attributes Names.Window and Names.Count. Empty: "slots"
	Limit  string // the limit of that meter that lies there. Empty: "week"

	// Format is the layout that items are written in: 1 as the first release did, 2 the newest. Zero: the newest.
	// An item that has a newer one keeps it. To change over without a pause, let every process read the newer format first, with 1 here; then let each write it.
	Format int

	Region   string // for Open. Empty: as the SDK's configuration says
	Endpoint string // for Open. Empty: AWS

	Logger *slog.Logger // hears of ids that could not be moved to the ledger. Nil: slog.Default()
}

// Names are the attribute names of a subject's item. The zero value is the layout that needs no change to a table with userId, quotaWeek and quotaCount.
type Names struct {
	Subject string // the partition key, a string. Empty: "userId"
	Window  string // the window's key. Empty: "quotaWeek"
	Count   string // the units charged and held in that window. Empty: "quotaCount"
	Plan    string // the subject's plan. Empty: "plan"
	Prefix  string // begins the name of each other attribute that Headroom adds. Empty: "quota"
}

// Store is a headroom.Store on DynamoDB.
type Store struct {
	client *dynamodb.Client
	opts   Options

	// sendsOld says whether the engine sends the item along when a condition fails, so that a failure without an item means that there is none.
	sendsOld atomic.Int32

	moved generations
}

const (
	oldUnknown = iota
	oldSent
	oldMissed // it was found out not to be sent always
)

var _ headroom.Store = (*Store)(nil)

// Open connects with the SDK's own configuration: credentials, profile, region and retries come from its usual chain.
func Open(ctx context.Context, opts Options) (*Store, error) {
	// The SDK would write to stderr what its errors say too.
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if opts.Region != "" {
		load = append(load, config.WithRegion(opts.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, headroom.Errorf(headroom.CodeInvalid, err, "the AWS configuration does not load")
	}
	if cfg.Region == "" {
		return nil, headroom.Errorf(headroom.CodeInvalid, nil, "no AWS region: set it in the options, in AWS_REGION or in the profile")
	}
	return New(dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if opts.Endpoint != "" {
			o.BaseEndpoint = aws.String(opts.Endpoint)
		}
	}), opts)
}

// New returns a store that uses client.
func New(client *dynamodb.Client, opts Options) (*Store, error) {
	if opts.Table == "" {
		return nil, headroom.Errorf(headroom.CodeInvalid, nil, "a DynamoDB store needs the name of its table")
	}
	if opts.Format < 0 || opts.Format > NewestFormat {
		return nil, headroom.Errorf(headroom.CodeInvalid, nil, "format %d of items: want 1 to %d", opts.Format, NewestFormat)
	}
	opts.Ledger = cmp.Or(opts.Ledger, opts.Table+"-ledger")
	opts.Meter = cmp.Or(opts.Meter, "slots")
	opts.Limit = cmp.Or(opts.Limit, "week")
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	n := &opts.Names
	n.Subject = cmp.Or(n.Subject, "userId")
	n.Window = cmp.Or(n.Window, "quotaWeek")
	n.Count = cmp.Or(n.Count, "quotaCount")
	n.Plan = cmp.Or(n.Plan, "plan")
	n.Prefix = cmp.Or(n.Prefix, "quota")
	if err := opts.distinct(); err != nil {
		return nil, err
	}
	s := &Store{client: client, opts: opts}
	if client.Options().BaseEndpoint == nil {
		s.sendsOld.Store(oldSent) // DynamoDB itself does
	}
	return s, nil
}

// mostLimits is how many limits of one meter a write can count: DynamoDB takes expressions of 4 KB and of 300 operators
// and functions. The largest write refunds what counts in two closed windows of each limit and drew on every grant.
const mostLimits = 16

// MostLimits is how many limits of one meter the plans of a catalog may have together. headroom.New asks for it.
func (s *Store) MostLimits() int { return mostLimits }

// Load implements headroom.Store.
func (s *Store) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	it, engines, err := s.get(ctx, q.Key, !q.Weak)
	if err != nil {
		return headroom.View{}, err
	}
	if err := s.complete(ctx, &it, q.IDs, q.History, !q.Weak); err != nil {
		return headroom.View{}, err
	}
	return it.view(q.IDs, orNow(q.Now, engines))
}

// SetPlan implements headroom.Store.
func (s *Store) SetPlan(ctx context.Context, subject, plan string) error {
	var e expression
	if plan == "" {
		// An item that is not there has no plan, and is not to be made for that.
		e.require("attribute_exists(" + e.name(s.opts.Names.Subject) + ")")
		e.remove(e.name(s.opts.Names.Plan))
	} else {
		e.set(e.name(s.opts.Names.Plan), str(plan))
	}
	_, _, err := s.update(ctx, subject, &e)
	var absent *types.ConditionalCheckFailedException
	if plan == "" && errors.As(err, &absent) {
		return nil
	}
	return err
}

// Close implements headroom.Store. There is nothing to close.
func (s *Store) Close() error { return nil }

// get reads the item of a key and the engine's time.
func (s *Store) get(ctx context.Context, key headroom.Key, consistent bool) (item, time.Time, error) {
	attrs, now, err := s.attributes(ctx, key.Subject, consistent)
	if err != nil {
		return item{}, now, err
	}
	it, err := s.opts.decode(attrs, key, now)
	return it, now, err
}

// attributes reads the whole item of a subject, and the engine's time.
func (s *Store) attributes(ctx context.Context, subject string, consistent bool) (attributes, time.Time, error) {
	var out *dynamodb.GetItemOutput
	got, err := s.do(ctx, reads, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
		out, err = s.client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.opts.Table, Key: s.key(subject), ConsistentRead: &consistent,
		}, opt)
		return err
	})
	if err != nil {
		return nil, got.now, err
	}
	return out.Item, got.now, nil
}

// update writes one item. If the condition fails, it returns a *types.ConditionalCheckFailedException as it came.
// Where the item would be too large, it moves ids out of it and tries again.
func (s *Store) update(ctx context.Context, subject string, e *expression) (map[string]types.AttributeValue, answer, error) {
	var full error // that nothing in the item can move
	for try := 0; ; try++ {
		attrs, got, err := s.send(ctx, subject, e)
		if !tooLarge(err) || got.unsure {
			return attrs, got, err
		}
		if full != nil || try == roomTries {
			return nil, got, cmp.Or(full, err)
		}
		if full, err = s.makeRoom(ctx, subject, err); err != nil {
			return nil, got, err
		}
	}
}

// send is update of an item that has room.
func (s *Store) send(ctx context.Context, subject string, e *expression) (map[string]types.AttributeValue, answer, error) {
	var out *dynamodb.UpdateItemOutput
	access := writes
	if e.once {
		access = once
	}
	got, err := s.do(ctx, access, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
		in := &dynamodb.UpdateItemInput{
			TableName: &s.opts.Table, Key: s.key(subject), ReturnValues: types.ReturnValueAllNew,
		}
		e.into(in)
		out, err = s.client.UpdateItem(ctx, in, opt)
		return err
	})
	if err != nil {
		return nil, got, err
	}
	return out.Attributes, got, nil
}

func (s *Store) key(subject string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{s.opts.Names.Subject: str(subject)}
}

func orNow(callers, engines time.Time) time.Time {
	if callers.IsZero() {
		return engines
	}
	return callers
}

// CreateTables creates the table of subjects and the ledger, both billed by request, and waits until they can be used. A table that exists is left as it is.
func (s *Store) CreateTables(ctx context.Context) error {
	subjects := &dynamodb.CreateTableInput{TableName: &s.opts.Table}
	keys(subjects, s.opts.Names.Subject)
	ledger := &dynamodb.CreateTableInput{TableName: &s.opts.Ledger}
	keys(ledger, ledgerKey, ledgerSort)
	for _, in := range []*dynamodb.CreateTableInput{subjects, ledger} {
		if err := s.create(ctx, in); err != nil {
			return err
		}
	}
	_, err := s.do(ctx, writes, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		out, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.opts.Ledger}, opt)
		if err != nil || out.TimeToLiveDescription != nil && out.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusDisabled {
			return err
		}
		_, err = s.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName:               &s.opts.Ledger,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(ledgerExpires), Enabled: aws.Bool(true)},
		}, opt)
		return err
	})
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "UnknownOperationException" {
		return nil // some emulators have no time to live; it is for cleaning only
	}
	return err
}

func (s *Store) create(ctx context.Context, in *dynamodb.CreateTableInput) error {
	_, err := s.do(ctx, writes, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		_, err := s.client.CreateTable(ctx, in, opt)
		var exists *types.ResourceInUseException
		if errors.As(err, &exists) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	wait := dynamodb.NewTableExistsWaiter(s.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 2*time.Second
	})
	if err := wait.Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, 5*time.Minute); err != nil {
		return headroom.Errorf(headroom.CodeUnavailable, err, "table %s was created but does not become active", *in.TableName)
	}
	return nil
}

// keys makes in a table billed by request whose key attributes are strings: the partition key first, then the sort key.
func keys(in *dynamodb.CreateTableInput, names ...string) {
	in.BillingMode = types.BillingModePayPerRequest
	kinds := []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}
	for i, name := range names {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: &name, KeyType: kinds[i]})
	}
}

// distinct reports names that would fall together.
func (o Options) distinct() error {
	if o.Ledger == o.Table {
		return headroom.Errorf(headroom.CodeInvalid, nil, "table %q is given as the ledger too: it has keys of its own", o.Table)
	}
	n := o.Names
	seen := map[string]bool{}
	for _, name := range []string{n.Subject, n.Window, n.Count, n.Plan} {
		if seen[name] {
			return headroom.Errorf(headroom.CodeInvalid, nil, "attribute name %q is given to two things", name)
		}
		seen[name] = true
	}
	for name := range seen {
		ours := slices.Contains(fields, strings.TrimPrefix(name, n.Prefix))
		for _, more := range []string{"/", "Span:", "Count:", "Past:", "Carried:"} { // of other meters and limits
			ours = ours || strings.HasPrefix(name, n.Prefix+more)
		}
		if ours && strings.HasPrefix(name, n.Prefix) {
			return headroom.Errorf(headroom.CodeInvalid, nil, "attribute name %q is taken: Headroom keeps something else there; choose another prefix", name)
		}
	}
	return nil
}
