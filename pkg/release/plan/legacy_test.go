package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

const legacyConfig = `apiVersion: waybill/v1
kind: Release
name: demo
version: {scheme: kubernetes, tag: "{version}"}
source: {repository: https://example.test/demo}
steps:
- name: one
  run: [make]
  outputs:
  - {class: binary, name: tool}
  - {class: file, name: NAME, evidence: [provenance]}
places:
  files: {uri: "https://files.example.test/{version}/", owns: prefix, sums: [SHA256SUMS]}
`

// TestWithLegacy: what is signed gets a .sig and a .cert, and nothing else does.
func TestWithLegacy(t *testing.T) {
	expand := func(other string) plan.Plan {
		text := strings.Replace(legacyConfig, ", evidence: [provenance]", "", 1)
		c, err := plan.ParseConfig([]byte(strings.Replace(text, "NAME", other, 1)))
		if err != nil {
			t.Fatal(err)
		}
		v, err := version.Parse("v1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Expand(v)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := expand("notes.txt")
	with, err := p.WithLegacy()
	if err != nil || !with.Legacy() || p.Legacy() {
		t.Fatal(err)
	}
	var added []string
	for _, a := range with.Artifacts {
		if a.IsLegacy() {
			added = append(added, a.Name)
		}
	}
	want := []string{"SHA256SUMS.cert", "SHA256SUMS.sig", "notes.txt.cert", "notes.txt.sig", "tool.cert", "tool.sig"}
	if !slices.Equal(added, want) || len(with.Artifacts) != len(p.Artifacts)+len(want) {
		t.Errorf("%q, want %q", added, want)
	}
	for _, name := range want {
		if _, found := with.Find(name); !found {
			t.Errorf("%s is not found", name)
		}
	}
	if _, err := expand("tool.sig").WithLegacy(); verdict.FindingOf("", err).Code != verdict.ConfigParse {
		t.Errorf("a name that is taken: %v", err)
	}
}
