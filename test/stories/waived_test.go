package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/test/scene"
)

// archives are what the example packs.
var archives = [...]string{"darwin-arm64", "linux-amd64", "linux-arm64", "windows-amd64"}

// openBare publishes a release whose archives have no SBOM, as its own policy
// allows, and writes a stricter policy of somebody who asks for them.
func openBare(t *testing.T) *desk {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shell)); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "release.yaml")
	edit(t, config, "steps:\n", "defaults: {evidence: {archive: [provenance, bundle]}}\nsteps:\n")
	edit(t, config, "every: [linux/amd64, linux/arm64]", "every: [linux/amd64, linux/arm64, darwin/arm64, windows/amd64]")
	edit(t, config, "static, platforms: every", "static, platforms: [linux/amd64, linux/arm64]")
	d := &desk{&workshop{Scene: openExample(t, dir)}}
	d.write(t, "policy.token", []byte(d.Lab.Token("policy")))
	strict := string(d.read(t, "policy.yaml"))
	d.write(t, "strict.yaml", []byte(strict))
	d.write(t, "strict-profile.yaml", []byte(strings.Replace(string(d.read(t, "profile.yaml")), "policy: policy.yaml", "policy: strict.yaml", 1)))
	lax := strings.Replace(strict, "classes: [binary, archive, file, image]", "classes: [binary, file, image]", 1)
	lax = strings.Replace(lax, "require:\n", "require:\n- {stages: [staging, release], classes: [archive], checks: {provenance: require, signature: require, sbom: \"off\"}}\n", 1)
	d.write(t, "policy.yaml", []byte(lax))
	want(t, d.Stage(t.Context()), 0)
	want(t, d.Release(t.Context()), 0, "in part", "SBOMs of archives")
	return d
}

// digests are the artifacts of the published release with their digests.
func (d *desk) digests(t *testing.T) map[string]string {
	t.Helper()
	e := d.evidence(t, filepath.Join("state", "files", releasemanifest.Name))
	all := map[string]string{}
	for _, s := range e.Statement().Subjects() {
		all[s.Name] = s.Digests.SHA256.String()
	}
	return all
}

// TestWhatIsSetAsideIsSeen: what a policy refuses comes through for a while,
// by the officer's word or the user's own, in every output, never as complete.
func TestWhatIsSetAsideIsSeen(t *testing.T) {
	d := openBare(t)
	t.Run("exceptions", d.exceptions)
	t.Run("known defects", d.defects)
}

// strictly verifies the release as the stricter policy asks.
func (d *desk) strictly(t *testing.T, flags ...string) scene.Result {
	t.Helper()
	return d.Run(t.Context(), append([]string{"k8s-verify-release", scene.Version, "--profile", "strict-profile.yaml"}, flags...)...)
}

// exceptions are each for one artifact, one place, one policy and one while.
func (d *desk) exceptions(t *testing.T) {
	check := func(flags ...string) scene.Result { return d.strictly(t, flags...) }
	want(t, check(), 1, "4 files without an SBOM")

	digests := d.digests(t)
	var all []string
	for _, platform := range archives {
		name := "lantern-" + platform + ".tar.gz"
		r := d.except(t, "--profile strict-profile.yaml", "--name "+name, "--subject "+digests[name], "--output "+platform+".json", "--confirm")
		want(t, r, 0, "read back and verified")
		all = append(all, "--exception", platform+".json")
	}
	want(t, check(all[:6]...), 1, "(3 set aside): 1 file without an SBOM", "lantern-windows-amd64.tar.gz")
	r := check(all...)
	want(t, r, 0, "with 4 exceptions", "excepted=4", "the scanner was down", "lantern-linux-arm64.tar.gz, SET ASIDE")
	want(t, r, 0, "built artifacts", "the others have findings, or a verifier's summary in place of provenance, the first: lantern-darwin-arm64.tar.gz")
	want(t, d.Run(t.Context(), "k8s-verify-release", scene.Version, "--profile", "profile.yaml"), 0, "for every built artifact")
	if strings.Contains(r.Stdout, "nothing extra") {
		t.Errorf("called complete:\n%s", r.Stdout)
	}
	// The gate and the promotion set aside the same, and without it refuse the same.
	for _, command := range [][]string{{"waybill", "gate", "check"}, {"waybill", "release"}, {"waybill", "release", "--confirm"}} {
		command = append(command, scene.Version, "--profile", "strict-profile.yaml")
		want(t, d.Run(t.Context(), command...), 1, "4 files without an SBOM")
		want(t, d.Run(t.Context(), append(command, all...)...), 0, "with 4 exceptions")
	}
	want(t, check(append(all, "--output", "json")...), 0, `"waived"`, `"kind": "exception"`, `"excepted": 4`)
	later := time.Now().Add(73 * time.Hour).UTC().Format(time.RFC3339)
	want(t, check(append(all, "--now", later)...), 1, "4 files without an SBOM", "is not used: the exception expired at")

	// The same exceptions under another policy: there they are for nothing.
	r = d.Run(t.Context(), append([]string{"k8s-verify-release", scene.Version, "--profile", "profile.yaml"}, all...)...)
	want(t, r, 0, "is not used: the exception is for the policy")
	if strings.Contains(r.Stdout, "SET ASIDE") {
		t.Errorf("set aside under a policy that they are not for:\n%s", r.Stdout)
	}

	// For another place, and by the wrong hand.
	name := "lantern-windows-amd64.tar.gz"
	want(t, d.except(t, "--profile strict-profile.yaml", "--name "+name, "--subject "+digests[name],
		"--destination https://mirror.example.test/", "--output mirror.json", "--confirm"), 0)
	want(t, check(append(all[:6:6], "--exception", "mirror.json")...), 1, `the exception is for the destination "https://mirror.example.test/", not`)
	d.write(t, "forged.json", d.sign(t, "release", d.said(t, "windows-amd64.json")))
	want(t, check(append(all[:6:6], "--exception", "forged.json")...), 1, "IDENTITY_ROLE")
}

