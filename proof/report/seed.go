package report

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns the seed that HEADROOM_PROOF_SEED gives, or a random one.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	text := os.Getenv("HEADROOM_PROOF_SEED")
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		tb.Fatalf("HEADROOM_PROOF_SEED: %v", err)
	}
	return n
}
