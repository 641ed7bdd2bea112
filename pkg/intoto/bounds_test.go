package intoto_test

import (
	"runtime/metrics"
	"testing"
	"time"
)

// What one input may cost. Everything that is allocated counts, also what is
// freed again.
const (
	maxInput  = 1 << 20
	maxAlloc  = 100 << 20
	maxMoment = time.Second
)

// bounded runs a parser and demands that it stays within that.
func bounded(t *testing.T, raw []byte, parse func()) {
	t.Helper()
	if len(raw) > maxInput {
		t.Skip("larger than what is fuzzed")
	}
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, start := sample[0].Value.Uint64(), time.Now()
	parse()
	took := time.Since(start)
	metrics.Read(sample)
	if bytes := sample[0].Value.Uint64() - before; took > maxMoment || bytes > maxAlloc {
		t.Errorf("%d bytes of input took %s and %d bytes of memory", len(raw), took, bytes)
	}
}
