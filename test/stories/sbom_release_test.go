package stories

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spdx/tools-golang/tagvalue"

	"github.com/waybill-release/waybill/test/scene"
)

// kubernetesLike is a project of every class that has an SBOM, with the names
// that Kubernetes gives its documents of the whole.
func kubernetesLike(t *testing.T, more map[string]string) sourced {
	t.Helper()
	_, saved := savedImage(t)
	files := map[string]string{"saved.tar": saved, "release.yaml": `apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://example.test/lantern"}
steps:
- name: save
  run: [sh, -c, "cp saved.tar {out}/lantern.tar"]
  outputs: [{class: file, name: lantern.tar}]
- name: pack
  archive: {format: tar.gz, root: lantern}
  outputs: [{class: archive, name: lantern-src.tar.gz, take: source}]
- name: image
  image: {import: lantern.tar, platforms: [linux/arm64]}
  outputs: [{class: image, name: lantern}]
sboms: {release: kubernetes-release.spdx, source: kubernetes-source.spdx}
` + places}
	for name, body := range more {
		files[name] = body
	}
	return openProject(t, project(t, files))
}

// TestKubernetesSBOMs: every class gets its SBOM, and the whole the documents
// that Kubernetes publishes: they are valid, the reference library reads them
// and writes them again as the same, and each is true of what it is about.
func TestKubernetesSBOMs(t *testing.T) {
	s := kubernetesLike(t, nil)
	edit(t, s.Path("policy.yaml"), "sbom: require}", "sbom: complete}\n  profile: cisa-2026")
	want(t, s.Stage(t.Context()), 0, "OK ")
	sbom := func(args ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "sbom"}, args...)...)
	}
	const files = "state/files/"
	whole := []string{files + "kubernetes-release.spdx", files + "kubernetes-source.spdx", files + "lantern.tar.spdx.json", files + "lantern-src.tar.gz.spdx.json",
		s.imageSBOM(t, "files"), s.imageSBOM(t, "attached")}
	for _, profile := range []string{"ntia-2021", "cisa-2026", "bsi-2.1"} {
		want(t, sbom(append([]string{"validate", "--profile", profile}, whole...)...), 0, "verified=6")
	}
	want(t, sbom("validate", "--profile", "cisa", whole[0]), 2, "want one of spdx, ntia-2021, cisa-2026, bsi-2.1")
	want(t, sbom("validate", files+"kubernetes-release.spdx", files+"kubernetes-source.spdx", files+"lantern.tar.spdx.json"), 0, "verified=3", "tag-value")
	for _, name := range []string{"kubernetes-release.spdx", "kubernetes-source.spdx"} {
		raw, err := os.ReadFile(s.Path(files + name))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := tagvalue.Read(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: the reference library does not read it: %v", name, err)
		}
		var again bytes.Buffer
		if err := tagvalue.Write(doc, &again); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Path("again.spdx"), again.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		want(t, sbom("validate", "--twin", files+name, "again.spdx"), 0, "verified=3")
	}
	want(t, sbom("check", files+"kubernetes-source.spdx", "lantern", "--complete"), 0, "a directory")
	want(t, sbom("check", files+"lantern.tar.spdx.json", files+"lantern.tar", "--complete"), 0, "a file")
	want(t, sbom("check", files+"lantern-src.tar.gz.spdx.json", files+"lantern-src.tar.gz", "--complete"), 0)
	image, child := s.imageSBOM(t, "files"), s.imageSBOM(t, "attached")
	for _, name := range []string{image, child} {
		if raw, err := os.ReadFile(name); err != nil || !strings.Contains(string(raw), "pkg:oci/lantern@") {
			t.Errorf("%s does not name the image as it is known (%v)", name, err)
		}
	}
	want(t, sbom("check", image, "state/images"), 0, "an image of one platform")
	want(t, sbom("check", image, "state/images", "--platform", "linux/arm64"), 1, "SBOM_SUBJECT")
	want(t, sbom("check", child, "state/images", "--platform", "linux/arm64", "--image", "lantern:v0.1.0"), 0, "the image of linux/arm64")
	want(t, sbom("check", child, "state/images", "--image", "lantern:v0.1.0"), 0, "the image of linux/arm64")
	want(t, sbom("check", image, "state/images", "--platform", "linux/amd64"), 1, "PLATFORM", "linux/arm64")
	want(t, sbom("check", files+"lantern.tar.spdx.json", "state/images", "--image", "lantern:v0.1.0"), 1, "SBOM_SUBJECT")
	want(t, sbom("check", files+"lantern.tar.spdx.json", "state/images"), 2, "several images", "lantern:v0.1.0")
	if err := os.WriteFile(s.Path("lantern", "saved.tar"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, sbom("check", files+"kubernetes-source.spdx", "lantern"), 1, "EVIDENCE_CONFLICT", "saved.tar")

	want(t, sbom("diff", "state/files", files+"release.manifest.sigstore.json"), 0, "no package or file")
	want(t, sbom("diff", "state/files", "state/files", "--output", "json"), 0, "[]")
	want(t, sbom("diff", "state/files", files+"kubernetes-source.spdx"), 2, "two releases")
	edit(t, s.Path(files+"lantern.tar.spdx.json"), "NOASSERTION", "NONE")
	want(t, sbom("diff", "state/files", "state/files"), 1, "TAMPERED", "lantern.tar.spdx.json")
}

// imageSBOM is the document of the image among the files, or that of its one
// platform among what is attached.
func (s sourced) imageSBOM(t *testing.T, among string) string {
	t.Helper()
	found := ""
	err := filepath.WalkDir(s.Path("state", among), func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".spdx.json") && !strings.Contains(path, ".tar") {
			found = path
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no SBOM of the image (%v)", err)
	}
	return found
}

// TestCompleteSBOMs: a policy that asks for complete SBOMs refuses a release of
// which a part is seen and not catalogued: before it is signed, and where it is
// judged. Its twin in TestKubernetesSBOMs has no such part, and one that asks
// for SBOMs alone takes it.
func TestCompleteSBOMs(t *testing.T) {
	s := kubernetesLike(t, map[string]string{"package-lock.json": "{}\n"})
	policy := s.Path("policy.yaml")
	edit(t, policy, "sbom: require", "sbom: complete")
	want(t, s.Stage(t.Context()), 1, "SBOM_INCOMPLETE", "package-lock.json")
	edit(t, policy, "sbom: complete", "sbom: require")
	want(t, s.Stage(t.Context()), 0, "OK ", "package-lock.json")
	gate := func() scene.Result {
		return s.Run(t.Context(), "waybill", "gate", "check", scene.Version, "--profile", "profile.yaml")
	}
	want(t, gate(), 0)
	edit(t, policy, "sbom: require", "sbom: complete")
	want(t, gate(), 1, "SBOM_INCOMPLETE", "package-lock.json")
}
