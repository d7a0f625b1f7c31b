//go:build race

package interleave

// raced says that the race detector is on, which makes a world take ten times as long. A world runs in one goroutine.
const raced = true
