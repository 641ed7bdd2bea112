package stories

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab/staging"
	"github.com/waybill-release/waybill/test/scene"
)

// The builder of another tool, whom the policy may name.
const (
	theirBuilder = "https://builder.example.test/hosted"
	theirSigner  = "builder@goreleaser.test"
	theirBundle  = "lantern.intoto.sigstore.json"
)

// theirs is the provenance that another tool's builder writes of the archives,
// and what is changed of it.
type theirs struct {
	builder, repository, commit string
	files                       staging.Files
}

func (p theirs) statement() []byte {
	var subjects []fields
	for _, name := range p.files.Names() {
		if strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".zip") || strings.HasPrefix(name, "bin/") {
			subjects = append(subjects, fields{"name": name, "digest": fields{"sha256": digest.SetOf(p.files[name]).SHA256.Hex()}})
		}
	}
	raw, err := json.Marshal(fields{
		"_type": intoto.TypeV1, "subject": subjects, "predicateType": provenance.PredicateType,
		"predicate": fields{
			"buildDefinition": fields{
				"buildType": "https://actions.github.io/buildtypes/workflow/v1",
				"externalParameters": fields{"workflow": fields{
					"repository": p.repository, "ref": "refs/tags/" + tookOver, "path": ".github/workflows/release.yml",
				}},
				"resolvedDependencies": []fields{{"uri": p.repository + "@refs/tags/" + tookOver, "digest": fields{"gitCommit": p.commit}}},
			},
			"runDetails": fields{"builder": fields{"id": p.builder}, "metadata": fields{"invocationId": "https://ci.example.test/runs/1"}},
		},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// TestSealFromProvenance: provenance that came along counts if the policy names
// the builder that signed it, and shows its level; every other way it stops the
// seal where it is required, and is carried where it is not.
func TestSealFromProvenance(t *testing.T) {
	m := goreleaserMade()
	d := &desk{&workshop{Scene: open(t)}}
	d.layProven(t, m)
	good := theirs{theirBuilder, d.Repository(), d.commit(t), m.files}
	edited := func(change func(*theirs)) []byte {
		p := good
		change(&p)
		return p.statement()
	}
	signed := func(who string, statement []byte) []byte {
		raw, err := d.Sign(t.Context(), who, statement)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	other := staging.Files{}
	for name, body := range m.files {
		other[name] = append([]byte("other "), body...)
	}
	rows := []struct {
		name string
		raw  []byte
		code string
		mild bool // where provenance is not required, it is carried
	}{
		{"by somebody else", signed("mallory@evil.example", good.statement()), "IDENTITY", true},
		{"by the release identity", signed("release", good.statement()), "IDENTITY_ROLE", true},
		{"of another builder", signed(theirSigner, edited(func(p *theirs) { p.builder = provenance.BuilderIsolated })), "BUILDER", true},
		{"of another source", signed(theirSigner, edited(func(p *theirs) { p.repository = "git+https://example.test/other" })), "SOURCE_REPO", true},
		{"of another commit", signed(theirSigner, edited(func(p *theirs) { p.commit = strings.Repeat("0", 40) })), "SOURCE_COMMIT", true},
		{"signed by nobody", good.statement(), "NO_PROVENANCE", true},
		{"of other bytes", signed(theirSigner, edited(func(p *theirs) { p.files = other })), "NOT_BOUND", false},
		{"of other bytes, signed by nobody", edited(func(p *theirs) { p.files = other }), "NOT_BOUND", false},
	}
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			d.write(t, path.Join("dist", theirBundle), r.raw)
			want(t, d.sealsFrom(t, m, "release", "dist", fmt.Sprintf("state-%d", i), "--confirm"), 1, r.code)
			strict := string(d.read(t, "policy.yaml"))
			d.write(t, "policy.yaml", []byte(strings.Replace(strict, "provenance: require", "provenance: warn", 1)))
			switch got := d.sealsFrom(t, m, "release", "dist", fmt.Sprintf("mild-%d", i), "--confirm"); {
			case r.mild:
				want(t, got, 0, theirBundle+": published unchanged, but not counted as evidence")
			default:
				want(t, got, 1, r.code)
			}
			d.write(t, "policy.yaml", []byte(strict))
		})
	}
	d.write(t, path.Join("dist", theirBundle), signed(theirSigner, good.statement()))
	want(t, d.sealsFrom(t, m, "release", "dist", "from", "--confirm"), 0, "signed by "+theirSigner, "and verified: SLSA Build Level 2 for 4 artifacts")
	want(t, d.Run(t.Context(), "waybill", "promote", tookOver, "--state", "from", "--to", "staging", "--confirm", "--profile", "profile.yaml"), 0)
	said := []string{"Build level 2 of 3 for the artifacts with provenance from another tool", "Build level 0 of 3 for 6 artifacts of another tool"}
	want(t, d.Run(t.Context(), "waybill", "release", tookOver, "--state", "from", "--confirm", "--profile", "profile.yaml"), 0, said...)
	want(t, d.Run(t.Context(), "k8s-verify-release", tookOver, "--profile", "profile.yaml"), 0, said...)
	want(t, d.Run(t.Context(), "waybill", "seal", tookOver, "--amend", "--reason", "a new log", "--state", "from", "--profile", "profile.yaml",
		"--identity-token", "release=release.token", "--confirm"), 0, "revision 2 is sealed")
}

