package headroom

import "time"

// Reason says why a decision fell as it did.
type Reason string

const (
	// ReasonAdmitted: the units were there.
	ReasonAdmitted Reason = "admitted"
	// ReasonRecorded: the cost was charged past the limit, as the policy RecordOverLimit asks.
	ReasonRecorded Reason = "recorded"
	// ReasonReleased: the units of a hold came back.
	ReasonReleased Reason = "released"
	// ReasonExtended: a hold lasts longer.
	ReasonExtended Reason = "extended"
	// ReasonRefunded: units of a charge came back.
	ReasonRefunded Reason = "refunded"
	// ReasonGranted: a grant was added.
	ReasonGranted Reason = "granted"
	// ReasonOverLimit refuses: too few units remain in this window.
	ReasonOverLimit Reason = "over_limit"
	// ReasonNeverFits refuses: the cost is more than the limit and the grants allow together, so
	// that no window can satisfy it.
	ReasonNeverFits Reason = "never_fits"
	// ReasonTooManyHolds refuses a hold: there are as many as the plan's MaxHolds says.
	ReasonTooManyHolds Reason = "too_many_holds"
	// ReasonClosed refuses: the request's window is over for this subject, and the request asked to
	// be charged in no other.
	ReasonClosed Reason = "closed"
	// ReasonUnchecked allows: the store failed, and Preflight was told to let requests through
	// then.
	ReasonUnchecked Reason = "unchecked"
)

// Decision is the answer to a request. A refusal is a Decision with Allowed false, never an error.
type Decision struct {
	// Subject and Meter say whom the figures are of.
	Subject, Meter string

	Allowed bool // by every part of the request
	Reason  Reason
	// Replay says that the operation was decided before. Cost, Reason, Window and Crossed are of
	// that time; the rest is of today.
	Replay bool
	Plan   string // the plan in force, with the subject's own limits
	Cost   int64  // units

	// Unremembered says that the charge has no operation id, as its meter permits. A repeat is
	// another charge, and there is no refund.
	Unremembered bool

	// LimitName names the strictest limit: the one that refuses, or else the one that leaves least.
	// The six fields after it are of that limit. It is empty if no limit of the meter is hard.
	LimitName string
	Used      int64 // units charged in Window, with those of this operation
	Held      int64 // units reserved by live holds
	Limit     int64 // with what was carried over; Unlimited if the plan sets no limit
	Remaining int64 // Limit - Used - Held, at least 0
	// Window is where the operation's units count: the last window, if there are several. A
	// refusal, and an operation without units, shows the present window. Units come back at its
	// End.
	Window  Window
	Granted int64 // units that live grants have left
	// Live says that a hold of the operation is live: it was taken or extended now, or it was taken
	// before and has not ended. A replayed hold that is not live covers no work.
	Live bool
	// Expires is when a live hold ends. It is zero if Live is false.
	Expires time.Time
	// Unseen says that nothing is stored of the subject in this meter: no plan, count, grant, hold
	// or id. Nobody has written about it yet, or it was forgotten. A refusal changes nothing, so
	// the subject of one can be unseen. A subject that has used nothing, but has been seen, is not.
	Unseen bool

	Limits []LimitState // every limit of the meter, sorted by name
	// Crossed are the thresholds that the operation crossed, with this decision or one before it. A
	// release, an extension, a refund and a grant name none.
	Crossed []Notice

	// Parts has an entry for each subject and meter of a request that has more than one, in the
	// order asked: the nearest subject first, and of a subject the request's own meter first. The
	// figures outside Parts are those of the first part that refuses, or else of the request's own
	// subject and meter.
	Parts []Part
}

// Part is the decision of one subject and meter of a request that has more than one.
type Part struct {
	Subject, Meter string
	Decision       // without Parts
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
	// Over says that a soft or shadow limit did not hold what was asked: a hard one would have
	// refused.
	Over bool
}

// Notice tells that the units charged and held have reached a threshold.
//
// In one window of one limit, each notice of a threshold has the same ID, so that a receiver can
// drop repeats. One decision has it, and so have the repeats of its operation. Another decision has
// it only if units came back in between, so that the threshold was reached twice.
type Notice struct {
	ID      string
	Limit   string
	Percent int
	Window  Window
}
