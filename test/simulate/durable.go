//go:build simulate

package simulate

import (
	"math/rand/v2"
	_ "unsafe" // for the two names below
)

// Runs reports whether this build can simulate.
const Runs = true

// A goroutine that waits for a mutex does not count as blocked in package synctest, so
// time would stand still while its holder waits for an answer. These names of the
// runtime, of Go 1.26, change that; the linker has to allow them.
//
//go:linkname idle runtime.isIdleInSynctest
var idle [47]bool

//go:linkname reasons runtime.waitReasonStrings
var reasons [47]string

//go:linkname topLevel math/rand/v2.globalRand
var topLevel *rand.Rand

// waitDurably makes waiting for a mutex count as blocked.
func waitDurably() {
	for i, reason := range reasons {
		switch reason {
		case "sync.Mutex.Lock", "sync.RWMutex.Lock", "sync.RWMutex.RLock":
			idle[i] = true
		}
	}
}

// jitterBy makes a source that of the functions of package rand, by which the product
// varies its pauses, and returns what undoes that.
func jitterBy(source rand.Source) (undo func()) {
	before := topLevel
	topLevel = rand.New(source) //nolint:gosec // repeatable, and nothing secret
	return func() { topLevel = before }
}
