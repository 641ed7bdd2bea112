package manifest_test

import (
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestFollows changes one fact of a revision that follows.
func TestFollows(t *testing.T) {
	before, err := manifest.ReadManifest(statement(t, lantern(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	before.Withdrawn = nil
	bundle := set("revision two").SHA256
	entry := func(m *manifest.Manifest, name string) *manifest.Artifact {
		i := slices.IndexFunc(m.Artifacts, func(a manifest.Artifact) bool { return a.Name == name })
		return &m.Artifacts[i]
	}
	const binary = "bin/linux/amd64/lantern"
	rows := []struct {
		name   string
		change func(m *manifest.Manifest)
		code   verdict.Code
	}{
		{"as it is", func(*manifest.Manifest) {}, ""},
		{"a withdrawal", func(m *manifest.Manifest) { m.Withdrawn = &manifest.Withdrawal{Reason: "it flickers"} }, ""},
		{"another signature of the image", func(m *manifest.Manifest) { entry(m, "oci/lantern").Signature = set("new").SHA256.String() }, ""},
		{"revisions between were not seen", func(m *manifest.Manifest) { m.Revision, m.Supersedes = 5, set("four").SHA256 }, ""},
		{"another release", func(m *manifest.Manifest) { m.Name = "torch" }, verdict.Version},
		{"another version", func(m *manifest.Manifest) { m.Version = ver(t, "v0.1.1") }, verdict.Version},
		{"an older revision", func(m *manifest.Manifest) { m.Revision, m.Supersedes = 1, digest.Digest{} }, verdict.Stale},
		{"the same revision twice", func(m *manifest.Manifest) { m.Revision = before.Revision }, verdict.Equivocation},
		{"a fork", func(m *manifest.Manifest) { m.Supersedes = set("another revision two").SHA256 }, verdict.Equivocation},
		{"it supersedes nothing", func(m *manifest.Manifest) { m.Supersedes = digest.Digest{} }, verdict.Equivocation},
		{"another commit", func(m *manifest.Manifest) { m.Source.Commit = "c" }, verdict.NotBound},
		{"another configuration", func(m *manifest.Manifest) { m.Config = set("other").SHA256 }, verdict.NotBound},
		{"no lock any more", func(m *manifest.Manifest) { m.Lock = digest.Digest{} }, verdict.NotBound},
		{"another file place", func(m *manifest.Manifest) { m.FilesURI = "https://evil.example/" }, verdict.PlaceOther},
		{"another registry", func(m *manifest.Manifest) { m.ImagesURI = "registry.evil.example" }, verdict.PlaceOther},
		{"other bytes", func(m *manifest.Manifest) { entry(m, binary).Digests = set("other") }, verdict.Tampered},
		{"another sha512 alone", func(m *manifest.Manifest) { entry(m, binary).Digests.SHA512 = set("other").SHA512 }, verdict.Tampered},
		{"another size", func(m *manifest.Manifest) { entry(m, binary).Size++ }, verdict.Tampered},
		{"another class", func(m *manifest.Manifest) { entry(m, binary).Class = "archive" }, verdict.NotBound},
		{"one name more", func(m *manifest.Manifest) { m.Artifacts = append(m.Artifacts, file("zebra", "file")) }, verdict.PlanExtra},
		{"one name less", func(m *manifest.Manifest) { m.Artifacts = m.Artifacts[1:] }, verdict.PlanMissing},
		{"two names exchanged", func(m *manifest.Manifest) {
			a, b := entry(m, binary), entry(m, "release.yaml")
			a.Digests, b.Digests = b.Digests, a.Digests
		}, verdict.Tampered},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			next := before.Revise(bundle, "for a reason")
			r.change(&next)
			err := next.Follows(before, bundle)
			switch {
			case r.code == "" && err != nil:
				t.Errorf("refused: %v", err)
			case r.code != "" && (err == nil || verdict.FindingOf("", err).Code != r.code):
				t.Errorf("%v, want %s", err, r.code)
			}
		})
	}
}

// TestWithdrawnForGood: no later revision brings a release back.
func TestWithdrawnForGood(t *testing.T) {
	before, err := manifest.ReadManifest(statement(t, lantern(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	bundle := set("withdrawn").SHA256
	next := before.Revise(bundle, "back again")
	if err := next.Follows(before, bundle); err != nil {
		t.Errorf("still withdrawn, and refused: %v", err)
	}
	next.Withdrawn = nil
	if err := next.Follows(before, bundle); err == nil || verdict.FindingOf("", err).Code != verdict.Withdrawn {
		t.Errorf("%v, want %s", err, verdict.Withdrawn)
	}
}

// TestReviseLeavesTheOneBefore: what is bound to a revision is bound to no
// other, and both read back.
func TestReviseLeavesTheOneBefore(t *testing.T) {
	before, err := manifest.ReadManifest(statement(t, lantern(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	next := before.Revise(set("b").SHA256, "an SBOM")
	if names := next.Rebound(before); len(names) > 0 {
		t.Errorf("bound anew: %q", names)
	}
	next.Artifacts[0].SBOM = ""
	if names := next.Rebound(before); !slices.Equal(names, []string{next.Artifacts[0].Name}) || before.Artifacts[0].SBOM == "" {
		t.Errorf("bound anew: %q; the one before has %q", names, before.Artifacts[0].SBOM)
	}
	again, err := manifest.ReadManifest(statement(t, next), nil)
	if err != nil || again.Revision != 3 || again.Change != "an SBOM" || !again.Supersedes.Equal(set("b").SHA256) {
		t.Errorf("%+v, %v", again, err)
	}
}
