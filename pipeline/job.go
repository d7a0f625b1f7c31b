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
	Queued    Status = "queued"     // waits in the queue. A job without a record is queued
	Running   Status = "running"    // its execution was started, or is about to be
	Succeeded Status = "succeeded"  // the work is done. Charge tells whether it is charged
	Failed    Status = "failed"     // the work failed, and nothing was charged
	OverQuota Status = "over_quota" // refused before the work. This is final
	Unpaid    Status = "unpaid"     // refused after the work. This is final
)

// known reports whether s is one of these. An application that writes records too may write others.
func (s Status) known() bool {
	return slices.Contains([]Status{Queued, Running, Succeeded, Failed, OverQuota, Unpaid}, s)
}

// Charge tells whether a job that succeeded is charged.
type Charge string

const (
	// not yet. A repeat of the callback or a reconciliation charges it
	ChargePending Charge = "pending"
	Charged       Charge = "charged"
)

// Job is the record of a job.
type Job struct {
	ID      string
	UserID  string
	Status  Status
	Charge  Charge // empty unless Status is Succeeded
	Attempt int    // 1, and one more for each rerun on purpose
	Returns int    // how often it went back to the queue because its execution was never started

	// Class, Seconds and Cost (in units) are those of the request, and of a job that succeeded
	// those of the work that was done.
	Class   string
	Seconds float64
	Cost    int64

	Plan      string // the plan in force when it was started
	Held      bool   // units were reserved for this attempt
	Operation string // the id of the charge. Empty until the job succeeded
	Week      string // the key of the window that was charged, or that refused

	// Decision is how the charge or the refusal was decided: a headroom.Reason, or the code of an
	// error.
	Decision string
	// Reason tells a person why the job was refused, failed or waits, or why it is charged as asked
	// for.
	Reason string

	RequestedAt, StartedAt, FinishedAt, UpdatedAt time.Time
}

// Open reports whether the job has not come to its end: it waits, runs, or is to be charged.
func (j Job) Open() bool {
	return j.Status == Queued || j.Status == Running || j.Status == Succeeded && j.Charge == ChargePending
}

// mayRun reports whether the job may have an execution whose end is not known yet. That includes a
// job that went back to the queue: its message may have started it at the same moment.
func (j Job) mayRun() bool {
	return j.Status == Running || j.Status == Queued && j.Returns > 0
}

// Opened is the job's place among the open jobs. It counts as open since it was requested. If it
// were since its last change, each change would move it.
func (j Job) Opened() Opened {
	if j.RequestedAt.IsZero() {
		return Opened{j.UpdatedAt, j.ID}
	}
	return Opened{j.RequestedAt, j.ID}
}

// Opened is the place of a job in the order of open jobs, which is by the time since when they are
// open, and then by id.
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

// Filter chooses jobs to list. An empty field matches every job.
type Filter struct {
	UserID string
	Status Status
}

// Jobs is the table of jobs. Many goroutines may use it at once. An error of a method is a
// *headroom.Error.
type Jobs interface {
	// Get returns the record of a job, and false if there is none.
	Get(ctx context.Context, id string) (Job, bool, error)

	// Swap replaces the record was by is, if the job is still where was has it. That is told by
	// five fields, which never come back to an earlier combination: UserID, Status, Charge, Attempt
	// and Returns. If was is the zero Job, there must be no record.
	//
	// Swap returns false, and has written nothing, if the record is another. After an error it may
	// have written: Get tells.
	Swap(ctx context.Context, was, is Job) (bool, error)

	// Open calls use with the place of each open job that stands after a place and has been open
	// since before a time, in their order, until use returns false. It reads as it goes. If a job
	// changed a moment ago, Open may still call use with it, or not yet.
	Open(ctx context.Context, after Opened, before time.Time, use func(Opened) bool) error

	// Bookmark returns where the last reconciliation stopped. It is zero if that came to the end.
	Bookmark(ctx context.Context) (Opened, error)
	// SetBookmark keeps where a reconciliation stopped.
	SetBookmark(ctx context.Context, at Opened) error

	// List calls use with each job that the filter chooses, in any order, until use returns false.
	// It may read the whole table.
	List(ctx context.Context, f Filter, use func(Job) bool) error
}

// Executions runs the work of jobs.
type Executions interface {
	// Start starts an execution. It does nothing, and that is no error, if there is or was one of
	// that name.
	Start(ctx context.Context, name string, input []byte) error
	// Describe returns the state of an execution, and false if there is none of that name.
	Describe(ctx context.Context, name string) (Execution, bool, error)
	// Finished reads the history of an execution that ended without its last step. It returns true
	// if the work was done before the end, and the result of the work.
	Finished(ctx context.Context, name string) (result []byte, done bool, err error)
}

// Execution is the state of an execution.
type Execution struct {
	// Status is as Step Functions names it: RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED or
	// PENDING_REDRIVE.
	Status string
	Input  []byte
	Output []byte // of an execution that succeeded
	// Error and Cause are of an execution that did not succeed.
	Error, Cause string
	Ended        time.Time // zero: not known, or not yet
}

// DoneNotCharged is the error of an execution whose work is done and whose charge step ran out of
// tries. Its cause is the result of the work.
const DoneNotCharged = "DoneNotCharged"

// swapTries is how often a handler reads a record again because another handler was faster. Each
// time the job is one step further, and it has only a few steps.
const swapTries = 8
