//go:build race

package interleave

// raced says that the race detector is on. A world then takes ten times as long, for nothing: it
// runs in one goroutine.
const raced = true
