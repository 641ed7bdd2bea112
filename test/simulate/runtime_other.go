//go:build !(simulate && linux && amd64)

package simulate

import "math/rand/v2"

// Repeats reports whether the same seed makes the same run in this build.
const Repeats = false

// Prepare does nothing here: a process that is killed leaves all that it wrote, and Go's
// scheduler chooses among goroutines that are ready at the same moment.
func Prepare() error { return nil }

func choose(*rand.Rand) {}

func collect() {}
