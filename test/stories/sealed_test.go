package stories

import (
	"os"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
)

// TestOneAttestationForAllFiles: a release whose files have no bundle each is
// signed by its manifest, one statement about all of them, and is complete. A
// file that was planned to have a bundle is not excused so: the twins are in
// test/attacks.
func TestOneAttestationForAllFiles(t *testing.T) {
	s := openProject(t, project(t, map[string]string{"release.yaml": `apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://example.test/lantern"}
defaults: {evidence: {file: [provenance]}}
lists: {letters: [a, b, c]}
steps:
- name: write
  each: {letter: letters}
  run: [sh, -c, "echo {letter} > {out}/{letter}.txt"]
  outputs: [{class: file, name: "{letter}.txt"}]
places:
  files: "https://dl.example.test/lantern/{version}/"
`}))
	edit(t, s.Path("policy.yaml"), "sbom: require", "sbom: warn")
	want(t, s.Stage(t.Context()), 0, "OK ")
	if _, err := os.Stat(s.Path("state", "out", "a.txt.sigstore.json")); err == nil {
		t.Error("a file has a bundle that nobody planned")
	}
	want(t, s.Release(t.Context()), 0)
	r := s.Verify(t.Context(), "--output", "json")
	want(t, r, 0)
	signed := map[string]string{}
	for _, p := range parse(t, r).Proofs {
		if p.Role == "release" {
			signed[p.Subject] = p.Statement
		}
	}
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		if signed[name] != releasemanifest.PredicateType {
			t.Errorf("%s is signed by %q, want the manifest (all: %v)", name, signed[name], signed)
		}
	}
}
