//go:build !race

package interleave

const raced = false