// defects explain by themselves, and set aside what their user accepts by name.
func (d *desk) defects(t *testing.T) {
	var names []string
	for _, platform := range archives {
		names = append(names, "lantern-"+platform+".tar.gz")
	}
	d.write(t, "defects.yaml", fmt.Appendf(nil, `apiVersion: waybill/v1
kind: KnownDefects
name: lantern
sequence: 1
issued: %q
expires: %q
defects:
- {id: bare, versions: {from: v0.1.0, until: v0.2.0}, artifacts: [%s], code: NO_SBOM, explanation: packed before there were SBOMs, source: "https://issues.example.test/7"}
`, time.Now().UTC().Add(-time.Hour).Format(time.RFC3339), time.Now().UTC().Add(time.Hour).Format(time.RFC3339), strings.Join(names, ", ")))
	want(t, d.Run(t.Context(), "waybill", "policy", "sign", "defects.yaml", "--profile", "strict-profile.yaml",
		"--identity-token", "policy=policy.token", "--confirm"), 0)
	check := func(flags ...string) scene.Result { return d.strictly(t, flags...) }
	const signed, unsigned = "defects.yaml.sigstore.json", "defects.yaml"
	want(t, check("--known-defects", signed), 1, "4 files without an SBOM", "packed before there were SBOMs", "https://issues.example.test/7")
	want(t, check("--known-defects", unsigned), 1, "4 files without an SBOM", "packed before there were SBOMs", "the list is unsigned")
	want(t, check("--known-defects", unsigned, "--accept-defect", "bare"), 1, "4 files without an SBOM", "waives nothing")
	want(t, check("--known-defects", signed, "--accept-defect", "naked"), 2, "USAGE", `no list of known defects has "naked"`)
	r := check("--known-defects", signed, "--accept-defect", "bare")
	want(t, r, 0, "with 4 accepted defects", "excepted=4", "SET ASIDE")
	if strings.Contains(r.Stdout, "nothing extra") {
		t.Errorf("called complete:\n%s", r.Stdout)
	}

	// Withdrawn afterwards: whatever was accepted before, it is refused.
	withdrawn := strings.Replace(string(d.read(t, "defects.yaml")), "sequence: 1", "sequence: 2", 1) +
		fmt.Sprintf("withdrawals:\n- {version: v0.1.0, reason: it leaks oil, source: \"https://issues.example.test/9\", since: %q}\n", time.Now().UTC().Add(-time.Minute).Format(time.RFC3339))
	d.write(t, "defects.yaml", []byte(withdrawn))
	want(t, d.Run(t.Context(), "waybill", "policy", "sign", "defects.yaml", "--profile", "strict-profile.yaml",
		"--identity-token", "policy=policy.token", "--confirm"), 0)
	want(t, check("--known-defects", signed, "--accept-defect", "bare"), 1, "(4 set aside): the release was withdrawn", "it leaks oil")
}

// said is the statement of a bundle, to be signed by somebody else.
func (d *desk) said(t *testing.T, name string) sign.Content {
	t.Helper()
	return &sign.DSSEData{PayloadType: intoto.PayloadType, Data: d.evidence(t, name).Statement().Raw()}
}
