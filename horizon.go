package headroom

import (
	"fmt"
	"time"
)

// DefaultHorizon is how long operation ids are remembered at least, unless a horizon is configured: longer
// than a queue keeps a message and than a state machine can be redriven, both 14 days on AWS.
const DefaultHorizon = 15 * day

// MaxHorizon is the longest time that operation ids can be remembered: ten years.
const MaxHorizon = 10 * 366 * day

// Memory is how a meter remembers operation ids. The zero value is a good one.
type Memory struct {
	// Horizon is how long at least, in whole minutes, from one to MaxHorizon. Zero: what holds for all meters.
	Horizon time.Duration
	// None admits a Deduct without an operation id, for callers that have none. Nothing is remembered of it:
	// a repeat is another charge, and there is no refund. What has an id is remembered as ever.
	None bool
}

func checkHorizon(h time.Duration) *Error {
	if h != 0 && (h < time.Minute || h > MaxHorizon || h%time.Minute != 0) {
		return invalid("horizon %s: want whole minutes, from 1 to those of %d days", h, MaxHorizon/day)
	}
	return nil
}

// inDays writes a time as people do, if it is whole days.
func inDays(d time.Duration) string {
	switch {
	case d == day:
		return "1 day"
	case d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
