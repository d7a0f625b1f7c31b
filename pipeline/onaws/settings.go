package onaws

import (
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

const (
	// DefaultHold is longer than the state machine's timeout of five hours, in which the charge is
	// retried for more than three, and a reconciliation after it.
	DefaultHold = 6 * time.Hour
	// DefaultOlderThan gives most jobs the time to end by themselves. A job that still runs then is
	// left as it is.
	DefaultOlderThan = 90 * time.Minute
	// DefaultCallTimeout is much longer than a request to a table takes, with its retries.
	DefaultCallTimeout = 5 * time.Second
)

// Settings say where the pipeline on AWS keeps its things, and by which rules it decides. Users,
// Jobs and StateMachine are needed.
type Settings struct {
	// Users is the table of users, and Ledger its ledger. Ledger empty: the name of the table of
	// users, followed by "-ledger".
	Users, Ledger string
	// Jobs is the table of jobs.
	Jobs string
	// StateMachine is the ARN of a standard workflow, without a version or an alias.
	StateMachine string

	// Config is the text of a headroom.yaml, as package config reads it: plans, prices and the
	// names of attributes. Empty: the built-in plan and prices.
	Config string
	// Format is the format in which the items of users are written. See dynamostore.Options. Zero:
	// as Config says.
	Format int

	Options pipeline.Options
	// Reconcile are the settings of a reconciliation. OlderThan zero: DefaultOlderThan.
	Reconcile pipeline.ReconcileOptions

	// Shards is the number of partitions of the index of open jobs. Zero: DefaultShards.
	Shards int
	// Keep is how long a finished job stays. Zero: DefaultKeep, or longer if the horizon asks for
	// it.
	Keep time.Duration

	// CallTimeout is the longest that a request to AWS may take, with its retries. Zero:
	// DefaultCallTimeout.
	CallTimeout time.Duration
}

// check fails if something that is needed is missing.
func (s Settings) check() error {
	if s.Users == "" || s.Jobs == "" || s.StateMachine == "" {
		return invalid("a table of users, a table of jobs and a state machine are needed: " +
			"HEADROOM_TABLE, HEADROOM_JOBS and HEADROOM_STATE_MACHINE")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return headroom.Errorf(headroom.Invalid, nil, format, args...)
}
