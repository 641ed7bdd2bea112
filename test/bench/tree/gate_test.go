package tree_test

import (
	"os"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/bench/tree"
)

// BenchmarkGate decides about a tree in process, for profiles:
//
//	WAYBILL_BENCH_TREE=~/.cache/waybill-bench/tree-… go test -bench Gate -cpuprofile cpu.out ./bench/tree
func BenchmarkGate(b *testing.B) {
	dir := os.Getenv("WAYBILL_BENCH_TREE")
	if dir == "" {
		b.Skip("WAYBILL_BENCH_TREE names no tree made by waybill-bench")
	}
	p, err := profile.Load(tree.Profile(dir), profile.Reader{Now: time.Now()})
	if err != nil {
		b.Fatal(err)
	}
	v, err := verify.New(p.TrustRoot)
	if err != nil {
		b.Fatal(err)
	}
	files, err := store.Open(tree.Released(dir), nil)
	if err != nil {
		b.Fatal(err)
	}
	released, err := version.Parse(tree.Version)
	if err != nil {
		b.Fatal(err)
	}
	req := gate.Request{Version: released, Files: files, Verifier: v, Policy: p.Policy, Stage: policy.Published, Now: time.Now()}
	req.Canon.Files, req.Canon.Images = p.Canonical(released)
	for name, options := range map[string]gate.Options{
		"sha256": {}, "all": {AllDigests: true}, "files": {Scope: gate.Scope{Depth: gate.OnlyFiles}},
	} {
		b.Run(name, func(b *testing.B) {
			req.Options = options
			b.ReportAllocs()
			for b.Loop() {
				if err := gate.Decide(b.Context(), req).Verdict.Err(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
