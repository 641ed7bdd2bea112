package stories

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/scene"
)

// TestListOfSBOMs: whoever has an SBOM of a release verifies it alone, by the
// one signed list of all SBOMs, which a resumed or amended release keeps.
func TestListOfSBOMs(t *testing.T) {
	const sbom, other = artifact + ".spdx.json", "lantern.spdx.json"
	d := &desk{&workshop{Scene: open(t)}}
	edit(t, d.Path("policy.yaml"), "plan: require\n", "- {stages: [staging, release], classes: [sbom], checks: {signature: require}}\nplan: require\n")
	want(t, d.Stage(t.Context()), 0)
	files := func(name string) string { return filepath.Join("state", "files", filepath.FromSlash(name)) }
	list := d.read(t, files(sbomlist.Name))
	for _, name := range []string{sbom, other, "image/lantern.spdx.json"} {
		if !d.evidence(t, files(sbomlist.Name)).Statement().Names(name, digest.SetOf(d.read(t, files(name)))) {
			t.Errorf("the list does not name %s", name)
		}
	}
	t.Run("a resumed run signs it once", func(t *testing.T) {
		before := len(d.Lab.Logged())
		if err := os.Remove(d.Path(files(sbomlist.Name))); err != nil {
			t.Fatal(err)
		}
		want(t, d.seals(t, "release", "--confirm"), 1, "SEAL_MISSING", sbomlist.Name, "waybill sign")
		want(t, d.Run(t.Context(), "waybill", "sign", scene.Version, "--profile", "profile.yaml", "--state", "state", "--identity-token", "release=release.token", "--confirm"), 0, "signed 1 file and 0 image manifests; 9 had a signature", "signed 0, reused 10, 0 log entries")
		if got := len(d.Lab.Logged()) - before; got != 0 || !bytes.Equal(d.read(t, files(sbomlist.Name)), list) {
			t.Errorf("%d new log entries, or another list", got)
		}
		want(t, d.seals(t, "release", "--confirm"), 0, "sealed already")
	})
	want(t, d.Release(t.Context()), 0, "nothing extra")
	want(t, d.Verify(t.Context()), 0, "nothing extra")

	by := " --bundle " + files(sbomlist.Name) + " --type sbom-list"
	verify := func(role, file string) scene.Result {
		return d.verify(t.Context(), "file "+files(file)+by, as(d.Scene, role)...)
	}
	want(t, verify("release", sbom), 0, "OK ", sbom)
	want(t, verify("release", artifact), 1, "NOT_BOUND")
	want(t, verify("builder", sbom), 1, "IDENTITY")
	gate := func(name, bundle string) scene.Result {
		return d.Run(t.Context(), "waybill", "gate", "file", d.Path(files(name)), "--policy", "policy.yaml", "--trusted-root", "trusted_root.json", "--class", "sbom", "--name", name, "--bundle", files(bundle))
	}
	want(t, gate(sbom, sbomlist.Name), 0, "OK ")
	want(t, gate(sbom, artifact+".sigstore.json"), 1, "UNSIGNED", "NOT_BOUND")

	r := d.Verify(t.Context(), d.Path(files(sbom)), "--output", "json")
	want(t, r, 0)
	proven := false
	for _, p := range parse(t, r).Proofs {
		proven = proven || p.Subject == sbom && p.Statement == sbomlist.PredicateType && p.Role == "release"
	}
	if !proven {
		t.Errorf("no proof of the SBOM: %+v", parse(t, r).Proofs)
	}

	want(t, d.seals(t, "release", "--amend", "--reason", "again", "--confirm"), 0, "revision 2 is sealed")
	want(t, d.promotes(t, "staging"), 0)
	want(t, d.Release(t.Context()), 0, "nothing extra", "Revision 2 of the manifest")
	want(t, d.Verify(t.Context()), 0, "nothing extra", "Revision 2 of the manifest", "8 × list of SBOMs")
	want(t, d.Run(t.Context(), "waybill", "inspect", files(sbomlist.Name)), 0, "lantern v0.1.0", sbom)
	d.bucket(t, http.MethodPut, "release/lantern/"+scene.Version+"/"+sbomlist.Name, "{}")
	want(t, d.Verify(t.Context()), 1, "TAMPERED", sbomlist.Name)
	want(t, d.Verify(t.Context(), d.Path(files(sbom))), 1, "TAMPERED", sbomlist.Name)
}

// TestReleaseBegunBeforeLists: a release that was built before lists of SBOMs
// were planned is finished, amended and verified as it was planned. Only a
// policy that requires the list refuses it.
func TestReleaseBegunBeforeLists(t *testing.T) {
	d := &desk{&workshop{Scene: open(t)}}
	config, err := plan.ParseConfig(d.read(t, filepath.Join("lantern", "release.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	v, err := version.Parse(scene.Version)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := config.Expand(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"builder", "builder-unisolated", "release"} {
		d.write(t, role+".token", []byte(d.Lab.Token(role)))
	}
	runs := func(words string) scene.Result {
		return d.Run(t.Context(), append([]string{"waybill"}, strings.Fields(words+" --profile profile.yaml --state state")...)...)
	}
	want(t, runs("build v0.1.0 --source lantern --identity-token builder=builder.token --identity-token builder-unisolated=builder-unisolated.token"), 0)
	want(t, runs("sbom v0.1.0"), 0)
	edit(t, d.Path("state", "release.json"), planned.Digest().String(), planned.WithoutSBOMList().Digest().String())
	want(t, runs("sign v0.1.0 --identity-token release=release.token --confirm"), 0, "signed 6 files")
	want(t, d.seals(t, "release", "--confirm"), 0, "sealed")
	want(t, d.seals(t, "release", "--amend", "--reason", "again", "--confirm"), 0, "revision 2 is sealed")
	d.absent(t, filepath.Join("state", "files", sbomlist.Name))
	want(t, d.promotes(t, "staging"), 0)
	want(t, d.Release(t.Context()), 0, "nothing extra")
	want(t, d.Verify(t.Context()), 0, "nothing extra")
	edit(t, d.Path("policy.yaml"), "plan: require\n", "- {stages: [staging, release], classes: [sbom], checks: {signature: require}}\nplan: require\n")
	want(t, d.Verify(t.Context()), 1, "7 files unsigned", sbomlist.Name)
}