// layProven lays the layout out for a release.yaml that names provenance of the
// archives, and for a policy that requires it.
func (d *desk) layProven(t *testing.T, m toolmade) {
	t.Helper()
	d.lay(t, m)
	for _, ending := range []string{"tar.gz", "zip"} {
		edit(t, d.Path("lantern", "release.yaml"), ending+`.sbom.json"}`, ending+`.sbom.json", provenance: `+theirBundle+`}`)
	}
	tag(t, d.Scene, tookOver)
	issuer, subject := d.Lab.Identity(theirSigner)
	edit(t, d.Path("policy.yaml"), "builders:\n", fmt.Sprintf("builders:\n- id: %s\n  level: 2\n  signers: [{issuer: %q, subject: %q, type: email}]\n", theirBuilder, issuer, subject))
	edit(t, d.Path("policy.yaml"), "classes: [binary, archive, file, image]\n", "classes: [archive]\n")
	edit(t, d.Path("policy.yaml"), "require:\n", "require:\n- {stages: [staging, release], classes: [binary, file, image], "+lenient+"}\n")
}

// commit is what the tag names.
func (d *desk) commit(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", d.Path("lantern"), "rev-parse", tookOver+"^{commit}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestSealFromPlaces: a bucket is a place as good as a directory; what cannot
// be listed is none, and what came along can be checked by others.
func TestSealFromPlaces(t *testing.T) {
	m := goreleaserMade()
	d := &desk{&workshop{Scene: open(t)}}
	edit(t, d.Path("policy.yaml"), "checks: {provenance: require, signature: require, sbom: require}", lenient)
	d.lay(t, m)
	for name, body := range m.files {
		d.bucket(t, http.MethodPut, "staging/dist/lantern/"+name, string(body))
	}
	at := strings.Replace(d.Lab.Bucket, "http://", "gs+http://", 1) + "/staging/dist/lantern/"
	want(t, d.sealsFrom(t, m, "", at, "from"), 0, "present as planned: files ")
	d.bucket(t, http.MethodPut, "staging/dist/lantern/helper", "x")
	want(t, d.sealsFrom(t, m, "release", at, "from", "--confirm"), 1, "SEAL_EXTRA", "helper")
	d.bucket(t, http.MethodDelete, "staging/dist/lantern/helper", "")
	want(t, d.sealsFrom(t, m, "release", at, "from", "--confirm"), 0, "imported 15 files and ")
	want(t, d.sealsFrom(t, m, "", d.Lab.Bucket+"/staging/dist/lantern/", "web"), 2, "cannot be listed", "use the address of the bucket")
	for _, sums := range []string{"lantern_0.2.0_checksums.txt", "SHA256SUMS", "SHA512SUMS"} {
		d.checks(t, d.Path("from", "files"), sums)
	}
}

// checks has the usual tool check a file of checksums.
func (d *desk) checks(t *testing.T, dir, sums string) {
	t.Helper()
	tool := "sha256sum"
	if strings.HasPrefix(sums, "SHA512") {
		tool = "sha512sum"
	}
	cmd := exec.CommandContext(t.Context(), tool, "--strict", "-c", sums)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s -c %s: %v\n%s", tool, sums, err, out)
	}
}

