package headroom

import (
	"slices"
	"strconv"
	"time"
)

// Policy says what to do with a cost that does not fit.
type Policy byte

const (
	RefuseOverLimit Policy = iota // refuse it and change nothing
	RecordOverLimit               // charge it past the limit, since the work is done
)

// Request asks to spend units of a meter.
type Request struct {
	Subject string // who: non-empty UTF-8 of at most MaxSubject bytes
	Meter   string // what: a meter of the catalog
	// Operation is the id of the piece of work, at most MaxOperation bytes of UTF-8. It is charged
	// at most once. Preflight takes it if there is one already. Every other verb needs it; Deduct
	// does not if the meter's Memory says so.
	Operation string
	Cost      int64 // units, at least 0
	// AtLeast lets Preflight, Deduct and Hold admit fewer units than Cost: all that there are, if
	// there are at least so many. Decision.Cost says how many were admitted. Zero: Cost or nothing.
	// It is at most Cost, and for a request of one subject and one meter that is not recorded past
	// the limit. A repeat must ask for the same, and gets the same number.
	AtLeast int64
	// More are other meters in which the same work is charged: all of them or none. Each limit of
	// each meter is looked at. A repeat must ask for the same meters. The store must be a Joiner.
	More []Amount

	// Plan is the plan of a subject that has none stored. Empty: the catalog's default.
	Plan string
	// Began is when the operation began, by the clock that gave it its id. Zero: unknown. Then an
	// id that is older than the horizon cannot be told from a new one.
	Began time.Time
	// Over says what Deduct and Settle do with a cost that does not fit.
	Over Policy

	// Seen is the plan that the caller saw stored a while ago. It is a first guess, which saves a
	// request to the store if it is still right. What is stored decides.
	Seen string
	// AnyPlan decides under the catalog's default plan if the plan that counts is not in the
	// catalog. Else that is an error.
	AnyPlan bool
	// Renew lets Hold take a hold anew that has expired or was released, under the same operation
	// and at the same cost. Else a repeat is a replay, which holds nothing.
	Renew bool

	// Now takes the place of every clock: to replay a log, and in tests. A server must not fill it
	// in from the network.
	Now time.Time
	// SkipClosed refuses a request if its window, that of Now, is over for the subject. Else the
	// request is charged to the stored window. A log that is replayed from its start then charges
	// nothing twice.
	SkipClosed bool
}

// Amount is a number of units of a meter.
type Amount struct {
	Meter string
	Cost  int64 // units, at least 0
}

// parts returns a request for each meter of r, its own first. More of a part are the other meters.
func (r Request) parts() []Request {
	if len(r.More) == 0 {
		return []Request{r}
	}
	all := append([]Amount{{r.Meter, r.Cost}}, r.More...)
	parts := make([]Request, len(all))
	for i, a := range all {
		p := r
		p.Meter, p.Cost, p.More = a.Meter, a.Cost, slices.Delete(slices.Clone(all), i, i+1)
		parts[i] = p
	}
	return parts
}

// also returns the names of the other meters of r, sorted.
func (r Request) also() []string {
	var names []string
	for _, a := range r.More {
		names = append(names, a.Meter)
	}
	slices.Sort(names)
	return names
}

// asks reports whether r asks for what a record stands for, which was admitted at so many units.
func (r Request) asks(have Record, units int64) bool {
	if have.AtLeast > 0 {
		units = have.Asked
	}
	return units == r.Cost && have.AtLeast == r.AtLeast
}

// wanted describes in words how many units r asks for.
func (r Request) wanted() string {
	if r.AtLeast == 0 {
		return strconv.FormatInt(r.Cost, 10)
	}
	return strconv.FormatInt(r.Cost, 10) + " (at least " + strconv.FormatInt(r.AtLeast, 10) + ")"
}

func (r Request) key() Key { return Key{Subject: r.Subject, Meter: r.Meter} }

// Held names the hold that Hold takes for r, for Release and Extend.
func (r Request) Held() HeldRequest {
	return HeldRequest{Subject: r.Subject, Meter: r.Meter, Operation: r.Operation, Plan: r.Plan, AnyPlan: r.AnyPlan, Now: r.Now}
}

// HeldRequest names a hold that is to be released or to last longer. If the hold is of several
// meters, any of them names it, and all are released or last longer.
type HeldRequest struct {
	Subject, Meter string
	Operation      string    // under which the units are held
	Plan           string    // as in Request
	AnyPlan        bool      // as in Request
	Now            time.Time // as in Request
}

func (r HeldRequest) request() Request {
	return Request{Subject: r.Subject, Meter: r.Meter, Operation: r.Operation, Plan: r.Plan, AnyPlan: r.AnyPlan, Now: r.Now}
}

// RefundRequest asks that units of a charge come back.
type RefundRequest struct {
	Subject, Meter string
	Operation      string // the charge
	// ID is the id of the refund, which is given back at most once. It must not be the id of
	// anything else.
	ID    string
	Units int64 // at least 0; 0 stands for all that is left of the charge
	// More are units of other meters of the charge that come back in the same step. If neither
	// Units nor More says how many, all that is left comes back, in every meter of the charge.
	More []Amount
	// Began is when the charged operation began, as in Request. If the charge is not known, it
	// tells TooOld from NotFound.
	Began time.Time
	Now   time.Time // as in Request
}

// query asks for what is remembered of the refund and of the charge in a meter.
func (r RefundRequest) query(meter string) Query {
	return Query{Key: Key{Subject: r.Subject, Meter: meter}, IDs: []string{r.ID, r.Operation}, Now: r.Now}
}

// GrantRequest asks that a subject gets units beside those of its plan.
type GrantRequest struct {
	Subject, Meter string
	ID             string // granted at most once; it must not be the id of anything else
	Units          int64  // at least 1

	// Either Expires or Lasts says when what is left of the grant is gone, in whole seconds.
	//
	// A repeat with Lasts keeps the end of the first request, for as long as the grant lives or its
	// id is remembered. Whoever may ask again after that gives Expires: by then it is over.
	Expires time.Time
	Lasts   time.Duration // from now on, at least a second

	Now time.Time // as in Request
}
