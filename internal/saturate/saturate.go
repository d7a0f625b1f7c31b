// Package saturate adds units for show: each count is exact, only a sum over many may be too great.
package saturate

import "math"

// Add is a + b, or the greatest int64 where the sum is beyond that. b is at least 0.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
