package promotionplan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// large are the manifests of projects with so many images each, of one digest
// with two tags, that go to so many registries.
func large(b *testing.B, projects, images, registries int) []promoterfile.Manifest {
	b.Helper()
	var all []promoterfile.Manifest
	for p := range projects {
		var where, what strings.Builder
		fmt.Fprintf(&where, "registries:\n- {name: staging.example.test/project-%d, src: true}\n", p)
		for r := range registries {
			fmt.Fprintf(&where, "- {name: r%d.example.test/images/project-%d}\n", r, p)
		}
		for i := range images {
			d := digest.Of(digest.SHA256, fmt.Appendf(nil, "%d %d", p, i))
			fmt.Fprintf(&what, "- name: image-%d\n  dmap:\n    \"%s\": [\"v1.%d\", \"latest\"]\n", i, d, i)
		}
		m, err := promoterfile.ParseThin(fmt.Sprintf("project-%d", p), []byte(where.String()), []byte(what.String()))
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// BenchmarkMake plans what Kubernetes has: one project of 15 000 digests, and
// 46 000 groups of tags in all, each to 21 registries.
func BenchmarkMake(b *testing.B) {
	for _, c := range []struct{ projects, images int }{{1, 15_000}, {230, 200}} {
		b.Run(fmt.Sprintf("%dx21", c.projects*c.images), func(b *testing.B) {
			manifests := large(b, c.projects, c.images, 21)
			b.ReportAllocs()
			for b.Loop() {
				p, err := Make(manifests)
				if err != nil || p.Extent().Moves != c.projects*c.images*21 {
					b.Fatal(p.Extent(), err)
				}
			}
		})
	}
}

// BenchmarkSaved reads such a plan as it was saved.
func BenchmarkSaved(b *testing.B) {
	p, err := Make(large(b, 230, 200, 21))
	if err != nil {
		b.Fatal(err)
	}
	raw := p.JSON()
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := Parse(raw); err != nil {
			b.Fatal(err)
		}
	}
}
