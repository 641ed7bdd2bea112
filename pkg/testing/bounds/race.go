//go:build race

package bounds

// watched says that the race detector runs.
const watched = true
