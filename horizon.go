package headroom

import (
	"fmt"
	"time"
)

// DefaultHorizon is how long operation ids are remembered at least, unless a horizon is configured.
// It is longer than a queue keeps a message, and than a state machine can be started again: both
// are 14 days on AWS.
const DefaultHorizon = 15 * day

// MaxHorizon is the longest time for which operation ids can be remembered: ten years.
const MaxHorizon = 10 * 366 * day

// Memory is how a meter remembers operation ids. The zero value is a good one.
type Memory struct {
	// Horizon is how long ids are remembered at least, in whole minutes, from one to MaxHorizon.
	// Zero: as long as holds for all meters. See Catalog.WithMemory.
	Horizon time.Duration
	// None admits a Deduct without an operation id, for callers that have none. Nothing is
	// remembered about it: a repeat is another charge, and there is no refund. A request with an id
	// is remembered all the same.
	None bool
}

func checkHorizon(h time.Duration) *Error {
	if h != 0 && (h < time.Minute || h > MaxHorizon || h%time.Minute != 0) {
		return invalid("horizon %s: want whole minutes, from 1 to those of %d days", h, MaxHorizon/day)
	}
	return nil
}

// inDays writes a time as people do, if it is in whole days.
func inDays(d time.Duration) string {
	switch {
	case d == day:
		return "1 day"
	case d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
