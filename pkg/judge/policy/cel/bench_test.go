package cel_test

import (
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy/cel"
)

// typicalRule is as long as rules are.
const typicalRule = `evidence.exists(e, e.kind == "` + kindProvenance + `" && e.role == "builder" &&
	e.provenance.level >= 3 && e.provenance.repository == "` + source + `" &&
	e.provenance.ref == "refs/tags/" + version &&
	e.provenance.dependencies.all(d, size(d.sha256) == 64))`

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := cel.New(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	c := compiler(b)
	for b.Loop() {
		if _, err := c.Compile(typicalRule); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHolds(b *testing.B) {
	rule, err := compiler(b).Compile(typicalRule)
	if err != nil {
		b.Fatal(err)
	}
	asked := view()
	for b.Loop() {
		if holds, err := rule.Holds(asked); err != nil || !holds {
			b.Fatal(holds, err)
		}
	}
}

// BenchmarkHoldsLimit is the longest that any rule can take.
func BenchmarkHoldsLimit(b *testing.B) {
	rule, err := compiler(b).Compile(`evidence.exists(e, e.provenance.dependencies.exists(d, d.name == artifact.name))`)
	if err != nil {
		b.Fatal(err)
	}
	asked := view()
	asked.Evidence = slices.Repeat(asked.Evidence[:1], 100)
	for i := range asked.Evidence {
		asked.Evidence[i].Provenance.Dependencies = slices.Repeat(view().Evidence[0].Provenance.Dependencies, 25_000)
	}
	for b.Loop() {
		if _, err := rule.Holds(asked); err == nil {
			b.Fatal("the limit was not reached")
		}
	}
}
