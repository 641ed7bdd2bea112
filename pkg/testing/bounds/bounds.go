// Package bounds holds parsers to what one input may cost, in tests.
//
//	f.Fuzz(func(t *testing.T, raw []byte) {
//		bounds.Bounded(t, raw, func() { _, _ = Parse(raw) })
//	})
//
// A bound on time that never errs on a busy machine is a coarse one: what it
// is to catch grows with the square of the input, or worse, and takes minutes.
// The race detector takes many times the memory and the time: under it nothing
// is measured.
//
// Other projects should not import this package: it changes without notice.
package bounds

import (
	"runtime/metrics"
	"testing"
	"time"
)

// MaxInput is how large an input is at most that a fuzzer tries.
const MaxInput = 1 << 20

// What one input may cost. Everything that is allocated counts, also what is
// freed again.
const (
	maxAlloc  = 100 << 20
	maxMoment = 20 * time.Second // what is honest takes a fraction of one
)

// Bounded runs a parser and demands that it stays within what one input may
// cost. An input larger than [MaxInput] is skipped: it is for fuzzers, and
// tests that choose their inputs call [Within].
func Bounded(t testing.TB, raw []byte, parse func()) {
	t.Helper()
	if len(raw) > MaxInput {
		t.Skip("larger than what is fuzzed")
	}
	Within(t, len(raw), parse)
}

// Within is [Bounded] for an input of any size, which is only named.
func Within(t testing.TB, size int, do func()) {
	t.Helper()
	if c := costOf(do); !watched && c.excessive() {
		t.Errorf("%d bytes of input took %s and %d MB of memory", size, c.took, c.bytes>>20)
	}
}

// cost is what something took.
type cost struct {
	took  time.Duration
	bytes uint64
}

func costOf(do func()) cost {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, start := sample[0].Value.Uint64(), time.Now()
	do()
	took := time.Since(start)
	metrics.Read(sample)
	return cost{took, sample[0].Value.Uint64() - before}
}

func (c cost) excessive() bool { return c.took > maxMoment || c.bytes > maxAlloc }
