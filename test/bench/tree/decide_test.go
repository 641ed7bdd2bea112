package tree_test

import (
	"io"
	"os"
	"testing"

	"github.com/waybill-release/waybill/test/bench/tree"
)

// BenchmarkDecide decides twenty times about every artifact of a tree, for
// profiles; verifying its evidence is in them too:
//
//	WAYBILL_BENCH_TREE=~/.cache/waybill-bench/tree… go test -bench Decide -cpuprofile cpu.out ./bench/tree
func BenchmarkDecide(b *testing.B) {
	dir := os.Getenv("WAYBILL_BENCH_TREE")
	if dir == "" {
		b.Skip("WAYBILL_BENCH_TREE names no tree made by waybill-bench")
	}
	for b.Loop() {
		if err := tree.Decide(io.Discard, dir, 20); err != nil {
			b.Fatal(err)
		}
	}
}
