// Package dynamostore keeps state in DynamoDB. A subject has one item, which may be the
// application's own, and a deduction is one conditional write on it.
//
// layout.go describes the item, commit.go the protocol of a write, build.go and step.go the write
// itself, and ledger.go the table that takes what would make an item large.
package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"

	"github.com/lumcast/headroom"
)

// Options say where state lies. Table is needed, the rest has defaults.
type Options struct {
	// Table is the table of subjects.
	Table string
	// Ledger is the table that takes what would make a subject's item large. Empty: Table +
	// "-ledger".
	Ledger string
	// Names are the names of attributes.
	Names Names
	// Meter is the meter whose window and count lie in Names.Window and Names.Count. Empty:
	// "slots".
	Meter string
	// Limit is the limit of that meter that lies there. Empty: "week".
	Limit string

	// Format is the layout that items are written in: 1 as the first release did, or 2. Zero: 2. An
	// item that has a newer one keeps it, and an item gets format 3 with its first hold, whatever is
	// said here.
	//
	// To change over from format 1 without a pause, first let every process read the newer format,
	// with 1 here. Then let each write it. Let every process read format 3 before the first of them
	// takes a hold.
	Format int

	// Region is for Open. Empty: as the SDK's configuration says.
	Region string
	// Endpoint is for Open. Empty: AWS.
	Endpoint string

	// Logger hears of ids that could not be moved to the ledger. Nil: slog.Default().
	Logger *slog.Logger
}

// Names are the attribute names of a subject's item. The zero value needs no change to a table that
// has userId, quotaWeek and quotaCount.
type Names struct {
	// Subject is the partition key, a string. Empty: "userId".
	Subject string
	// Window is the window's key. Empty: "quotaWeek".
	Window string
	// Count is the units charged and held in that window. Empty: "quotaCount".
	Count string
	// Plan is the subject's plan. Empty: "plan".
	Plan string
	// Prefix begins the names of all other attributes that Headroom adds. Empty: "quota".
	Prefix string
}

// Store is a headroom.Store on DynamoDB.
type Store struct {
	client *dynamodb.Client
	opts   Options
	layout layout

	// sendsOld says whether the engine sends the item along when a condition fails. If it does, a
	// failure without an item means that there is none.
	sendsOld atomic.Int32

	moved generations
}

const (
	oldUnknown = iota
	oldSent
	oldMissed // it is not always sent
)

var (
	_ headroom.Store  = (*Store)(nil)
	_ headroom.Joiner = (*Store)(nil)
)

// Open connects with the SDK's own configuration: credentials, profile, region and retries come
// from its usual chain. It fails with headroom.Invalid.
func Open(ctx context.Context, opts Options) (*Store, error) {
	// Without this the SDK writes to stderr what its errors say too.
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if opts.Region != "" {
		load = append(load, config.WithRegion(opts.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, headroom.Errorf(headroom.Invalid, err, "the AWS configuration does not load")
	}
	if cfg.Region == "" {
		return nil, headroom.Errorf(headroom.Invalid, nil, "no AWS region: set it in the options, in AWS_REGION or in the profile")
	}
	return New(dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if opts.Endpoint != "" {
			o.BaseEndpoint = aws.String(opts.Endpoint)
		}
	}), opts)
}

// New returns a store that uses client. Its errors have the code headroom.Invalid.
func New(client *dynamodb.Client, opts Options) (*Store, error) {
	if opts.Table == "" {
		return nil, headroom.Errorf(headroom.Invalid, nil, "a DynamoDB store needs the name of its table")
	}
	if opts.Format < 0 || opts.Format > usualFormat {
		return nil, headroom.Errorf(headroom.Invalid, nil, "format %d of items: want 1 or %d", opts.Format, usualFormat)
	}
	opts.Ledger = cmp.Or(opts.Ledger, opts.Table+"-ledger")
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Ledger == opts.Table {
		return nil, headroom.Errorf(headroom.Invalid, nil, "table %q is given as the ledger too: it has keys of its own", opts.Table)
	}
	l := layout{
		names: Names{
			Subject: cmp.Or(opts.Names.Subject, "userId"),
			Window:  cmp.Or(opts.Names.Window, "quotaWeek"),
			Count:   cmp.Or(opts.Names.Count, "quotaCount"),
			Plan:    cmp.Or(opts.Names.Plan, "plan"),
			Prefix:  cmp.Or(opts.Names.Prefix, "quota"),
		},
		meter: cmp.Or(opts.Meter, "slots"), limit: cmp.Or(opts.Limit, "week"),
		format: cmp.Or(int64(opts.Format), usualFormat),
	}
	if err := l.distinct(); err != nil {
		return nil, err
	}
	s := &Store{client: client, opts: opts, layout: l}
	if client.Options().BaseEndpoint == nil {
		s.sendsOld.Store(oldSent) // AWS does
	}
	return s, nil
}

