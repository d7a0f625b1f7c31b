package headroom

import "time"

// Policy says what to do with a cost that does not fit.
type Policy byte

const (
	OverRefuse Policy = iota // refuse it and change nothing
	OverRecord               // charge it past the limit, since the work is done
)

// Request asks to spend.
type Request struct {
	Subject   string // who: non-empty UTF-8 of at most MaxSubject bytes
	Meter     string // of what: non-empty UTF-8 of at most MaxMeter bytes, a meter of the catalog
	Operation string // id of the piece of work, at most MaxOperation bytes of UTF-8, charged at most once. Preflight takes it if there is one already; Deduct needs it, unless the meter's Memory says otherwise
	Cost      int64  // units, at least 0

	Plan  string    // plan of a subject that has none stored. Empty: the catalog's default
	Began time.Time // when the operation began, by whatever clock gave it its id. Zero: unknown, and then an id older than the horizon cannot be told from a new one
	Over  Policy    // what Deduct and Settle do with a cost that does not fit

	// Seen is the plan that the caller saw stored a while ago: a first guess, which saves a request if it is still right. What is stored decides.
	Seen string
	// AnyPlan decides under the catalog's default where the plan that counts is not in the catalog, which would else be an error.
	AnyPlan bool
	// Renew has Hold take a hold anew that has expired or was released, under the same operation and at the same cost. False: a repeat of it is a replay, which holds nothing.
	Renew bool

	// Now takes the place of every clock: to replay a log, and in tests. A server must not fill it in from the network.
	Now time.Time
	// SkipClosed refuses a request whose window (that of Now) is over for the subject, where it would else be charged to the stored window: a log replayed from its start charges nothing twice.
	SkipClosed bool
}

func (r Request) key() Key { return Key{Subject: r.Subject, Meter: r.Meter} }

// RefundRequest asks that units of a charge come back.
type RefundRequest struct {
	Subject, Meter string
	Operation      string    // the charge
	ID             string    // id of the refund, given back at most once. It must not be the id of anything else
	Units          int64     // at least 0; 0 is all that is left of the charge
	Began          time.Time // as in Request, of the charge: of one that is not known it tells ErrTooOld from ErrNotFound
	Now            time.Time // as in Request
}

// GrantRequest asks that a subject gets units beside those of its plan.
type GrantRequest struct {
	Subject, Meter string
	ID             string // granted at most once. It must not be the id of anything else
	Units          int64  // at least 1

	// When what is left of it is gone, in whole seconds: one of the two is given.
	// A repeat with Lasts keeps the expiry of the first. It is known for as long as the grant lives and its id is remembered: whoever may ask again after the horizon gives Expires, which then is over.
	Expires time.Time
	Lasts   time.Duration // from now on, at least a second

	Now time.Time // as in Request
}
