package headroom

import "time"

// Reason says why a decision fell as it did.
type Reason string

const (
	ReasonAdmitted  Reason = "admitted"   // the units were there
	ReasonRecorded  Reason = "recorded"   // charged past the limit, as the policy OverRecord asks
	ReasonReleased  Reason = "released"   // a hold's units came back
	ReasonExtended  Reason = "extended"   // a hold lives longer
	ReasonRefunded  Reason = "refunded"   // units of a charge came back
	ReasonGranted   Reason = "granted"    // a grant was added
	ReasonOverLimit Reason = "over_limit" // too few units remain in this window
	ReasonNeverFits Reason = "never_fits" // the cost is greater than all that the limit and the grants allow: no window can satisfy it
	ReasonClosed    Reason = "closed"     // the request's window is over for this subject, and it asked to be charged in no other
	ReasonUnchecked Reason = "unchecked"  // the store failed, and the preflight was told to let through
)

// Decision is the answer to a request. A refusal is a Decision with Allowed false, never an error.
type Decision struct {
	Allowed bool
	Reason  Reason
	Replay  bool   // the operation was decided before; Cost, Reason, Window and Crossed are those of that time, the rest is of today
	Plan    string // the plan in force, with the subject's own limits
	Cost    int64

	// Unremembered says that the charge has no operation id, as its meter permits: a repeat is another charge,
	// and nothing can be refunded.
	Unremembered bool

	// The strictest limit: of a refusal the one that refuses, else the one that leaves least.
	LimitName string // empty if no limit of the meter is hard
	Used      int64  // units charged in Window, with this operation's if it was charged
	Held      int64  // units reserved by live holds
	Limit     int64  // with what was carried over; Unlimited if the plan sets no limit
	Remaining int64  // Limit - Used - Held, at least 0
	Window    Window // in which the operation's units count, the last if there are several; of a refusal, and of what has no units of its own, the present one. Its End is when they come back
	Granted   int64  // units that live grants have left
	// Expires is when the operation's hold ends, which was taken, replayed or extended. Zero: no
	// hold of it is live, so a replay with a zero Expires covers no work.
	Expires time.Time

	Limits []LimitState // every limit of the meter, sorted by name
	// Crossed are the thresholds that the operation crossed, with this decision or one before it.
	// A release, an extension, a refund and a grant name none.
	Crossed []Notice
}

// LimitState is how one limit stands.
type LimitState struct {
	Name      string
	Mode      Mode
	Window    Window
	Used      int64 // units charged in Window
	Held      int64 // units reserved by live holds
	Limit     int64 // with what was carried over; Unlimited if the plan sets none
	Remaining int64 // Limit - Used - Held, at least 0
	// Over says that a soft or shadow limit did not hold what was asked: a hard one would have refused.
	Over bool
}

// Notice tells that the units charged and held reached a threshold. Of one window and limit, every notice of a threshold has the same ID: a receiver can drop repeats. One decision has it, and the repeats of that operation;
// another only if units came back in between, so that the threshold was reached twice.
type Notice struct {
	ID      string
	Limit   string
	Percent int
	Window  Window
}