// bucket asks the lab's bucket for something.
func (d *desk) bucket(t *testing.T, method, name, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.Lab.Bucket+"/"+name, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %s", method, name, answer.Status)
	}
}

// TestSealFromLayout: images are taken over from an OCI layout if it holds
// exactly those that release.yaml names, with exactly their platforms.
func TestSealFromLayout(t *testing.T) {
	m := goreleaserMade()
	d := &desk{&workshop{Scene: open(t)}}
	edit(t, d.Path("policy.yaml"), "checks: {provenance: require, signature: require, sbom: require}", lenient)
	edit(t, d.Path("policy.yaml"), "checks: {provenance: require, signature: require}", `checks: {provenance: "off", signature: require}`)
	d.lay(t, m)
	edit(t, d.Path("lantern", "release.yaml"), "outside:", "- {class: image, name: lantern, from: \"lantern:{version.number}\", platforms: [linux/amd64, linux/arm64]}\noutside:")
	edit(t, d.Path("lantern", "release.yaml"), `places: {files: "https://dl.example.test/lantern/{version}/"}`,
		`places: {files: "https://dl.example.test/lantern/{version}/", images: registry.example.test/lantern}`)
	tag(t, d.Scene, tookOver)
	two := imageOf(t, "lantern", "amd64", "arm64")
	rows := []struct {
		name, code, says string
		images           map[string]*image.Built
	}{
		{"no image", "SEAL_MISSING", "lantern:0.2.0", map[string]*image.Built{"lantern:0.1.0": two}},
		{"an image more", "SEAL_EXTRA", "helper:0.2.0", map[string]*image.Built{"lantern:0.2.0": two, "helper:0.2.0": two}},
		{"a platform more", "SEAL_EXTRA", "linux/s390x", map[string]*image.Built{"lantern:0.2.0": imageOf(t, "lantern", "amd64", "arm64", "s390x")}},
		{"a platform less", "SEAL_MISSING", "linux/arm64", map[string]*image.Built{"lantern:0.2.0": imageOf(t, "lantern", "amd64")}},
		{"as it must be", "", "", map[string]*image.Built{"lantern:0.2.0": two}},
	}
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			dir := fmt.Sprintf("oci-%d", i)
			writeLayout(t, d.Path(dir), r.images)
			got := d.sealsFrom(t, m, "release", "dist", "from", "--from-images", dir, "--confirm")
			if r.code != "" {
				want(t, got, 1, r.code, r.says)
				d.absent(t, "from")
				return
			}
			want(t, got, 0, "imported 15 files and 1 image", "sealed")
		})
	}
	want(t, d.sealsFrom(t, m, "release", "dist", "none", "--confirm"), 2, "--from-images", "lists 1 image;")
	run := func(args ...string) scene.Result {
		return d.Run(t.Context(), append(args, "--profile", "profile.yaml")...)
	}
	want(t, run("waybill", "promote", tookOver, "--state", "from", "--to", "staging", "--confirm"), 0)
	want(t, run("waybill", "release", tookOver, "--state", "from", "--confirm"), 0, "in part")
	want(t, run("k8s-verify-release", tookOver), 0, "in part")
}

// writeLayout writes images as a layout.
func writeLayout(t *testing.T, dir string, images map[string]*image.Built) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := registry.OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, built := range images {
		repo, tag, _ := strings.Cut(name, ":")
		d, err := built.Write(t.Context(), l, repo)
		if err == nil {
			err = l.Tag(t.Context(), repo, tag, d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
