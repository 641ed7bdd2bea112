package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
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
outside: [metadata.json, {name: "{version}/{file}", each: {file: [artifacts.json]}}]
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

// TestGivenImages: an image that another tool pushed is planned like one of a
// step, under the tag of the release, whatever tag it has where it is.
func TestGivenImages(t *testing.T) {
	text := strings.Replace(dist, "outside:", "- {class: image, name: lantern, from: \"owner/lantern:{version.number}\", platforms: every, alsoPerArch: \"lantern-{arch}\", sbom: image.spdx.json}\noutside:", 1)
	p, err := expand(t, strings.Replace(text, "sidecars: [sha256]}}", "sidecars: [sha256]}, images: registry.example.test/lantern}", 1))
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Given{
		{Name: "oci/lantern", From: "owner/lantern:0.1.0"},
		{Name: "oci/lantern-amd64", From: "lantern-amd64:0.1.0"},
		{Name: "oci/lantern-arm64", From: "lantern-arm64:0.1.0"},
	}
	if !slices.Equal(p.GivenImages, want) {
		t.Errorf("given %v", p.GivenImages)
	}
	for name, class := range map[string]plan.Class{
		"oci/lantern": plan.Image, "oci/lantern/linux/arm64": plan.ImageChild, "oci/lantern-amd64": plan.Image, "image.spdx.json": plan.SBOM,
	} {
		a, planned := p.Find(name)
		if !planned || a.Class != class || a.IsBuilt() || a.IsImage() != a.Has("signature") {
			t.Errorf("%s: %+v, want %s", name, a, class)
		}
	}
	if _, planned := p.Find("oci/lantern.sigstore.json"); planned {
		t.Error("a file is planned about an image")
	}
}

// TestGivenEvidence: evidence that lies elsewhere in the place is an output of
// its own, which others name, and nothing is made about it.
func TestGivenEvidence(t *testing.T) {
	p, err := expand(t, strings.Replace(dist, "outside:", "- {class: sbom, name: lantern_linux_amd64.sbom.spdx.json, from: \"{version}/sbom.json\"}\noutside:", 1))
	if err != nil {
		t.Fatal(err)
	}
	a, planned := p.Find("lantern_linux_amd64.sbom.spdx.json")
	if !planned || a.Class != plan.SBOM || len(a.Evidence) > 0 || !slices.Contains(p.Given, plan.Given{Name: a.Name, From: "v0.1.0/sbom.json"}) {
		t.Errorf("%+v of %v", a, p.Given)
	}
}

// TestGivenRefused changes one fact of the file.
func TestGivenRefused(t *testing.T) {
	rows := []struct{ name, old, with, names string }{
		{"steps too", "outside:", "steps: [{name: a, run: [make], outputs: [{class: file, name: b}]}]\noutside:", "steps"},
		{"a lock", "outside:", "lock: release.lock.yaml\noutside:", "lock"},
		{"SBOMs that nobody makes", "outside:", "sboms: {release: a.spdx.json}\noutside:", "sboms"},
		{"parameters of nobody", "outside:", "parameters: {a: {type: bool, default: true}}\noutside:", "parameters"},
		{"an image of no platform", "class: file", "class: image", "platforms"},
		{"an image without a registry", "class: file", "class: image, platforms: every", "images"},
		{"a file of platforms", "class: file", "class: file, platforms: every", "platforms"},
		{"evidence of evidence", "class: file", "class: sbom, provenance: provenance.json", "evidence"},
		{"one name twice", "name: SHA256SUMS", "name: bin/linux/amd64/lantern", "two artifacts"},
		{"a name that leaves", "from: \"lantern", "from: \"../lantern", "from"},
		{"an image's name", "name: SHA256SUMS", "name: oci/lantern", "oci/"},
		{"evidence that is an artifact", "sbom: \"lantern_{os}_{arch}.sbom.spdx.json\"", "sbom: provenance.json", "two artifacts"},
		{"an unknown key", "class: file", "class: file, take: source", "take"},
		{"an unknown key outside", "{name: \"{version}/{file}\",", "{class: file, name: \"{version}/{file}\",", "class"},
		{"a checksum of nothing", "class: file, name: SHA256SUMS", "class: checksum, name: nothing.sha256", "not planned"},
		{"a checksum of no algorithm", "class: file, name: SHA256SUMS", "class: checksum, name: provenance.md5", ".sha512"},
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

// TestGivenListOfSBOMs: SBOMs that came along are listed; without any there is
// no list.
func TestGivenListOfSBOMs(t *testing.T) {
	for text, want := range map[string]bool{
		dist: true,
		strings.Replace(dist, `, sbom: "lantern_{os}_{arch}.sbom.spdx.json"`, "", 1): false,
	} {
		p, err := expand(t, text)
		if err != nil {
			t.Fatal(err)
		}
		sboms := slices.ContainsFunc(p.Artifacts, func(a plan.Artifact) bool { return a.Class == plan.SBOM })
		a, planned := p.Find("sboms.sigstore.json")
		if sboms != want || planned != want || planned && (!a.IsSBOMList() || a.IsStatement()) {
			t.Errorf("SBOMs %t, want %t: planned %t, %+v", sboms, want, planned, a)
		}
	}
}
