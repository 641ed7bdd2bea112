package plan_test

import (
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/plan"
)

const dist = `apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://example.test/lantern"}
lists: {every: [linux/amd64, linux/arm64]}
outputs:
- {class: archive, each: {platform: every}, name: "lantern_{os}_{arch}.tar.gz", sbom: "lantern_{os}_{arch}.sbom.spdx.json", provenance: provenance.json}
- {class: binary, each: {platform: every}, name: "bin/{os}/{arch}/lantern", from: "lantern_{os}_{arch}/lantern", provenance: provenance.json}
- {class: file, name: SHA256SUMS}
outside: [metadata.json, "{version}/artifacts.json"]
places: {files: {uri: "https://dl.example.test/lantern/{version}/", sidecars: [sha256]}}
`

// TestGiven: a file that another tool made has no step; what proves something
// about it is planned, and nothing that would have to be made.
func TestGiven(t *testing.T) {
	p, err := expand(t, dist)
	if err != nil {
		t.Fatal(err)
	}
	if !p.IsGiven() || len(p.Steps) != 0 || p.SBOMs != (plan.Documents{}) || !slices.Equal(p.Outside, []string{"metadata.json", "v0.1.0/artifacts.json"}) {
		t.Errorf("steps %v, SBOMs %v, outside %q", p.Steps, p.SBOMs, p.Outside)
	}
	want := []plan.Given{
		{Name: "SHA256SUMS", From: "SHA256SUMS"},
		{Name: "bin/linux/amd64/lantern", From: "lantern_linux_amd64/lantern"},
		{Name: "bin/linux/arm64/lantern", From: "lantern_linux_arm64/lantern"},
		{Name: "lantern_linux_amd64.sbom.spdx.json", From: "lantern_linux_amd64.sbom.spdx.json"},
		{Name: "lantern_linux_amd64.tar.gz", From: "lantern_linux_amd64.tar.gz"},
		{Name: "lantern_linux_arm64.sbom.spdx.json", From: "lantern_linux_arm64.sbom.spdx.json"},
		{Name: "lantern_linux_arm64.tar.gz", From: "lantern_linux_arm64.tar.gz"},
		{Name: "provenance.json", From: "provenance.json"},
	}
	if !slices.Equal(p.Given, want) {
		t.Errorf("given %v", p.Given)
	}
	classes := map[string]plan.Class{
		"bin/linux/amd64/lantern": plan.Binary, "bin/linux/amd64/lantern.sigstore.json": plan.Signature, "bin/linux/amd64/lantern.sha256": plan.Checksum,
		"SHA256SUMS": plan.Other, "SHA256SUMS.sigstore.json": plan.Signature, "SHA512SUMS": plan.Sums,
		"provenance.json": plan.Provenance, "lantern_linux_amd64.sbom.spdx.json": plan.SBOM, plan.ConfigName: plan.ConfigFile,
	}
	for name, class := range classes {
		if a, planned := p.Find(name); !planned || a.Class != class || a.Step != "" || a.IsBuilt() {
			t.Errorf("%s: %+v, want %s", name, a, class)
		}
	}
	for _, name := range []string{"provenance.json.sigstore.json", "provenance.json.sha256", "lantern.spdx.json", plan.LockName} {
		if _, planned := p.Find(name); planned {
			t.Errorf("%s is planned", name)
		}
	}
}

// TestGivenRefused changes one fact of the file.
func TestGivenRefused(t *testing.T) {
	rows := []struct{ name, old, with, names string }{
		{"steps too", "outside:", "steps: [{name: a, run: [make], outputs: [{class: file, name: b}]}]\noutside:", "steps"},
		{"a lock", "outside:", "lock: release.lock.yaml\noutside:", "lock"},
		{"SBOMs that nobody makes", "outside:", "sboms: {release: a.spdx.json}\noutside:", "sboms"},
		{"parameters of nobody", "outside:", "parameters: {a: {type: bool, default: true}}\noutside:", "parameters"},
		{"an image", "class: file", "class: image", "image"},
		{"one name twice", "name: SHA256SUMS", "name: bin/linux/amd64/lantern", "two artifacts"},
		{"a name that leaves", "from: \"lantern", "from: \"../lantern", "from"},
		{"an image's name", "name: SHA256SUMS", "name: oci/lantern", "oci/"},
		{"evidence that is an artifact", "sbom: \"lantern_{os}_{arch}.sbom.spdx.json\"", "sbom: provenance.json", "two artifacts"},
		{"an unknown key", "class: file", "class: file, take: source", "take"},
		{"nothing", "name: SHA256SUMS", "name: \"\"", "empty"},
		{"a template of nothing", "name: SHA256SUMS", "name: \"{nothing}\"", "nothing"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := expand(t, change(t, dist, r.old, r.with))
			refused(t, err, r.names)
		})
	}
	_, err := expand(t, change(t, full, "steps:\n", "outside: [a]\nsteps:\n"))
	refused(t, err, "outside")
}
