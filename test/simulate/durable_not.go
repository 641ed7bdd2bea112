//go:build !simulate

package simulate

import "math/rand/v2"

// Runs reports whether this build can simulate: make simulate can.
const Runs = false

func waitDurably() {}

func jitterBy(rand.Source) (undo func()) { return func() {} }