// mostLimits is how many limits of one meter a write can count. DynamoDB takes expressions of 4 KB
// and of 300 operators and functions ("Service, account, and table quotas" in the developer guide).
// The largest write refunds what counts in two closed windows of each limit and drew on every
// grant.
const (
	mostLimits = 12
	// meterLimits is how many limits less that is for each further meter of one write.
	meterLimits = 2
)

// MostLimits is how many limits of one meter the plans of a catalog may have together. headroom.New
// asks for it.
func (s *Store) MostLimits() int { return mostLimits }

// Load implements headroom.Store.
func (s *Store) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	views, err := s.LoadAll(ctx, []headroom.Query{q})
	if err != nil {
		return headroom.View{}, err
	}
	return views[0], nil
}

// Joins implements headroom.Joiner. The meters of one subject are in one item. As many limits of
// several meters fit into one write as of one meter, but for those whose place a further meter
// takes.
func (s *Store) Joins(keys []headroom.Key, limits int) error {
	if err := oneSubject(keys); err != nil {
		return err
	}
	if most := mostLimits - meterLimits*(len(keys)-1); limits > most {
		return headroom.Errorf(headroom.Invalid, nil,
			"%d meters with %d limits together are more than one write of DynamoDB takes: so many meters may have at most %d limits; ask for fewer meters at once",
			len(keys), limits, max(0, most))
	}
	return nil
}

// oneSubject returns an error if keys are of several subjects, which have an item each.
func oneSubject(keys []headroom.Key) error {
	for _, key := range keys {
		if key.Subject != keys[0].Subject {
			return headroom.Errorf(headroom.Invalid, nil, "subjects %q and %q have an item each: DynamoDB does not change them in one step", keys[0].Subject, key.Subject)
		}
	}
	return nil
}

// LoadAll implements headroom.Joiner.
func (s *Store) LoadAll(ctx context.Context, queries []headroom.Query) ([]headroom.View, error) {
	var keys []headroom.Key
	weak := true
	for _, q := range queries {
		keys, weak = append(keys, q.Key), weak && q.Weak
	}
	if err := oneSubject(keys); err != nil {
		return nil, err
	}
	attrs, now, err := s.attributes(ctx, keys[0].Subject, !weak)
	if err != nil {
		return nil, err
	}
	views := make([]headroom.View, len(queries))
	for i, q := range queries {
		it, err := s.layout.decode(attrs, q.Key, now)
		if err != nil {
			return nil, err
		}
		if err := s.complete(ctx, &it, q.IDs, q.History, !weak); err != nil {
			return nil, err
		}
		if views[i], err = it.view(q.IDs, orNow(q.Now, now)); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// SetPlan implements headroom.Store.
func (s *Store) SetPlan(ctx context.Context, subject, plan string) error {
	var e expression
	if plan == "" {
		// An item that is not there has no plan. It must not be made for that.
		e.require("attribute_exists(" + e.name(s.layout.names.Subject) + ")")
		e.remove(e.name(s.layout.names.Plan))
	} else {
		e.set(e.name(s.layout.names.Plan), str(plan))
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
	it, err := s.layout.decode(attrs, key, now)
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

// update writes one item. If the condition fails, it returns a
// *types.ConditionalCheckFailedException as it came. If the item would be too large, it moves ids
// out of it and tries again.
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
	return map[string]types.AttributeValue{s.layout.names.Subject: str(subject)}
}

func orNow(callers, engines time.Time) time.Time {
	if callers.IsZero() {
		return engines
	}
	return callers
}
