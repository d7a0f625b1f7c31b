package pipeline

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// Status is where a job stands.
type Status string

const (
	Queued    Status = "queued"     // waits in the queue; a job without a record counts as queued
	Running   Status = "running"    // its execution was started, or is about to be
	Succeeded Status = "succeeded"  // the work is done; Charge tells whether it is paid
	Failed    Status = "failed"     // the work failed; nothing was charged
	OverQuota Status = "over_quota" // refused before the work. Final
	Unpaid    Status = "unpaid"     // refused after the work. Final
)

// known reports whether s is one of them. An application that writes records too may write any.
func (s Status) known() bool {
	return slices.Contains([]Status{Queued, Running, Succeeded, Failed, OverQuota, Unpaid}, s)
}

// Charge is how far the charge of a job that succeeded has come.
type Charge string

const (
	ChargePending Charge = "pending" // to be charged: a repeat or a reconciliation does it
	Charged       Charge = "charged"
)

// Job is the record of a job.
type Job struct {
	ID      string
	UserID  string
	Status  Status
	Charge  Charge // empty unless Status is Succeeded
	Attempt int    // 1, and one more for each deliberate rerun
	Returns int    // how often it went back to the queue, since its execution was never started

	Class     string  // as requested; of a job that succeeded, as done
	Seconds   float64 // likewise
	Cost      int64   // units: estimated from the request; of a job that succeeded, the true cost
	Plan      string  // in force when it was started
	Held      bool    // units were reserved for this attempt
	Operation string  // id of the charge. Empty until it succeeded
	Week      string  // key of the window that was charged, or that refused
	Decision  string  // how the charge or the refusal was decided: a headroom.Reason, or the code of an error
	Reason    string  // why it was refused or failed, waits, or is charged as asked, for a person

	RequestedAt, StartedAt, FinishedAt, UpdatedAt time.Time
}

// Open reports whether something still has to become of the job.
func (j Job) Open() bool {
	return j.Status == Queued || j.Status == Running || j.Status == Succeeded && j.Charge == ChargePending
}

// mayRun reports whether the job may have an execution that has not told its end. One that went
// back to the queue may: its message may have started it at the same moment.
func (j Job) mayRun() bool {
	return j.Status == Running || j.Status == Queued && j.Returns > 0
}

// Opened is the job's place among the open ones. It is open since it was requested: were it since
// its last change, each change would move it.
func (j Job) Opened() Opened {
	if j.RequestedAt.IsZero() {
		return Opened{j.UpdatedAt, j.ID}
	}
	return Opened{j.RequestedAt, j.ID}
}

// Opened is the place of a job in the order of open jobs: since when it is open, and then its id.
type Opened struct {
	Since time.Time
	ID    string
}

// Compare orders places: the one that has been open for longer comes first.
func (o Opened) Compare(other Opened) int {
	return cmp.Or(o.Since.Compare(other.Since), strings.Compare(o.ID, other.ID))
}

// IsZero reports whether o stands before every job.
func (o Opened) IsZero() bool { return o == Opened{} }

// execution is the name of the job's present execution.
func (j Job) execution() string { return ExecutionName(j.ID, j.Attempt) }

// Filter chooses jobs to list. Empty fields choose all.
type Filter struct {
	UserID string
	Status Status
}

// Jobs is the table of jobs. Each method is safe for use by many goroutines and fails with a *headroom.Error.
type Jobs interface {
	// Get returns the record of a job, and false if there is none.
	Get(ctx context.Context, id string) (Job, bool, error)

	// Swap writes is if the record still is was in what says how far the job is: UserID, Status, Charge, Attempt and Returns. These five never come back to an earlier combination. A zero was stands for no record.
	// It returns false, and has written nothing, if the record is another. After an error it may have written: what to do next, a fresh Get tells.
	Swap(ctx context.Context, was, is Job) (bool, error)

	// Open calls use with each job that is queued, running or to be charged and has been open since
	// before a time: those that stand after a place, in their order, until use returns false. It
	// reads as it goes. A job that changed a moment ago may still be told of, or not yet.
	Open(ctx context.Context, after Opened, before time.Time, use func(Opened) bool) error

	// Bookmark returns where the last reconciliation stopped: the zero Opened if it came to the end.
	Bookmark(ctx context.Context) (Opened, error)
	// SetBookmark keeps where a reconciliation stopped.
	SetBookmark(ctx context.Context, at Opened) error

	// List calls use with each job that the filter chooses, in no order, until use returns false. It may read the whole table.
	List(ctx context.Context, f Filter, use func(Job) bool) error
}

// Executions runs the work of jobs.
type Executions interface {
	// Start starts an execution. If there is or was one of that name, it does nothing, and that is no error.
	Start(ctx context.Context, name string, input []byte) error
	// Describe tells how an execution stands, and false if there is none of that name.
	Describe(ctx context.Context, name string) (Execution, bool, error)
	// Finished tells whether the work of an execution was done before the execution ended, and with
	// what result, from its history. It is asked of one that ended without its last step.
	Finished(ctx context.Context, name string) (result []byte, done bool, err error)
}

// Execution is how an execution stands.
type Execution struct {
	Status string // as Step Functions names it: RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED, PENDING_REDRIVE
	Input  []byte
	Output []byte // of one that succeeded
	Error  string // of one that did not
	Cause  string
	Ended  time.Time // zero: not known, or not yet
}

// DoneNotCharged is the error of an execution whose work is done, and whose charge step is
// exhausted. Its cause is the result of the work.
const DoneNotCharged = "DoneNotCharged"

// swapTries bounds how often a handler looks again after another one was faster. Each time the job has come one step further, of which there are few.
const swapTries = 8
