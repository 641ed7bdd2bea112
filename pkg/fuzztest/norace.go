//go:build !race

package fuzztest

// watched says that the race detector runs.
const watched = false
