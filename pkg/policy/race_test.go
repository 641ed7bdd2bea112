//go:build race

package policy_test

// watched says that the race detector runs, which takes many times the memory
// and the time: then neither is measured.
const watched = true
