package onaws

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

// FromEnv reads settings from environment variables. env takes the place of os.Getenv.
//
//	HEADROOM_TABLE          the table of users. Needed
//	HEADROOM_LEDGER         its ledger. Unset: the table's name and "-ledger"
//	HEADROOM_JOBS           the table of jobs. Needed
//	HEADROOM_STATE_MACHINE  the ARN of the state machine. Needed
//	HEADROOM_MODE           "preflight" or "hold". Unset: preflight
//	HEADROOM_HOLD           how long a hold lasts, like 6h. Unset: 6h
//	HEADROOM_OVER           "record" or "refuse", if the quota is spent after the work. Unset: record
//	HEADROOM_PLAN           the plan of a user who has none. Unset: the configuration's default
//	HEADROOM_CONFIG         a headroom.yaml in the function's bundle. Unset: the built-in plan
//	HEADROOM_NAMESPACE      the CloudWatch namespace of the metrics. Unset: no metrics
//	HEADROOM_OLDER_THAN     after how long a reconciliation looks at an open job. Unset: 90m
//	HEADROOM_DESCRIBES      executions that a reconciliation asks about per second. Unset: 10
//	HEADROOM_WORKERS        jobs that a reconciliation handles at once. Unset: 16
//	HEADROOM_SHARDS         partitions of the index of open jobs, at most 64. Unset: 8
//	HEADROOM_KEEP           how long a finished job stays, like 2160h. Unset: 2160h, or longer
//	HEADROOM_FORMAT         the format of items: 1 while the release before still runs
//	HEADROOM_CALL_TIMEOUT   the longest that a request to AWS may take. Unset: 5s
//	HEADROOM_TEST_CLOCK     an instant that takes the place of every clock, for tests of a stack only
//
// It fails with headroom.Invalid if a variable is wrong, or one that is needed is missing.
func FromEnv(env func(string) string) (Settings, error) {
	e := environment{get: env}
	s := Settings{
		Users: env("HEADROOM_TABLE"), Ledger: env("HEADROOM_LEDGER"), Jobs: env("HEADROOM_JOBS"),
		StateMachine: env("HEADROOM_STATE_MACHINE"), Config: e.file("HEADROOM_CONFIG"),
		Options: pipeline.Options{
			Plan: env("HEADROOM_PLAN"), Namespace: env("HEADROOM_NAMESPACE"), Logger: Logger(os.Stdout),
			Refuse: e.second("HEADROOM_OVER", "record", "refuse"), Clock: e.clock("HEADROOM_TEST_CLOCK"),
		},
	}
	if e.second("HEADROOM_MODE", "preflight", "hold") {
		s.Options.Hold = DefaultHold
		e.duration("HEADROOM_HOLD", &s.Options.Hold)
	}
	e.duration("HEADROOM_OLDER_THAN", &s.Reconcile.OlderThan)
	e.duration("HEADROOM_KEEP", &s.Keep)
	e.duration("HEADROOM_CALL_TIMEOUT", &s.CallTimeout)
	e.whole("HEADROOM_SHARDS", &s.Shards, MaxShards)
	e.whole("HEADROOM_WORKERS", &s.Reconcile.Workers, 1000)
	e.whole("HEADROOM_FORMAT", &s.Format, 2)
	e.rate("HEADROOM_DESCRIBES", &s.Reconcile.Describes)
	if e.err != nil {
		return s, e.err
	}
	return s, s.check()
}

// environment reads variables and keeps the last error. A variable that is not set changes nothing.
type environment struct {
	get func(string) string
	err error
}

// second reports whether a variable has the second of two values. The first is what it has if it is
// not set.
func (e *environment) second(name, first, second string) bool {
	switch value := e.get(name); value {
	case "", first:
		return false
	case second:
		return true
	default:
		e.err = invalid("%s %q: want %s or %s", name, value, first, second)
		return false
	}
}

// clock reads an instant, and returns a clock that stands still there.
func (e *environment) clock(name string) func() time.Time {
	text := e.get(name)
	if text == "" {
		return nil
	}
	now, err := time.Parse(time.RFC3339, text)
	if err != nil {
		e.err = invalid("%s %q: want a time like 2026-05-31T23:59:00Z", name, text)
	}
	return func() time.Time { return now }
}

func (e *environment) duration(name string, into *time.Duration) {
	text := e.get(name)
	if text == "" {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		e.err = invalid("%s %q: want a duration like 3h, at least a second", name, text)
	}
	*into = d
}

// whole reads a whole number from 1 to most.
func (e *environment) whole(name string, into *int, most int) {
	text := e.get(name)
	if text == "" {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		e.err = invalid("%s %q: want a whole number from 1 to %d", name, text, most)
	}
	*into = n
}

func (e *environment) rate(name string, into *float64) {
	text := e.get(name)
	if text == "" {
		return
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || !(rate > 0) { // written so that NaN fails
		e.err = invalid("%s %q: want a number above 0", name, text)
	}
	*into = rate
}

// file returns the text of the file that a variable names.
func (e *environment) file(name string) string {
	path := e.get(name)
	if path == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err // the path is named already
		}
		e.err = headroom.Errorf(headroom.Invalid, err, "the configuration %s cannot be read", path)
	}
	return string(text)
}
